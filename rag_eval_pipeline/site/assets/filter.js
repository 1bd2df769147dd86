// Which questions of a table are shown and in what order. The address has it all, so that Back, Next and links keep it.
"use strict";

const CHANGES = {
  worse: (value) => value !== null && value < 0,
  better: (value) => value !== null && value > 0,
  changed: (value) => value !== null && value !== 0,
  unchanged: (value) => value === 0,
};

const NUMBERS = { number: { step: 0.005, scale: 1 }, points: { step: 0.0005, scale: 0.01 }, ms: { step: 0.5, scale: 1000 } };
const BOUNDS = { "<": (a, b) => a < b - 1e-9, "<=": (a, b) => a <= b + 1e-9, ">": (a, b) => a > b + 1e-9, ">=": (a, b) => a >= b - 1e-9 };
const CONDITION = /\s*([^<>=!~]+?)\s*(<=|>=|!=|!~|<|>|=|~)\s*(?:"([^"]*)"|(.+?))\s*(?:$|\s(?:and|&&)\s)/iy;

class QuestionFilter {
  // data: a table's, as `table_value` makes it; folder: the path to its page, where the columns that are loaded later are.
  constructor(data, folder = "") {
    this.data = data;
    this.folder = folder;
    this.count = data.columns[0].values.length;
    this.facets = new Map(data.facets.map((facet) => [facet.name, facet]));
    this.columns = new Map(data.columns.map((column) => [column.name, column]));
    for (const { name, label, words, values } of data.facets) {
      if (!this.columns.has(name)) this.columns.set(name, { name, label, kind: "text", group: "Properties", values: values.map((place) => words[place] ?? "") });
    }
    this.all = [...this.columns.values()];
    this.named = new Map(["label", "name"].flatMap((key) => this.all.map((column) => [column[key].toLowerCase(), column])));
    this.systems = data.columns.filter(({ below }) => below);
    const n = this.systems.length;
    this.agreements = { disagree: (right) => right.length > 0 && right.length < n, "none right": (right) => !right.length, "all right": (right) => right.length === n };
    for (const { label } of this.systems) this.agreements[`only ${label} right`] = (right) => right.length === 1 && right[0].label === label;
    this.read("");
  }

  values(name) {
    return this.columns.get(name)?.values ?? [];
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
    this.agreement = this.systems.length && Object.hasOwn(this.agreements, given.get("systems") ?? "") ? given.get("systems") : "";
    this.chosen = new Map();
    for (const [name, facet] of this.facets) {
      const word = given.get(name);
      if (word !== null && facet.words.includes(word)) this.chosen.set(name, word);
    }
    this.setWhere(given.get("where") ?? "");
    this.toggled = new Set([...given.getAll("show"), ...given.getAll("hide")].filter((name) => name !== "question" && this.columns.has(name)));
    const sort = given.get("sort") ?? "";
    const name = sort.replace(/^-/, "");
    this.sort = given.has("sort") ? null : this.data.sort ?? null;
    if (this.columns.has(name)) this.sort = { column: name, isDown: sort.startsWith("-") };
  }

  write() {
    const made = new URLSearchParams();
    for (const name of this.toggled) made.append(this.columns.get(name).group ? "show" : "hide", name);
    if (this.text) made.set("q", this.text);
    if (this.outcomes.size) made.set("outcome", [...this.outcomes].join(","));
    if (this.change) made.set("change", this.change);
    if (this.agreement) made.set("systems", this.agreement);
    for (const [name, word] of this.chosen) made.set(name, word);
    if (this.where) made.set("where", this.where);
    if (this.sort !== (this.data.sort ?? null)) made.set("sort", this.sort ? (this.sort.isDown ? "-" : "") + this.sort.column : "");
    return made.toString();
  }

  get isNarrowed() {
    return Boolean(this.text || this.outcomes.size || this.change || this.agreement || this.chosen.size || this.where);
  }

  // A column with a group is shown only if somebody wants it; the others are there at first.
  isShown({ name, group }) {
    return Boolean(group) === this.toggled.has(name);
  }

  toggle(name) {
    if (!this.toggled.delete(name)) this.toggled.add(name);
  }

  // Load what is shown or tested and stands in a file of its own; false if there was nothing to load.
  async load() {
    const wanted = this.all.filter((one) => one.src && !one.values && (this.isShown(one) || one.name === this.sort?.column || this.conditions.some(({ column }) => column === one)));
    await Promise.all(wanted.map(async (one) => { one.values = await ragEval.load(one.src, this.folder + one.src).catch(() => Array(this.count).fill("not in the report")); }));
    if (wanted.length) this.texts = null;
    return wanted.length > 0;
  }

