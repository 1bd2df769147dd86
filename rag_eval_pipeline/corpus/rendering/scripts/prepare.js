// Runs before the page's own scripts: nothing may wait for a person, and lazy loaders are counted.
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
  // A closed shadow root would hide its text from seen.js and repair.js.
  const attachShadow = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    return attachShadow.call(this, { ...options, mode: "open" });
  };
  window.print = () => {};
  window.open = () => null;
  window.alert = () => {};
  window.confirm = () => false;
  window.prompt = () => null;
  // The browser's own events come too late for what they trigger; settle.js dispatches them in time.
  for (const notice of ["beforeprint", "afterprint"]) {
    window.addEventListener(notice, (event) => event.isTrusted && event.stopImmediatePropagation(), true);
  }
  window.addEventListener("beforeunload", (event) => event.stopImmediatePropagation(), true);
})();
