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
  window.print = () => {};
  window.open = () => null;
  window.alert = () => {};
  window.confirm = () => false;
  window.prompt = () => null;
  window.addEventListener("beforeunload", (event) => event.stopImmediatePropagation(), true);
})();
