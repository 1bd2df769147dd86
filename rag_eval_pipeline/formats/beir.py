"""A BEIR folder: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`, as BEIR's `GenericDataLoader` reads them.

Documents are `{_id, title, text}`, queries `{_id, text, metadata}`, judgements a table with the header `query-id`,
`corpus-id`, `score`, quoted as by Python's csv module. Other keys in the JSON lines are ignored. BEIR's loader leaves
out queries without judgements; the files hold them.

A query's further fields are one flat mapping, for formats that know an id, a text and `metadata`: the source's own
metadata beside `query_type`, `difficulty`, `ground_truth_answer`, `citations` and, where the format cannot say it
otherwise, `relevant_documents`. A key of the source with one of these names, or that starts with `metadata.`, gets
`metadata.` before it, so that `unpack_metadata(pack_metadata(query)) == query` for every query.
"""

import contextlib
import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationDataset, EvaluationQuery, SourceDocument
from rag_eval_pipeline.formats.io import parse_json
from rag_eval_pipeline.formats.model import bad_format, decoding_error
from rag_eval_pipeline.formats.trec import Qrel, SeenPairs, lines
from rag_eval_pipeline.storage.files import publishing

HEADER = ("query-id", "corpus-id", "score")
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


Line = TypeVar("Line", BeirDocument, BeirQuery)


def write_beir(
    folder: Path,
    queries: Iterable[BeirQuery],
    corpus: Iterable[BeirDocument],
    qrels: Iterable[Qrel],
    *,
    split: str = "test",
) -> None:
    """Publish the three files, each in constant memory."""
    for name, records in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
        path = folder / name
        with publishing(path) as file:
            for record in records:
                _check_id(path, record.id)
                # Not msgspec's encoder: metadata may hold integers beyond 64 bits.
                text = json.dumps(msgspec.to_builtins(record), ensure_ascii=False, allow_nan=False)
                file.write(text.encode() + b"\n")
    path = qrels_path(folder, split)
    with publishing(path) as file:
        file.write("\t".join(HEADER).encode() + b"\n")
        for query, document, grade in qrels:
            cells = (_cell(_check_id(path, query)), _cell(_check_id(path, document)), str(grade))
            file.write("\t".join(cells).encode() + b"\n")


def read_beir(folder: Path, *, split: str = "test") -> Beir:
    """Return the folder's content; errors as the `iterate_` functions."""
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in iterate_qrels(qrels_path(folder, split)):
        qrels.setdefault(query, {})[document] = grade
    return Beir(
        queries={query.id: query for query in iterate_queries(folder / "queries.jsonl")},
        corpus={document.id: document for document in iterate_corpus(folder / "corpus.jsonl")},
        qrels=qrels,
    )


def iterate_corpus(path: Path) -> Iterator[BeirDocument]:
    """Yield the documents of a `corpus.jsonl`, plain or gzip-compressed, in its order."""
    return _records(path, BeirDocument)


def iterate_queries(path: Path) -> Iterator[BeirQuery]:
    """Yield the queries of a `queries.jsonl` in its order; errors as `iterate_corpus`."""
    return _records(path, BeirQuery)


def iterate_qrels(path: Path) -> Iterator[Qrel]:
    """Yield the judgements of a `qrels/<split>.tsv` in its order."""
    seen = SeenPairs()
    try:
        with path.open("rb") as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
            table = csv.reader(file, delimiter="\t", strict=True)
            for cells in table:
                row = table.line_num
                if row == 1 or len(cells) != len(HEADER):
                    if row == 1 and tuple(cells) == HEADER:
                        continue
                    expected = f"{len(HEADER)} fields with tabs between: {', '.join(HEADER)}"
                    raise InputError("bad_header" if row == 1 else "bad_fields", path, expected, row=row, found=cells)
                query, document, grade = cells
                if not _GRADE.fullmatch(grade):
                    raise InputError("bad_number", path, "an integer", row=row, field="score", found=grade)
                if not seen.add(query, document):
                    raise InputError(
                        "duplicate_document", path, f"each document once for query {query!r}", row=row,
                        field="corpus-id", found=document,
                    )  # fmt: skip
                yield Qrel(query, document, int(grade))
            if table.line_num == 0:
                raise InputError("bad_header", path, f"a header: {', '.join(HEADER)}")
    except FileNotFoundError:
        raise InputError("missing_file", path, "a file") from None
    except csv.Error as error:
        raise InputError("bad_fields", path, "tab-separated fields", row=table.line_num, found=str(error)) from error
    except UnicodeDecodeError as error:
        raise InputError("bad_encoding", path, "UTF-8", found=error.object[error.start : error.end]) from error


def qrels_path(folder: Path, split: str) -> Path:
    """Return the path of `qrels/<split>.tsv`."""
    return folder / "qrels" / f"{split}.tsv"


def beir_query(query: EvaluationQuery, *, judged: Iterable[str]) -> BeirQuery:
    """Return a query with its further fields as metadata; `judged` are its relevant documents in the qrels."""
    return BeirQuery(query.query_id, query.query_text, pack_metadata(query, judged=tuple(judged)))


def beir_dataset(
    beir: Beir, *, dataset_id: str, version: str = "0.0.0", name: str | None = None, documents: bool = False
) -> EvaluationDataset:
    """Return a folder as an evaluation dataset, whose name is the id unless given; `documents` includes the corpus."""
    for query_id in beir.qrels:
        if query_id not in beir.queries:
            raise InputError("unknown_query", "qrels", "ids of queries.jsonl", field="query-id", found=query_id)
    queries = []
    for query in beir.queries.values():
        judged = [document for document, grade in beir.qrels.get(query.id, {}).items() if grade >= 1]
        try:
            queries.append(unpack_metadata(query.id, query.text, judged, query.metadata))
        except pydantic.ValidationError as error:
            raise bad_format(Path("queries.jsonl"), error) from error
    inline = tuple(
        SourceDocument(document_id=document.id, content=document.text, title=document.title or None)
        for document in beir.corpus.values()
    )
    return EvaluationDataset(
        dataset_id=dataset_id,
        name=name or dataset_id,
        version=version,
        queries=tuple(queries),
        documents=inline if documents else None,
    )


def _records(path: Path, record_type: type[Line]) -> Iterator[Line]:
    seen: set[str] = set()
    for row, line in lines(path):
        try:
            record = msgspec.convert(parse_json(line, path), record_type)
        except InputError as error:
            expected = "one JSON object a line" if error.expected == "JSON" else error.expected
            fault = InputError(error.code, path, expected, row=row)
            fault.found = error.found  # it is an excerpt already
            raise fault from error
        except msgspec.ValidationError as error:
            raise decoding_error(error, path, row=row) from error
        if not record.id or record.id in seen:
            raise InputError("duplicate_id", path, "ids, each once", row=row, field="_id", found=record.id)
        seen.add(record.id)
        yield record


def _check_id(path: Path, identifier: str) -> str:
    if identifier:
        return identifier
    raise InputError("bad_id", path, "an id that is not empty", field="_id", found=identifier)


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
