"""Evret's two files: `<id>.json` and `<id>.csv`.

Source: Evret: Dataset Format.
"""

from pathlib import Path

from rag_eval_pipeline.corpus.text.pages import document_text
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.exporting.identity import Identity
from rag_eval_pipeline.exporting.report import Written
from rag_eval_pipeline.exporting.source import ExportSource
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, SourceDocument
from rag_eval_pipeline.formats.evret import read_evret_json, write_evret_csv, write_evret_json


def write_evret(source: ExportSource, folder: Path) -> Written:
    """Writes both files; the JSON with documents when they are asked for, the CSV has no place for them.

    Names stand as they are, `"` and `=` included: Evret compares ids exactly, so no cell is altered for spreadsheets.

    Not carried: query type, difficulty, citations, impossibility, the source's id and metadata. Evaluations have no
    place either: Evret keeps means only.

    Raises:
        InputError: `no_answers_in_format` when an evaluation was asked for.
    """
    if source.answers is not None:
        raise InputError(
            "no_answers_in_format", "--evaluation", "a format that can hold answers: nvidia, trec, ragas", found="evret"
        )
    dataset = source.dataset
    counts = {"questions": len(dataset.queries)}
    whole = dataset
    if source.options.documents:
        documents = tuple(
            SourceDocument(document_id=name, content=document_text(pages)) for name, pages in source.pages().items()
        )
        whole = dataset.model_copy(update={"documents": documents})
        counts["documents"] = len(documents)
    write_evret_json(whole, folder / f"{dataset.dataset_id}.json")
    write_evret_csv(dataset, folder / f"{dataset.dataset_id}.csv")
    return Written(counts)


def read_evret(folder: Path, identity: Identity) -> EvaluationDataset:
    """The dataset of `<id>.json`.

    Raises:
        InputError: `missing_file` when the folder holds no such file, or a fault of it.
    """
    dataset = read_evret_json(folder / f"{identity.dataset_id}.json").dataset
    name = identity.name or identity.dataset_id
    return dataset.model_copy(update={"dataset_id": identity.dataset_id, "version": identity.version, "name": name})
