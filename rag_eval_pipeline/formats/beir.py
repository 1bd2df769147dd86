"""A BEIR folder: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`, as BEIR's `GenericDataLoader` reads them.

Documents are `{_id, title, text}`, queries `{_id, text, metadata}`, judgements a table with the header `query-id`,
`corpus-id`, `score`, quoted as by Python's csv module. Other keys in the JSON lines are ignored.

The other fields of a query are in its `metadata`, beside the source's; a key of the source that is called like one of
them, or that starts with `metadata.`, gets `metadata.` before it.
"""

import contextlib
import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.model import bad_format_of
from rag_eval_pipeline.formats.trec import (
    BEIR_HEADER,
    Qrel,
    SeenPairs,
    grades_by_query,
    once,
    read_json_lines,
    write_json_lines,
)
from rag_eval_pipeline.storage.atomic_files import publishing

QRELS = Path("qrels", "test.tsv")
# Columns of judgements in files of any origin, in lower case with `_` between words.
QRELS_QUERY = ("query_id", "qid", "topic", "topic_id")
QRELS_DOCUMENT = ("corpus_id", "document_id", "doc_id", "docid", "docno", "passage_id", "pid")
FIELDS = ("query_type", "difficulty", "ground_truth_answer", "citations", "relevant_documents")
SOURCE_PREFIX = "metadata."

_QUOTED = re.compile('[\t\r\n"]')
_GRADE = re.compile(r"-?[0-9]{1,18}", re.ASCII)


class BeirDocument(msgspec.Struct, frozen=True):
    """A document of the corpus; its title may be empty."""

    id: str = msgspec.field(name="_id")
    text: str
    title: str = ""


class BeirQuery(msgspec.Struct, frozen=True):
    """A query and its source's metadata."""

    id: str = msgspec.field(name="_id")
    text: str
    metadata: dict[str, Any] = {}


class Beir(NamedTuple):
    """A whole folder; each mapping in its file's order."""

    queries: dict[str, BeirQuery]
    corpus: dict[str, BeirDocument]
    qrels: dict[str, dict[str, int]]  # query id -> document id -> grade; 1 and more is relevant


def write_beir(
    folder: Path, queries: Iterable[BeirQuery], corpus: Iterable[BeirDocument], qrels: Iterable[Qrel]
) -> None:
    """Publish the three files, each in constant memory."""
    write_json_lines(folder / "corpus.jsonl", corpus)
    write_json_lines(folder / "queries.jsonl", queries)
    path = folder / QRELS
    with publishing(path) as file:
        file.write("\t".join(BEIR_HEADER).encode() + b"\n")
        for query, document, grade in qrels:
            file.write(f"{_cell(query)}\t{_cell(document)}\t{grade}\n".encode())


def read_beir(folder: Path) -> Beir:
    """Return the folder's content."""
    return Beir(
        queries={query.id: query for query in read_json_lines(folder / "queries.jsonl", BeirQuery)},
        corpus={document.id: document for document in read_json_lines(folder / "corpus.jsonl", BeirDocument)},
        qrels=read_beir_qrels(folder / QRELS),
    )


def read_beir_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Return query -> document -> grade; errors as `formats.trec.read_qrels`."""
    try:
        return grades_by_query(_qrels(path))
    except UnicodeDecodeError as error:
        raise InputError("bad_encoding", path, "UTF-8", found=error.object[error.start : error.end]) from error
    except csv.Error as error:
        raise InputError("bad_fields", path, f"{', '.join(BEIR_HEADER)} with tabs between", found=str(error)) from error


def _qrels(path: Path) -> Iterator[Qrel]:
    seen = SeenPairs()
    with path.open(encoding="utf-8-sig", newline="") as file:
        table = csv.reader(file, delimiter="\t", strict=True)
        for cells in table:
            if table.line_num == 1 and tuple(cells) == BEIR_HEADER:
                continue
            if table.line_num == 1 or len(cells) != len(BEIR_HEADER) or not _GRADE.fullmatch(cells[2]):
                expected = f"{', '.join(BEIR_HEADER)} with tabs between, a whole number as score"
                raise InputError("bad_fields", path, expected, row=table.line_num, found=cells)
            yield once(path, Qrel(cells[0], cells[1], int(cells[2])), table.line_num, seen)


def beir_query(query: EvaluationQuery, *, judged: Iterable[str]) -> BeirQuery:
    """Return a query with its further fields as metadata; `judged` are its relevant documents in the qrels."""
    return BeirQuery(query.query_id, query.query_text, pack_metadata(query, judged=tuple(judged)))


def beir_queries(beir: Beir) -> tuple[EvaluationQuery, ...]:
    """Return the queries of a folder with the relevant documents of its qrels."""
    for query_id in beir.qrels:
        if query_id not in beir.queries:
            raise InputError("unknown_query", "qrels", "ids of queries.jsonl", field="query-id", found=query_id)
    queries = []
    for query in beir.queries.values():
        judged = [document for document, grade in beir.qrels.get(query.id, {}).items() if grade >= 1]
        with bad_format_of("queries.jsonl", EvaluationQuery):
            queries.append(unpack_metadata(query.id, query.text, judged, query.metadata))
    return tuple(queries)


def _cell(text: str) -> str:
    """Quote a cell for Python's csv reader; its writer of 3.11 leaves a lone carriage return unquoted."""
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def pack_metadata(query: EvaluationQuery, *, judged: Sequence[str]) -> dict[str, Any]:
    """Return everything of a query but its id and text; absent fields have no key."""
    packed = {SOURCE_PREFIX + key if _needs_prefix(key) else key: value for key, value in query.metadata.items()}
    for name in ("query_type", "difficulty", "ground_truth_answer"):
        if (value := getattr(query, name)) is not None:
            packed[name] = value
    if query.citations:
        packed["citations"] = [citation.model_dump(exclude_none=True) for citation in query.citations]
    if tuple(judged) != query.relevant_documents:
        packed["relevant_documents"] = list(query.relevant_documents)
    return packed


def unpack_metadata(query_id: str, text: str, judged: Sequence[str], packed: Mapping[str, Any]) -> EvaluationQuery:
    """Return the query that `pack_metadata` packed.

    Values that other people wrote under one of our names, and that mean something else, stay metadata.
    """
    source = {}
    for key, value in packed.items():
        if key not in FIELDS:
            bare = key.removeprefix(SOURCE_PREFIX)
            source[bare if bare != key and _needs_prefix(bare) else key] = value
    identity = {"query_id": query_id, "query_text": text, "relevant_documents": tuple(judged)}
    fields = {name: packed[name] for name in FIELDS if name in packed}
    try:
        return EvaluationQuery.model_validate({**identity, **fields, "metadata": source})
    except pydantic.ValidationError:
        query = EvaluationQuery.model_validate({**identity, "metadata": source})
    for name, value in fields.items():
        with contextlib.suppress(pydantic.ValidationError):
            query = EvaluationQuery.model_validate({**query.model_dump(), name: value})
            continue
        query = query.model_copy(update={"metadata": {**query.metadata, name: value}})
    return query


def _needs_prefix(key: str) -> bool:
    return key in FIELDS or key.startswith(SOURCE_PREFIX)
