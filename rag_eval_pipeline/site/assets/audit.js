// The page of an audit: findings, decisions on the questions that they name, and the audit.yaml that results. The file is
// copied, downloaded, or saved in the workspace where `rag-eval up` serves this page on this machine.
"use strict";

const { element, chip } = ragEval;
const SHORT = 240; // characters of an answer; a longer one is folded
const CHOICES = [["keep", "Keep"], ["fix", "Fix"], ["drop", "Drop"]];
const SUGGESTED = "suggested"; // the kind of questions from production, which are in no source
const DRAFT_CHOICES = [["add", "Take"], ["drop", "Drop"]];
const SEVERITIES = ["wrong", "doubtful", "note"];
const DONE = { keep: "kept", fix: "fixed", drop: "dropped", add: "taken" };

// Text from data as people see it: signs that control or reorder it are shown by a sign of their own.
const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\u2426");
// A text in YAML: JSON's, with escapes for what YAML does not print or takes for a line end.
const quoted = (text) => JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);

// A sentence with its code in backticks.
const coded = (text) => visible(text).split("`").map((part, place) => (place % 2 ? element("code", {}, part) : part));
// A text with its label, folded if it is long.
const folded = (label, text) => (text.length <= SHORT
  ? element("p", { class: "text" }, `${label}: ${text}`)
  : element("details", {}, element("summary", { class: "text" }, `${label}: ${text.slice(0, SHORT).replaceAll("\n", " ")}…`), element("p", { class: "text" }, text)));

class AuditPage {
  // data: {findings, questions}; base: {decisions, sha256} of the file; isServed: whether it can be saved.
  constructor(place, data, base, isServed) {
    Object.assign(this, { place, data, base, isServed, by: ragEval.stored("rag-eval annotator") ?? "", draws: new Map(), texts: new Map() });
    const { benchmark } = place.dataset;
    this.key = `rag-eval audit ${benchmark}`;
    const draft = ragEval.stored(this.key);
    this.decisions = structuredClone(draft?.of === base.sha256 ? draft.decisions : base.decisions);
    for (const one of Object.values(data.questions)) this.texts.set(one.question, [...(this.texts.get(one.question) ?? []), one.id]);
    this.list = element("div", {});
    this.yaml = element("textarea", { readonly: true, spellcheck: "false", class: "code", "aria-label": "audit.yaml" });
    this.status = element("p", { role: "status", class: "quiet" });
    this.save = isServed ? this.button("Save audit.yaml", () => this.write()) : null;
    const copy = this.button("Copy", () => {
      this.yaml.select();
      document.execCommand("copy"); // the newer way is refused to pages that were opened from a file
    });
    const name = element("input", { type: "text", autocomplete: "off", value: this.by });
    name.addEventListener("input", () => {
      this.by = name.value.trim();
      ragEval.store("rag-eval annotator", this.by);
    });
    const parts = [
      element("div", { class: "controls" }, element("label", {}, "Your name, written with your decisions", name)),
      ...data.findings.map((one) => this.finding(one)),
      data.findings.length ? null : element("p", { class: "nothing" }, "Nothing was found."),
      element("h2", { id: "decisions" }, "Decisions"), this.list,
      element("div", { class: "controls" }, this.save, copy, this.button("Download audit.yaml", () => ragEval.download("audit.yaml", "application/yaml", this.text()))),
      this.status, element("details", { open: true }, element("summary", {}, "audit.yaml"), this.yaml),
      element("p", { class: "quiet" }, "Then: raise ", element("code", {}, "version"), " in ", element("code", {}, `data/sources/${benchmark}/benchmark.yaml`), " if a question is fixed, dropped or taken, and ", element("code", {}, `rag-eval convert ${benchmark}`), "."),
    ];
    place.replaceChildren(...parts.filter(Boolean));
    this.changed();
  }

  button(words, act) {
    const made = element("button", { type: "button", class: "action" }, words);
    made.addEventListener("click", act);
    return made;
  }

  // The decision on a question, of keeps that on this kind of finding: that with its text, of several that with its id.
  choice(question, kind) {
    const isIts = (one) => one.question === question.question && (one.id === question.id || !this.texts.get(question.question).includes(one.id));
    return this.decisions.find((one) => isIts(one) && (one.decision !== "keep" || one.finding === kind));
  }

  finding(one) {
    const title = [chip(one.severity), " ", ...coded(one.text), " ", element("span", { class: "quiet" }, ragEval.counted(one.count, one.suspects.length ? "question" : "document"))];
    const items = element("ul", { class: "passages" });
    const cut = one.suspects.length && one.count > one.suspects.length ? element("p", { class: "quiet" }, `The first ${one.suspects.length} of them; `, element("code", {}, `rag-eval audit ${this.place.dataset.benchmark}`), " lists all.") : null;
    const documents = one.documents.length ? element("p", {}, ...one.documents.flatMap((name, place) => [place ? ", " : "", element("code", {}, visible(name))]), one.suspects.length || one.count <= one.documents.length ? "" : ", …") : null;
    const made = element("details", { class: "card finding" }, element("summary", {}, ...title), ...[element("p", {}, ...coded(one.remedy)), documents, items, cut].filter(Boolean));
    made.addEventListener("toggle", () => {
      if (!items.childElementCount) items.append(...one.suspects.map((suspect) => this.suspect(one, suspect)));
    });
    made.open = one.severity === "wrong";
    return made;
  }

