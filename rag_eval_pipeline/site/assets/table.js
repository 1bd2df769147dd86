// A table of many rows: searched, filtered and sorted as numbers in memory, with only the rows in sight in the page.
"use strict";

const SPARE_ROWS = 12; // drawn above and below what is in sight
const CLASSES = { id: "w-id", outcome: "w-outcome", number: "number w-short", ms: "number w-short", points: "number w-short" };

class RowTable {
  // data: {caption, page, old_page?, columns: [{name, label, kind}], values: [a list a column], facets, outcomes, further?, keys?,
  //        meanings?, since, sort?: {column, isDown, isAbsolute}}
  constructor(place, data) {
    this.place = place;
    this.data = data;
    this.filter = new QuestionFilter(data);
    this.filter.read(location.search);
    this.drawn = new Map();
    this.build();
    this.apply({ isFirst: true });
    const top = history.state?.top;
    if (top) this.region.scrollTop = top;
  }

  build() {
    const { element } = ragEval;
    this.shown = element("p", { class: "shown", role: "status" });
    this.clear = element("button", { type: "button", class: "action" }, "Clear filters");
    this.clear.addEventListener("click", () => { this.filter.read(""); this.fill(); this.apply(); this.search.focus(); });
    this.headings = this.data.columns.map((column) => this.heading(column));
    this.body = element("tbody");
    this.above = element("tr", { class: "gap", "aria-hidden": "true" }, element("td", { colspan: this.data.columns.length }));
    this.below = this.above.cloneNode(true);
    this.body.append(this.above, this.below);
    this.table = element(
      "table", { "aria-rowcount": this.filter.count + 1 },
      element("caption", { class: "unseen" }, this.data.caption),
      element("thead", {}, element("tr", { "aria-rowindex": 1 }, ...this.headings)),
      this.body,
    );
    const compares = this.data.columns.some(({ name }) => name === "old");
    this.region = element("div", { class: compares ? "rows compares" : "rows", role: "region", tabindex: "0", "aria-label": this.data.caption }, this.table);
    let isAsked = false;
    this.region.addEventListener("scroll", () => {
      if (isAsked) return;
      isAsked = true;
      requestAnimationFrame(() => { isAsked = false; this.draw(); });
    }, { passive: true });
    this.region.addEventListener("keydown", (event) => this.move(event));
    // Where the reader was in the list, for the way back.
    this.region.addEventListener("click", (event) => { if (event.target.closest("a")) this.keep({ top: this.region.scrollTop }); });
    this.place.replaceChildren(this.chips(), this.controls(), element("div", { class: "beside" }, this.shown, this.clear), this.region);
    this.fill();
    new ResizeObserver(() => this.resize()).observe(this.region);
    addEventListener("popstate", () => { this.filter.read(location.search); this.fill(); this.apply({ isFirst: true }); });
  }

  // Outcomes are switches: none pressed shows all of them.
  chips() {
    const { element } = ragEval;
    this.switches = new Map();
    for (const [place, [word, label]] of this.data.outcomes.entries()) {
      if (!this.filter.values("outcome").includes(place)) continue;
      const count = element("span", { class: "n" });
      const button = element("button", { type: "button", class: `chip ${word}`, "aria-pressed": "false" }, count, ` ${label}`);
      button.addEventListener("click", () => {
        if (!this.filter.outcomes.delete(word)) this.filter.outcomes.add(word);
        this.apply();
      });
      this.switches.set(word, { place, button, count });
    }
    return element("div", { class: "chips", role: "group", "aria-label": "Outcome" }, ...[...this.switches.values()].map(({ button }) => button));
  }

