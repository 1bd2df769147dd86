"""A comparison as JUnit XML and as Markdown: what continuous integration shows beside a change."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from rag_eval_pipeline.metrics.verdicts import Verdict
from rag_eval_pipeline.reporting.comparison import SINGLE_RUNS, Comparison, format_mean
from rag_eval_pipeline.storage.files import atomic_write


def write_junit(path: Path, row: Comparison) -> None:
    """Publishes a comparison as a suite with a case a metric; a regression is a failure, no verdict is skipped."""
    cases = list(row.verdicts.items())
    suite = ElementTree.Element(
        "testsuite",
        name=f"rag-eval compare {row.benchmark}",
        tests=str(len(cases)),
        failures=str(len(row.regressed)),
        skipped=str(sum(_is_open(found) for _, found in cases)),
        errors="0",
    )
    for name, found in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=f"{row.new} against {row.old}", name=name)
        if found.kind == "regressed":
            failure = ElementTree.SubElement(case, "failure", type=found.kind, message=found.sentence)
            failure.text = "\n".join(_questions(row, name))
        elif _is_open(found):
            ElementTree.SubElement(case, "skipped", message=found.sentence)
        else:
            ElementTree.SubElement(case, "system-out").text = found.sentence
    atomic_write(path, ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True) + b"\n")


def write_markdown(path: Path, row: Comparison) -> None:
    """Publishes a comparison as Markdown, as the step summaries of a CI server take it."""
    head = [
        f"### {_cell(row.benchmark)}: {_cell(row.new)} against {_cell(row.old)}",
        "",
        f"Of {SINGLE_RUNS}.{f' {_cell(row.note)}' if row.note else ''}",
        "",
        "| metric | before | after | verdict | |",
        "|---|---:|---:|---|---|",
    ]
    rows = [
        f"| {_cell(name)} | {format_mean(found.evidence.baseline_mean)} | {format_mean(found.evidence.current_mean)} "
        f"| {found.kind.replace('_', ' ')} | {_cell(found.sentence)} |"
        for name, found in row.verdicts.items()
    ]
    moved = [line for name in row.regressed for line in ("", f"{_cell(name)}:", "", *_list(row, name))]
    atomic_write(path, "\n".join([*head, *rows, *moved, ""]).encode())


def _is_open(found: Verdict) -> bool:
    return found.kind in ("withheld", "no_verdict")


def _questions(row: Comparison, name: str) -> Iterator[str]:
    for one in row.moved.get(name, ()):
        yield f"question {one.query_id}: {one.before:.3f} -> {one.after:.3f}"


def _list(row: Comparison, name: str) -> Iterator[str]:
    return (f"- {line}" for line in _questions(row, name))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