  // Conditions such as `f1 < 0.5 and answer ~ "37 ?%"`; if they cannot be read, `fault` says why and none applies.
  setWhere(text) {
    this.where = text.trim();
    [this.conditions, this.fault] = [[], ""];
    try {
      this.conditions = this.where ? this.parse(this.where) : [];
    } catch (error) {
      this.fault = error.message;
    }
  }

  parse(text) {
    const found = [];
    CONDITION.lastIndex = 0;
    while (CONDITION.lastIndex < text.length) {
      const rest = text.slice(CONDITION.lastIndex);
      const match = CONDITION.exec(text);
      if (!match) throw new Error(`“${rest}” is no condition. Write a column, a sign and a value, such as f1 < 0.5 and answer ~ ferry.`);
      const [, name, sign, quoted, bare] = match;
      const column = this.named.get(name.toLowerCase());
      if (!column) throw new Error(`There is no column “${name}”. The names are below “Columns”.`);
      found.push({ column, test: this.condition(column, sign, quoted ?? bare) });
    }
    return found;
  }

  // A test of a value of the column.
  condition(column, sign, given) {
    const number = NUMBERS[column.kind];
    const isNot = sign.startsWith("!");
    if (number) {
      if (sign.endsWith("~")) throw new Error(`${column.label} is a number: compare it with <, <=, >, >=, = or !=.`);
      const test = BOUNDS[sign] ?? ((value, other) => (Math.abs(value - other) <= number.step) !== isNot);
      const other = this.named.get(given.toLowerCase());
      if (other?.kind === column.kind) return (value, row) => value !== null && other.values[row] !== null && test(value, other.values[row]);
      const [, digits, unit] = /^([-−+]?[\d.]+)\s*(ms|s)?$/i.exec(given) ?? [];
      const limit = Number((digits ?? "x").replace("−", "-")) * (unit?.toLowerCase() === "ms" ? 1 : number.scale);
      if (given.toLowerCase() === "none" && ["=", "!="].includes(sign)) return (value) => (value === null) !== isNot;
      if (Number.isNaN(limit) || (unit && column.kind !== "ms")) throw new Error(`“${given}” is no number${column.kind === "ms" ? " of seconds: write 2, 2 s or 350 ms" : column.kind === "points" ? " of points, such as -10" : ", such as 0.5; none where there is no score"}.`);
      return (value) => value !== null && test(value, limit);
    }
    if (BOUNDS[sign]) throw new Error(`${column.label} is a text: use =, != or, for a regular expression, ~ or !~.`);
    let isMatch = (text) => text.toLowerCase() === given.toLowerCase();
    if (sign.endsWith("~")) {
      try {
        const pattern = new RegExp(given, "iu");
        isMatch = (text) => pattern.test(text);
      } catch (error) {
        throw new Error(`“${given}” is no regular expression: ${error.message.split(": ").at(-1)}.`);
      }
    }
    if (column.kind === "outcome") return (value) => (value !== null && this.data.outcomes[value].slice(0, 2).some(isMatch)) !== isNot;
    return (value) => isMatch(value ?? "") !== isNot;
  }

  // One lower-case text a row, made when first searched.
  haystack() {
    if (!this.texts) {
      const columns = this.data.columns.filter(({ kind, values }) => ["text", "id"].includes(kind) && values).map(({ values }) => values);
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
    if (this.agreement) {
      const test = this.agreements[this.agreement];
      tests.push((row) => test(this.right(row)));
    }
    for (const { column, test } of this.conditions) if (column.values) tests.push((row) => test(column.values[row], row));
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

  // The systems whose answer to a row's question is right.
  right(row) {
    return this.systems.filter(({ values }) => this.data.outcomes[values[row]]?.[2]);
  }

  // Rows without a value come last either way; equal ones stay in the dataset's order.
  order(rows) {
    const { column, isDown, isAbsolute } = this.sort;
    const values = this.values(column);
    const isText = ["text", "id"].includes(this.columns.get(column).kind);
    const compare = isText ? new Intl.Collator("en", { numeric: true }).compare : isAbsolute ? (a, b) => Math.abs(a) - Math.abs(b) : (a, b) => a - b;
    rows.sort((a, b) => {
      if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null) || a - b;
      return (isDown ? -1 : 1) * compare(values[a], values[b]) || a - b;
    });
  }
}
