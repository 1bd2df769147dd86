"""How well `rag-eval init` knows formats: small benchmarks in public shapes, written apart from recipes.

    python bench/init_grades.py [NAME ...]

Each shape of `bench/shapes` is proposed, and the proposal planned; what comes out is compared with what a careful
person makes of the files. A NAME prints that shape's proposal as well. Right: as proposed. Said: it does not convert as
proposed, and says what has to be filled in. Wrong: it converts, and questions, answers, contexts or documents differ.
A shape that is not right is tried again with the changes that a person would make, if these are at most three lines.
"""

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html import unescape
from pathlib import Path
from typing import NamedTuple

from shapes import SHAPES
from shapes.facts import Asked, Documents, Files, Right, Shape

from rag_eval_pipeline.conversion.planning import Plan, plan
from rag_eval_pipeline.conversion.questions import Question
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.scaffold.init import start_benchmark
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

MAX_LINES = 3
LINE = 120  # characters; a longer change counts as several lines
TOP_LEVEL = frozenset({"source", "tables", "questions", "documents", "where", "retrieval_only"})
QUERIES = frozenset({"questions", "documents", "where"})
YES = {"true": "yes", "false": "no"}


class Grade(NamedTuple):
    """What became of a shape: as proposed, and the lines to change where that is not right."""

    outcome: str  # right, said or wrong
    lines: int | None
    note: str


def plain(text: str) -> str:
    """A text without tags, entities and differences of white space; booleans are yes and no."""
    text = " ".join(unescape(re.sub(r"<[^>]{1,80}>", " ", text)).split())
    return YES.get(text.lower(), text)


def name_of(text: str, documents: Documents) -> str | None:
    """The one document in `documents` whose parts stand in a text, unless much else stands there, too."""
    text = plain(text)
    parts = {name: [plain(part) for part in given] for name, given in documents.items() if given}
    found = [name for name, given in parts.items() if all(part in text for part in given)]
    fits = len(found) == 1 and len(text) <= 2 * sum(map(len, parts[found[0]])) + 200
    return found[0] if fits else None


def names_of(found: Plan, documents: Documents) -> dict[str, str]:
    """Each planned document's name in `documents`, by key: that of its text, else the key without a scheme."""
    return {
        one.key: name_of(one.content or "", documents) or re.sub("^https?://", "", one.key) for one in found.documents
    }


def difference(found: Plan, right: Right) -> tuple[int, str] | None:
    """The first difference between a plan and a reading, with how far they agree, or None."""
    names, bodies = names_of(found, right.documents), {d.key: d.content for d in found.documents}
    if len(found.questions) != len(right.asked):
        return 1, f"{len(found.questions)} questions instead of {len(right.asked)}"
    if (missing := set(right.documents) - set(names.values())) and (names or not right.is_bare):
        return 2, f"{len(missing)} of {len(right.documents)} documents are missing, such as {min(missing)[:60]!r}"
    if surplus := set(names.values()) - set(right.documents):
        return 3, f"{len(surplus)} documents too many, such as {min(surplus)[:60]!r}"
    # Questions may come in another order; a text that is asked twice is told apart by its answers.
    rest = list(found.questions)
    for asked in right.asked:
        same = [question for question in rest if _is_asked(question.question, asked)]
        if not same:
            return 4, f"the question {asked.question!r} is missing; found {rest[0].question[:60]!r}"
        differences = [_question_difference(one, asked, names, bodies, right.documents) for one in same]
        if None not in differences:
            return 5, f"{asked.question!r}: {differences[0]}"
        rest.remove(same[differences.index(None)])
    return None


def _is_asked(question: str, asked: Asked) -> bool:
    question, bare = plain(question), plain(asked.question)
    with_options = question.startswith(bare) and all(plain(option) in question for option in asked.options)
    return question == bare or bool(asked.options and with_options)


def _question_difference(
    question: Question, asked: Asked, names: Mapping[str, str], bodies: Mapping[str, str | None], documents: Documents
) -> str | None:
    answers = set(map(plain, question.answers))
    if answers != set(map(plain, asked.answers or ())):
        return f"answers {sorted(answers)} instead of {sorted(asked.answers or ())}"
    facts = {plain(one["text"]) for one in question.metadata.get("facts", ())}
    if asked.facts and facts != set(map(plain, asked.facts)):
        return f"facts {sorted(facts)} instead of {sorted(asked.facts)}"
    if question.is_impossible != (asked.answers == ()):
        return "it is marked as unanswerable" if question.is_impossible else "it is not marked as unanswerable"
    found: dict[str | None, set[tuple[str | None, int | None]]] = {}
    for context in question.contexts:
        body = bodies.get(context.document or "")
        text = context.text if context.start is None or body is None else body[context.start : context.end]
        name = names.get(context.document or "")
        inside = name_of(text or "", documents)
        name = inside if context.document is None else name  # a reading may have a bare text as a document
        is_whole = text is None or plain(text) == plain(body or "") or (inside is not None and inside == name)
        found.setdefault(name, set()).add((None if is_whole else plain(text or ""), context.page))
    golds = {name: [gold for gold in asked.gold if gold.document == name] for name in {g.document for g in asked.gold}}
    if set(found) != set(golds):
        return f"contexts {sorted(map(str, found))} instead of {sorted(map(str, golds))}"
    for name, given in golds.items():
        wanted = [({None if text is None else plain(text) for text in gold.texts}, gold.page) for gold in given]
        for text, page in sorted(found[name], key=str):
            if not any(page == right_page and text in texts for texts, right_page in wanted):
                return f"gold text {text!r}, page {page} in {name}, instead of {[gold[1:] for gold in given]}"
        for (texts, page), gold in zip(wanted, given, strict=True):
            if not any(page == one and text in texts for text, one in found[name]):
                return f"no gold text {gold.texts} in {name}"
    return None