  suspect(finding, [id, where, evidence, proposed]) {
    const question = this.data.questions[id];
    const { pages } = this.place.dataset;
    const item = element("li", {});
    const draw = () => {
      const decision = this.choice(question, finding.kind);
      const isDraft = finding.kind === SUGGESTED;
      const gold = question.unanswerable ? "none: the documents do not answer it" : question.answers.map(visible).join(" · ") || "none";
      const buttons = (isDraft ? DRAFT_CHOICES : CHOICES).map(([choice, words]) => {
        const made = this.button(words, () => this.decide(question, finding, decision?.decision === choice ? null : choice, proposed));
        made.setAttribute("aria-pressed", String(decision?.decision === choice));
        return made;
      });
      item.replaceChildren(
        element("header", {}, pages && !isDraft ? element("a", { href: `${pages}#${encodeURIComponent(id)}` }, visible(question.id)) : element("span", {}, visible(question.id)), where === String(id) ? null : element("span", { class: "quiet" }, visible(where)), decision ? chip(decision.decision, DONE[decision.decision]) : null),
        element("p", { class: "asked" }, element("bdi", {}, visible(question.question))),
        element("p", { class: "text" }, evidence),
        isDraft ? folded("The system in production answered (not gold)", visible(question.system_answer ?? "") || "nothing") : folded("Answer", gold),
        ...(proposed.length ? [folded("Proposed", proposed.map(visible).join(" · "))] : []),
        element("div", { class: "controls" }, element("div", { class: "chips", role: "group", "aria-label": `Decision on question ${question.id}` }, ...buttons), decision ? this.reason(decision) : null),
        ...(["fix", "add"].includes(decision?.decision) ? [this.answers(decision)] : []),
      );
    };
    this.draws.set(question, [...(this.draws.get(question) ?? []), draw]);
    draw();
    return item;
  }

  reason(decision) {
    const input = element("input", { type: "text", autocomplete: "off", value: decision.reason ?? "", class: "why" });
    input.addEventListener("input", () => {
      decision.reason = input.value.trim();
      this.changed();
    });
    return element("label", { class: "grow" }, "Reason", input);
  }

  // A box for each accepted answer, the answer first; empty ones do not count.
  answers(decision) {
    const boxes = element("div", { class: "boxes" });
    const none = element("input", { type: "checkbox" });
    none.checked = Boolean(decision.unanswerable);
    const read = () => {
      boxes.hidden = another.hidden = decision.unanswerable = none.checked;
      decision.answers = none.checked ? undefined : [...boxes.children].map((box) => box.value).filter((text) => text.trim());
      this.changed();
    };
    const add = (text) => {
      const box = element("textarea", { rows: Math.min(6, 1 + Math.floor(text.length / 80)), placeholder: "Accepted answer", "aria-label": "Accepted answer" });
      box.value = text;
      box.addEventListener("input", read);
      boxes.append(box);
      return box;
    };
    const another = this.button("Another accepted answer", () => add("").focus());
    (decision.answers?.length ? decision.answers : [""]).forEach(add);
    none.addEventListener("change", read);
    boxes.hidden = another.hidden = none.checked;
    const tick = element("label", { class: "tick" }, none, "The documents do not answer it");
    return element("div", { class: "fix" }, boxes, element("div", { class: "controls" }, another, tick));
  }

  decide(question, finding, choice, proposed) {
    const present = this.choice(question, finding.kind);
    // A question is dropped, fixed, or kept for some findings.
    const isAbout = (one) => one.question === question.question && one.id === question.id && (choice !== "keep" || one.decision !== "keep");
    this.decisions = this.decisions.filter((one) => one !== present && !(choice && isAbout(one)));
    if (choice) {
      const answers = !["fix", "add"].includes(choice) ? undefined : proposed.length ? [...proposed] : [...question.answers];
      this.decisions.push({ id: question.id, question: question.question, decision: choice, answers, finding: finding.kind, by: this.by, on: new Date().toISOString().slice(0, 10) });
    }
    this.redraw();
  }

  redraw() {
    for (const draws of this.draws.values()) draws.forEach((draw) => draw());
    this.changed();
  }

