// What a page holds at this moment. No timers: they do not run in a page without scripts.
() => {
  const images = [...document.images].filter((image) => image.currentSrc || image.getAttribute("src"));
  return {
    imagesExpected: images.length,
    imagesDrawn: images.filter((image) => image.complete && image.naturalWidth > 0).length,
    textLength: document.body ? document.body.innerText.length : 0,
    scripts: document.scripts.length,
  };
};
