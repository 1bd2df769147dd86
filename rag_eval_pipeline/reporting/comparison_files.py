"""Comparisons as records of `regressions.json`, lines for a terminal, JUnit XML and Markdown.

Source: Evaluation Data Formats 3.1, 3.2; RAG Evaluation Framework 6.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self
from xml.etree import ElementTree

import pydantic

from rag_eval_pipeline.errors import InputError, printable
from rag_eval_pipeline.formats.io import read_bytes
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.metrics.verdicts import Confirmation, Verdict, VerdictKind
from rag_eval_pipeline.reporting.causes import WorseQuestion
from rag_eval_pipeline.reporting.comparison import SINGLE_RUNS, Comparison, MovedQuestion, VerdictFields
from rag_eval_pipeline.storage.files import atomic_write

QUESTIONS_PRINTED = 5
QUOTED_CHARS = 160  # of a question or an answer in Markdown
# Verdicts that the terminal puts before their sentence; the sentences of the others begin with it.
PREFIXED = ("regressed", "improved", "equivalent")


class VerdictRecord(VerdictFields):
    """One metric's verdict with its evidence; effects in the metric's own unit."""

    kind: VerdictKind = pydantic.Field(description="The verdict in a word.")
    sentence: str = pydantic.Field(description="The verdict with its numbers.")
    confirmation: Confirmation | None = pydantic.Field(description="Of a flagged change: how far it is confirmed.")
    baseline_mean: float | None = pydantic.Field(description="Over the pinned runs and the pairs.")
    current_mean: float | None = pydantic.Field(description="Over the pairs.")
    estimate: float | None = pydantic.Field(description="Current minus baseline.")
    higher_is_better: bool = pydantic.Field(True, description="False for failure rates and the like.")
    adjusted_interval: tuple[float, float] | None = pydantic.Field(
        None, description="Of the estimate: what the test does not reject at the level that Holm's correction leaves."
    )
    confidence_interval: tuple[float, float] | None = pydantic.Field(
        description="Of the estimate, 95 %, with pseudo-units."
    )
    effect_size: float | None = pydantic.Field(description="Cohen's dz.")
    p_value: float | None = pydantic.Field(None, ge=0, le=1, description="One-sided, in the direction of the estimate.")
    p_corrected: float | None = pydantic.Field(ge=0, le=1, description="The same after Holm over the metrics.")
    n: int = pydantic.Field(ge=0, description="Questions scored on both sides.")
    coverage: float | None = pydantic.Field(ge=0, le=1, description="Share of the questions asked that are pairs.")
    n_units: int | None = pydantic.Field(None, ge=0, description="Groups of questions that were flipped together.")
    is_clustered: bool = pydantic.Field(False, description="The groups are documents, or several that go together.")
    is_short_of_runs: bool = pydantic.Field(
        False, description="The groups are documents because fewer than three runs are pinned."
    )
    design_effect: float | None = pydantic.Field(None, ge=1, description="Of the noise that documents share.")
    n_metrics: int | None = pydantic.Field(None, ge=1, description="How many metrics p was corrected for.")
    smallest_drop: float | None = pydantic.Field(description="The smallest change this set can show, as a share.")
    needed_units: int | None = pydantic.Field(None, ge=0, description="Groups that must fall for it, and none rise.")
    is_exact: bool = pydantic.Field(False, description="All assignments of signs were counted, none drawn.")
    questions: tuple[MovedQuestion, ...] = pydantic.Field(description="Those that moved most.")

    @classmethod
    def of(cls, found: Verdict, moved: Sequence[MovedQuestion]) -> Self:
        """Return the record of a verdict."""
        return cls(n=found.evidence.n_pairs, questions=tuple(moved), **cls.fields_of(found))

    def verdict(self, name: str) -> Verdict:
        """Return the verdict that the record was made from."""
        return self._verdict(name, self.n)


class ComparisonRow(Model):
    """Two sides on one benchmark."""

    kind: Literal["baseline", "systems", "evaluations", "weekly", "ab_test"] = pydantic.Field(description="What sides.")
    benchmark: str = pydantic.Field(min_length=1, description="Of both.")
    old: str = pydantic.Field(min_length=1, description="The side that is compared with.")
    new: str = pydantic.Field(min_length=1, description="The side in question.")
    evaluation_id: str | None = pydantic.Field(description="The evaluation in question.")
    rerun: str | None = pydantic.Field(description="The evaluation that ran it again.")
    reason: str | None = pydantic.Field(description="Why there is no verdict.")
    note: str | None = pydantic.Field(description="How steady the unchanged system is.")
    made_from: str | None = pydantic.Field(
        None, description="A digest of the runs, settings and rules; while it is the same, so is the row."
    )
    verdicts: dict[str, VerdictRecord] = pydantic.Field(description="Metric -> verdict.")


class Regressions(pydantic.RootModel[tuple[ComparisonRow, ...]]):
    """`regressions.json`: a list, written by every aggregation."""


def comparison_record(row: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON."""
    parts = {name: getattr(row, name) for name in ComparisonRow.model_fields if name != "verdicts"}
    verdicts = {name: VerdictRecord.of(found, row.moved.get(name, ())) for name, found in row.verdicts.items()}
    return ComparisonRow(**parts, verdicts=verdicts).model_dump()


