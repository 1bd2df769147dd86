"""Evaluations against each other, question by question: better, worse, or nobody can tell.

Each pair is compared with its pinned baseline (`data/evaluation/baselines/<benchmark>/<system>.json`), and on each
benchmark every system with the first one. A baseline of a deterministic system is one evaluation, of any other five.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.runs import Evaluation, load_evaluation
from rag_eval_pipeline.evaluation.scores_file import PAGE, QueryScores, read_scores
from rag_eval_pipeline.formats.model import FileModel
from rag_eval_pipeline.metrics.evidence import ComparedMetric, Rules, compare
from rag_eval_pipeline.metrics.significance import comparison_seed
from rag_eval_pipeline.metrics.verdicts import Confirmation, Verdict, verdict
from rag_eval_pipeline.reporting.history import ResultsHeader, read_history
from rag_eval_pipeline.storage.atomic import atomic_write_json
from rag_eval_pipeline.workspace import Workspace

# What is compared: score file -> measures. Few, because each further one makes the corrected p of all others larger.
COMPARED = {
    "retrieval_scores": ("hit@1", "hit@5", "ndcg@10", "mrr"),
    "citation_scores": ("tolerance_jaccard",),
    "answer_scores": ("exact_match", "f1"),
}


class Baseline(FileModel):
    """The evaluations that a pair is compared with, pinned by a person."""

    evaluations: tuple[str, ...] = pydantic.Field(
        min_length=1, description="Evaluation ids: five, or one of a deterministic system."
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides and a verdict a metric.

    Args:
        kind: `baseline` or `systems`.
        benchmark: Of both sides.
        old: The side that is compared with: a baseline, or a system.
        new: The other.
        verdicts: Metric -> verdict; empty with a `reason`.
        reason: Why there is none: `no_baseline`, `different_dataset`, ...
    """

    kind: str
    benchmark: str
    old: str
    new: str
    verdicts: dict[str, Verdict]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Comparisons:
    """All comparisons of a night, and where they are written."""

    rows: Sequence[Comparison]
    path: Path

    @property
    def counts(self) -> dict[str, float]:
        """How many verdicts of each kind against baselines, and how many pairs have none."""
        against = [row for row in self.rows if row.kind == "baseline"]
        kinds = [found.kind for row in against for found in row.verdicts.values()]
        return {
            "pairs": len(against),
            "no_baseline": sum(row.reason == "no_baseline" for row in against),
            "regressed": kinds.count("regressed"),
            "improved": kinds.count("improved"),
        }

    def cells(self) -> list[dict[str, Any]]:
        """A row a verdict."""
        return [
            {"benchmark": row.benchmark, "comparison": f"{row.new} against {row.old}", **cell}
            for row in self.rows
            for cell in _cells(row)
        ]


def write_comparisons(workspace: Workspace) -> Comparisons:
    """Compares the newest evaluations and publishes `regressions.json`."""
    found = read_comparisons(workspace)
    atomic_write_json(found.path, [comparison_record(row) for row in found.rows])
    return found


def read_comparisons(workspace: Workspace) -> Comparisons:
    """The same without writing anything; a damaged evaluation costs its own comparisons and no others."""
    headers = read_history(workspace).newest()
    rows = [_against_baseline(workspace, header) for header in headers]
    rows += [
        _guarded("systems", new, old.system, partial(_between, workspace, old, new))
        for old, new in combinations(headers, 2)
        if old.benchmark == new.benchmark
    ]
    return Comparisons(rows, workspace.reports / "regressions.json")


def _guarded(kind: str, header: ResultsHeader, old: str, make: Callable[[], Comparison]) -> Comparison:
    """A comparison, or the line that says why its files cannot be read."""
    try:
        return make()
    except InputError as error:
        return Comparison(kind, header.benchmark, old, header.system, {}, str(error))


def _against_baseline(workspace: Workspace, header: ResultsHeader) -> Comparison:
    path = workspace.baselines / header.benchmark / f"{header.system}.json"
    if not path.exists():
        return Comparison("baseline", header.benchmark, "baseline", header.system, {}, "no_baseline")

    def make() -> Comparison:
        tonight = load_evaluation(workspace, header.evaluation_id)
        pinned = [load_evaluation(workspace, name) for name in Baseline.read(path).evaluations]
        return compare_evaluations("baseline", tonight, pinned, old="baseline", new=header.system)

    return _guarded("baseline", header, "baseline", make)


