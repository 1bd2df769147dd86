// The page of one question, chosen by the address's hash, laid out from the run's data files.
"use strict";

const { element, drawing, chip } = ragEval;
const HEADING_LENGTH = 300; // code points; a longer question stands below its beginning
const WORDS = { supported: "supported", not_found: "not found there", conflicting: "in conflict" };

class QuestionPage {
  // data: of the run's `questions`; chunk: questions a details file.
  constructor(place, data) {
    this.place = place;
    this.ids = data.values[data.columns.findIndex((column) => column.name === "id")].map(String);
    this.words = data.columns.find((column) => column.name === "outcome").words;
    this.chunk = Number(place.dataset.chunk);
    this.at = new Map(this.ids.map((id, index) => [id, index]));
    addEventListener("hashchange", () => this.show());
    this.show();
  }

  async show() {
    const id = named(location.hash) || this.ids[0];
    const index = this.at.get(id);
    if (index === undefined) {
      this.place.replaceChildren(element("h1", {}, "No such question"), element("p", {}, "This run has no question ", element("code", {}, id), ". ", element("a", { href: "index.html" }, "All questions of this run")));
      return;
    }
    const name = `details-${String(Math.floor(index / this.chunk)).padStart(3, "0")}`;
    try {
      const [details, history, meanings] = await Promise.all([
        ragEval.load(name, `data/${name}.js`),
        ragEval.load("history", this.place.dataset.history).catch(() => null),
        ragEval.load("meanings", this.place.dataset.meanings).catch(() => ({})),
      ]);
      this.meanings = meanings;
      this.draw(details[index % this.chunk], index, history);
    } catch (error) {
      this.place.replaceChildren(element("h1", {}, `Question ${id}`), element("p", {}, `Its details cannot be shown: ${error.message}. Write the report again: rag-eval report.`));
    }
  }

  draw(question, index, history) {
    const isRefresh = this.place.childElementCount > 0;
    document.title = `Question ${question.id} · ${this.place.dataset.title}`;
    const letters = Array.from(question.question);
    const isLong = letters.length > HEADING_LENGTH;
    const heading = element("h1", { tabindex: "-1" }, element("bdi", {}, isLong ? `${letters.slice(0, HEADING_LENGTH - 1).join("")}…` : question.question));
    this.place.replaceChildren(
      element("div", { class: "question-head" }, heading, this.paging(index)),
      element(
        "p", { class: "lead" }, chip(question.outcome, this.words.find(([word]) => word === question.outcome)[1]),
        ` Question ${question.id}`, ...(question.facts ?? []).map(([label, value]) => ` · ${label}: ${value}`),
      ),
      ...[
        isLong ? section("The whole question", element("p", { class: "text" }, question.question)) : null,
        question.error ? element("div", { class: "notice bad" }, element("p", {}, question.error)) : null,
        this.answers(question), this.claims(question), this.citations(question), this.pictures(question),
        this.passages(question), this.history(question, history), this.scores(question),
      ].filter(Boolean),
    );
    if (isRefresh && this.wasShown) heading.focus();
    this.wasShown = true;
  }

  paging(index) {
    const link = (label, place, key) => {
      const id = this.ids[place];
      return id === undefined
        ? element("a", { class: "action", "aria-disabled": "true", role: "link" }, label)
        : element("a", { class: "action", href: `#${encodeURIComponent(id)}`, rel: key }, label);
    };
    return element("nav", { class: "paging", "aria-label": "Questions" }, link("← Previous", index - 1, "prev"), link("Next →", index + 1, "next"));
  }

