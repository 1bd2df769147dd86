// Light, dark, or as the system has it: read before anything is drawn, so that no page flashes in the other colours.
"use strict";

const colours = {
  place: "rag-eval-colours",

  // A browser may keep nothing for a page opened from a file; then each page begins with the system's colours.
  kept() {
    try {
      const found = localStorage.getItem(colours.place);
      return found === "light" || found === "dark" ? found : "system";
    } catch {
      return "system";
    }
  },

  keep(choice) {
    try {
      if (choice === "system") localStorage.removeItem(colours.place);
      else localStorage.setItem(colours.place, choice);
    } catch { /* it holds for this page */ }
  },

  show(choice) {
    document.documentElement.dataset.colours = choice;
    for (const radio of document.querySelectorAll("input[name=colours]")) radio.checked = radio.value === choice;
  },
};

colours.show(colours.kept());
document.addEventListener("DOMContentLoaded", () => {
  colours.show(colours.kept());
  document.querySelector(".colours")?.addEventListener("change", (event) => {
    colours.keep(event.target.value);
    colours.show(event.target.value);
  });
});
// Chosen in another window, or on the page that one comes back from.
addEventListener("storage", () => colours.show(colours.kept()));
addEventListener("pageshow", (event) => { if (event.persisted) colours.show(colours.kept()); });
