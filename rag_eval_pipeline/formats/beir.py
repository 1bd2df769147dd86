"""A BEIR folder: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`, as BEIR's `GenericDataLoader` takes them.

Documents are `{_id, title, text}`, queries `{_id, text, metadata}`, judgements a table with the header `query-id`,
`corpus-id`, `score`, quoted as Python's csv module does. Other keys in the JSON lines are passed over. BEIR's loader
itself leaves out queries without judgements; the files hold them.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery, SourceDocument
from rag_eval_pipeline.formats.json_text import each_key_once
from rag_eval_pipeline.formats.model import bad_format
from rag_eval_pipeline.formats.query_metadata import pack, unpack
from rag_eval_pipeline.formats.trec import Qrel
from rag_eval_pipeline.formats.trec_lines import SeenPairs, lines
from rag_eval_pipeline.storage.atomic import publishing

HEADER = ("query-id", "corpus-id", "score")

_QUOTED = re.compile('[\t\r\n"]')
_GRADE = re.compile(r"-?[0-9]{1,18}", re.ASCII)


class BeirDocument(msgspec.Struct, frozen=True):
    """A document of the corpus; `title` may be empty."""

    id: str = msgspec.field(name="_id")
    text: str
    title: str = ""


class BeirQuery(msgspec.Struct, frozen=True):
    """A query and whatever its source says of it."""

    id: str = msgspec.field(name="_id")
    text: str
    metadata: dict[str, Any] = {}


class Beir(NamedTuple):
    """A whole folder; each mapping in its file's order.

    Args:
        queries: Id -> query.
        corpus: Id -> document.
        qrels: Query id -> document id -> grade; 1 and more is relevant.
    """

    queries: dict[str, BeirQuery]
    corpus: dict[str, BeirDocument]
    qrels: dict[str, dict[str, int]]


Line = TypeVar("Line", BeirDocument, BeirQuery)


def write_beir(
    folder: Path,
    queries: Iterable[BeirQuery],
    corpus: Iterable[BeirDocument],
    qrels: Iterable[Qrel],
    *,
    split: str = "test",
) -> None:
    """Publishes the three files, each in constant memory.

    Raises:
        InputError: `bad_id` for an empty id.
    """
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
    """The folder's content; errors as the `iterate_` functions, and `duplicate_id`."""
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in iterate_qrels(qrels_path(folder, split)):
        qrels.setdefault(query, {})[document] = grade
    return Beir(
        queries={query.id: query for query in iterate_queries(folder / "queries.jsonl")},
        corpus={document.id: document for document in iterate_corpus(folder / "corpus.jsonl")},
        qrels=qrels,
    )


def iterate_corpus(path: Path) -> Iterator[BeirDocument]:
    """The documents of a `corpus.jsonl`, plain or gzip-compressed, in its order.

    Raises:
        InputError: `missing_file`, `bad_gzip`, and with the line `bad_json`, `bad_format`, `duplicate_id`.
    """
    return _records(path, BeirDocument)


def iterate_queries(path: Path) -> Iterator[BeirQuery]:
    """The queries of a `queries.jsonl` in its order; errors as `iterate_corpus`."""
    return _records(path, BeirQuery)


def iterate_qrels(path: Path) -> Iterator[Qrel]:
    """The judgements of a `qrels/<split>.tsv` in its order.

    Raises:
        InputError: `missing_file`, and with the line `bad_header`, `bad_fields`, `bad_number`, `duplicate_document`.
    """
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
    """`qrels/<split>.tsv`."""
    return folder / "qrels" / f"{split}.tsv"


def beir_query(query: EvaluationQuery, *, judged: Iterable[str]) -> BeirQuery:
    """A query with its further fields as metadata.

    Args:
        query: The query.
        judged: Its relevant documents as the qrels will have them.
    """
    return BeirQuery(query.query_id, query.query_text, pack(query, judged=tuple(judged)))


def beir_dataset(
    beir: Beir, *, dataset_id: str, version: str = "0.0.0", name: str | None = None, documents: bool = False
) -> EvaluationDataset:
    """A folder as an evaluation dataset: queries in their order, relevant documents in the order of the qrels.

    Args:
        beir: From `read_beir`.
        dataset_id: BEIR's files do not name themselves.
        version: Nor do they state a version.
        name: The id unless given.
        documents: The corpus inline.

    Raises:
        InputError: `unknown_query` when a judgement names a query that is not there, `bad_format` for an empty text.
    """
    for query_id in beir.qrels:
        if query_id not in beir.queries:
            raise InputError("unknown_query", "qrels", "ids of queries.jsonl", field="query-id", found=query_id)
    queries = []
    for query in beir.queries.values():
        judged = [document for document, grade in beir.qrels.get(query.id, {}).items() if grade >= 1]
        try:
            queries.append(unpack(query.id, query.text, judged, query.metadata))
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


def _records(path: Path, form: type[Line]) -> Iterator[Line]:
    seen: set[str] = set()
    for row, line in lines(path):
        try:
            record = msgspec.convert(json.loads(line, parse_constant=_refuse, object_pairs_hook=each_key_once), form)
        except msgspec.ValidationError as error:
            message, _, place = str(error).partition(" - at ")
            raise InputError(
                "bad_format", path, message[:1].lower() + message[1:], row=row, field=place.strip("`") or None
            ) from error
        except (ValueError, RecursionError) as error:
            raise InputError("bad_json", path, "one JSON object a line", row=row, found=str(error)) from error
        if not record.id or record.id in seen:
            raise InputError("duplicate_id", path, "ids, each once", row=row, field="_id", found=record.id)
        seen.add(record.id)
        yield record


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _check_id(path: Path, identifier: str) -> str:
    if identifier:
        return identifier
    raise InputError("bad_id", path, "an id that is not empty", field="_id", found=identifier)


def _cell(text: str) -> str:
    """As Python's csv module reads it; its writer of 3.11 leaves a lone carriage return unquoted."""
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
