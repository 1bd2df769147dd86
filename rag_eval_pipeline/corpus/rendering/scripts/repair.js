// Prepare a page for print. Content that scrolls or is cut off is opened. Fixed boxes become absolute, because they would
// repeat on every sheet. Animations are stopped at their end, or at their beginning if they have none, because the frame
// would be random. Players lose their controls, which show how much was downloaded. Letters that are set apart are closed
// up, because their gaps are read as spaces. Returns the page's height and width.
() => {
  const COLLAPSED_PX = 8; // closed menus, and text for screen readers in boxes of one pixel, are not opened
  const EXCESS_PX = 40; // cropped pictures stay cropped by less
  const TEXT_EXCESS_PX = 8; // letters may extend beyond their lines by less
  const SPACED_EM = 0.05; // PDFium reads gaps from 0.1 em on as spaces, depending on the letter
  const PASSES_MAX = 4; // an opened box can overflow the one around it

  const still = (shown) => {
    for (const animation of shown.getAnimations()) {
      try {
        animation.finish();
      } catch {
        animation.cancel();
      }
    }
    for (const drawing of shown.querySelectorAll("svg:has(animate, animateMotion, animateTransform, set)")) {
      drawing.pauseAnimations();
      drawing.setCurrentTime(3600);
    }
    for (const progress of shown.querySelectorAll("progress:indeterminate")) progress.value = 0;
    for (const marquee of shown.querySelectorAll("marquee")) {
      const box = shown.createElement("div"); // a stopped marquee can be out of view
      box.append(...marquee.childNodes);
      marquee.replaceWith(box);
    }
    for (const player of shown.querySelectorAll("audio, video")) {
      player.pause();
      player.controls = false;
    }
    for (const frame of shown.querySelectorAll("iframe")) if (frame.contentDocument) still(frame.contentDocument);
  };
  still(document);

  const set = (element, styles) => {
    for (const [name, value] of Object.entries(styles)) element.style.setProperty(name, value, "important");
  };
  const OPEN = { overflow: "visible", height: "auto", "max-height": "none", contain: "none", transition: "none" };
  const all = (root) =>
    [...root.querySelectorAll("*")].flatMap((e) => (e.shadowRoot ? [e, ...all(e.shadowRoot)] : [e]));
  const parentOf = (element) => element.assignedSlot ?? element.parentElement ?? element.getRootNode().host;
  const isCollapsed = (element) => element.clientHeight < COLLAPSED_PX || element.clientWidth < COLLAPSED_PX;

  const open = (shown) => {
    const elements = all(shown.body ?? shown);
    for (const element of [shown.documentElement, shown.body, ...elements].filter(Boolean)) {
      const { letterSpacing, fontSize } = getComputedStyle(element);
      if (parseFloat(letterSpacing) > SPACED_EM * parseFloat(fontSize)) set(element, { "letter-spacing": "0" });
    }
    for (const element of elements) {
      const style = getComputedStyle(element);
      if (style.position === "fixed") set(element, { position: "absolute" });
      if (style.position === "sticky") set(element, { position: "static" });
      if (style.clipPath !== "none" && !isCollapsed(element)) set(element, { "clip-path": "none" });
      if (style.webkitLineClamp !== "none") set(element, { "-webkit-line-clamp": "none", display: "block" });
      if (element.matches("textarea")) set(element, { height: `${element.scrollHeight}px` });
      // Text that fades in when it is scrolled to. An invisible layer above the text is not in its flow.
      const inFlow = ["static", "relative"].includes(style.position) && !isCollapsed(element);
      if (style.opacity === "0" && inFlow && /\S/.test(element.textContent)) {
        set(element, { opacity: "1", transform: "none", transition: "none" });
      }
    }
    const around = new Set(); // boxes around opened ones, which have to grow with them even if they do not clip
    for (let pass = 0; pass < PASSES_MAX; pass++) {
      const cut = [];
      for (const element of elements) {
        const style = getComputedStyle(element);
        const clips =
          style.overflowX !== "visible" || style.overflowY !== "visible" || /paint|strict|content/.test(style.contain);
        if ((!clips && !around.has(element)) || element.matches("textarea, svg, svg *, select")) continue;
        if (isCollapsed(element)) continue;
        const tall = element.scrollHeight - element.clientHeight;
        const wide = element.scrollWidth - element.clientWidth;
        if (Math.max(tall, wide) <= TEXT_EXCESS_PX) continue;
        if (Math.max(tall, wide) <= EXCESS_PX && !/\S/.test(element.textContent)) continue;
        if (clips || tall > TEXT_EXCESS_PX) cut.push({ element, style, clips, wide: clips && wide > TEXT_EXCESS_PX });
      }
      if (!cut.length) break;
      const steps = cut.map(({ element, style, clips, wide }) => ({
        element,
        clips,
        wide,
        scrolls: ["auto", "scroll"].includes(style.overflowY) && style.position === "absolute",
        isBlock: style.display === "block",
        space: style.whiteSpace,
      }));
      for (const { element, clips, wide, scrolls, isBlock, space } of steps) {
        set(element, OPEN);
        if (clips && isBlock) set(element, { display: "flow-root" }); // contains floats
        if (scrolls) set(element, { position: "static", width: "auto" }); // following content comes after it
        if (wide) {
          if (space === "nowrap") set(element, { "white-space": "normal" });
          if (space === "pre") set(element, { "white-space": "pre-wrap", "overflow-wrap": "anywhere" });
          for (const row of [element, ...element.children]) {
            set(row, { "flex-wrap": "wrap", "max-width": "100%", height: "auto", transform: "none" });
          }
        }
        for (let box = parentOf(element); box && box !== shown.body; box = parentOf(box)) around.add(box);
      }
    }
    for (const frame of elements.filter((element) => element.matches("iframe") && element.contentDocument?.body)) {
      open(frame.contentDocument);
      set(frame, { height: `${frame.contentDocument.documentElement.scrollHeight}px`, "max-height": "none" });
    }
    for (const whole of [shown.documentElement, shown.body]) if (whole) set(whole, OPEN);
  };
  open(document);
  return [document.documentElement.scrollHeight, document.documentElement.scrollWidth];
};
