"""The registry of export formats, and the function that writes a benchmark in one of them.

An export is read back before it is published, and differences from the dataset are counted by field: the report states
what the files hold, not what they were meant to hold.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import InputError, counted, unknown_name_hint
from rag_eval_pipeline.exports.folder import check_target, files_below, publishing_folder
from rag_eval_pipeline.exports.inspect_ai import read_inspect, write_inspect
from rag_eval_pipeline.exports.nvidia import read_nvidia, write_nvidia
from rag_eval_pipeline.exports.promptfoo import read_promptfoo, write_promptfoo
from rag_eval_pipeline.exports.ragas import read_ragas, write_ragas
from rag_eval_pipeline.exports.retrieval import (
    read_beir_folder,
    read_evret,
    read_trec,
    write_beir_folder,
    write_evret,
    write_trec,
)
from rag_eval_pipeline.exports.source import ExportOptions, ExportSource, Written, load_source
from rag_eval_pipeline.formats.dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import Workspace


class Format(NamedTuple):
    """How a folder of one format is written, how the files of such a folder are read, and its own options."""

    write: Callable[[ExportSource, Path], Written]
    read: Callable[[Path], Iterable[EvaluationQuery]]
    options: tuple[str, ...] = ()


FORMATS: dict[str, Format] = {
    "nvidia": Format(write_nvidia, read_nvidia),
    "evret": Format(write_evret, read_evret, ("documents",)),
    "beir": Format(write_beir_folder, read_beir_folder, ("level",)),
    "trec": Format(write_trec, read_trec, ("level",)),
    "ragas": Format(write_ragas, read_ragas),
    "inspect": Format(write_inspect, read_inspect),
    "promptfoo": Format(write_promptfoo, read_promptfoo),
}


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was exported: `lost` is the number of values of each field that the files do not give back."""

    benchmark: str
    format: str
    target: Path
    evaluation_id: str | None
    files: int
    counts: dict[str, int]
    lost: dict[str, int]
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self) | {"target": str(self.target), "notes": list(self.notes)}

    def line(self) -> str:
        """Return the report as one line."""
        counts = ", ".join(f"{number} {name}" for name, number in self.counts.items())
        lost = ", ".join(f"{name} ({number})" for name, number in self.lost.items())
        not_kept = f"; the format cannot hold: {lost}" if lost else ""
        return f"{self.target}: {self.format}, {counted(self.files, 'file')}, {counts}{not_kept}"


def export(
    workspace: Workspace,
    name: str,
    format: str,
    target: Path,
    *,
    evaluation: str | None = None,
    options: ExportOptions | None = None,
) -> ExportReport:
    """Write a converted benchmark as a folder of a format, completely or not at all.

    With an evaluation's id, or a system's name for its newest evaluation, its answers are exported too.
    """
    if format not in FORMATS:
        hint = unknown_name_hint(format, FORMATS, "formats")
        raise InputError("unknown_format", "--format", "a format of exports", found=format, hint=hint)
    options = options or ExportOptions()
    for option in ("documents", "level"):
        if getattr(options, option) != getattr(ExportOptions(), option) and option not in FORMATS[format].options:
            known = [name for name, one in FORMATS.items() if option in one.options]
            raise InputError(
                "no_option_of_format", f"--{option}", f"a format that has it: {', '.join(known)}", found=format
            )
    check_target(workspace, target, overwrite=options.overwrite)
    target = target.resolve()
    paths = workspace.existing_benchmark(name)
    with (
        locked(paths.lock, holder=f"an export of {name}", exclusive=False),
        publishing_folder(target, overwrite=options.overwrite) as folder,
    ):
        source = load_source(workspace, name, evaluation=evaluation, options=options, label=target.name)
        written = FORMATS[format].write(source, folder)
        lost = _count_losses(source.dataset, FORMATS[format].read(folder))
        files = len(files_below(folder))
    return ExportReport(
        benchmark=name,
        format=format,
        target=target,
        evaluation_id=None if source.answers is None else source.answers.evaluation_id,
        files=files,
        counts=written.counts,
        lost=lost | {name: number for name, number in written.lost.items() if number},
        notes=written.notes,
    )


def _count_losses(dataset: EvaluationDataset, kept: Iterable[EvaluationQuery]) -> dict[str, int]:
    """Return field -> number of values that are missing or different; of the dataset itself no format keeps any."""
    values = dataset.model_dump(exclude={"schema_version", "dataset_id", "queries", "documents"})
    lost = Counter(f"dataset.{name}" for name, _ in _values(values))
    queries = {query.query_id: query for query in kept}
    for query in dataset.queries:
        if query.query_id not in queries:
            lost["queries"] += 1
            continue
        remaining = dict(_values(queries[query.query_id].model_dump()))
        lost.update(name for name, value in _values(query.model_dump()) if remaining.get(name) != value)
    return dict(lost)


def _values(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every value that is not empty; False is a value."""
    for name, value in values.items():
        if name == "metadata":
            yield from ((f"metadata.{key}", item) for key, item in _values(value))
        elif value not in (None, "", (), [], {}):
            yield name, value
