// Wait until a loaded page is still: lazy images, folded sections, fonts, late changes; each wait is bounded.
async ({ budgetMs, scrollHeightMax, quietMs, quietMaxMs }) => {
  const start = performance.now();
  const left = () => budgetMs - (performance.now() - start);
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  // Wait until the page's own observers have been notified: a new observer is notified in the same round. Waiting for a
  // frame alone lost one image in a hundred on a busy machine.
  const looked = () =>
    Promise.race([new Promise((tell) => new IntersectionObserver(tell).observe(document.documentElement)), wait(500)]);

  window.dispatchEvent(new Event("beforeprint"));
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
      await looked();
    }
    window.scrollTo({ top: 0, behavior: "instant" });
    await looked(); // ours may have been notified of the last step before theirs
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
