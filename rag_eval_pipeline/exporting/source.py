"""What is exported: a benchmark as its conversion stamped it, and, if asked for, one system's answers to it."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rag_eval_pipeline.conversion.digests import source_digest
from rag_eval_pipeline.conversion.stamp import Stamp, current_stamp
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import read_manifest
from rag_eval_pipeline.corpus.text.pages import Page, pages_by_document, read_pages
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.exporting.answers import Answers, find_answers
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.train_json import TrainRow, read_train_json
from rag_eval_pipeline.systems.answer import RetrievedPassage
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

Level = Literal["document", "page"]


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What people choose beyond the format.

    Args:
        documents: Evret: with the documents' texts.
        level: BEIR, TREC: what is judged and retrieved, whole documents or their pages.
        overwrite: A target that is not empty is replaced, if it holds no other files than those that are written.
    """

    documents: bool = False
    level: Level = "document"
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class ExportSource:
    """Everything a format's writer reads.

    Args:
        paths: Of the benchmark.
        dataset: As its conversion wrote it.
        documents: Files of the corpus, in the manifest's order.
        names: Which file names mean one document.
        answers: Of one evaluation.
        options: What people chose.
        label: The target's name; NVIDIA's driver names its files by it.
    """

    paths: BenchmarkPaths
    dataset: EvaluationDataset
    documents: tuple[CorpusDocument, ...]
    names: CorpusFiles
    answers: Answers | None
    options: ExportOptions
    label: str

    def train_rows(self) -> list[TrainRow]:
        """The rows of `train.json`, checked to be those of the dataset.

        Raises:
            InputError: `changed_dataset`, or a fault of the file.
        """
        rows = read_train_json(self.paths.train_json)
        if [str(row.id) for row in rows] != [query.query_id for query in self.dataset.queries]:
            raise _changed(self.paths.train_json, self.paths.name)
        return rows

    def pages(self) -> dict[str, list[Page]]:
        """The pages of each file of the corpus."""
        pages = pages_by_document(read_pages(self.paths.pages))
        return {document.file_name: pages.get(document.file_name, []) for document in self.documents}

    def distinct_documents(self) -> Iterator[CorpusDocument]:
        """The files of the corpus without second names of one document."""
        return (d for d in self.documents if self.names.canonical(d.file_name) == d.file_name)

    def judged(self, query: EvaluationQuery) -> tuple[str, ...]:
        """Ids of what is relevant, at the level asked for; a document with two names counts once, by its first name.

        At page level these are the pages on which located gold texts start, as in our own page-level scores.
        """
        if self.options.level == "document":
            return tuple(dict.fromkeys(self.names.canonical(name) for name in query.relevant_documents))
        pages = ((self.names.canonical(c.file_name), c.page_number) for c in query.citations if c.page_number)
        return tuple(dict.fromkeys(page_id(name, page) for name, page in pages))

    def retrieved(self, passages: tuple[RetrievedPassage, ...]) -> dict[str, float | None]:
        """Ids of what was retrieved, in the order of the best passage of each, with that passage's score.

        At page level, passages whose page is not known are left out.
        """
        found: dict[str, float | None] = {}
        for passage in sorted(passages, key=lambda passage: passage.rank):
            name = self.names.canonical(passage.document)
            if self.options.level == "document":
                found.setdefault(name, passage.score)
            elif passage.page is not None:
                found.setdefault(page_id(name, passage.page), passage.score)
        return found


def page_id(file_name: str, page: int) -> str:
    """`<file name>#page=<1-based page>`: how a PDF's page is addressed (RFC 8118); no corpus file's name ends so."""
    return f"{file_name}#page={page}"


def load_source(
    workspace: Workspace, name: str, *, evaluation: str | None, options: ExportOptions, label: str
) -> ExportSource:
    """A benchmark with a current conversion whose files are those that it stamped; the caller holds its lock.

    Raises:
        InputError: `not_converted`, `stale_conversion`, `changed_dataset`, what `find_answers` raises, or a fault of a
            file.
    """
    paths = workspace.benchmark(name)
    stamp = current_stamp(paths, source_digest(paths))
    dataset_path = workspace.eval_json(stamp.dataset_id, stamp.dataset_version)
    _check_digests(paths, stamp, dataset_path)
    dataset = EvaluationDataset.read(dataset_path)
    documents = [document for document in read_manifest(paths.documents) if document.origin != "missing"]
    return ExportSource(
        paths=paths,
        dataset=dataset,
        documents=tuple(documents),
        names=CorpusFiles(paths, documents),
        answers=None if evaluation is None else find_answers(workspace, evaluation, stamp, dataset),
        options=options,
        label=label,
    )


def _check_digests(paths: BenchmarkPaths, stamp: Stamp, dataset: Path) -> None:
    stamped = {dataset: stamp.dataset_fingerprint, **{paths.dataset / name: sha for name, sha in stamp.files.items()}}
    for path, sha256 in stamped.items():
        try:
            with path.open("rb") as file:
                unchanged = hashlib.file_digest(file, "sha256").hexdigest() == sha256
        except FileNotFoundError:
            unchanged = False
        if not unchanged:
            raise _changed(path, paths.name)


def _changed(path: Path, benchmark: str) -> InputError:
    hint = f"Convert again: rag-eval convert {benchmark}"
    return InputError("changed_dataset", path, "the file that the conversion wrote", hint=hint)
