// Return the text of a page that a person can see by scrolling and by opening its tabs and folds, and whether hidden text
// was shown for it. Menus, asides and forms are left out, because print style sheets rightly hide them. Inline elements do
// not divide words; boxes do. What stays hidden until a script answers, the page or the element with its words, is shown.
() => {
  const BESIDE =
    "nav, aside, footer, script, style, noscript, template, select, button, textarea, object, svg, [role=navigation], " +
    "[role=complementary], [role=contentinfo], [role=search], [role=dialog]";
  const PANELS = "[role=tabpanel], .tab-pane, .accordion-collapse";
  const CONTROLS = "[role=tab][aria-controls], :is(h1, h2, h3, h4, h5, h6) [aria-controls]"; // W3C's tabs and accordion
  const COLLAPSED_PX = 8;
  const WORDS_MIN = 20; // a page that shows fewer may be hidden
  const TRIED_MAX = 10;
  let parts = [];
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
  const read = () => {
    [parts, lastBox] = [[], null];
    if (document.body) look(document.body, null);
    return parts.join("");
  };
  const count = (text) => text.split(/\s+/).filter(Boolean).length;

  const HIDDEN = { opacity: ["0", "1"], visibility: ["hidden", "visible"], display: ["none", "block"] };
  const hiddenBy = (style) => Object.entries(HIDDEN).filter(([name, [hidden]]) => style[name] === hidden);
  const set = (element, name, value) => element.style.setProperty(name, value, "important");
  const show = (element) => {
    const found = hiddenBy(getComputedStyle(element));
    for (const [name, [, value]] of found) set(element, name, value);
    return found.length > 0;
  };

  let isShown = [document.documentElement, document.body].filter(Boolean).map(show).includes(true);
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const controlled = [...document.querySelectorAll(CONTROLS)].map((one) => one.getAttribute("aria-controls"));
  const panels = new Set([...document.querySelectorAll(PANELS), ...controlled.map((id) => document.getElementById(id))]);
  for (const panel of panels) {
    if (!panel || panel.closest(BESIDE)) continue;
    isShown = show(panel) || isShown;
    const style = getComputedStyle(panel);
    if (["absolute", "fixed"].includes(style.position)) set(panel, "position", "static"); // else one is above the other
    if (!isClosed(style, panel)) continue;
    ["height", "max-height"].forEach((name) => set(panel, name, "max-content"));
    isShown = true;
  }

  const text = read();
  if (!document.body || count(text) >= WORDS_MIN) return [text, isShown];
  const isHidden = (element) => hiddenBy(getComputedStyle(element)).length && !element.closest(BESIDE);
  const hidden = [...document.body.querySelectorAll("*")].filter(isHidden);
  hidden.sort((first, second) => second.textContent.length - first.textContent.length);
  for (const element of hidden.slice(0, TRIED_MAX)) {
    const before = element.style.cssText;
    show(element);
    const more = read();
    if (count(more) >= WORDS_MIN && count(more) > 2 * count(text)) return [more, true];
    element.style.cssText = before;
  }
  return [text, isShown];
};