def _between(workspace: Workspace, old: ResultsHeader, new: ResultsHeader) -> Comparison:
    first, second = (load_evaluation(workspace, header.evaluation_id) for header in (old, new))
    return compare_evaluations("systems", second, [first], old=old.system, new=new.system)


def compare_evaluations(
    kind: str, tonight: Evaluation, baseline: Sequence[Evaluation], *, old: str, new: str
) -> Comparison:
    """The verdicts on an evaluation against others of the same dataset, corpus and metrics.

    Args:
        kind: `baseline` or `systems`.
        tonight: The evaluation in question.
        baseline: One or more; their mean is compared with.
        old: Name of the baseline.
        new: Name of the evaluation's side.
    """
    record = tonight.record

    def none(reason: str) -> Comparison:
        return Comparison(kind, record.benchmark, old, new, {}, reason)

    for other in baseline:
        for part in ("dataset", "corpus", "metrics", "judge"):
            if getattr(other.record.fingerprints, part) != getattr(record.fingerprints, part):
                return none(f"different_{part}")
    metrics = []
    for file, measures in COMPARED.items():
        rows, others = _rows(tonight, file), [_rows(other, file) for other in baseline]
        if any([row.query_id for row in rows] != [row.query_id for row in other] for other in others):
            return none("different_questions")
        level = PAGE if file == "retrieval_scores" and record.retrieval_level == "page" else ""
        metrics += [_compared(level + measure, rows, others) for measure in measures if _has(level + measure, rows)]
    if not metrics:
        return none("nothing_scored")
    key = f"{kind}/{record.benchmark}/{old}/{new}"
    evidence = compare(
        metrics,
        seed=comparison_seed(key, [other.folder.name for other in (*baseline, tonight)]),
        rules=(rules := Rules(min_coverage=record.settings.min_coverage)),
    )
    # Nothing moves when a deterministic system is asked again: a rerun would confirm every change.
    deterministic = all(evaluation.record.deterministic for evaluation in (tonight, *baseline))
    confirmation: Confirmation = "not_needed" if deterministic else "pending"
    verdicts = {name: verdict(found, confirmation=confirmation, rules=rules) for name, found in evidence.items()}
    return Comparison(kind, record.benchmark, old, new, verdicts)


def _compared(measure: str, rows: Sequence[QueryScores], others: Sequence[Sequence[QueryScores]]) -> ComparedMetric:
    return ComparedMetric(
        name=measure,
        tonight=[row.scores.get(measure) for row in rows],
        baselines=[[row.scores.get(measure) for row in other] for other in others],
        applies=[
            any(measure in row.scores or row.outcome == "failed" for row in same_question)
            for same_question in zip(rows, *others, strict=True)
        ],
    )


def _has(measure: str, rows: Sequence[QueryScores]) -> bool:
    return any(measure in row.scores for row in rows)


def _rows(evaluation: Evaluation, file: str) -> list[QueryScores]:
    return read_scores(evaluation.scores(file))


def _cells(row: Comparison) -> list[dict[str, str]]:
    if row.reason:
        return [{"metric": "all", "verdict": row.reason, "sentence": ""}]
    return [
        {"metric": name, "verdict": found.kind.replace("_", " "), "sentence": found.sentence}
        for name, found in row.verdicts.items()
    ]


def comparison_record(row: Comparison) -> dict[str, Any]:
    """A comparison as JSON."""
    return {
        "kind": row.kind,
        "benchmark": row.benchmark,
        "old": row.old,
        "new": row.new,
        "reason": row.reason,
        "verdicts": {
            name: {
                "kind": found.kind,
                "sentence": found.sentence,
                "estimate": found.evidence.estimate,
                "confidence_interval": found.evidence.confidence_interval,
                "p_corrected": found.evidence.p_corrected,
                "n": found.evidence.n_pairs,
            }
            for name, found in row.verdicts.items()
        },
    }
