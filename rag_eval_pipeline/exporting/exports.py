"""Exporting a benchmark: one registry of formats, and the one function that the command calls.

An export is read back with its own reader before it is published, and what differs from the dataset is reported, field
by field: the report says what the files hold, not what they were meant to.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.exporting.beir import read_beir_folder, write_beir_folder
from rag_eval_pipeline.exporting.evret import read_evret, write_evret
from rag_eval_pipeline.exporting.folder import check_target, files_below, publishing_folder
from rag_eval_pipeline.exporting.identity import Identity
from rag_eval_pipeline.exporting.nvidia import read_nvidia, write_nvidia
from rag_eval_pipeline.exporting.ragas import read_ragas, write_ragas
from rag_eval_pipeline.exporting.report import ExportReport, Written, losses
from rag_eval_pipeline.exporting.source import ExportOptions, ExportSource, load_source
from rag_eval_pipeline.exporting.trec import read_trec, write_trec
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.sources.source_spec import shown_path
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import Workspace

# What is read back is called so: formats have no place for a dataset's version and name, and thus show that they lose
# them.
UNKNOWN = Identity("unknown", "0.0.0-unknown", "-")


class Format(NamedTuple):
    """How a folder of one format is written and read.

    Args:
        write: Writes into an empty folder.
        read: Reads what `write` wrote, and others' folders of the format.
    """

    write: Callable[[ExportSource, Path], Written]
    read: Callable[[Path, Identity], EvaluationDataset]


FORMATS: dict[str, Format] = {
    "nvidia": Format(write_nvidia, read_nvidia),
    "evret": Format(write_evret, read_evret),
    "beir": Format(write_beir_folder, read_beir_folder),
    "trec": Format(write_trec, read_trec),
    "ragas": Format(write_ragas, read_ragas),
}


def export(
    workspace: Workspace,
    name: str,
    format: str,
    target: Path,
    *,
    evaluation: str | None = None,
    options: ExportOptions | None = None,
) -> ExportReport:
    """Writes a converted benchmark as a folder of a format: whole or not at all, real files, names as they are.

    Args:
        workspace: Where the benchmark is.
        name: The benchmark.
        format: One of `FORMATS`.
        target: A folder that is missing or empty.
        evaluation: An evaluation's id, or a system's name for its newest evaluation: its answers go with the dataset.
        options: What goes in, and whether a target that is not empty is replaced.

    Raises:
        InputError: `unknown_format`, `no_benchmark`, what `check_target`, `publishing_folder` and `load_source` raise,
            or a fault of a file or of the format.
        ServiceError: `locked` when a conversion of the benchmark does not end.
    """
    chosen = _format(format)
    options = options or ExportOptions()
    check_target(workspace, target, overwrite=options.overwrite)
    target = target.resolve()
    paths = workspace.benchmark(name)
    if not paths.spec.exists():
        raise InputError("no_benchmark", shown_path(paths, "benchmark.yaml"), "a folder with this file")
    with (
        locked(paths.lock, holder=f"an export of {name}", exclusive=False),
        publishing_folder(target, overwrite=options.overwrite) as folder,
    ):
        source = load_source(workspace, name, evaluation=evaluation, options=options, label=target.name)
        written = chosen.write(source, folder)
        left = chosen.read(folder, UNKNOWN._replace(dataset_id=source.dataset.dataset_id))
        files = len(files_below(folder))
    return ExportReport(
        benchmark=name,
        format=format,
        target=target,
        evaluation_id=None if source.answers is None else source.answers.evaluation_id,
        files=files,
        counts=written.counts,
        lost=losses(source.dataset, left) | written.lost,
        notes=written.notes,
    )


def read_export(format: str, folder: Path, identity: Identity) -> EvaluationDataset:
    """The dataset of a folder of a format.

    Raises:
        InputError: `unknown_format`, or a fault of a file.
    """
    return _format(format).read(folder, identity)


def _format(name: str) -> Format:
    if name in FORMATS:
        return FORMATS[name]
    raise InputError("unknown_format", "--format", f"one of {', '.join(FORMATS)}", found=name)
