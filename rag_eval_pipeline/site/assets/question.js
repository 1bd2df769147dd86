// The page of one question, chosen by the address's hash, laid out from the run's data files.
"use strict";

const { element, drawing, chip } = ragEval;
const HEADING_LENGTH = 300; // code points; a longer question stands below its beginning
const STATED = { support: ["supported", "supported"], partial_support: ["partly", "partly"], not_support: ["not_found", "not stated"], undecided: ["absent", "not decided"] };
const WORDS = { supported: "supported", not_found: "not found there", conflicting: "in conflict" };

class QuestionPage {
  // data: of the run's `questions`; list: of the table that leads here, whose filter Previous and Next follow.
  constructor(place, data, list) {
    this.place = place;
    this.title = document.title;
    this.outcomes = data.outcomes;
    this.isPart = data.of !== undefined;
    this.isInside = "inside" in place.dataset; // of a comparison's file, which has its questions in it
    const all = new QuestionFilter(data);
    this.ids = Array.from({ length: all.count }, (_, row) => all.key(row));
    this.chunk = Number(place.dataset.chunk);
    this.at = new Map(this.ids.map((id, index) => [id, index]));
    this.filter = list.filter;
    this.back = list.page;
    this.order = this.filter.rows().map((row) => this.filter.key(row)).filter((id) => this.at.has(id));
    this.conversations = data.conversations ?? []; // name, places of the turns
    this.names = new Map(this.ids.map((id, row) => [id, String(all.values("id")[row])]));
    this.labels = data.label ? new Labels(place.dataset, data.label, this.names) : null;
    addEventListener("hashchange", () => this.show());
    addEventListener("keydown", (event) => {
      const key = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
      // Where the arrows move a cursor or scroll, they keep doing that.
      if (!key || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest?.("input, textarea, select, .wide")) return;
      document.querySelector(`.paging [rel="${key}"]`)?.click();
    });
    this.show();
  }

  async show() {
    if (this.isInside) {
      this.filter.read(location.search);
      this.order = this.filter.rows().map((row) => this.filter.key(row));
      const isShown = this.at.has(named(location.hash));
      for (const part of this.place.parentElement.children) part.hidden = (part === this.place) !== isShown;
      if (!isShown) {
        document.title = this.title;
        document.getElementById(named(location.hash))?.scrollIntoView();
        return;
      }
    }
    const id = named(location.hash) || this.order[0] || this.ids[0];
    const index = this.at.get(id);
    if (index === undefined) {
      this.place.replaceChildren(element("h1", {}, "No such question"), element("p", {}, this.isPart ? "The report shows a part of this run's questions, without " : "This run has no question ", element("code", {}, id), this.isPart ? ". The CSV of the run has all. " : ". ", element("a", { href: "index.html" }, "All questions of this run")));
      return;
    }
    const { dataset } = this.place;
    try {
      const [found, history, meanings] = await Promise.all([
        this.details(index),
        ragEval.load("history", dataset.history).catch(() => null),
        ragEval.load("meanings", dataset.meanings).catch(() => ({})),
      ]);
      let answers = null;
      if (history?.answers) {
        const [benchmark, files] = history.answers;
        const file = `answers-${String(fileOf(id, files)).padStart(3, "0")}`;
        answers = await ragEval.load(file, `${dataset.root}nights/${benchmark}.${file}.js`).catch(() => null);
      }
      if (id !== (named(location.hash) || this.order[0] || this.ids[0])) return; // the reader has gone on
      this.meanings = meanings;
      this.draw(found, history, answers);
      // What it links is not beside the file.
      if (this.isInside) this.place.querySelectorAll('a[href]:not([href^="#"])').forEach((link) => link.replaceWith(...link.childNodes));
    } catch (error) {
      this.place.replaceChildren(element("div", { class: "question-head" }, element("h1", {}, `Question ${id}`), this.paging(id)), element("p", {}, `Its details cannot be shown: ${error.message}.${this.isInside ? "" : " Write the report again: rag-eval report."}`));
    }
  }

  async details(index) {
    const name = `details-${String(Math.floor(index / this.chunk)).padStart(3, "0")}`;
    const found = (await ragEval.load(name, `data/${name}.js`))[index % this.chunk];
    if (!found) throw new Error("they are left out, so that this file can be sent by mail. The report has them");
    return found;
  }

