// Brings a loaded page to rest: lazy pictures, folded sections, fonts, late changes; each wait is bounded.
async ({ budgetMs, scrollHeightMax, quietMs, quietMaxMs }) => {
  const start = performance.now();
  const left = () => budgetMs - (performance.now() - start);
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  // A frame, or 30 ms where frames are throttled.
  const frame = () => Promise.race([new Promise(requestAnimationFrame), wait(30)]);

  for (const lazy of document.querySelectorAll("img[loading=lazy], iframe[loading=lazy]")) lazy.loading = "eager";
  for (const folded of document.querySelectorAll("details")) folded.open = true;

  const lazyByScript = document.querySelector("[data-src], [data-lazy], [data-original], .lazy, .lazyload");
  if (window.__observers || lazyByScript) {
    const height = Math.min(
      Math.max(document.documentElement.scrollHeight, document.body ? document.body.scrollHeight : 0),
      scrollHeightMax,
    );
    const step = Math.max(innerHeight * 0.9, 600);
    for (let y = 0; y < height && left() > 0; y += step) {
      window.scrollTo({ top: y, behavior: "instant" });
      await frame();
    }
    window.scrollTo({ top: 0, behavior: "instant" });
  }

  const arrived = (image) =>
    new Promise((resolve) => {
      image.addEventListener("load", resolve);
      image.addEventListener("error", resolve);
    });
  const wanted = () => [...document.images].filter((image) => image.currentSrc || image.getAttribute("src"));
  const arrival = async () => {
    await document.fonts.ready;
    await Promise.all(wanted().filter((image) => !image.complete).map(arrived));
  };
  await Promise.race([wait(Math.max(0, left())), arrival()]);

  let changed = performance.now();
  const observer = new MutationObserver(() => (changed = performance.now()));
  observer.observe(document, { subtree: true, childList: true });
  const quietStart = performance.now();
  while (performance.now() - changed < quietMs && performance.now() - quietStart < quietMaxMs) await wait(20);
  observer.disconnect();
};
