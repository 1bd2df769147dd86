"""One comparison of two sides as a value, as JSON, and as the rows of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag_eval_pipeline.formats.comparison_files import ComparisonRow, VerdictRecord
from rag_eval_pipeline.metrics.evidence import Evidence
from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.verdicts import Verdict
from rag_eval_pipeline.reporting.looks import Moved


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides and a verdict a metric.

    Args:
        kind: `baseline`, `weekly`, `systems` or `evaluations`.
        benchmark: Of both sides.
        old: The side that is compared with: a baseline, a system or an evaluation.
        new: The other.
        verdicts: Metric -> verdict; empty with a `reason`.
        reason: Why there is none: `no_baseline`, `is_baseline`, `different_dataset`, ...
        moved: Metric -> the questions that moved most.
        evaluation_id: The evaluation in question, of a night the first one.
        rerun: The evaluation that looked again.
        note: How steady the unchanged system is, as a sentence.
        made_from: A digest of what it was made from, where it can be taken from `regressions.json` again.
    """

    kind: str
    benchmark: str
    old: str
    new: str
    verdicts: Mapping[str, Verdict]
    reason: str | None = None
    moved: Mapping[str, tuple[Moved, ...]] = field(default_factory=dict)
    evaluation_id: str | None = None
    rerun: str | None = None
    note: str | None = None
    made_from: str | None = None

    @property
    def regressed(self) -> list[str]:
        """The metrics that got worse, confirmed or not."""
        return [name for name, found in self.verdicts.items() if found.kind == "regressed"]


def comparison_cells(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """A comparison's record as the rows of a table."""
    if record["reason"]:
        return [{"metric": "all", "verdict": record["reason"], "sentence": ""}]
    return [
        {"metric": name, "verdict": found["kind"].replace("_", " "), "sentence": found["sentence"]}
        for name, found in record["verdicts"].items()
    ]


def comparison_record(row: Comparison) -> dict[str, Any]:
    """A comparison as JSON."""
    return {
        "kind": row.kind,
        "benchmark": row.benchmark,
        "old": row.old,
        "new": row.new,
        "evaluation_id": row.evaluation_id,
        "rerun": row.rerun,
        "reason": row.reason,
        "note": row.note,
        "made_from": row.made_from,
        "verdicts": {name: _verdict_record(found, row.moved.get(name, ())) for name, found in row.verdicts.items()},
    }


def comparison_of(record: ComparisonRow) -> Comparison:
    """A comparison again, from its record."""
    moved = {
        name: tuple(Moved(**one.model_dump()) for one in found.questions)
        for name, found in record.verdicts.items()
        if found.questions
    }
    return Comparison(
        record.kind,
        record.benchmark,
        record.old,
        record.new,
        {name: _verdict_of(name, found) for name, found in record.verdicts.items()},
        record.reason,
        moved,
        record.evaluation_id,
        record.rerun,
        record.note,
        record.made_from,
    )


def _verdict_of(name: str, record: VerdictRecord) -> Verdict:
    evidence = Evidence(
        metric=name,
        adjusted_interval=None if record.adjusted_interval is None else Interval(*record.adjusted_interval),
        confidence_interval=None if record.confidence_interval is None else Interval(*record.confidence_interval),
        n_pairs=record.n,
        **{number: getattr(record, number) for number in _NUMBERS},
    )
    return Verdict(record.kind, record.sentence, record.confirmation, evidence)


_NUMBERS = tuple(
    name for name in Evidence.__slots__ if name not in ("metric", "adjusted_interval", "confidence_interval", "n_pairs")
)


def _verdict_record(found: Verdict, moved: Sequence[Moved]) -> dict[str, Any]:
    evidence = found.evidence
    return {
        "kind": found.kind,
        "sentence": found.sentence,
        "confirmation": found.confirmation,
        "baseline_mean": evidence.baseline_mean,
        "current_mean": evidence.current_mean,
        "estimate": evidence.estimate,
        "higher_is_better": evidence.higher_is_better,
        "value_range": evidence.value_range,
        "adjusted_interval": evidence.adjusted_interval,
        "confidence_interval": evidence.confidence_interval,
        "effect_size": evidence.effect_size,
        "p_value": evidence.p_value,
        "p_corrected": evidence.p_corrected,
        "n": evidence.n_pairs,
        "coverage": evidence.coverage,
        "n_units": evidence.n_units,
        "is_clustered": evidence.is_clustered,
        "is_short_of_runs": evidence.is_short_of_runs,
        "design_effect": evidence.design_effect,
        "n_metrics": evidence.n_metrics,
        "smallest_drop": evidence.smallest_drop,
        "needed_units": evidence.needed_units,
        "is_exact": evidence.is_exact,
        "questions": [one.model_dump() for one in moved],
    }