def read_comparison_rows(path: Path) -> tuple[ComparisonRow, ...]:
    """Return the rows of `regressions.json`; none if it is not there, of another version, or edited."""
    try:
        return Regressions.model_validate_json(read_bytes(path)).root
    except (InputError, pydantic.ValidationError):
        return ()


def comparison_of(record: ComparisonRow) -> Comparison:
    """Return the comparison that a record was made from."""
    parts = {name: getattr(record, name) for name in ComparisonRow.model_fields if name != "verdicts"}
    return Comparison(
        **parts,
        verdicts={name: found.verdict(name) for name, found in record.verdicts.items()},
        moved={name: found.questions for name, found in record.verdicts.items() if found.questions},
    )


def comparison_lines(row: Comparison) -> Iterator[tuple[str, Verdict]]:
    """Yield a line for each metric of a comparison with its verdict, for a terminal."""
    width = max(len(metric_label(name)) for name in row.verdicts)
    for name, found in row.verdicts.items():
        word = f"{found.kind}: " if found.kind in PREFIXED else ""
        before, after = (format_mean(mean) for mean in (found.evidence.baseline_mean, found.evidence.current_mean))
        yield f"{metric_label(name):{width}}  {before:>5} -> {after:>5}  {word}{found.sentence}", found


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
        return [{"metric": "all", "verdict": record["reason"], "sentence": ""}]
    return [
        {"metric": name, "verdict": found["kind"].replace("_", " "), "sentence": found["sentence"]}
        for name, found in record["verdicts"].items()
    ]


def write_junit(path: Path, row: Comparison) -> None:
    """Write a comparison as a JUnit suite with a case for each metric: a regression fails, no verdict is skipped."""
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
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"{row.new} against {row.old}", name=metric_label(name)
        )
        if found.kind == "regressed":
            failure = ElementTree.SubElement(case, "failure", type=found.kind, message=found.sentence)
            failure.text = "\n".join(_questions(row, name))
        elif _is_open(found):
            ElementTree.SubElement(case, "skipped", message=found.sentence)
        else:
            ElementTree.SubElement(case, "system-out").text = found.sentence
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
    rows = [
        f"| {_cell(metric_label(name))} | {before} | {after} "
        f"| {found.kind.replace('_', ' ')} | {_cell(found.sentence)} |"
        for name, found in row.verdicts.items()
        for before, after in [map(format_mean, (found.evidence.baseline_mean, found.evidence.current_mean))]
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
            below.append(f"| {' | '.join(map(_quoted, texts))} |")
    atomic_write(path, "\n".join([*head, *rows, *below, ""]).encode())


def _is_open(found: Verdict) -> bool:
    return found.kind in ("withheld", "no_verdict")


def _questions(row: Comparison, name: str) -> list[str]:
    return [f"question {one.query_id}: {one.before:.3f} -> {one.after:.3f}" for one in row.moved.get(name, ())]


def _quoted(text: str) -> str:
    """Return a text of a system or a data set as code, in which nothing is a link, an image, HTML or a mention."""
    line = printable(" ".join(text.split())).replace("`", "'").replace("|", "\\|")
    return f"`{line if len(line) <= QUOTED_CHARS else line[: QUOTED_CHARS - 1] + '…'}`" if line else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