  answers(question) {
    const gold = question.gold?.length
      ? element("ul", { class: "plain" }, ...question.gold.map((text) => element("li", { class: "text" }, text)))
      : element("p", { class: "nothing" }, question.is_impossible ? "None: the documents do not answer this question." : "Not known: the dataset has changed since.");
    const parts = [section("Gold answer", gold), section("Answer", this.answer(question))];
    if (question.partial) parts.push(section("What had arrived", element("p", { class: "text" }, question.partial)));
    const outer = element("div", {}, element("div", { class: "pair" }, ...parts));
    const stretches = question.difference ?? [];
    if (stretches.some(([part]) => part !== "same")) {
      const tags = { same: "span", missing: "del", extra: "ins" };
      const text = element("p", { class: "text" }, ...stretches.map(([part, words]) => element(tags[part], { class: part }, words)));
      outer.append(section("Difference from the nearest gold answer", text, element("p", { class: "quiet" }, element("del", { class: "missing" }, "missing"), " in the answer, ", element("ins", { class: "extra" }, "not in the gold answer"), "; words are compared as SQuAD does.")));
    }
    return outer;
  }

  answer(question) {
    if (!question.answer?.length) return element("p", { class: "nothing" }, "There is no answer.");
    const text = element("p", { class: "text" });
    let last = 0;
    for (const [words, number, isMark] of question.answer) {
      const claim = number ? question.claims[number - 1] : null;
      if (last && number !== last) text.append(element("sup", {}, String(last)));
      last = number;
      const inner = isMark ? element("span", { class: "cite" }, words) : words;
      const outcome = (claim?.by_citations ?? claim?.by_contexts)?.outcome;
      text.append(claim ? element("mark", { class: outcome ?? "none", title: `Claim ${number}: ${WORDS[outcome] ?? "nothing to support it"}` }, inner) : inner);
    }
    if (last) text.append(element("sup", {}, String(last)));
    return text;
  }

  claims(question) {
    const notes = [];
    if (question.judgement) {
      const [verdict, reason] = question.judgement;
      notes.push(element("p", {}, "The judge finds the answer ", this.judged(verdict), reason ? ` ${reason}` : ""));
    }
    if (!question.claims?.length) return notes.length ? section("The judge", ...notes, this.doubt()) : null;
    const support = (found) => (found ? element("td", {}, this.judged(found.outcome, WORDS[found.outcome]), " ", element("span", { class: "quiet" }, found.reason ?? "")) : element("td", { class: "absent" }, "–"));
    const rows = question.claims.map((claim, index) => element(
      "tr", {}, element("td", { class: "number" }, String(index + 1)), element("td", { class: "text" }, claim.text),
      element("td", {}, claim.citations.map((n) => `[${n}]`).join(" ") || "none"), support(claim.by_citations), support(claim.by_contexts),
    ));
    return section("Claims and their support", ...notes, this.doubt(), grid(["#", "Claim", "Citations", "By what it cites", "By what was retrieved"], rows, "Claims of the answer"));
  }

  judged(word, label) {
    return chip(this.place.dataset.doubt ? "doubted" : word, label ?? word.replaceAll("_", " "));
  }

  doubt() {
    return this.place.dataset.doubt ? element("p", { class: "doubted" }, `The judge is ${this.place.dataset.doubt}.`) : null;
  }

  citations(question) {
    if (!question.citations?.length && !question.gold_places?.length) return null;
    const rows = (question.citations ?? []).map((one, index) => element(
      "tr", {}, element("td", { class: "number" }, `[${index + 1}]`), element("td", { class: "code" }, one.document),
      element("td", { class: "number" }, String(one.page ?? "–")), element("td", { class: "number" }, `${one.start}–${one.end}`),
      element("td", {}, one.is_gold ? chip("gold", "overlaps gold") : element("span", { class: "absent" }, "no")),
      element("td", {}, one.support ? this.judged(one.support.outcome, WORDS[one.support.outcome]) : "–"),
      one.text ? element("td", { class: "text" }, one.text) : element("td", { class: "absent" }, "no such place in the corpus"),
    ));
    const gold = (question.gold_places ?? []).map(([document, page, start, end, text]) => element(
      "tr", {}, element("td", { class: "code" }, document), element("td", { class: "number" }, String(page ?? "–")),
      element("td", { class: "number" }, `${start}–${end}`), element("td", { class: "text" }, text),
    ));
    return section(
      "Citations",
      rows.length ? grid(["#", "Document", "Page", "Span", "Gold", "Claim supported", "Cited text"], rows, "Citations of the answer") : element("p", { class: "nothing" }, "The answer cites nothing."),
      question.n_citations > rows.length ? element("p", { class: "quiet" }, `The first ${rows.length} of ${question.n_citations}.`) : null,
      gold.length ? element("details", {}, element("summary", {}, `Expected citations (${gold.length})`), grid(["Document", "Page", "Span", "Gold text"], gold, "Expected citations")) : null,
    );
  }

