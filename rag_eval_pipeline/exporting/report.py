"""What an export came to: files, counts, remarks, and what the format could not carry."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset


@dataclass(frozen=True, slots=True)
class Written:
    """What one format's writer has to say.

    Args:
        counts: What was written: questions, documents, judgements, answers.
        lost: What of an evaluation's answers the format has no place for, field -> how many values.
        notes: For people, a line each.
    """

    counts: dict[str, int]
    lost: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportReport:
    """One export.

    Args:
        benchmark: Whose.
        format: One of the registry's names.
        target: The folder.
        evaluation_id: Whose answers are in it; None without an evaluation.
        files: How many files it has.
        counts: What they hold.
        lost: Field -> how many of its values the files do not give back when they are read again.
        notes: For people, a line each.
    """

    benchmark: str
    format: str
    target: Path
    evaluation_id: str | None
    files: int
    counts: dict[str, int]
    lost: dict[str, int]
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "benchmark": self.benchmark,
            "format": self.format,
            "target": str(self.target),
            "evaluation_id": self.evaluation_id,
            "files": self.files,
            "counts": self.counts,
            "lost": self.lost,
            "notes": list(self.notes),
        }

    def line(self) -> str:
        """The report in one line."""
        counts = ", ".join(f"{number} {name}" for name, number in self.counts.items())
        lost = ", ".join(f"{name} ({number})" for name, number in self.lost.items())
        return f"{self.target}: {self.format}, {self.files} files, {counts}" + (
            f"; not carried: {lost}" if lost else ""
        )


def losses(whole: EvaluationDataset, left: EvaluationDataset) -> dict[str, int]:
    """What of a dataset is missing or different in what was read back.

    Args:
        whole: As it was.
        left: As it came back.

    Returns:
        Field -> number of values, in the order of the dataset; `dataset.` before fields that the dataset has once.
        Empty when nothing was lost.
    """
    lost: Counter[str] = Counter()
    remaining = dict(_dataset_facts(left))
    lost.update(name for name, value in _dataset_facts(whole) if remaining.get(name) != value)
    queries = {query.query_id: query for query in left.queries}
    for query in whole.queries:
        if query.query_id not in queries:
            lost["queries"] += 1
            continue
        remaining = dict(_facts(queries[query.query_id].model_dump()))
        lost.update(name for name, value in _facts(query.model_dump()) if remaining.get(name) != value)
    return dict(lost)


def _dataset_facts(dataset: EvaluationDataset) -> Iterator[tuple[str, Any]]:
    values = dataset.model_dump(exclude={"schema_version", "queries", "documents"})
    return ((f"dataset.{name}", value) for name, value in _facts(values))


def _facts(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value that says something; a flag that is off does, an empty list does not."""
    for name, value in values.items():
        if name == "metadata":
            yield from ((f"metadata.{key}", item) for key, item in _facts(value))
        elif value not in (None, "", (), [], {}):
            yield name, value
