"""How well an audit finds wrong questions: errors planted in benchmarks, eight ways one after the other.

    python bench/audit.py [--workspace DIR] [BENCHMARK]...

Each round plants one way in 3 % of the answerable questions of a benchmark, at least in one, and asks which questions
the audit calls wrong or doubtful. What it says of the benchmark without planted errors is listed first and counts
neither for nor against it; with these as false alarms, too, precision is in the last column. The twin of a question
that is asked twice is neither. Gold texts that are the answer, as of SQuAD, change with it: both are one column.
Benchmarks are those of the project and of ../shared/data, if it is there, converted once into DIR.
"""

import argparse
import shutil
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from rag_eval_pipeline.audit.audit_benchmark import SEVERITIES, find_faults, has_documents
from rag_eval_pipeline.audit.audited_texts import AuditedCorpus, AuditedQuestions
from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.conversion.datasets import locate_gold, read_gold_spans
from rag_eval_pipeline.conversion.question_spool import batch_of, questions_of
from rag_eval_pipeline.conversion.stamp import Conversion, source_digest
from rag_eval_pipeline.conversion.steps import remaining_questions
from rag_eval_pipeline.corpus.manifest import read_planned
from rag_eval_pipeline.corpus.text.pages import read_pages
from rag_eval_pipeline.metrics.answers import normalise_answer
from rag_eval_pipeline.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared" / "data"
SPECS = REPOSITORY / "tests" / "specs"
DATA = {  # folder of ../shared/data for each spec
    "autorag": "autorag-parquet", "chunking-eval": "chunking-eval", "fetaqa": "wiki-urls", "frames": "wiki-urls",
    "hotpotqa": "hotpotqa", "kg-rag-sec10q": "kg-rag-sec10q", "squad2": "squad2", "truthfulqa": "wiki-urls",
}  # fmt: skip
SHARE = 0.03  # of the answerable questions
PLANTS_MIN = 6  # of each way in each benchmark, over all rounds
SEED = 7
ROUND = 1 << 20  # ids of added rows begin here


def with_answer(question, answer):
    """The question with another gold answer; also as its gold text where that was made of the answer."""
    texts = [context.text for context in question.contexts if context.text]
    contexts = question.contexts
    if texts and (texts[0] in question.answers or " ".join(texts) in question.answers):
        contexts = (msgspec.structs.replace(contexts[0], text=answer, start=None, end=None),)
    return msgspec.structs.replace(question, answer=answer, answers=(answer,), contexts=contexts)


def other_answer(rng, question, others):
    own = set(map(normalise_answer, question.answers))
    given = [one.answers[0] for one in others if normalise_answer(one.answers[0]) not in own]
    return str(rng.choice(given)) if given else None


def answer_of_another(rng, question, others, turn):
    answer = other_answer(rng, question, others)
    return answer and [with_answer(question, answer)]


def number_changed(rng, question, others, turn):
    answer = question.answer
    places = [at for at, letter in enumerate(answer) if letter in "0123456789"]
    if not places:
        return None
    at = int(rng.choice(places))
    digit = str((int(answer[at]) + int(rng.integers(1, 9))) % 10)
    return [with_answer(question, answer[:at] + digit + answer[at + 1 :])]


def columns_swapped(rng, question, others, turn):
    changed = with_answer(question, question.question)
    return [msgspec.structs.replace(changed, question=question.answer)]


def document_of_another(rng, question, others, turn):
    own = {context.file_name for context in question.contexts}
    foreign = [one for one in others if one.contexts and own.isdisjoint(c.file_name for c in one.contexts)]
    if not own or not foreign:
        return None
    return [msgspec.structs.replace(question, contexts=foreign[int(rng.integers(len(foreign)))].contexts)]


def characters_damaged(rng, question, others, turn):
    words = question.answer.split(" ")
    if turn % 2:
        return [with_answer(question, "&nbsp;".join([words[0], " ".join(words[1:])]))]
    return [with_answer(question, "â€™s ".join([words[0], " ".join(words[1:])]))]


def nothing_or_letter(rng, question, others, turn):
    return [with_answer(question, ("N/A", "B", "unknown", "c)")[turn % 4])]


def asked_twice(rng, question, others, turn):
    answer = other_answer(rng, question, others)
    return answer and [question, msgspec.structs.replace(with_answer(question, answer), id=ROUND + question.id)]


