// Print repair: what scrolls is unrolled; what is fixed is let go, for fixed boxes repeat on every sheet; what moves
// stands at its end, or at its beginning when it has no end, for chance would decide about the picture; players lose
// their buttons, whose clock shows how far a download had come. Returns the height of the page.
() => {
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
      const box = shown.createElement("div"); // a stopped one can stand out of sight
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

  const unclip = (element) => {
    element.style.setProperty("overflow", "visible", "important");
    element.style.setProperty("height", "auto", "important");
    element.style.setProperty("max-height", "none", "important");
  };
  for (const element of document.querySelectorAll("body *")) {
    const style = getComputedStyle(element);
    if (style.position === "fixed") element.style.setProperty("position", "absolute", "important");
    if (style.position === "sticky") element.style.setProperty("position", "static", "important");
    const clips = ["auto", "scroll", "hidden"].includes(style.overflowY);
    if (clips && element.clientHeight > 0 && element.scrollHeight > element.clientHeight + 40) unclip(element);
  }
  unclip(document.documentElement);
  if (document.body) unclip(document.body);
  return document.documentElement.scrollHeight;
};