  draw(question, history, answers) {
    const isRefresh = this.place.childElementCount > 0;
    document.title = `Question ${question.name} · ${this.place.dataset.title}`;
    const letters = Array.from(question.question);
    const isLong = letters.length > HEADING_LENGTH;
    const heading = element("h1", { tabindex: "-1" }, element("bdi", {}, isLong ? `${letters.slice(0, HEADING_LENGTH - 1).join("")}…` : question.question));
    const found = answers?.questions[question.id];
    const others = found && found.text === question.text_id ? { ...answers, of: found.systems } : null;
    this.place.replaceChildren(
      element("div", { class: "question-head" }, heading, this.paging(question.id)),
      element(
        "p", { class: "lead" }, this.outcome(question.outcome),
        ` Question ${question.name}`, ...(question.facts ?? []).map(([label, value]) => ` · ${label}: ${value}`),
      ),
      ...[
        isLong ? section("The whole question", element("p", { class: "text" }, question.question)) : null,
        this.conversation(question),
        question.error ? element("div", { class: "notice bad" }, element("p", {}, question.error)) : null,
        this.answers(question), this.goldFacts(question), this.labels?.form(question), ...this.evidence(question), this.systems(others, question), this.overNights(others, question), this.history(question, history), this.scores(question), this.record(question),
      ].filter(Boolean),
    );
    if (isRefresh && this.wasShown) {
      heading.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    this.wasShown = true;
  }

  // What was said before the question.
  conversation(question) {
    const found = this.conversationOf(question.id);
    if (!found && !question.history?.length) return null;
    const [name, turns] = found ?? [];
    const place = found ? [`Turn ${turns.indexOf(this.at.get(question.id)) + 1} of ${turns.length}: `, element("a", { href: `conversation.html#${encodeURIComponent(question.id)}` }, `the conversation ${name}`)] : [];
    return section("The conversation before", element("p", { class: "quiet" }, ...place), this.messages(question) ?? element("p", { class: "nothing" }, "Nothing was sent before it."));
  }

  messages(question) {
    const rows = (question.history ?? []).map(([role, text]) => element("tr", {}, element("th", { scope: "row" }, role), element("td", { class: "text" }, text)));
    return rows.length ? element("table", { class: "messages" }, element("tbody", {}, ...rows)) : null;
  }

  conversationOf(id) {
    return this.conversations.find(([, turns]) => turns.includes(this.at.get(id)));
  }

  // What the answer should state, and whether it does.
  goldFacts(question) {
    const facts = question.judged_facts ?? [];
    if (!facts.length) return null;
    const decided = facts.filter((fact) => fact.outcome !== "undecided");
    const vital = decided.filter((fact) => fact.is_vital);
    const [kind, of] = vital.length ? ["vital ", vital] : ["", decided];
    const counted = `${of.filter((fact) => fact.outcome === "support").length} of ${ragEval.counted(of.length, `${kind}fact`)}`;
    const left = facts.length - decided.length;
    const isDoubted = this.place.dataset.doubt && JSON.parse(this.place.dataset.judged).includes("strict_vital_score");
    const rows = facts.map((fact) => element(
      "tr", {}, element("td", {}, fact.is_vital ? "vital" : "okay"), element("td", { class: "text" }, fact.text),
      element("td", {}, chip(isDoubted ? "doubted" : STATED[fact.outcome][0], STATED[fact.outcome][1]), " ", element("span", { class: "quiet" }, fact.reason ?? "")),
      element("td", { class: "text" }, (fact.sentences ?? []).join(" … ") || "–"),
    ));
    const note = left ? element("p", {}, `${left} not decided by the judge, and left out of the count.`) : null;
    return section(`Gold facts: ${counted}`, ...[note, isDoubted ? this.doubt() : null].filter(Boolean), grid(["Importance", "Fact", "Stated", "In the answer"], rows, "Gold facts and whether the answer states them"));
  }

  outcome(word) {
    return chip(word, this.outcomes.find(([name]) => name === word)?.[1]);
  }

  // Previous and Next go through the list as it was filtered and sorted; outside of it, through all questions.
  paging(id) {
    let list = this.order;
    let index = list.indexOf(id);
    if (index < 0) {
      list = this.ids;
      index = list.indexOf(id);
    }
    const link = (label, place, key) => (list[place] === undefined
      ? element("a", { class: "action", "aria-disabled": "true", role: "link" }, label)
      : element("a", { class: "action", href: `#${encodeURIComponent(list[place])}`, rel: key }, label));
    const query = this.filter.write();
    const isFiltered = list === this.order && this.order.length < this.ids.length;
    const where = `${(index + 1).toLocaleString("en")} of ${list.length.toLocaleString("en")}${isFiltered ? " in the list" : ""}`;
    const back = element("a", { href: this.back ? `${this.back}${query ? `?${query}` : ""}#questions` : "#questions" }, where);
    return element("nav", { class: "paging", "aria-label": "Questions" }, link("← Previous", index - 1, "prev"), link("Next →", index + 1, "next"), back, this.isInside ? null : this.copying(id));
  }

  // The address with the list and the question in it.
  copying(id) {
    const status = element("span", { role: "status", class: "quiet" });
    const button = element("button", { type: "button", class: "action" }, "Copy link");
    button.addEventListener("click", () => {
      const address = element("input", { value: Object.assign(new URL(location.href), { hash: encodeURIComponent(id) }).href, readonly: true, "aria-label": "Address" });
      button.after(address);
      address.select();
      const isCopied = document.execCommand("copy"); // the newer way is refused to pages that were opened from a file
      if (isCopied) address.remove();
      button.focus();
      status.textContent = isCopied ? "Copied" : "";
    });
    return element("span", {}, button, " ", status);
  }

  // What the run keeps of the reply; the body itself is not kept.
  record(question) {
    const text = (question.answer ?? []).map(([words]) => words).join("");
    const kept = { answer: text || null, raw: question.raw, partial: question.partial, error: question.error, contexts: question.passages ?? [], citations: question.citations ?? [], ...question.record };
    return element(
      "details", { class: "card" }, element("summary", {}, "The stored reply"),
      element("p", { class: "quiet" }, "The run keeps what the reply was read as, and the body only as its SHA-256. Long texts are cut here; ", element("code", {}, `data/evaluation/runs/${this.place.dataset.run}/responses.parquet`), " has them whole."),
      element("pre", { class: "code text" }, JSON.stringify(kept, (name, value) => (["support", "is_relevant", "is_gold"].includes(name) ? undefined : value), 2)),
    );
  }

  // Gold answer, the answer before and the present one beside each other; changed words are marked in both.
  answers(question) {
    const gold = question.judged_facts?.length && !question.gold?.length
      ? element("p", {}, "The gold facts below.")
      : question.gold?.length
      ? element("ul", { class: "plain" }, ...question.gold.map((text) => element("li", { class: "text" }, text)))
      : element("p", { class: "nothing" }, question.is_impossible ? "None: the documents do not answer this question." : "Not known: the dataset has changed since.");
    const { earlier } = question;
    const parts = [section("Gold answer", gold)];
    if (earlier) {
      const name = { "the baseline": "Baseline answer", "the night before": "Answer of the night before" }[earlier.label] ?? "Answer before";
      const run = element("a", { href: `../${earlier.run}/question.html#${encodeURIComponent(question.id)}` }, earlier.date);
      parts.push(section(name, this.scored(earlier.outcome, earlier.f1, run), this.answer(earlier.answer, [], "missing")));
    }
    const f1 = new Map(question.scores).get("f1");
    const present = section(earlier ? "Present answer" : "Answer", earlier ? this.scored(question.outcome, f1, this.place.dataset.night) : null, this.answer(question.answer, question.claims ?? [], "extra", true));
    if (earlier?.is_same) present.append(element("p", { class: "quiet" }, "The same words as before."));
    const isMarked = (question.answer ?? []).some((part) => part[2].length);
    const written = question.raw || (isMarked ? question.answer.map(([text]) => text).join("") : "");
    if (written) present.append(element("details", {}, element("summary", {}, "As the system wrote it"), element("p", { class: "text code" }, written)));
    parts.push(present);
    if (question.partial) parts.push(section("What had arrived", element("p", { class: "text" }, question.partial)));
    const outer = element("div", {}, element("div", { class: "pair answers" }, ...parts));
    const has = (list, changed) => (list ?? []).some((part) => part[3] === changed);
    const legend = [];
    if (earlier && has(earlier.answer, true)) legend.push(element("del", { class: "missing" }, "no longer said"));
    if (earlier && has(question.answer, true)) legend.push(element("ins", { class: "extra" }, "not said before"));
    if (legend.length) outer.append(element("p", { class: "quiet legend" }, ...legend.flatMap((one, place) => (place ? [" ", one] : [one]))));
    const stretches = question.difference ?? [];
    if (stretches.some(([part]) => part !== "same")) {
      const tags = { same: "span", missing: "del", extra: "ins" };
      const text = element("p", { class: "text" }, ...stretches.map(([part, words]) => element(tags[part], { class: part }, words)));
      const keys = [];
      if (stretches.some(([part]) => part === "missing")) keys.push(element("del", { class: "missing" }, "missing in the answer"), " ");
      if (stretches.some(([part]) => part === "extra")) keys.push(element("ins", { class: "extra" }, "not in the gold answer"), " ");
      outer.append(element("details", { class: "card" }, element("summary", {}, "Difference from the nearest gold answer"), text, element("p", { class: "quiet" }, ...keys, "Words are compared as in SQuAD.")));
    }
    return outer;
  }

  scored(outcome, f1, where) {
    return element("p", { class: "scored" }, this.outcome(outcome), element("span", { class: "quiet" }, f1 === null || f1 === undefined ? null : `F1 ${ragEval.number(f1, 2)}`, where ? " · " : null, where));
  }

  // parts: [text, number of the claim, numbers of the citations that it marks, whether the other answer lacks it].
  answer(parts, claims, changed, isPresent = false) {
    if (!parts?.length) return element("p", { class: "nothing" }, "No answer.");
    const text = element("p", { class: "text" });
    let [last, marks] = [0, 0];
    for (const [words, number, cited, isChanged] of parts) {
      const claim = number ? claims[number - 1] : null;
      if (last && number !== last) text.append(element("sup", {}, String(last)));
      last = number;
      let inner = words;
      if (cited.length) inner = element("span", { class: "cites", title: words }, ...(isPresent ? cited.map((n) => this.citation(n, words)) : [`[${marks += 1}]`]));
      else if (isChanged) inner = element(changed === "missing" ? "del" : "ins", { class: changed }, words);
      const outcome = (claim?.by_citations ?? claim?.by_contexts)?.outcome;
      text.append(claim ? element("mark", { class: outcome ?? "none", title: `Claim ${number}: ${WORDS[outcome] ?? "nothing to support it"}` }, inner) : inner);
    }
    if (last) text.append(element("sup", {}, String(last)));
    return text;
  }

  // A number that leads to the page with the cited text framed, else to its row; its title is what the system wrote.
  citation(number, words) {
    if (!number) return element("span", { class: "cite", title: `${words}: no such place` }, "[?]");
    const link = element("a", { class: "cite", href: location.hash || "#", title: words, "aria-label": `Citation ${number}` }, `[${number}]`);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const target = document.querySelector(`[data-cites~="${number}"]`) ?? document.getElementById(`citation-${number}`);
      target?.scrollIntoView({ block: "center" });
      target?.focus({ preventScroll: true });
    });
    return link;
  }

  claims(question) {
    const notes = [];
    if (question.judgement) {
      const [verdict, reason] = question.judgement;
      notes.push(element("p", {}, "The judge finds the answer ", this.judged(verdict), reason ? ` ${reason}` : ""));
    }
    if (!question.claims?.length) return notes.length ? untilLabelled(section("The judge", ...notes, this.doubt())) : null;
    const support = (found) => (found ? element("td", {}, this.judged(found.outcome, WORDS[found.outcome]), " ", element("span", { class: "quiet" }, found.reason ?? "")) : element("td", { class: "absent" }, "–"));
    const rows = question.claims.map((claim, index) => element(
      "tr", {}, element("td", { class: "number" }, String(index + 1)), element("td", { class: "text" }, claim.text),
      element("td", {}, claim.citations.map((n) => `[${n}]`).join(" ") || "none"), support(claim.by_citations), support(claim.by_contexts),
    ));
    return untilLabelled(section("Claims and their support", ...notes, this.doubt(), grid(["#", "Claim", "Citations", "By what it cites", "By what was retrieved"], rows, "Claims of the answer")));
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
      "tr", { id: `citation-${index + 1}`, tabindex: "-1" }, element("td", { class: "number" }, `[${index + 1}]`), element("td", { class: "code" }, one.document),
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
      question.n_citations > rows.length ? element("p", { class: "quiet" }, `Only the first ${rows.length} of ${question.n_citations} are shown.`) : null,
      gold.length ? element("details", {}, element("summary", {}, `Expected citations (${gold.length})`), grid(["Document", "Page", "Span", "Gold text"], gold, "Expected citations")) : null,
    );
  }

  // The pages, citations, claims and passages; a single page has the passages beside it.
  evidence(question) {
    const [pages, passages] = [this.pictures(question), this.passages(question)];
    const others = [this.citations(question), this.claims(question)];
    if (question.pictures?.length !== 1) return [pages, ...others, passages];
    return [element("div", { class: "pair uneven one-page" }, pages, passages), ...others];
  }

  pictures(question) {
    if (!question.pictures?.length) {
      const [why, command] = this.place.dataset.unpictured.split("`");
      return why ? section("In the documents", element("p", { class: "nothing" }, why, command ? element("code", {}, `${command} ${question.name}`) : null)) : null;
    }
    const sheets = question.pictures.map(([document, page, src, width, height, gold, cited, nearest, retrieved]) => {
      const box = (css) => ([x, y, w, h]) => drawing("rect", { class: css, x, y, width: w, height: h, rx: 1 });
      const numbers = (question.citations ?? []).flatMap((one, index) => (cited.length && one.page === page && (one.file ?? one.document) === document ? [index + 1] : []));
      const ranks = [...new Set(retrieved.map(([rank]) => rank))];
      const kinds = [
        ["gold", gold, "gold"], ["nearest", nearest, "nearest sentence, not stated by the benchmark"],
        ["cited", cited, ["cited", ...numbers.map((n) => `[${n}]`)].join(" ")], ["retrieved", ranks, `retrieved (rank ${ranks.join(", ")})`],
      ].filter(([, found]) => found.length);
      const marks = drawing(
        "svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...gold.map(box("gold")), ...nearest.map(box("nearest")), ...cited.map(box("cited")),
        ...retrieved.flatMap(([rank, around]) => [box("retrieved")(around), drawing("text", { x: around[0] - 5, y: around[1] + 12, "text-anchor": "end" }, String(rank))]),
      );
      const what = kinds.map(([kind, , words]) => ({ gold: "gold text filled", cited: "cited text framed" })[kind] ?? `${words} framed`).join(", ") || "without marks";
      const image = element("img", { src: ragEval.values.get("pictures")?.[src] ?? this.place.dataset.root + src, width, height, loading: "lazy", alt: `Page ${page} of ${document}, ${what}` });
      const keys = kinds.map(([kind, , words]) => element("span", { class: "key" }, element("span", { class: `swatch ${kind}` }), words));
      return element(
        "figure", { "data-cites": numbers.join(" ") || null, tabindex: "-1" }, element("div", { class: "sheet" }, image, marks),
        element("figcaption", {}, element("span", { class: "code" }, document), `, page ${page}: `, ...(keys.length ? keys : ["the expected document; no sentence of it is near the gold answer"])),
      );
    });
    return section("In the documents", element("div", { class: "grid" }, ...sheets));
  }

  passages(question) {
    const passages = question.passages ?? [];
    const unnamed = question.n_missed - (question.missed?.length ?? 0);
    const missed = question.missed?.length
      ? element("p", {}, element("strong", {}, "Relevant, but not retrieved: "), ...question.missed.flatMap((name, index) => [index ? ", " : "", element("span", { class: "code" }, name)]), unnamed > 0 ? ` and ${unnamed} more` : "")
      : null;
    if (!passages.length) return section("Retrieved", element("p", { class: "nothing" }, "The reply states no passages."), missed);
    const items = passages.map((one) => element(
      "li", { class: one.is_relevant ? "is-relevant" : null },
      element(
        "header", {}, element("span", { class: "rank" }, `${one.rank}.`), element("span", { class: "name" }, one.document),
        one.page ? element("span", { class: "quiet" }, `page ${one.page}`) : null, one.score === undefined || one.score === null ? null : element("span", { class: "quiet" }, `score ${one.score.toPrecision(4)}`),
        one.is_relevant ? chip("gold", "relevant") : null, one.is_gold ? chip("gold", "has gold text") : null,
      ),
      one.text ? element("p", { class: "text" }, one.text) : null,
    ));
    const more = question.n_passages > passages.length ? element("p", { class: "quiet" }, `Only the first ${passages.length} of ${question.n_passages} are shown.`) : null;
    return section("Retrieved", missed, element("ol", { class: "passages" }, ...items), more);
  }

  // This question as the newest night of each system answered it.
  systems(answers, question) {
    const names = answers ? Object.keys(answers.of) : [];
    if (names.length < 2) return null;
    const rows = names.map((name) => {
      const { scores, answers: given } = answers.of[name];
      const { run, nights } = answers.systems[name];
      const newest = nights.findIndex(([id]) => id === run);
      const [text, outcome] = given.find(([, , places]) => places.includes(newest)) ?? [null, null];
      const isThis = run === this.place.dataset.run;
      return element(
        "tr", { class: isThis ? "this" : null },
        element("th", { scope: "row" }, isThis ? `${name} (this run)` : element("a", { href: `../${run}/question.html#${encodeURIComponent(question.id)}` }, name)),
        element("td", {}, outcome ? this.outcome(outcome) : "–"), element("td", { class: "text" }, text ?? "–"),
        ...scores.map((value) => element("td", { class: "number" }, ragEval.number(value, 2))),
      );
    });
    return section("All systems, newest night", grid(["System", "Outcome", "Answer", "F1", "nDCG@10", "Citation overlap"], rows, "This question, all systems"));
  }

  // The distinct answers of this system, and when it gave them.
  overNights(answers, question) {
    const own = answers?.of[this.place.dataset.system];
    if (!own) return null;
    const { nights } = answers.systems[this.place.dataset.system];
    if (nights.length < 2) return null;
    const night = (place) => {
      const [run, date, note, hasPage] = nights[place];
      const said = `${date.slice(5)}${note ? ` (${note})` : ""}`;
      if (run === this.place.dataset.run) return element("strong", {}, said, " (this run)");
      return hasPage ? element("a", { href: `../${run}/question.html#${encodeURIComponent(question.id)}`, title: run }, said) : element("span", { title: run }, said);
    };
    const rows = own.answers.map(([text, outcome, places]) => element(
      "tr", {}, element("td", {}, this.outcome(outcome)), element("td", { class: "text" }, text ?? "–"),
      element("td", { class: "number" }, String(places.length)), element("td", { class: "nights" }, ...places.flatMap((place, index) => [index ? ", " : "", night(place)])),
    ));
    const distinct = rows.length === 1 ? "The same answer on every night." : `${rows.length} different answers in ${nights.length} runs.`;
    return section("Answers over nights", element("p", { class: "quiet" }, distinct), grid(["Outcome", "Answer", "Runs", "Nights"], rows, "Answers over nights"));
  }

  history(question, history) {
    const row = history ? history.ids.indexOf(question.id) : -1;
    if (row < 0 || history.nights.length < 2) return null;
    const own = history.nights.findIndex(([id]) => id === this.place.dataset.run);
    const measures = history.measures.map(([, label], number) => ({ label, values: history.values[number][row] })).filter(({ values }) => values.some((value) => value !== null));
    if (!measures.length) return null;
    const charts = measures.map(({ label, values }) => element("figure", { class: "card" }, element("h3", {}, label), nightsChart(values, history.nights, own, label)));
    const rows = history.nights.map(([id, date], night) => element(
      "tr", {}, element("td", {}, date, night === own ? " (this run)" : ""), element("td", { class: "code" }, id),
      ...measures.map(({ values }) => element("td", { class: "number" }, ragEval.number(values[night], 2))),
    )).reverse();
    const table = grid(["Night", "Run", ...measures.map(({ label }) => label)], rows, "Scores of this question over nights");
    if (charts.length === 1) return section("Over nights", element("div", { class: "pair" }, charts[0], table));
    return section("Over nights", element("div", { class: "grid" }, ...charts), element("details", {}, element("summary", {}, "As a table"), table));
  }

  // The scores that are shown first, of those that a question has.
  shownScores(question) {
    const values = new Map(question.scores);
    return JSON.parse(this.place.dataset.first).filter((name) => values.get(name) !== null && values.get(name) !== undefined);
  }

  about(name) {
    return Object.hasOwn(this.meanings, name) ? this.meanings[name] : [name.replaceAll("_", " "), "", "Further measures"];
  }

  scores(question) {
    const judges = new Set(JSON.parse(this.place.dataset.judged));
    const doubted = this.place.dataset.doubt;
    const values = new Map(question.scores);
    const row = (name) => {
      const value = values.get(name);
      const isDoubted = doubted && judges.has(name) && value !== null;
      const [label, meaning] = this.about(name);
      return element("div", { class: judges.has(name) ? "judge" : null, title: meaning || null }, element("dt", {}, label), element("dd", { class: isDoubted ? "doubted" : null, title: isDoubted ? doubted : null }, ragEval.number(value, 3)));
    };
    const groups = new Map();
    for (const name of values.keys()) {
      const heading = this.about(name)[2];
      groups.set(heading, [...(groups.get(heading) ?? []), row(name)]);
    }
    const lists = [...groups].flatMap(([heading, rows]) => [element("h3", {}, heading), element("dl", { class: "scores" }, ...rows)]);
    const costs = (question.costs ?? []).map(([label, value]) => element("div", {}, element("dt", {}, label), element("dd", {}, value)));
    return element(
      "div", {},
      lists.length ? section("Scores", element("dl", { class: "scores" }, ...this.shownScores(question).map(row)), element("details", {}, element("summary", {}, `All ${values.size} scores`), ...lists)) : null,
      section("Time and cost", element("dl", { class: "scores" }, ...costs)),
    );
  }
}

