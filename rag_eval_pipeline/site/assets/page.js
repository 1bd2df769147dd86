// What every page can do: take data from files beside it, sort small tables, switch between figures.
"use strict";

const ragEval = {
  values: new Map(),
  waiting: new Map(),

  // Called by data files. A page opened from a file may load scripts and nothing else.
  receive(name, value) {
    ragEval.values.set(name, value);
    for (const [take] of ragEval.waiting.get(name) ?? []) take(value);
    ragEval.waiting.delete(name);
  },

  // The value of a data file, which is loaded when it is first asked for.
  load(name, src) {
    if (ragEval.values.has(name)) return Promise.resolve(ragEval.values.get(name));
    return new Promise((resolve, reject) => {
      const isFirst = !ragEval.waiting.has(name);
      ragEval.waiting.set(name, [...(ragEval.waiting.get(name) ?? []), [resolve, reject]]);
      if (!isFirst) return;
      const script = document.createElement("script");
      script.src = src;
      // Whoever waits when the script has ended has got nothing; a later load tries again.
      script.onload = script.onerror = () => {
        for (const [, refuse] of ragEval.waiting.get(name) ?? []) refuse(new Error(`${src} is not there`));
        ragEval.waiting.delete(name);
      };
      document.head.append(script);
    });
  },

  // An element; text from data only ever becomes text nodes.
  element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  },

  drawing(tag, attributes = {}, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  },

  chip(word, label) {
    return ragEval.element("span", { class: `chip ${word}` }, label ?? word.replaceAll("_", " "));
  },

  // What the browser keeps; some keep nothing for files: it then lasts as long as the page.
  stored(key) {
    try {
      return JSON.parse(localStorage.getItem(key));
    } catch {
      return null;
    }
  },

  store(key, value) {
    try {
      localStorage.setItem(key, JSON.stringify(value));
    } catch {
      // nothing is kept
    }
  },

  download(name, type, text) {
    const link = ragEval.element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  },

  number(value, digits = 3) {
    return value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
  },

  // `1 question`, `1,200 questions`.
  counted(count, noun) {
    return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
  },

  milliseconds(value) {
    if (value === null || value === undefined) return "–";
    return value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${value.toFixed(value < 10 ? 2 : 0)} ms`;
  },

  points(value) {
    if (value === null || value === undefined) return "–";
    const rounded = Math.round(value * 1000) / 10 + 0;
    return `${rounded > 0 ? "+" : rounded < 0 ? "−" : ""}${Math.abs(rounded).toFixed(1)}`;
  },
};

// Headings with a `data-sort` become buttons; cells carry the value in `data-value` where the text is not it.
function makeSortable(table) {
  const headings = [...table.tHead.rows[0].cells];
  const valueOf = (row, place) => row.cells[place].dataset.value ?? row.cells[place].textContent.trim();
  headings.forEach((heading, place) => {
    if (!heading.hasAttribute("data-sort")) return;
    const button = ragEval.element("button", { type: "button" }, ...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const isUp = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", isUp ? "descending" : "ascending");
      const isNumber = heading.dataset.sort === "number";
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => {
        const [first, second] = [valueOf(a, place), valueOf(b, place)];
        if (isNumber && (first === "" || second === "")) return (first === "") - (second === "");
        const order = isNumber ? first - second : first.localeCompare(second, "en", { numeric: true });
        return isUp ? -order : order;
      });
      table.tBodies[0].append(...rows);
    });
  });
}

// On a narrow screen a row is a card, whose cells name their columns.
function nameCells(table) {
  const names = [...table.tHead.rows[0].cells].map((heading) => heading.textContent.trim());
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, place) => { cell.dataset.of = names[place]; });
}

// A choice shows one of several parts; without scripts all of them are seen.
function makeSwitch(select) {
  const parts = [...document.querySelectorAll(`[data-part="${select.dataset.shows}"]`)];
  const show = () => parts.forEach((part) => { part.hidden = part.dataset.name !== select.value; });
  select.closest("[hidden]")?.removeAttribute("hidden");
  select.addEventListener("change", show);
  show();
}

// Where the report is served, a button does what the command on the page of an older run does.
function makeAsking(place) {
  if (!location.protocol.startsWith("http")) return;
  const status = ragEval.element("span", { role: "status" });
  const button = ragEval.element("button", { type: "button", class: "action" }, "List its questions now");
  button.addEventListener("click", async () => {
    [button.disabled, status.textContent] = [true, "The report is being written."];
    const answer = await fetch(place.dataset.asks, { method: "POST" }).catch((error) => new Response(error.message, { status: 502 }));
    if (answer.ok) location.reload();
    else [button.disabled, status.textContent] = [false, await answer.text()];
  });
  place.append(" ", button, " ", status);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("table.cards").forEach(nameCells);
  document.querySelectorAll("[data-asks]").forEach(makeAsking);
  document.querySelectorAll("table.sortable").forEach(makeSortable);
  document.querySelectorAll("select[data-shows]").forEach(makeSwitch);
  // What `rag-eval up` does on this machine, and no other server of the report.
  if (/^http:\/\/(localhost|127\.\d+\.\d+\.\d+):/.test(location.href)) document.querySelectorAll("[data-served]").forEach((link) => Object.assign(link, { href: link.dataset.served, hidden: false }));
});