  pictures(question) {
    if (!question.pictures?.length) return null;
    const sheets = question.pictures.map(([document, page, src, width, height, gold, cited]) => {
      const box = (css) => ([x, y, w, h]) => drawing("rect", { class: css, x, y, width: w, height: h, rx: 1 });
      const marks = drawing("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...gold.map(box("gold")), ...cited.map(box("cited")));
      const what = [gold.length ? "gold text filled" : "", cited.length ? "cited text framed" : ""].filter(Boolean).join(", ");
      const image = element("img", { src: this.place.dataset.root + src, width, height, loading: "lazy", alt: `Page ${page} of ${document}, ${what}` });
      return element("figure", {}, element("div", { class: "sheet" }, image, marks), element("figcaption", {}, element("span", { class: "code" }, document), `, page ${page}`));
    });
    const legend = element("p", { class: "quiet" }, element("span", { class: "swatch gold" }), "gold ", element("span", { class: "swatch cited" }), "cited");
    return section("Where it stands in the documents", legend, element("div", { class: "pair" }, ...sheets));
  }

  passages(question) {
    const passages = question.passages ?? [];
    const unnamed = question.n_missed - (question.missed?.length ?? 0);
    const missed = question.missed?.length
      ? element("p", {}, element("strong", {}, "Relevant, but not retrieved: "), ...question.missed.flatMap((name, index) => [index ? ", " : "", element("span", { class: "code" }, name)]), unnamed > 0 ? ` and ${unnamed} more` : "")
      : null;
    if (!passages.length) return section("Retrieved", element("p", { class: "nothing" }, "Nothing was retrieved."), missed);
    const items = passages.map((one) => element(
      "li", { class: one.is_relevant ? "is-relevant" : null },
      element(
        "header", {}, element("span", { class: "rank" }, `${one.rank}.`), element("span", { class: "name" }, one.document),
        one.page ? element("span", { class: "quiet" }, `page ${one.page}`) : null, one.score === undefined || one.score === null ? null : element("span", { class: "quiet" }, `score ${one.score.toPrecision(4)}`),
        one.is_relevant ? chip("gold", "relevant") : null, one.is_gold ? chip("gold", "has gold text") : null,
      ),
      one.text ? element("p", { class: "text" }, one.text) : null,
    ));
    const more = question.n_passages > passages.length ? element("p", { class: "quiet" }, `The first ${passages.length} of ${question.n_passages}.`) : null;
    return section("Retrieved", missed, element("ol", { class: "passages" }, ...items), more);
  }

  history(question, history) {
    const row = history ? history.ids.indexOf(question.id) : -1;
    if (row < 0 || history.nights.length < 2) return null;
    const own = history.nights.findIndex(([id]) => id === this.place.dataset.run);
    const charts = history.measures.map(([name, label], number) => {
      const values = history.values[number][row];
      return values.some((value) => value !== null) ? element("figure", { class: "card" }, element("h3", {}, label), nightsChart(values, history.nights, own, label)) : null;
    });
    const rows = history.nights.map(([id, date], night) => element(
      "tr", {}, element("td", {}, date, night === own ? " (this run)" : ""), element("td", { class: "code" }, id),
      ...history.values.map((values) => element("td", { class: "number" }, ragEval.number(values[row][night], 2))),
    )).reverse();
    return section(
      "Over nights", element("div", { class: "grid" }, ...charts.filter(Boolean)),
      element("details", {}, element("summary", {}, "As a table"), grid(["Night", "Run", ...history.measures.map(([, label]) => label)], rows, "Scores of this question over nights")),
    );
  }

  scores(question) {
    const judges = new Set(JSON.parse(this.place.dataset.judged));
    const doubted = this.place.dataset.doubt;
    const rooms = new Map();
    for (const [name, value] of question.scores) {
      const [label, meaning, room] = Object.hasOwn(this.meanings, name) ? this.meanings[name] : [name.replaceAll("_", " "), "", "Further measures"];
      const isDoubted = doubted && judges.has(name) && value !== null;
      const row = element("div", { title: meaning || null }, element("dt", {}, label), element("dd", { class: isDoubted ? "doubted" : null, title: isDoubted ? doubted : null }, ragEval.number(value, 3)));
      rooms.set(room, [...(rooms.get(room) ?? []), row]);
    }
    const costs = (question.costs ?? []).map(([label, value]) => element("div", {}, element("dt", {}, label), element("dd", {}, value)));
    const lists = [...rooms].flatMap(([room, rows]) => [element("h3", {}, room), element("dl", { class: "scores" }, ...rows)]);
    return element(
      "div", {},
      section("Time and cost", element("dl", { class: "scores" }, ...costs)),
      lists.length ? section("Scores", ...lists) : null,
    );
  }
}

// The question that an address names; one whose escapes are broken names itself.
function named(hash) {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return hash.slice(1);
  }
}