  text(decisions = this.decisions) {
    const lines = decisions.map((one) => {
      const fields = [["id", quoted(one.id)], ["question", quoted(one.question)], ["decision", one.decision]];
      if (one.answers?.length) fields.push(["answers", `[${one.answers.map(quoted).join(", ")}]`]);
      if (one.unanswerable) fields.push(["unanswerable", "true"]);
      if (one.documents?.length) fields.push(["documents", `[${one.documents.map(quoted).join(", ")}]`]);
      for (const name of ["finding", "reason", "by"]) if (one[name]) fields.push([name, quoted(one[name])]);
      if (one.on) fields.push(["on", one.on]);
      return `  - ${fields.map(([name, value]) => `${name}: ${value}`).join("\n    ")}\n`;
    });
    return lines.length ? `decisions:\n${lines.join("")}` : "decisions: []\n";
  }

  changed() {
    const isSaved = this.text() === this.text(this.base.decisions);
    ragEval.store(this.key, isSaved ? null : { of: this.base.sha256, decisions: this.decisions });
    this.yaml.value = this.text();
    this.yaml.rows = Math.min(16, this.yaml.value.split("\n").length);
    const where = this.isServed ? "Not saved yet." : `Not in the workspace yet: put the file into data/sources/${this.place.dataset.benchmark}.`;
    this.status.textContent = !isSaved ? where : this.base.sha256 ? "This is audit.yaml as it is." : "There is no audit.yaml yet.";
    if (this.save) this.save.disabled = isSaved;
    const rows = this.decisions.map((one) => {
      const withdraw = this.button("Withdraw", () => { this.decisions = this.decisions.filter((other) => other !== one); this.redraw(); });
      const about = [one.finding?.replaceAll("_", " "), one.reason, one.by, one.on].filter(Boolean).map(visible).join(" · ");
      const given = (one.answers ?? []).map(visible).join(" · ");
      const answers = one.unanswerable ? "not answered by the documents" : given || (one.decision === "add" ? "no gold answer yet: not asked" : "");
      return element("li", {}, element("header", {}, chip(one.decision, DONE[one.decision]), element("span", {}, visible(one.id)), element("bdi", {}, visible(one.question)), withdraw), answers ? element("p", { class: "text" }, answers) : null, about ? element("p", { class: "text" }, about) : null);
    });
    this.list.replaceChildren(rows.length ? element("ul", { class: "passages" }, ...rows) : element("p", { class: "nothing" }, "None yet."));
  }

  async write() {
    try {
      const answer = await fetch(`${this.place.dataset.save}?of=${this.base.sha256}`, { method: "POST", body: this.text() });
      if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
      this.base = await answer.json();
      this.decisions = structuredClone(this.base.decisions);
      this.redraw();
      this.status.textContent = "Saved in the workspace.";
    } catch (error) {
      this.status.textContent = `Not saved: ${error.message}`;
    }
  }
}

// Questions of users as a finding.
function suggested(drafts) {
  const nearest = (one) => (one.nearest ? `Nearest question of the benchmark, with similarity ${one.similarity.toFixed(2)}: ${visible(one.nearest)}` : "No question of the benchmark shares a word with it.");
  return {
    kind: SUGGESTED, severity: "note", count: drafts.length, documents: [], text: "Users asked what is unlike any question of the benchmark, or gave thumbs down.",
    remedy: "Take what the benchmark should have, and write the gold answer from the documents; without one a question is not asked. What the system answered is not gold.",
    suspects: drafts.map((one) => [one.id, `asked ${one.asked === 1 ? "once" : `${one.asked} times`}${one.thumbs_down ? `, ${one.thumbs_down} with thumbs down` : ""}`, nearest(one), []]),
  };
}

// The decisions of the workspace now, where this page is served from it; else those when the page was written.
async function presentFile(dataset) {
  const answer = location.protocol.startsWith("http") ? await fetch(dataset.save).catch(() => null) : null;
  return answer?.ok ? [await answer.json(), true] : [{ decisions: JSON.parse(dataset.decisions), sha256: dataset.sha256 }, false];
}

document.addEventListener("DOMContentLoaded", async () => {
  const place = document.getElementById("audit");
  try {
    const { parts, benchmark } = place.dataset;
    const loaded = parts.split(" ").map((part) => ragEval.load(`audit-${part}`, `${benchmark}.audit-${part}.js`));
    const [[base, isServed], ...all] = await Promise.all([presentFile(place.dataset), ...loaded]);
    const drafts = all.flatMap((one) => one.drafts ?? []);
    const found = [...all.flatMap((one) => one.findings ?? []), ...(drafts.length ? [suggested(drafts)] : [])];
    const findings = SEVERITIES.flatMap((severity) => found.filter((one) => one.severity === severity));
    const asked = Object.fromEntries(drafts.map((one) => [one.id, { ...one, answers: [] }]));
    new AuditPage(place, { findings, questions: Object.assign(asked, ...all.map((one) => one.questions)) }, base, isServed);
  } catch (error) {
    place.replaceChildren(element("p", {}, `The findings cannot be shown: ${error.message}. Write the report again with rag-eval report.`));
  }
});
