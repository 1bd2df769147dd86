// Which questions of a table are shown and in what order. The address has it all, so that Back, Next and links keep it.
"use strict";

const CHANGES = {
  worse: (value) => value !== null && value < 0,
  better: (value) => value !== null && value > 0,
  changed: (value) => value !== null && value !== 0,
  unchanged: (value) => value === 0,
};

class QuestionFilter {
  // data: a table's, as `question_table` makes it.
  constructor(data) {
    this.data = data;
    this.count = data.values[0].length;
    this.facets = new Map(data.facets.map((facet) => [facet.name, facet]));
    this.metrics = new Map();
    data.columns.forEach((column, place) => {
      if (["number", "points", "ms"].includes(column.kind)) this.metrics.set(column.name, { ...column, values: data.values[place] });
    });
    for (const one of data.further ?? []) this.metrics.set(one.name, one);
    this.read("");
  }

  values(name) {
    return this.data.values[this.data.columns.findIndex((column) => column.name === name)];
  }

  // The id by which a row's page is addressed.
  key(row) {
    return String((this.data.keys ?? this.values("id"))[row]);
  }

  read(query) {
    const given = new URLSearchParams(query);
    const words = new Set(this.data.outcomes.map(([word]) => word));
    this.text = given.get("q") ?? "";
    this.outcomes = new Set((given.get("outcome") ?? "").split(",").filter((word) => words.has(word)));
    this.change = Object.hasOwn(CHANGES, given.get("change") ?? "") ? given.get("change") : "";
    this.chosen = new Map();
    for (const [name, facet] of this.facets) {
      const word = given.get(name);
      if (word !== null && facet.words.includes(word)) this.chosen.set(name, word);
    }
    this.metric = this.metrics.has(given.get("metric")) ? given.get("metric") : "";
    this.bound = given.get("bound") === "least" ? "least" : "most";
    const limit = given.get("limit");
    this.limit = limit === null || limit === "" || Number.isNaN(Number(limit)) ? "" : limit;
    const sort = given.get("sort") ?? "";
    const name = sort.replace(/^-/, "");
    this.sort = given.has("sort") ? null : this.data.sort ?? null;
    if (this.data.columns.some((column) => column.name === name)) this.sort = { column: name, isDown: sort.startsWith("-") };
  }

  write() {
    const made = new URLSearchParams();
    if (this.text) made.set("q", this.text);
    if (this.outcomes.size) made.set("outcome", [...this.outcomes].join(","));
    if (this.change) made.set("change", this.change);
    for (const [name, word] of this.chosen) made.set(name, word);
    if (this.metric && this.limit !== "") {
      made.set("metric", this.metric);
      made.set("bound", this.bound);
      made.set("limit", this.limit);
    }
    if (this.sort !== (this.data.sort ?? null)) made.set("sort", this.sort ? (this.sort.isDown ? "-" : "") + this.sort.column : "");
    return made.toString();
  }

  get isNarrowed() {
    return Boolean(this.text || this.outcomes.size || this.change || this.chosen.size || (this.metric && this.limit !== ""));
  }

  // One lower-case text a row, made when first searched.
  haystack() {
    if (!this.texts) {
      const columns = this.data.columns.map((column, place) => (["text", "id"].includes(column.kind) ? this.data.values[place] : null)).filter(Boolean);
      this.texts = Array.from({ length: this.count }, (_, row) => columns.map((values) => values[row]).join("\n").toLowerCase());
    }
    return this.texts;
  }

  // Places of the rows in order; `except` leaves a filter out, to count what each of its choices would show.
  rows(except = "") {
    const tests = [];
    if (this.outcomes.size && except !== "outcome") {
      const places = new Set(this.data.outcomes.map(([word], place) => (this.outcomes.has(word) ? place : -1)));
      const values = this.values("outcome");
      tests.push((row) => places.has(values[row]));
    }
    if (this.change) {
      const [values, test] = [this.values("change"), CHANGES[this.change]];
      tests.push((row) => test(values[row]));
    }
    for (const [name, word] of this.chosen) {
      const { values, words } = this.facets.get(name);
      const place = words.indexOf(word);
      tests.push((row) => values[row] === place);
    }
    if (this.metric && this.limit !== "") {
      const { values, kind } = this.metrics.get(this.metric);
      const limit = Number(this.limit) / (kind === "points" ? 100 : 1);
      tests.push(this.bound === "least" ? (row) => values[row] !== null && values[row] >= limit - 1e-9 : (row) => values[row] !== null && values[row] <= limit + 1e-9);
    }
    const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) {
      const texts = this.haystack();
      tests.push((row) => words.every((word) => texts[row].includes(word)));
    }
    const found = [];
    for (let row = 0; row < this.count; row += 1) if (tests.every((test) => test(row))) found.push(row);
    if (this.sort && !except) this.order(found);
    return found;
  }

  // Rows without a value come last either way; equal ones stay in the dataset's order.
  order(rows) {
    const { column, isDown, isAbsolute } = this.sort;
    const values = this.values(column);
    const isText = ["text", "id"].includes(this.data.columns.find((one) => one.name === column).kind);
    const compare = isText ? new Intl.Collator("en", { numeric: true }).compare : isAbsolute ? (a, b) => Math.abs(a) - Math.abs(b) : (a, b) => a - b;
    rows.sort((a, b) => {
      if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null) || a - b;
      return (isDown ? -1 : 1) * compare(values[a], values[b]) || a - b;
    });
  }
}
