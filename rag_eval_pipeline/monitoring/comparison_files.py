"""Comparisons as records of `regressions.json`, lines for a terminal, JUnit XML and Markdown.

Source: Evaluation Data Formats 3.1, 3.2; RAG Evaluation Framework 6.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from rag_eval_pipeline.errors import printable, shortened
from rag_eval_pipeline.metrics.registry import metric_label, scored_share
from rag_eval_pipeline.monitoring.causes import WorseQuestion
from rag_eval_pipeline.monitoring.verdict_records import SINGLE_RUNS, Comparison, Verdict
from rag_eval_pipeline.storage.atomic_files import atomic_write

QUESTIONS_PRINTED = 5
QUOTED_CHARS = 160  # of a question or an answer in Markdown
# Verdicts that the terminal puts before their sentence; the sentences of the others begin with it.
PREFIXED = ("regressed", "improved", "equivalent")


def comparison_lines(row: Comparison) -> Iterator[tuple[str, Verdict]]:
    """Yield a line for each metric of a comparison with its verdict, for a terminal."""
    width = max(len(metric_label(name)) for name in row.verdicts)
    questions = max(found.n for found in row.verdicts.values())
    for name, found in sorted(row.verdicts.items(), key=lambda item: item[1].is_at_floor):
        word = f"{found.kind}: " if found.kind in PREFIXED and not found.is_at_floor else ""
        before, after = (format_mean(mean) for mean in (found.baseline_mean, found.current_mean))
        share = scored_share(found.n, questions)
        yield f"{metric_label(name):{width}}  {before:>5} -> {after:>5}{share}  {word}{found.sentence}", found


def moved_lines(row: Comparison) -> Iterator[str]:
    """Yield the questions of each changed metric that changed most, by their ids."""
    for name in row.moved:
        yield from (f"  {metric_label(name)}, {line}" for line in _questions(row, name)[:QUESTIONS_PRINTED])


def about_comparison(row: Comparison) -> list[str]:
    """Return sentences on the comparison: that it is of single runs, unless with a baseline, and its note."""
    single = [] if row.kind == "baseline" else [f"Of {SINGLE_RUNS}."]
    return [*single, *([row.note] if row.note else [])]


def format_mean(value: float | None) -> str:
    """Format with three digits; a dash if there is no value."""
    return "-" if value is None else f"{value:.3f}"


def comparison_cells(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a comparison's record as table rows."""
    if record["reason"]:
        return [{"metric": "all", "verdict": record["reason"], "sentence": record.get("note") or ""}]
    return [
        {"metric": name, "verdict": found["kind"].replace("_", " "), "sentence": found["sentence"]}
        for name, found in record["verdicts"].items()
    ]


class Case(NamedTuple):
    """A case of a JUnit suite; `failure` is the kind of a failure, of which `details` are lines."""

    name: str
    sentence: str
    failure: str | None = None
    is_skipped: bool = False
    details: Sequence[str] = ()


def write_junit(path: Path, row: Comparison) -> None:
    """Write a comparison as a JUnit suite with a case for each metric: a regression fails, no verdict is skipped."""
    cases = [
        Case(
            metric_label(name), found.sentence, found.kind if name in row.regressed else None, _is_open(found),
            _questions(row, name),
        )
        for name, found in row.verdicts.items()
    ]  # fmt: skip
    write_suite(path, f"rag-eval compare {row.benchmark}", f"{row.new} against {row.old}", cases)


def write_suite(path: Path, name: str, classname: str, cases: Sequence[Case]) -> None:
    """Write cases as a JUnit suite."""
    suite = ElementTree.Element(
        "testsuite",
        name=printable(name),
        tests=str(len(cases)),
        failures=str(sum(one.failure is not None for one in cases)),
        skipped=str(sum(one.is_skipped for one in cases)),
        errors="0",
    )
    for one in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=printable(classname), name=one.name)
        if one.failure is not None:
            failure = ElementTree.SubElement(case, "failure", type=one.failure, message=one.sentence)
            failure.text = "\n".join(map(printable, one.details))  # XML cannot hold control characters
        elif one.is_skipped:
            ElementTree.SubElement(case, "skipped", message=one.sentence)
        else:
            ElementTree.SubElement(case, "system-out").text = one.sentence
    atomic_write(path, ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True) + b"\n")


def write_markdown(
    path: Path,
    row: Comparison,
    headline: str,
    *,
    cause: str | None = None,
    worst: Sequence[WorseQuestion] | None = None,
) -> None:
    """Write a comparison as Markdown under its headline, for a comment or the step summary of a CI server.

    Args:
        cause: A sentence on where a regression comes from.
        worst: The questions that got worse most; None if only their ids and scores are known.
    """
    head = [
        f"### {_cell(row.benchmark)}: {_cell(row.new)} against {_cell(row.old)}",
        "",
        f"**{_cell(headline)}**",
        "",
        " ".join(map(_cell, about_comparison(row))),
        "",
        "| metric | before | after | verdict | |",
        "|---|---:|---:|---|---|",
    ]
    questions = max((found.n for found in row.verdicts.values()), default=0)
    rows = [
        f"| {_cell(metric_label(name))} | {before} | {after}{scored_share(found.n, questions)} "
        f"| {found.kind.replace('_', ' ')} | {_cell(found.sentence)} |"
        for name, found in row.verdicts.items()
        for before, after in [map(format_mean, (found.baseline_mean, found.current_mean))]
    ]
    below = ["", _cell(cause)] if cause is not None else []
    if worst is None:
        below += [
            line
            for name in row.regressed
            for line in ("", f"{_cell(metric_label(name))}:", "", *(f"- {line}" for line in _questions(row, name)))
        ]
    elif worst:
        below += ["", "Questions that got worse most:", "", "| id | question | expected | before | now |"]
        below.append("|---|---|---|---|---|")
        for one in worst:
            texts = (one.name, one.question, one.expected, one.answer_before, one.answer_after)
            below.append(f"| {' | '.join(map(quoted, texts))} |")
    atomic_write(path, "\n".join([*head, *rows, *below, ""]).encode())


def _is_open(found: Verdict) -> bool:
    return found.kind in ("withheld", "no_verdict")


def _questions(row: Comparison, name: str) -> list[str]:
    return [f"question {one.query_id}: {one.before:.3f} -> {one.after:.3f}" for one in row.moved.get(name, ())]


def quoted(text: str, limit: int = QUOTED_CHARS) -> str:
    """Return a text of a system or a data set as code, in which nothing is a link, an image, HTML or a mention."""
    line = printable(" ".join(text.split())).replace("`", "'").replace("|", "\\|")
    return f"`{shortened(line, limit)}`" if line else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