// All turns of the conversation of the question in the address, one below the other.
class ConversationPage extends QuestionPage {
  async show() {
    const { dataset } = this.place;
    const id = named(location.hash) || this.ids[this.conversations[0][1][0]];
    const found = this.conversationOf(id);
    if (!found) {
      this.place.replaceChildren(element("h1", {}, "No such conversation"), element("p", {}, "This run has no turn ", element("code", {}, id), ". ", element("a", { href: "index.html" }, "All questions of this run")));
      return;
    }
    const [name, turns] = found;
    try {
      this.meanings = await ragEval.load("meanings", dataset.meanings).catch(() => ({}));
      const questions = await Promise.all(turns.map((turn) => this.details(turn)));
      document.title = `Conversation ${name} · ${this.title}`;
      const said = { own: "the system's own answers", gold: "the benchmark's gold answers" }[dataset.asked];
      this.place.replaceChildren(
        element("div", { class: "question-head" }, element("h1", { tabindex: "-1" }, `Conversation ${name}`), this.paging(found)),
        element("p", { class: "lead" }, `${ragEval.counted(turns.length, "turn")}, each asked with ${said} to the turns before it.`),
        this.summary(questions),
        ...questions.map((question, place) => this.turn(question, place)),
      );
      document.getElementById(`turn-${turns.indexOf(this.at.get(id))}`)?.scrollIntoView({ block: turns.indexOf(this.at.get(id)) ? "start" : "nearest" });
    } catch (error) {
      this.place.replaceChildren(element("h1", {}, `Conversation ${name}`), element("p", {}, `Its turns cannot be shown: ${error.message}. Write the report again: rag-eval report.`));
    }
  }