def cut_or_longer(rng, question, others, turn):
    answer = question.answer
    if turn % 2 and len(answer) > 3:
        return [with_answer(question, answer[: len(answer) // 2])]
    more = other_answer(rng, question, others)
    return more and [with_answer(question, f"{answer} {more}")]


WAYS = {
    "answer of another question": answer_of_another,
    "number changed": number_changed,
    "question and answer swapped": columns_swapped,
    "document of another question": document_of_another,
    "entity or other encoding": characters_damaged,
    "word for nothing or a letter": nothing_or_letter,
    "asked twice, another answer": asked_twice,
    "answer cut or too long": cut_or_longer,
}


@dataclass
class Tally:
    """Questions over all rounds."""

    planted: int = 0
    found: int = 0
    false: int = 0
    own: int = 0  # named also without planted errors, in all rounds
    kinds: Counter = field(default_factory=Counter)  # of false alarms

    def add(self, other):
        for name in ("planted", "found", "false", "own"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.kinds += other.kinds

    def row(self):
        named = self.found + self.false
        precision = [f"{self.found / n:.2f}" if (n := count) else "-" for count in (named, named + self.own)]
        recall = f"{self.found / self.planted:.2f}" if self.planted else "-"
        return f"{self.planted} | {self.found} | {self.false} | {precision[0]} | {recall} | {precision[1]}"


class Benchmark:
    """A converted benchmark whose questions can be changed."""

    def __init__(self, workspace, name):
        paths = workspace.benchmark(name)
        self.spec = read_spec(paths)
        conversion = Conversion(workspace, paths, self.spec, source_digest(paths))
        self.questions = [one for batch in remaining_questions(conversion) for one in questions_of(batch)]
        self.answerable = [one for one in self.questions if one.answers]
        self.pages, self.planned = read_pages(paths.pages), read_planned(paths.planned, base=paths.source)
        self.spans = list(read_gold_spans(paths.gold_spans))
        self.corpus = AuditedCorpus(self.pages, self.spans)

    def findings(self, changed=None):
        """The findings with the rows of some questions replaced, by id."""
        changed = changed or {}
        rows = [row for one in self.questions for row in changed.get(one.id, [one])]
        new = [row for rows in changed.values() for row in rows]
        spans = [span for span in self.spans if span.question_id not in changed]
        self.corpus.gold_spans = (*spans, *locate_gold(new, self.planned, self.pages))
        return list(find_faults(AuditedQuestions([batch_of(rows)]), self.corpus, None, self.spec.language))

    def named(self, changed=None):
        """Kind and question of each that is called wrong or doubtful."""
        found = [one for one in self.findings(changed) if one.severity in SEVERITIES[:2]]
        return {(one.kind, suspect.question) for one in found for suspect in one.suspects}

    def plant(self, rng, way, own):
        tally = Tally()
        size = max(1, round(SHARE * len(self.answerable)))
        for turn in range(-(-PLANTS_MIN // size)):
            changed = {}
            for place in rng.permutation(len(self.answerable)):
                if len(changed) < size:
                    question = self.answerable[place]
                    others = [one for one in self.answerable if one.id != question.id]
                    rows = WAYS[way](rng, question, others, turn + len(changed))
                    changed |= {question.id: rows} if rows else {}
            if not changed:
                continue
            named = self.named(changed)
            wrong = {rows[-1].id for rows in changed.values()}
            twins = {rows[0].id for rows in changed.values()} - wrong
            new = {(kind, question) for kind, question in named - own if question not in twins}
            alarms = {question for _, question in new} - wrong
            tally.planted += len(wrong)
            tally.found += len({question for _, question in new} & wrong)
            tally.false += len(alarms)
            tally.own += len({question for _, question in named & own} - wrong - twins)
            tally.kinds += Counter(kind for kind, question in new if question in alarms)
        return tally


def build(workspace):
    """Copies sources into the workspace and converts what is not converted."""
    sources = [spec.parent for folder in ("data/sources", "examples/benchmarks/sources")
               for spec in (REPOSITORY / folder).glob("*/benchmark.yaml")]  # fmt: skip
    for source in sources:
        shutil.copytree(source, workspace.sources / source.name, dirs_exist_ok=True)
    for name, folder in DATA.items() if SHARED.is_dir() else ():
        shutil.copytree(SHARED / folder, workspace.sources / name, dirs_exist_ok=True)
        shutil.copyfile(SPECS / name / "benchmark.yaml", workspace.sources / name / "benchmark.yaml")
    for name in workspace.benchmarks():
        if not has_documents(workspace.benchmark(name)):
            convert(workspace, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workspace", type=Path)
    parser.add_argument("names", nargs="*", metavar="BENCHMARK")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        workspace = Workspace((given.workspace or Path(folder)).resolve())
        if not workspace.benchmarks():
            build(workspace)
        run(workspace, given.names or workspace.benchmarks())


def run(workspace, names):
    by_way, by_benchmark = defaultdict(Tally), defaultdict(Tally)
    print("| benchmark | without planted errors | severity | questions |\n|---|---|---|---|")
    for name in names:
        benchmark = Benchmark(workspace, name)
        for one in benchmark.findings():
            print(f"| {name} | {one.kind} | {one.severity} | {one.count} |", flush=True)
        own = benchmark.named()
        for way in WAYS:
            tally = benchmark.plant(np.random.default_rng([SEED, *name.encode()]), way, own)
            by_way[way].add(tally)
            by_benchmark[name].add(tally)
    everything = Tally()
    for tally in by_way.values():
        everything.add(tally)
    head = "planted | found | false alarms | precision | recall | precision with the benchmark's own findings |"
    for title, rows in (("way", by_way), ("benchmark", by_benchmark), ("all", {"all": everything})):
        print(f"\n| {title} | {head}\n|{'---|' * 7}")
        for name, tally in rows.items():
            print(f"| {name} | {tally.row()} |")
    print("\nFalse alarms by kind:", ", ".join(f"{kind} {n}" for kind, n in everything.kinds.most_common()) or "none")


if __name__ == "__main__":
    main()
