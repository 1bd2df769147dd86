// A table of many rows: searched, filtered and sorted as numbers in memory, with only the rows in sight in the page.
"use strict";

const SPARE_ROWS = 12; // drawn above and below what is in sight
const PRINTED_ROWS = 2000;
const LINE_LENGTH = 40; // characters of a narrow screen
const GROUPS = ["", "Answers", "Scores", "Properties"];
const CLASSES = { id: "w-id", outcome: "w-outcome", number: "number w-short", ms: "number w-short", points: "number w-short" };

// Whether more than a tenth of a column's texts need two lines of a narrow screen.
function isLong({ kind, name, values }) {
  if (kind !== "text" || name === "gold") return false;
  return name === "question" || !values || values.filter((value) => value?.length > LINE_LENGTH).length > values.length / 10;
}

class RowTable {
  // data: {caption, page, columns: [{name, label, kind, values or src, group?, page?, below?, meaning?}], facets, outcomes, keys?,
  //        since?, sort?: {column, isDown, isAbsolute}}
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
    this.clear.addEventListener("click", () => { const { toggled } = this.filter; this.filter.read(""); this.filter.toggled = toggled; this.fill(); this.apply(); this.search.focus(); });
    this.headings = element("tr", { "aria-rowindex": 1 });
    this.body = element("tbody");
    this.above = element("tr", { class: "gap", "aria-hidden": "true" }, element("td"));
    this.below = this.above.cloneNode(true);
    this.body.append(this.above, this.below);
    this.table = element(
      "table", { "aria-rowcount": this.filter.count + 1 },
      element("caption", { class: "unseen" }, this.data.caption),
      element("thead", {}, this.headings),
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
    // Where the reader was in the list, for the way back.
    this.region.addEventListener("click", (event) => { if (event.target.closest("a")) this.keep({ top: this.region.scrollTop }); });
    this.place.replaceChildren(this.chips(), this.controls(), this.chooser(), element("div", { class: "beside" }, this.shown, this.clear), this.region);
    this.fill();
    new ResizeObserver(() => this.resize()).observe(this.region);
    addEventListener("beforeprint", () => this.draw(true));
    addEventListener("afterprint", () => this.redraw());
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
    const labels = [element("label", { class: "grow" }, this.filter.systems.length ? "Search questions" : "Search questions and answers", this.search)];
    if (this.filter.systems.length) {
      const rights = Array.from({ length: this.filter.count }, (_, row) => this.filter.right(row));
      const options = Object.entries(this.filter.agreements).map(([name, test]) => option(name, `${name} (${rights.filter(test).length.toLocaleString("en")})`));
      this.agreement = select([option("", "all"), ...options], (name) => { this.filter.agreement = name; });
      labels.push(element("label", {}, "Systems", this.agreement));
    }
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
    // While a condition is being typed, it applies as soon as it can be read; what is wrong is said when it is done.
    this.where = element("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: `${this.filter.all.find(({ kind }) => kind === "number")?.name} < 0.5 and question ~ what|why`, "aria-describedby": "where-fault" });
    this.fault = element("p", { class: "worse", id: "where-fault", role: "alert" });
    for (const kind of ["input", "change"]) {
      this.where.addEventListener(kind, () => {
        const before = this.filter.where;
        this.filter.setWhere(this.where.value);
        if (kind === "input" && this.filter.fault) this.filter.setWhere(before);
        else if (this.filter.where !== before || this.filter.fault) this.apply(); // or a click that ends the typing would miss its row
      });
    }
    const limits = element("div", { class: "where" }, element("label", {}, "Conditions", this.where), this.fault);
    this.order = select([option("", "dataset"), ...this.data.columns.filter(({ src }) => !src).flatMap(({ name, label }) => [option(name, `${label} ↑`), option(`-${name}`, `${label} ↓`)])], (value) => {
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
    if (this.agreement) this.agreement.value = filter.agreement;
    this.where.value = filter.where;
    for (const [column, tick] of this.ticks) tick.checked = filter.isShown(column);
  }

  // Which columns are shown; each has the name that conditions use.
  chooser() {
    const { element } = ragEval;
    this.ticks = new Map(this.filter.all.filter(({ name }) => name !== "question").map((column) => [column, element("input", { type: "checkbox" })]));
    const parts = GROUPS.map((group) => [group, [...this.ticks].filter(([column]) => (column.group ?? "") === group)]).filter(([, ticks]) => ticks.length);
    for (const [{ name }, tick] of this.ticks) tick.addEventListener("change", () => { this.filter.toggle(name); this.apply(); });
    const all = element("button", { type: "button", class: "action" }, "All answers");
    all.addEventListener("click", () => {
      const answers = this.filter.all.filter(({ group }) => group === "Answers");
      const wanted = answers.filter((column) => !this.filter.isShown(column));
      for (const { name } of wanted.length ? wanted : answers) this.filter.toggle(name);
      this.fill();
      this.apply();
    });
    const lists = parts.map(([group, ticks]) => element(
      "fieldset", {}, element("legend", {}, group || "Shown at first"), group === "Answers" ? all : null,
      ...ticks.map(([{ name, label, meaning }, tick]) => element("label", { class: "tick", title: meaning }, tick, element("span", {}, label, " ", element("code", {}, name)))),
    ));
    return element("details", { class: "columns" }, element("summary", {}, "Columns"), ...lists);
  }

  heading(column) {
    const { element } = ragEval;
    const heading = element("th", { scope: "col", class: column.name === "question" ? "w-question" : CLASSES[column.kind] ?? "w-text", title: column.meaning });
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
    filter.load().then((isLoaded) => { if (isLoaded) this.apply({ isFirst }); });
    this.fault.textContent = filter.fault;
    this.where.setAttribute("aria-invalid", String(Boolean(filter.fault)));
    this.columns = filter.all.filter((column) => filter.isShown(column));
    const [texts, chips] = ["text", "outcome"].map((kind) => this.columns.filter((column) => column.kind === kind).length);
    const others = this.columns.length - texts - chips;
    // On a narrow screen: a line for each text and each named outcome, two for a question and for texts that are mostly long.
    const named = this.columns.filter((column) => column.kind === "outcome" && column.name !== "outcome").length;
    this.long = new Set(this.columns.filter((column) => isLong(column)));
    const widths = { "--texts": texts + this.long.size, "--chips": named, "--lines": 1 + (others > 5 ? Math.ceil((others - 1) / 3) : Math.min(1, others - 1)), "--wide": `${texts * 170 + chips * 176 + others * 88}px` };
    for (const [name, value] of Object.entries(widths)) this.region.style.setProperty(name, value);
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
    // Headings stay while their columns do: one that is being clicked must not be replaced.
    const heads = this.columns.map(({ name }) => name).join("\n");
    if (heads !== this.heads) {
      this.heads = heads;
      this.headings.replaceChildren(...this.columns.map((column) => this.heading(column)));
      for (const gap of [this.above, this.below]) gap.firstChild.colSpan = this.columns.length;
    }
    this.columns.forEach(({ name }, place) => {
      const order = filter.sort?.isDown ? "descending" : "ascending";
      this.headings.cells[place].setAttribute("aria-sort", filter.sort?.column === name ? order : "none");
    });
    this.order.value = filter.sort ? (filter.sort.isDown ? "-" : "") + filter.sort.column : "";
    const n = (value) => value.toLocaleString("en");
    this.shown.textContent = this.rows.length === filter.count ? ragEval.counted(filter.count, "question") : `${n(this.rows.length)} of ${ragEval.counted(filter.count, "question")}`;
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

  draw(isWhole = false) {
    // All rows have the height that the style sheet gives them for this width.
    this.height = parseFloat(getComputedStyle(this.region).getPropertyValue("--row"));
    const first = isWhole ? 0 : Math.max(0, Math.floor(this.region.scrollTop / this.height) - SPARE_ROWS);
    const last = isWhole ? Math.min(this.rows.length, PRINTED_ROWS) : Math.min(this.rows.length, first + Math.ceil(this.region.clientHeight / this.height) + 2 * SPARE_ROWS);
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
      ...this.columns.map((column) => this.cell(column, column.values?.[index] ?? null, index)),
    );
  }

  cell(column, value, index) {
    const { element } = ragEval;
    const key = encodeURIComponent(this.filter.key(index));
    const cell = element("td", { class: [CLASSES[column.kind], `c-${column.name}`, this.long.has(column) && "is-long"].filter(Boolean).join(" "), "data-label": column.label });
    const colour = (inner) => element("span", { class: value > 0 ? "better" : value < 0 ? "worse" : "absent" }, inner);
    if (column.kind === "outcome" && value === null) cell.append("–");
    else if (column.kind === "outcome") {
      const chip = ragEval.chip(...this.data.outcomes[value].slice(0, 2));
      cell.append(column.page ? element("a", { href: this.address(index, column.page) }, chip) : chip);
      if (column.below) cell.append(" ", element("span", { class: "number" }, ragEval.number(this.filter.values(column.below)[index], 2)));
    }
    else if (column.kind === "number") cell.append(ragEval.number(value, 2));
    else if (column.kind === "ms") cell.append(ragEval.milliseconds(value));
    else if (column.kind === "points") cell.append(colour(ragEval.points(value)));
    else {
      const text = element("bdi", { title: value }, value);
      const href = column.name === "question" ? this.address(index, this.data.page) : column.page && value ? `${column.page}#${key}` : null; // no link without words
      cell.append(element("div", { class: "clip", "data-label": column.label }, href ? element("a", { href }, text) : text));
    }
    return cell;
  }

  // The page of a question, with the way through the rows as they are shown now.
  address(index, page) {
    if (!page) return `#${encodeURIComponent(this.filter.key(index))}`; // it is in this file
    const made = new URLSearchParams(this.query);
    if (this.place.dataset.list) made.set("list", this.place.dataset.list);
    const query = made.toString();
    return `${page}${query ? `?${query}` : ""}#${encodeURIComponent(this.filter.key(index))}`;
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