  paging(found) {
    const at = this.conversations.indexOf(found);
    const link = (label, place, key) => (this.conversations[place]
      ? element("a", { class: "action", href: `#${encodeURIComponent(this.ids[this.conversations[place][1][0]])}`, rel: key }, label)
      : element("a", { class: "action", "aria-disabled": "true", role: "link" }, label));
    const where = `${(at + 1).toLocaleString("en")} of ${this.conversations.length.toLocaleString("en")}`;
    return element("nav", { class: "paging", "aria-label": "Conversations" }, link("← Previous", at - 1, "prev"), link("Next →", at + 1, "next"), element("a", { href: "index.html#questions" }, where));
  }

  // The scores of each turn.
  summary(questions) {
    const names = JSON.parse(this.place.dataset.first).filter((name) => questions.some((question) => this.shownScores(question).includes(name)));
    const rows = questions.map((question, place) => {
      const values = new Map(question.scores);
      return element(
        "tr", {}, element("td", { class: "number" }, String(place + 1)), element("td", { class: "text" }, element("a", { href: `#${encodeURIComponent(question.id)}` }, question.question)), element("td", {}, this.outcome(question.outcome)),
        ...names.map((name) => element("td", { class: "number" }, ragEval.number(values.get(name) ?? null, 2))),
      );
    });
    return section("Turns", grid(["Turn", "Question", "Outcome", ...names.map((name) => this.about(name)[0])], rows, "Scores by turn"));
  }

