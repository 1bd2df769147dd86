// Measure what a page contains now. Without timers, which do not run in a page without scripts.
() => {
  const images = [...document.images].filter((image) => image.currentSrc || image.getAttribute("src"));
  const text = document.body ? document.body.innerText : "";
  const seen = (element) => element.checkVisibility({ visibilityProperty: true });
  const all = (selector) => [...document.querySelectorAll(selector)].filter(seen);
  const isLarge = (element) => {
    const box = element.getBoundingClientRect();
    return box.width * box.height >= 10_000; // larger than a logo or a spinner
  };
  // innerText does not look into components.
  const components = [...document.querySelectorAll("*")].filter((element) => element.shadowRoot?.textContent.trim());
  const pictures = all("img, svg, canvas, video, embed, object, iframe, frame").filter(isLarge);
  const paragraphs = all("p").map((paragraph) => paragraph.textContent.trim().length);
  return {
    imagesExpected: images.length,
    imagesDrawn: images.filter((image) => image.complete && image.naturalWidth > 0).length,
    textLength: text.length,
    scripts: document.scripts.length,
    // What distinguishes a document from a block page; see web/block_pages.py.
    title: String(document.title).slice(0, 300), // an element where a form is called "title"
    heading: (all("h1")[0]?.innerText ?? "").slice(0, 300),
    text: text.slice(0, 2000),
    proseLength: paragraphs.filter((length) => length >= 150).reduce((sum, length) => sum + length, 0),
    passwordFields: all("input[type=password]").length,
    pictures: pictures.length + components.length,
  };
};
