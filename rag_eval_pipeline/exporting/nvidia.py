"""NVIDIA's evaluation root: `corpus/` with real files and `train.json`, as `evaluate_rag.py --dataset-paths` takes it.

With an evaluation, also the four files of results that the driver would have left, see `nvidia_results`.
Source: Dataset layout, `train.json`, and conversion.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.exporting.folder import copy_checked
from rag_eval_pipeline.exporting.identity import Identity
from rag_eval_pipeline.exporting.nvidia_results import write_results
from rag_eval_pipeline.exporting.report import Written
from rag_eval_pipeline.exporting.source import ExportSource
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.train_json import TrainRow, read_train_json, write_train_json

# What the blueprint's ingestor takes; it refuses any other file.
SUPPORTED = frozenset(
    {".pdf", ".docx", ".pptx", ".jpg", ".jpeg", ".png", ".tiff", ".tif", ".bmp", ".txt", ".html", ".htm"}
    | {".mp3", ".wav", ".mp4"}
)
# What HTTP clients write as %22, %0D, %0A in the name of an uploaded file, and servers do not turn back.
MAPPED_BY_UPLOAD = ('"', "\r", "\n")
LISTED_BY_DRIVER = 1000  # documents: the driver asks for no more, and sends again what it does not see


def write_nvidia(source: ExportSource, folder: Path) -> Written:
    """Writes `corpus/`, `train.json` and, with answers, `results/<label>/`.

    Not carried: all accepted answers but the first, query type, difficulty, citations, the source's id and metadata
    (the five keys of `train.json` leave no place); of answers the citations, statuses, errors and latencies.

    Raises:
        InputError: `unknown_document` when a context names a file that the corpus lacks, `changed_dataset`, or a fault
            of a document.
    """
    rows = source.train_rows()
    files = {document.file_name: document for document in source.documents}
    for row in rows:
        for name in _file_names(row):
            if name not in files:
                raise InputError(
                    "unknown_document", source.paths.train_json, "a file of the corpus", found=name,
                    field=f"contexts of id {row.id}", hint=f"Convert again: rag-eval convert {source.paths.name}",
                )  # fmt: skip
    corpus = folder / "corpus"
    corpus.mkdir()
    for name, document in files.items():
        copy_checked(source.paths.corpus / name, corpus / name, document.pdf_sha256 or "")
    write_train_json(folder / "train.json", rows)
    counts = {"questions": len(rows), "documents": len(files)}
    if source.answers is None:
        return Written(counts, notes=tuple(_notes(list(files))))
    results = write_results(source, source.answers, rows, folder / "results" / source.label)
    return Written(counts | results.counts, results.lost, (*_notes(list(files)), *results.notes))


def read_nvidia(folder: Path, identity: Identity) -> EvaluationDataset:
    """The questions of an evaluation root.

    Raises:
        InputError: `missing_file`, `bad_format`, or `unknown_document` for a context without a file in `corpus/`.
    """
    path = folder / "train.json"
    rows = read_train_json(path)
    corpus = folder / "corpus"
    files = {name for _, _, names in os.walk(corpus) for name in names}
    for number, row in enumerate(rows, start=1):
        for name in _file_names(row):
            if name not in files:
                raise InputError("unknown_document", path, f"a file below {corpus}", row=number, found=name)
    return identity.dataset(path, (_query(row) for row in rows))


def _query(row: TrainRow) -> EvaluationQuery:
    answer = None if row.is_impossible else row.answer
    return EvaluationQuery(
        query_id=str(row.id),
        query_text=row.question,
        relevant_documents=tuple(dict.fromkeys(_file_names(row))),
        ground_truth_answer=answer,
        metadata={"is_impossible": row.is_impossible, "answers": [] if answer is None else [answer]},
    )


def _file_names(row: TrainRow) -> Iterator[str]:
    return (context.filename for context in row.contexts if not isinstance(context, str))


def _notes(names: Sequence[str]) -> Iterator[str]:
    """What the driver and the ingestor will make of the names."""
    for name in names:
        # As the ingestor cuts it: `..pdf` has no extension, `Smith_v._Jones` has `._jones`.
        extension = os.path.splitext(name)[1].lower()
        if extension not in SUPPORTED:
            yield f"{name!r} has no extension that the ingestor supports: it will be refused"
        elif extension != ".pdf":
            yield f"{name!r} is no PDF: tell evaluate_rag.py with --file-type what dominates in corpus/"
        if any(mark in name for mark in MAPPED_BY_UPLOAD):
            uploaded = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
            yield f"{name!r} is uploaded as {uploaded!r}: answers will name it so"
    if len(names) > LISTED_BY_DRIVER:
        yield (
            f"{len(names)} documents: evaluate_rag.py sees {LISTED_BY_DRIVER} of those ingested and sends the others "
            "again; use --skip_ingestion once they are"
        )