  controls() {
    const { element } = ragEval;
    const option = (value, label) => element("option", { value }, label);
    const select = (options, change) => {
      const made = element("select", {}, ...options);
      made.addEventListener("change", () => { change(made.value); this.apply(); });
      return made;
    };
    this.search = element("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    this.search.addEventListener("input", () => { this.filter.text = this.search.value; this.apply(); });
    const labels = [element("label", { class: "grow" }, "Search questions and answers", this.search)];
    this.facets = this.data.facets.map((facet) => {
      const counts = facet.words.map((_, place) => facet.values.reduce((sum, value) => sum + (value === place ? 1 : 0), 0));
      const options = facet.words.map((word, place) => option(word, `${word} (${counts[place].toLocaleString("en")})`));
      const made = select([option("", "all"), ...options], (word) => (word ? this.filter.chosen.set(facet.name, word) : this.filter.chosen.delete(facet.name)));
      labels.push(element("label", {}, facet.label, made));
      return { name: facet.name, select: made };
    });
    const values = this.filter.values("change");
    if (values.some((value) => value !== null)) {
      const options = Object.entries(CHANGES).map(([name, test]) => option(name, `${name} (${values.filter(test).length.toLocaleString("en")})`));
      this.change = select([option("", "all"), ...options], (name) => { this.filter.change = name; });
      labels.push(element("label", {}, `Since ${this.data.since}`, this.change));
    }
    this.metric = select([option("", "any"), ...[...this.filter.metrics.values()].map(({ name, label, kind }) => option(name, kind === "points" ? `${label}, points` : kind === "ms" ? `${label}, ms` : label))], (name) => { this.filter.metric = name; if (this.limit.value === "") this.limit.focus(); });
    this.bound = select([option("most", "≤"), option("least", "≥")], (value) => { this.filter.bound = value; });
    this.limit = element("input", { type: "number", step: "any" });
    this.limit.addEventListener("input", () => { this.filter.limit = this.limit.value; this.apply(); });
    const unseen = (text) => element("span", { class: "unseen" }, text);
    const limits = element("div", { class: "limits" }, element("label", {}, "Score", this.metric), element("label", {}, unseen("At most or at least"), this.bound), element("label", {}, unseen("Limit"), this.limit));
    this.order = select([option("", "dataset"), ...this.data.columns.flatMap(({ name, label }) => [option(name, `${label} ↑`), option(`-${name}`, `${label} ↓`)])], (value) => {
      this.filter.sort = value ? { column: value.replace(/^-/, ""), isDown: value.startsWith("-") } : null;
    });
    const [search, ...others] = labels;
    const rest = [...others, limits, element("label", { class: "order" }, "Order", this.order)];
    if (matchMedia("(min-width: 641px)").matches) return element("div", { class: "controls", role: "search" }, search, ...rest);
    // On a narrow screen they are folded until one of them is set.
    const more = element("details", { class: "more", open: this.filter.isNarrowed }, element("summary", {}, "Filters and order"), element("div", { class: "controls" }, ...rest));
    return element("div", { class: "controls", role: "search" }, search, more);
  }

  // Show the filter's state in its controls.
  fill() {
    const { filter } = this;
    this.search.value = filter.text;
    for (const { name, select } of this.facets) select.value = filter.chosen.get(name) ?? "";
    if (this.change) this.change.value = filter.change;
    this.metric.value = filter.metric;
    this.bound.value = filter.bound;
    this.limit.value = filter.limit;
  }

  heading(column) {
    const { element } = ragEval;
    const heading = element("th", { scope: "col", class: column.name === "question" ? "w-question" : CLASSES[column.kind] ?? "w-text", title: this.data.meanings?.[column.name] });
    const button = element("button", { type: "button" }, column.label);
    button.addEventListener("click", () => {
      const isSame = this.filter.sort?.column === column.name;
      const startsDown = !["text", "id", "outcome"].includes(column.kind);
      this.filter.sort = { column: column.name, isDown: isSame ? !this.filter.sort.isDown : startsDown };
      this.apply();
    });
    heading.append(button);
    return heading;
  }

  // Replace the address: one step back leaves the page, whatever was typed.
  keep(state = null) {
    const query = this.filter.write();
    try {
      history.replaceState(state, "", `${location.pathname}${query ? `?${query}` : ""}${location.hash}`);
    } catch {
      // A browser that forbids it for files: the page works, the address does not follow.
    }
    return query;
  }

  apply({ isFirst = false } = {}) {
    const { filter } = this;
    this.rows = filter.rows();
    this.query = isFirst ? filter.write() : this.keep();
    const all = filter.outcomes.size ? filter.rows("outcome") : this.rows;
    const outcomes = filter.values("outcome");
    const counts = new Map();
    for (const row of all) counts.set(outcomes[row], (counts.get(outcomes[row]) ?? 0) + 1);
    for (const [word, { place, button, count }] of this.switches) {
      count.textContent = (counts.get(place) ?? 0).toLocaleString("en");
      button.setAttribute("aria-pressed", String(filter.outcomes.has(word)));
    }
    this.data.columns.forEach((column, place) => {
      if (filter.sort?.column === column.name) this.headings[place].setAttribute("aria-sort", filter.sort.isDown ? "descending" : "ascending");
      else this.headings[place].removeAttribute("aria-sort");
    });
    this.order.value = filter.sort ? (filter.sort.isDown ? "-" : "") + filter.sort.column : "";
    const n = (value) => value.toLocaleString("en");
    this.shown.textContent = this.rows.length === filter.count ? `${n(filter.count)} questions` : `${n(this.rows.length)} of ${n(filter.count)} questions`;
    this.region.hidden = !this.rows.length;
    if (this.region.hidden) this.shown.textContent = `Nothing matches: ${this.shown.textContent}`;
    this.clear.hidden = !filter.isNarrowed;
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    this.redraw();
    this.region.scrollTop = 0;
  }

  redraw() {
    for (const row of this.drawn.values()) row.remove();
    this.drawn.clear();
    this.draw();
  }

  resize() {
    const before = this.height;
    this.draw();
    if (this.height !== before) this.redraw();
  }

  draw() {
    // All rows have the height that the style sheet gives them for this width.
    this.height = parseFloat(getComputedStyle(this.region).getPropertyValue("--row"));
    const first = Math.max(0, Math.floor(this.region.scrollTop / this.height) - SPARE_ROWS);
    const last = Math.min(this.rows.length, first + Math.ceil(this.region.clientHeight / this.height) + 2 * SPARE_ROWS);
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
    this.above.firstChild.style.height = `${(first - kept((place) => place < first)) * this.height}px`;
    this.below.firstChild.style.height = `${(this.rows.length - last - kept((place) => place >= last)) * this.height}px`;
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
    const cell = element("td", { class: [CLASSES[column.kind], `c-${column.name}`].filter(Boolean).join(" "), "data-label": column.label });
    const colour = (inner) => element("span", { class: value > 0 ? "better" : value < 0 ? "worse" : "absent" }, inner);
    if (column.kind === "outcome") cell.append(ragEval.chip(...this.data.outcomes[value]));
    else if (column.kind === "number") cell.append(ragEval.number(value, 2));
    else if (column.kind === "ms") cell.append(ragEval.milliseconds(value));
    else if (column.kind === "points") cell.append(colour(ragEval.points(value)));
    else {
      const text = element("bdi", { title: value }, value);
      const key = encodeURIComponent(this.filter.key(index));
      const href = column.name === "question" ? this.address(index) : column.name === "old" && this.data.old_page ? `${this.data.old_page}#${key}` : null;
      cell.append(element("div", { class: "clip", "data-label": column.label }, href ? element("a", { href }, text) : text));
    }
    return cell;
  }

  // The page of a question, with the way through the rows as they are shown now.
  address(index) {
    if (!this.data.page) return `#${encodeURIComponent(this.filter.key(index))}`; // it is in this file
    const made = new URLSearchParams(this.query);
    if (this.place.dataset.list) made.set("list", this.place.dataset.list);
    const query = made.toString();
    return `${this.data.page}${query ? `?${query}` : ""}#${encodeURIComponent(this.filter.key(index))}`;
  }

  // Arrow keys on a row's link go to the link of the next row, also where that is not drawn yet.
  move(event) {
    const row = event.target.closest?.("tbody tr");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!row || !step) return;
    const wanted = Number(row.getAttribute("aria-rowindex")) - 2 + step;
    if (wanted < 0 || wanted >= this.rows.length) return;
    event.preventDefault();
    const top = wanted * this.height;
    const head = this.table.tHead.offsetHeight;
    if (top < this.region.scrollTop) this.region.scrollTop = top;
    if (top + this.height + head > this.region.scrollTop + this.region.clientHeight) this.region.scrollTop = top + this.height + head - this.region.clientHeight;
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
