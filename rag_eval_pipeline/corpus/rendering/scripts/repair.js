// Print repair: what scrolls is unrolled; what is fixed is let go, for fixed boxes repeat on every sheet; players lose
// their buttons, whose clock shows how far a download had come.
() => {
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
  for (const player of document.querySelectorAll("audio, video")) {
    player.pause();
    player.controls = false;
  }
  unclip(document.documentElement);
  if (document.body) unclip(document.body);
};
