// Runs before the page's own scripts: nothing may wait for a person, and lazy loaders must be noticed.
(() => {
  const Observer = window.IntersectionObserver;
  window.__observers = 0;
  if (Observer) {
    window.IntersectionObserver = class extends Observer {
      constructor(...args) {
        super(...args);
        window.__observers += 1;
      }
    };
  }
  // A closed component hides its text from the count of words and from what opens cut-off text.
  const attachShadow = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    return attachShadow.call(this, { ...options, mode: "open" });
  };
  window.print = () => {};
  window.open = () => null;
  window.alert = () => {};
  window.confirm = () => false;
  window.prompt = () => null;
  // The browser's own notice comes too late for what it sets going; settle.js gives it in time.
  for (const notice of ["beforeprint", "afterprint"]) {
    window.addEventListener(notice, (event) => event.isTrusted && event.stopImmediatePropagation(), true);
  }
  window.addEventListener("beforeunload", (event) => event.stopImmediatePropagation(), true);
})();
