// A table of many rows: searched, filtered and sorted as numbers in memory, with only the rows in sight in the page.
"use strict";

const ROW_HEIGHT = 42; // as in the style sheet
const SPARE_ROWS = 12; // drawn above and below what is in sight
const CLASSES = { id: "w-id", outcome: "w-outcome", number: "number w-short", ms: "number w-short", points: "number w-short" };

class RowTable {
  // data: {caption, columns: [{name, label, kind, words?}], values: [a list a column], filters: [{column, label}],
  //        links: [{column, href}], sort?: {column, isDown, isAbsolute}}
  constructor(place, data) {
    this.place = place;
    this.data = data;
    this.count = data.values[0].length;
    this.sorted = data.sort ?? null;
    this.drawn = new Map();
    this.build();
    this.apply();
  }

  column(name) {
    return this.data.columns.findIndex((column) => column.name === name);
  }

  build() {
    const { element } = ragEval;
    this.search = element("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    this.search.addEventListener("input", () => this.apply());
    this.filters = this.data.filters.map((filter) => this.filter(filter));
    const controls = element(
      "div", { class: "controls", role: "search" },
      element("label", { class: "grow" }, "Search questions and answers", this.search),
      ...this.filters.map((filter) => element("label", {}, filter.label, filter.select)),
    );
    this.shown = element("p", { class: "shown", role: "status" });
    this.headings = this.data.columns.map((column, place) => this.heading(column, place));
    this.body = element("tbody");
    this.above = element("tr", { class: "gap", "aria-hidden": "true" }, element("td", { colspan: this.data.columns.length }));
    this.below = this.above.cloneNode(true);
    this.body.append(this.above, this.below);
    this.table = element(
      "table", { "aria-rowcount": this.count + 1 },
      element("caption", { class: "unseen" }, this.data.caption),
      element("thead", {}, element("tr", { "aria-rowindex": 1 }, ...this.headings)),
      this.body,
    );
    this.region = element("div", { class: "rows", role: "region", tabindex: "0", "aria-label": this.data.caption }, this.table);
    let isAsked = false;
    this.region.addEventListener("scroll", () => {
      if (isAsked) return;
      isAsked = true;
      requestAnimationFrame(() => { isAsked = false; this.draw(); });
    }, { passive: true });
    this.region.addEventListener("keydown", (event) => this.move(event));
    this.place.replaceChildren(controls, this.shown, this.region);
    new ResizeObserver(() => this.draw()).observe(this.region);
  }

  heading(column, place) {
    const { element } = ragEval;
    const heading = element("th", { scope: "col", class: CLASSES[column.kind] ?? "w-text", title: column.meaning });
    const button = element("button", { type: "button" }, column.label);
    button.addEventListener("click", () => {
      const isSame = this.sorted?.column === place;
      const startsDown = !["text", "id", "outcome"].includes(column.kind);
      this.sorted = { column: place, isDown: isSame ? !this.sorted.isDown : startsDown };
      this.apply();
    });
    heading.append(button);
    return heading;
  }

  filter({ column, label }) {
    const { element } = ragEval;
    const place = this.column(column);
    const { kind, words } = this.data.columns[place];
    const values = this.data.values[place];
    const select = element("select", {}, element("option", { value: "" }, "all"));
    let tests;
    if (kind === "points") {
      tests = [["worse", (v) => v !== null && v < 0], ["better", (v) => v !== null && v > 0], ["changed", (v) => v !== null && v !== 0], ["unchanged", (v) => v === 0]];
    } else {
      tests = [...new Set(values)].sort((a, b) => a - b).map((value) => [words[value][1], (v) => v === value]);
    }
    for (const [name, test] of tests) {
      const n = values.reduce((sum, value) => sum + (test(value) ? 1 : 0), 0);
      select.append(element("option", { value: name }, `${name} (${n.toLocaleString("en")})`));
    }
    select.addEventListener("change", () => this.apply());
    return { label, select, place, tests: new Map(tests) };
  }

  // One lower-case text a row, made when first searched.
  haystack() {
    if (!this.texts) {
      const columns = this.data.columns.map((column, place) => (["text", "id"].includes(column.kind) ? this.data.values[place] : null)).filter(Boolean);
      this.texts = Array.from({ length: this.count }, (_, row) => columns.map((values) => values[row]).join("\n").toLowerCase());
    }
    return this.texts;
  }

  apply() {
    let rows = Array.from({ length: this.count }, (_, row) => row);
    for (const { select, place, tests } of this.filters) {
      const test = tests.get(select.value);
      if (test) rows = rows.filter((row) => test(this.data.values[place][row]));
    }
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) {
      const texts = this.haystack();
      rows = rows.filter((row) => words.every((word) => texts[row].includes(word)));
    }
    if (this.sorted) this.sort(rows);
    this.rows = rows;
    this.headings.forEach((heading, place) => {
      if (this.sorted?.column === place) heading.setAttribute("aria-sort", this.sorted.isDown ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
    const n = (value) => value.toLocaleString("en");
    this.shown.textContent = rows.length === this.count ? `${n(this.count)} questions` : `${n(rows.length)} of ${n(this.count)} questions`;
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    for (const row of this.drawn.values()) row.remove();
    this.drawn.clear();
    this.region.scrollTop = 0;
    this.draw();
  }

  // Rows without a value come last either way; equal ones stay in the dataset's order.
  sort(rows) {
    const { column, isDown, isAbsolute } = this.sorted;
    const values = this.data.values[column];
    const isText = ["text", "id"].includes(this.data.columns[column].kind);
    const order = isText ? new Intl.Collator("en", { numeric: true }).compare : isAbsolute ? (a, b) => Math.abs(a) - Math.abs(b) : (a, b) => a - b;
    rows.sort((a, b) => {
      if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null) || a - b;
      return (isDown ? -1 : 1) * order(values[a], values[b]) || a - b;
    });
  }

  draw() {
    const first = Math.max(0, Math.floor(this.region.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
    const last = Math.min(this.rows.length, first + Math.ceil(this.region.clientHeight / ROW_HEIGHT) + 2 * SPARE_ROWS);
    for (const [place, row] of this.drawn) {
      // A row that has the focus stays: removing it would send the reader to the top of the page.
      if ((place < first || place >= last) && !row.contains(document.activeElement)) {
        row.remove();
        this.drawn.delete(place);
      }
    }
    for (let place = first; place < last; place += 1) {
      if (!this.drawn.has(place)) this.drawn.set(place, this.row(place));
    }
    const inSight = [...this.drawn.entries()].sort((a, b) => a[0] - b[0]);
    let before = this.above;
    for (const [, row] of inSight) {
      if (before.nextSibling !== row) before.after(row);
      before = row;
    }
    const kept = (test) => inSight.filter(([place]) => test(place)).length;
    this.above.firstChild.style.height = `${(first - kept((place) => place < first)) * ROW_HEIGHT}px`;
    this.below.firstChild.style.height = `${(this.rows.length - last - kept((place) => place >= last)) * ROW_HEIGHT}px`;
  }

  row(place) {
    const index = this.rows[place];
    return ragEval.element(
      "tr", { "aria-rowindex": place + 2 },
      ...this.data.columns.map((column, at) => this.cell(column, this.data.values[at][index], index)),
    );
  }

  cell(column, value, index) {
    const { element } = ragEval;
    const cell = element("td", { class: CLASSES[column.kind] });
    const link = this.data.links.find((one) => one.column === column.name);
    if (column.kind === "outcome") cell.append(ragEval.chip(...column.words[value]));
    else if (column.kind === "number") cell.append(ragEval.number(value, 2));
    else if (column.kind === "ms") cell.append(ragEval.milliseconds(value));
    else if (column.kind === "points") {
      cell.append(element("span", { class: value > 0 ? "better" : value < 0 ? "worse" : "absent" }, ragEval.points(value)));
    } else if (link) {
      const id = this.data.values[this.column("id")][index];
      cell.append(element("a", { href: link.href + encodeURIComponent(id), title: value }, element("bdi", {}, value)));
    } else {
      cell.title = value;
      cell.append(element("bdi", {}, value));
    }
    return cell;
  }

  // Arrow keys on a row's link go to the link of the next row, also where that is not drawn yet.
  move(event) {
    const row = event.target.closest?.("tbody tr");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!row || !step) return;
    const wanted = Number(row.getAttribute("aria-rowindex")) - 2 + step;
    if (wanted < 0 || wanted >= this.rows.length) return;
    event.preventDefault();
    const top = wanted * ROW_HEIGHT;
    const head = this.table.tHead.offsetHeight;
    if (top < this.region.scrollTop) this.region.scrollTop = top;
    if (top + ROW_HEIGHT + head > this.region.scrollTop + this.region.clientHeight) this.region.scrollTop = top + ROW_HEIGHT + head - this.region.clientHeight;
    this.draw();
    this.drawn.get(wanted)?.querySelector("a")?.focus({ preventScroll: true });
    this.draw();
  }
}

document.addEventListener("DOMContentLoaded", () => {
  for (const place of document.querySelectorAll("[data-rows]")) {
    ragEval.load(place.dataset.rows, place.dataset.src).then(
      (data) => new RowTable(place, data),
      (error) => { place.textContent = `The questions cannot be shown: ${error.message}.`; },
    );
  }
});