  turn(question, place) {
    const before = this.messages(question);
    return element(
      "div", { class: "turn", id: `turn-${place}` },
      element("h2", { class: "text" }, `${place + 1}. ${question.question}`),
      element("p", { class: "lead" }, this.outcome(question.outcome), " ", element("a", { href: `question.html#${encodeURIComponent(question.id)}` }, `Question ${question.name}`)),
      ...[
        question.error ? element("div", { class: "notice bad" }, element("p", {}, question.error)) : null,
        this.answers(question),
        before ? element("details", { class: "card" }, element("summary", {}, `${ragEval.counted(question.history.length, "message")} before it`), before) : null,
      ].filter(Boolean),
    );
  }

  citation(number, words) {
    return element("span", { class: "cite", title: words }, `[${number || "?"}]`);
  }
}

// The number of the file that has a question; `answers.py` counts alike.
function fileOf(id, files) {
  let value = 0;
  for (const byte of new TextEncoder().encode(id)) value = (Math.imul(value, 31) + byte) >>> 0;
  return value % files;
}

// The question that an address names; one whose escapes are broken names itself.
function named(hash) {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return hash.slice(1);
  }
}

// What somebody who labels should not read beforehand.
function untilLabelled(part) {
  part.classList.add("judge");
  return part;
}

