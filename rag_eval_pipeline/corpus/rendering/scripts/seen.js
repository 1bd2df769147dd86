// Return the text of a page that a person can see by scrolling. Menus, asides and forms are left out, because print style
// sheets rightly hide them. Inline elements do not divide words; boxes do. A whole page that is hidden until a script
// answers, as A/B tests do, is shown first.
() => {
  for (const whole of [document.documentElement, document.body]) {
    if (!whole) continue;
    const style = getComputedStyle(whole);
    const show = (name, value) => whole.style.setProperty(name, value, "important");
    if (style.opacity === "0") show("opacity", "1");
    if (style.visibility !== "visible") show("visibility", "visible");
    if (style.display === "none") show("display", "block");
  }
  const BESIDE =
    "nav, aside, footer, script, style, noscript, template, select, button, textarea, object, svg, [role=navigation], " +
    "[role=complementary], [role=contentinfo], [role=search], [role=dialog]";
  const COLLAPSED_PX = 8;
  const parts = [];
  const range = document.createRange();
  let lastBox = null;

  const isClosed = (style, element) =>
    style.overflow !== "visible" &&
    style.display !== "inline" &&
    (element.clientHeight < COLLAPSED_PX || element.clientWidth < COLLAPSED_PX);

  const look = (node, box) => {
    if (node.nodeType === Node.TEXT_NODE) {
      if (!/\S/.test(node.data)) {
        parts.push(" ");
        return;
      }
      range.selectNodeContents(node);
      const place = range.getBoundingClientRect();
      if (place.width < 1 || place.height < 1 || place.right + scrollX <= 0 || place.bottom + scrollY <= 0) return;
      if (box !== lastBox) parts.push("\n");
      lastBox = box;
      parts.push(node.data);
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE || node.matches(BESIDE)) return;
    if (node.matches("br")) parts.push("\n");
    const style = getComputedStyle(node);
    if (style.display === "none" || style.opacity === "0" || isClosed(style, node)) return;
    const own = style.display === "inline" || style.display === "contents" ? box : node;
    const children = node.shadowRoot
      ? node.shadowRoot.childNodes
      : node.matches("slot")
        ? node.assignedNodes({ flatten: true })
        : node.childNodes;
    if (style.visibility === "visible") {
      for (const child of children) look(child, own);
    } else {
      for (const child of children) if (child.nodeType === Node.ELEMENT_NODE) look(child, own);
    }
    if (own === node) lastBox = null;
  };
  if (document.body) look(document.body, null);
  return parts.join("");
};
