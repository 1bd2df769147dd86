"""A BEIR folder of a benchmark: the text of its corpus, its questions, and which documents or pages are relevant."""

from collections.abc import Iterator
from pathlib import Path

from rag_eval_pipeline.corpus.text.pages import document_text
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.exporting.identity import Identity
from rag_eval_pipeline.exporting.report import Written
from rag_eval_pipeline.exporting.source import ExportSource, page_id
from rag_eval_pipeline.formats.beir import BeirDocument, beir_dataset, beir_query, read_beir, write_beir
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.formats.trec import Qrel


def write_beir_folder(source: ExportSource, folder: Path) -> Written:
    """Writes `corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`.

    A document's text is its pages joined by a form feed, the text that citations are offsets into; its title is empty.
    At page level each page is a document. A document with two names stands there once, by its first. Queries carry
    everything else in `metadata`.

    Not carried: the dataset's name, version, description and metadata. BEIR has no place for answers of a system.

    Raises:
        InputError: `no_answers_in_format` when an evaluation was asked for.
    """
    if source.answers is not None:
        raise InputError(
            "no_answers_in_format", "--evaluation", "a format that can hold answers: nvidia, trec, ragas", found="beir"
        )
    queries = source.dataset.queries
    judged = {query.query_id: source.judged(query) for query in queries}
    corpus = list(_corpus(source))
    write_beir(
        folder,
        (beir_query(query, judged=judged[query.query_id]) for query in queries),
        corpus,
        (Qrel(query_id, document, 1) for query_id, documents in judged.items() for document in documents),
    )
    counts = {"questions": len(queries), "documents": len(corpus), "judgements": sum(map(len, judged.values()))}
    return Written(counts, notes=tuple(_notes([not documents for documents in judged.values()])))


def read_beir_folder(folder: Path, identity: Identity) -> EvaluationDataset:
    """The dataset of a BEIR folder; errors as `read_beir` and `beir_dataset`."""
    return beir_dataset(read_beir(folder), dataset_id=identity.dataset_id, version=identity.version, name=identity.name)


def _corpus(source: ExportSource) -> Iterator[BeirDocument]:
    pages = source.pages()
    for document in source.distinct_documents():
        own = pages[document.file_name]
        if source.options.level == "document":
            yield BeirDocument(document.file_name, document_text(own))
        else:
            yield from (BeirDocument(page_id(document.file_name, page.page), page.text) for page in own)


def _notes(unjudged: list[bool]) -> Iterator[str]:
    if number := sum(unjudged):
        yield f"{number} of {len(unjudged)} questions have no relevant document: BEIR's own loader leaves them out"