function section(title, ...children) {
  return element("section", { class: "card" }, element("h2", {}, title), ...children);
}

// A heading stands as its column does: cells of the first row say which columns are numbers.
function grid(headings, rows, caption) {
  const head = headings.map((text, place) => element("th", { scope: "col", class: rows[0]?.cells[place]?.classList.contains("number") ? "number" : null }, text));
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, element("table", {}, element("caption", { class: "unseen" }, caption), element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
}

// Scores in [0, 1] over nights; the night of this run is ringed.
function nightsChart(values, nights, own, label) {
  const [width, height, left, bottom] = [380, 120, 34, 20];
  const x = (night) => left + 8 + ((width - left - 24) * night) / Math.max(1, values.length - 1);
  const y = (value) => height - bottom - 4 - (height - bottom - 14) * value;
  const known = values.map((value, night) => [night, value]).filter(([, value]) => value !== null);
  const last = known.at(-1);
  const chart = drawing("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label} over ${nights.length} nights, last ${ragEval.number(last[1], 2)}` });
  for (const tick of [0, 0.5, 1]) {
    chart.append(drawing("path", { class: "grid", d: `M${left} ${y(tick)}H${width - 8}` }), drawing("text", { class: "tick", x: left - 6, y: y(tick) + 3.5, "text-anchor": "end" }, String(tick)));
  }
  chart.append(drawing("polyline", { class: "line s0", points: known.map(([night, value]) => `${x(night)},${y(value)}`).join(" ") }));
  for (const [night, value] of known) {
    const dot = drawing("circle", { class: "dot s0", cx: x(night), cy: y(value), r: night === own ? 4.5 : 2.4 });
    dot.append(drawing("title", {}, `${nights[night][1]}: ${ragEval.number(value, 2)}`));
    chart.append(dot);
  }
  chart.append(drawing("text", { class: "tick", x: x(0), y: height - 4 }, nights[0][1]), drawing("text", { class: "tick", x: width - 8, y: height - 4, "text-anchor": "end" }, nights.at(-1)[1]));
  return chart;
}

document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("question");
  ragEval.load("questions", place.dataset.src).then(
    (data) => new QuestionPage(place, data),
    (error) => place.replaceChildren(element("h1", {}, "Question"), element("p", {}, `It cannot be shown: ${error.message}. Write the report again: rag-eval report.`)),
  );
});
