// Labels of answers by a person, kept in the browser where it allows that, and downloaded for `rag-eval calibrate`.
"use strict";

const LABELS = [["correct", "Correct"], ["incorrect", "Wrong"], ["unsure", "Unsure"]];

class Labels {
  // about: {benchmark, system, run} of the page.
  constructor(about) {
    this.about = about;
    this.key = `rag-eval labels ${about.run}`;
    this.given = new Map(Object.entries(this.stored(this.key) ?? {}));
    this.annotator = this.stored("rag-eval annotator") ?? "";
    this.setOpen(this.stored("rag-eval labelling") === true);
  }

  // Some browsers keep nothing for files: labels then last as long as the page.
  stored(key) {
    try {
      return JSON.parse(localStorage.getItem(key));
    } catch {
      return null;
    }
  }

  store(key, value) {
    try {
      localStorage.setItem(key, JSON.stringify(value));
    } catch {
      this.isKept = false;
    }
  }

  // While somebody labels, the judge's verdicts are hidden: nobody should read them before.
  setOpen(isOpen) {
    this.isOpen = isOpen;
    document.body.classList.toggle("labelling", isOpen);
  }

  form(question) {
    const { element } = ragEval;
    const status = element("p", { class: "quiet", role: "status" });
    const buttons = LABELS.map(([label, text]) => {
      const button = element("button", { type: "button", class: "action" }, text);
      button.addEventListener("click", () => {
        if (this.given.get(question.id) === label) this.given.delete(question.id);
        else this.given.set(question.id, label);
        this.store(this.key, Object.fromEntries(this.given));
        show();
      });
      return [label, button];
    });
    const download = element("button", { type: "button", class: "action" }, "Download labels.jsonl");
    download.addEventListener("click", () => this.download());
    const name = element("input", { type: "text", autocomplete: "off", value: this.annotator });
    name.addEventListener("input", () => {
      this.annotator = name.value.trim();
      this.store("rag-eval annotator", this.annotator);
    });
    const command = element("code", {}, `rag-eval calibrate ${this.about.benchmark} --evaluation ${this.about.run} --labels labels.jsonl`);
    const show = () => {
      for (const [label, button] of buttons) button.setAttribute("aria-pressed", String(this.given.get(question.id) === label));
      const counts = LABELS.map(([label, text]) => `${[...this.given.values()].filter((one) => one === label).length} ${text.toLowerCase()}`);
      status.textContent = this.given.size ? `Labelled in this run: ${counts.join(", ")}. Unsure ones are not written.` : "Nothing is labelled in this run yet.";
      download.disabled = !this.lines().length;
    };
    show();
    const details = element(
      "details", { class: "card labels", open: this.isOpen }, element("summary", {}, "Label this answer"),
      element("p", {}, "Would a reader who knows only this answer know what the gold answer states? While this is open, what the judge found is hidden."),
      element("div", { class: "controls" }, element("div", { class: "chips", role: "group", "aria-label": "Label" }, ...buttons.map(([, button]) => button)), element("label", {}, "Your name (optional)", name), download),
      status, element("p", { class: "quiet" }, "Then: ", command),
    );
    details.addEventListener("toggle", () => {
      this.setOpen(details.open);
      this.store("rag-eval labelling", details.open);
    });
    return details;
  }

  // One line a label, as `rag-eval calibrate` reads them.
  lines() {
    const sure = [...this.given].filter(([, label]) => label !== "unsure");
    return sure.map(([query, label]) => JSON.stringify({ query_id: query, task: "correctness", label, ...(this.annotator ? { annotator: this.annotator } : {}) }));
  }

  download() {
    const link = ragEval.element("a", { href: URL.createObjectURL(new Blob([`${this.lines().join("\n")}\n`], { type: "application/jsonl" })), download: "labels.jsonl" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}
