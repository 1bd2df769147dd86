// Labels of answers by a person for `rag-eval calibrate`: kept in the browser where it allows that, downloaded, and saved
// in the workspace where `rag-eval up` serves this page on this machine.
"use strict";

const LABELS = [["correct", "Correct"], ["incorrect", "Wrong"], ["unsure", "Unsure"]];
const OFFERED = 25;

class Labels {
  // about: {benchmark, system, run, root} of the page; order: the questions whose labels are worth most, best first;
  // names: of each question, the id that people read.
  constructor(about, order, names) {
    this.about = about;
    this.order = order;
    this.names = names;
    this.isServed = location.protocol.startsWith("http");
    this.saved = null; // "" if the last label was saved in the workspace, else why not; null before the first
    this.key = `rag-eval labels ${about.run}`;
    this.given = new Map(Object.entries(ragEval.stored(this.key) ?? {}));
    this.annotator = ragEval.stored("rag-eval annotator") ?? "";
    this.setOpen(ragEval.stored("rag-eval labelling") === true);
  }

  // While somebody labels, the judge's verdicts are hidden: nobody should read them before.
  setOpen(isOpen) {
    this.isOpen = isOpen;
    document.body.classList.toggle("labelling", isOpen);
  }

  // Saves a label, or removes one, where this page is served by `rag-eval up`.
  async save(query, label) {
    if (!this.isServed) return;
    const isSure = label === "correct" || label === "incorrect";
    try {
      const answer = await fetch(`${this.about.root}labels/${encodeURIComponent(this.about.run)}`, { method: isSure ? "POST" : "DELETE", body: this.line(query, isSure ? label : "correct") });
      this.saved = answer.ok ? "" : (await answer.text()).trim() || answer.statusText;
    } catch (error) {
      this.saved = error.message;
    }
  }

  // The 25 answers to label next: of the order, the first that are not all labelled.
  offer() {
    const { element } = ragEval;
    const parts = Array.from({ length: Math.ceil(this.order.length / OFFERED) }, (_, place) => this.order.slice(place * OFFERED, (place + 1) * OFFERED));
    const part = parts.find((ids) => ids.some((id) => !this.given.has(id)));
    if (!part) return null;
    const left = part.filter((id) => !this.given.has(id));
    const link = (id, words) => element("a", { href: `#${encodeURIComponent(id)}`, class: this.given.has(id) ? "done" : null }, words);
    return element(
      "div", { class: "offer" },
      element("p", {}, element("strong", {}, `Label these ${part.length} next: `), `their labels say most about the rate of correct answers. ${part.length - left.length} are done. `, link(left[0], "Label one →")),
      element("p", { class: "quiet" }, ...part.flatMap((id, place) => {
        const name = this.names.get(id) ?? id;
        return [place ? ", " : "", link(id, name.length > 24 ? `${name.slice(0, 23)}…` : name)];
      })),
    );
  }

  form(question) {
    const { element } = ragEval;
    const status = element("p", { class: "quiet", role: "status" });
    const buttons = LABELS.map(([label, text]) => {
      const button = element("button", { type: "button", class: "action" }, text);
      button.addEventListener("click", async () => {
        if (this.given.get(question.id) === label) this.given.delete(question.id);
        else this.given.set(question.id, label);
        ragEval.store(this.key, Object.fromEntries(this.given));
        this.saved = null; // until it is
        show();
        await this.save(question.id, this.given.get(question.id));
        show();
      });
      return [label, button];
    });
    const download = element("button", { type: "button", class: "action" }, "Download labels.jsonl");
    download.addEventListener("click", () => ragEval.download("labels.jsonl", "application/jsonl", `${this.lines().join("\n")}\n`));
    const name = element("input", { type: "text", autocomplete: "off", value: this.annotator });
    name.addEventListener("input", () => {
      this.annotator = name.value.trim();
      ragEval.store("rag-eval annotator", this.annotator);
    });
    const command = element("code", {});
    const offered = element("div", {});
    const show = () => {
      for (const [label, button] of buttons) button.setAttribute("aria-pressed", String(this.given.get(question.id) === label));
      const counts = LABELS.map(([label, text]) => `${[...this.given.values()].filter((one) => one === label).length} ${text.toLowerCase()}`);
      const place = this.saved === null ? "" : this.saved ? ` Not saved in the workspace (${this.saved}): download them.` : " Saved in the workspace.";
      status.textContent = this.given.size ? `Labelled in this run: ${counts.join(", ")}. Unsure ones are not written.${place}` : "Nothing is labelled in this run yet.";
      command.textContent = `rag-eval calibrate ${this.about.benchmark} --evaluation ${this.about.run}${this.isServed && !this.saved ? "" : " --labels labels.jsonl"}`;
      offered.replaceChildren(...[this.offer()].filter(Boolean));
      download.disabled = !this.lines().length;
    };
    show();
    const details = element(
      "details", { class: "card labels", open: this.isOpen }, element("summary", {}, "Label this answer"),
      element("p", {}, "Would a reader who knows only this answer know what the gold answer states? While this is open, what the judge found is hidden."),
      element("div", { class: "controls" }, element("div", { class: "chips", role: "group", "aria-label": "Label" }, ...buttons.map(([, button]) => button)), element("label", {}, "Your name (optional)", name), download),
      status, offered, element("p", { class: "quiet" }, "Then: ", command),
    );
    details.addEventListener("toggle", () => {
      this.setOpen(details.open);
      ragEval.store("rag-eval labelling", details.open);
    });
    return details;
  }

  // One line a label, as `rag-eval calibrate` reads them.
  lines() {
    const sure = [...this.given].filter(([, label]) => label !== "unsure");
    return sure.map(([query, label]) => this.line(query, label));
  }

  line(query, label) {
    return JSON.stringify({ query_id: query, task: "correctness", label, ...(this.annotator ? { annotator: this.annotator } : {}) });
  }
}