def edited(proposal: str, edits: Mapping[str, str]) -> str:
    """The text of a benchmark.yaml with changed keys, where it has a place for them; "" removes one."""
    for key, value in edits.items():
        if key in TOP_LEVEL:
            block = re.search(rf"^{key}:.*\n(?:(?:[ \t].*)?\n)*", proposal, re.M)
            line = f"{key}: {json.dumps(value, ensure_ascii=False) if key in QUERIES else value}\n\n" if value else ""
            proposal = f"{proposal}\n{line}" if block is None else proposal.replace(block[0], line)
            continue
        sibling = {"answer": "answers", "answers": "answer"}.get(key, key)
        in_sql = [re.search(rf"^( {{9}}|  SELECT )(.*) AS {name}(,?)$", proposal, re.M) for name in (key, sibling)]
        in_columns = [re.search(rf"^  {name}: .*\n", proposal, re.M) for name in (key, sibling)]
        if found := in_sql[0] or in_sql[1]:
            line = f"{found[1]}{value} AS {key}{found[3]}" if value else found[1] if "SELECT" in found[1] else ""
            proposal = proposal.replace(found[0], line)
        elif (found := in_columns[0] or in_columns[1]) and re.fullmatch(r"\w*", value):
            proposal = proposal.replace(found[0], f"  {key}: {value}\n" if value else "")
        elif value and (first := re.search(r"^questions: .*\n  SELECT ", proposal, re.M)):
            proposal = proposal.replace(first[0], f"{first[0]}{value} AS {key},\n         ")
    return proposal


def lines_to_change(paths: BenchmarkPaths, proposal: str, shape: Shape) -> int | None:
    """The lines of the changes that are needed; None if these are more than `MAX_LINES`, or are not enough."""

    def is_right(edits: Mapping[str, str]) -> bool:
        text = edited(proposal, edits)
        if "FILL_IN" in re.sub("#.*", "", text):
            return False
        paths.spec.write_text(text)
        return compared(paths, shape.right)[0] == "right"

    needed = dict(shape.edits)
    if not needed or not is_right(needed):
        return None
    for key in shape.edits:
        fewer = {name: value for name, value in needed.items() if name != key}
        if fewer and is_right(fewer):
            needed = fewer
    lines = sum(-(-len(f"{key}: {value}") // LINE) for key, value in needed.items())
    return lines if lines <= MAX_LINES else None


def compared(paths: BenchmarkPaths, readings: Sequence[Right]) -> tuple[str, str]:
    """The outcome of a benchmark.yaml that has nothing to fill in, and the smallest difference."""
    try:
        found = plan(paths)
    except InputError as error:
        return "said", f"does not convert: {error.code}"
    differences = [difference(found, right) for right in readings]
    if None in differences:
        return "right", ""
    nearest = max((one for one in differences if one), default=(0, "it converts, but nothing in the files is gold"))
    missing = max((len(right.asked) for right in readings), default=0) - len(found.questions)
    if 0 < missing <= found.counts.quarantined:
        return "said", f"{found.counts.quarantined} rows quarantined; {nearest[1]}"
    return "wrong", nearest[1]


def write(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def grade(root: Path, shape: Shape, *, shown: bool = False) -> Grade:
    """Propose, plan and compare; then with changes, fewest lines first."""
    (root / "data" / "sources").mkdir(parents=True)
    try:
        paths, proposal = start_benchmark(Workspace(root), "shape", write(root / "origin", shape.files))
    except InputError as error:
        if shown:
            print(error)
        return Grade("said" if shape.right else "right", None, f"refused: {error.code}")
    if shown:
        print(proposal.text)
    outcome, note = ("said", "; ".join(proposal.missing)) if proposal.missing else compared(paths, shape.right)
    if not shape.right:
        return Grade("right" if outcome == "said" else "wrong", None, note)
    lines = None if outcome == "right" else lines_to_change(paths, proposal.text, shape)
    return Grade(outcome, lines, note)


def main(names: Sequence[str]) -> None:
    chosen = {name: make() for name, make in SHAPES.items() if not names or name in names}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(1 if names else 2) as pool:
        roots = (Path(scratch, str(n)) for n in range(len(chosen)))
        grades = dict(zip(chosen, pool.map(partial(grade, shown=bool(names)), roots, chosen.values()), strict=True))
    print("| shape | as proposed | lines | |\n|---|---|---|---|")
    for name, (outcome, lines, note) in grades.items():
        print(f"| {name} | {outcome} | {lines or ''} | {' '.join(note.split())[:150].replace('|', '/')} |")
    counts, total = Counter(outcome for outcome, *_ in grades.values()), len(grades)
    within = counts["right"] + sum(lines is not None for _, lines, _ in grades.values())
    print(
        f"\n{total} shapes: right as proposed {counts['right']} ({counts['right'] / total:.0%}), within {MAX_LINES} "
        f"lines {within} ({within / total:.0%}), said {counts['said']}, silently wrong {counts['wrong']}."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