function section(title, ...children) {
  return element("section", { class: "card" }, element("h2", {}, title), ...children);
}

// A heading is aligned as its column is. On a narrow screen a row is a block, in which short cells have their headings.
function grid(headings, rows, caption) {
  const isNumber = (place) => rows[0]?.cells[place]?.classList.contains("number");
  const head = headings.map((text, place) => element("th", { scope: "col", class: isNumber(place) ? "number" : null }, text));
  for (const row of rows) {
    headings.forEach((text, place) => {
      const cell = row.cells[place];
      if (cell.tagName === "TD" && text !== "#" && !cell.matches(".text, .nights") && !cell.querySelector(".chip")) cell.dataset.of = text;
    });
  }
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, element("table", { class: "stacked" }, element("caption", { class: "unseen" }, caption), element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
}

// Scores in [0, 1] over nights; the night of this run is ringed.
function nightsChart(values, nights, own, label) {
  const [width, height, left, bottom] = [380, 120, 34, 20];
  const x = (night) => left + 8 + ((width - left - 24) * night) / Math.max(1, values.length - 1);
  const y = (value) => height - bottom - 4 - (height - bottom - 14) * value;
  const known = values.map((value, night) => [night, value]).filter(([, value]) => value !== null);
  const last = known.at(-1);
  const chart = drawing("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label} over ${ragEval.counted(nights.length, "night")}, last ${ragEval.number(last[1], 2)}` });
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

// The table that leads here: that of a comparison if the address names one, else the run's.
async function listOf(place, data) {
  const filtered = async (of, page, folder) => {
    const filter = new QuestionFilter(of, folder);
    filter.read(location.search);
    await filter.load();
    return { filter, page };
  };
  if ("inside" in place.dataset) return filtered(data, "");
  const name = new URLSearchParams(location.search).get("list") ?? "";
  if (/^[\w-]+(\.[\w-]+)*$/.test(name)) {
    const page = `${place.dataset.root}comparisons/${name}`;
    const found = await ragEval.load("comparison", `${page}.js`).catch(() => null);
    if (found) return filtered(found, `${page}.html`, `${place.dataset.root}comparisons/`);
  }
  return filtered(data, "index.html");
}

document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("question");
  ragEval.load("questions", place.dataset.src).then(
    async (data) => new (place.dataset.kind === "conversation" ? ConversationPage : QuestionPage)(place, data, await listOf(place, data)),
    (error) => place.replaceChildren(element("h1", {}, "Question"), element("p", {}, `It cannot be shown: ${error.message}. Write the report again: rag-eval report.`)),
  );
});
