"""TREC qrels and runs: `qid iteration docid grade` and `qid Q0 docid rank score tag`, as trec_eval reads them.

Read line by line and strictly: another number of fields, a number that is none, NaN and a document that stands twice
for a query are faults with their line. Ids stay as they are written. `.gz` is read by content and written by name.
Topics are in `trec_topics`, what all these files share in `trec_lines`.
"""

import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.trec_lines import (
    Parse,
    SeenPairs,
    check_id,
    decode_id,
    encode_id,
    findings,
    packing,
    parsed,
    strict,
)
from rag_eval_pipeline.formats.trec_topics import Topic, check_topics, iterate_topics, write_topics

__all__ = [
    "Qrel",
    "RunLine",
    "Topic",
    "check_qrels",
    "check_run",
    "check_topics",
    "decode_id",
    "encode_id",
    "iterate_qrels",
    "iterate_run",
    "iterate_topics",
    "read_qrels",
    "read_run",
    "write_qrels",
    "write_run",
    "write_topics",
]

# Narrower than int() and float(), which take `1_0` and other alphabets' digits. 18 digits fit into 64 bits.
_INTEGER = re.compile(rb"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|INF|Inf)")


class Qrel(NamedTuple):
    """One judgement; a grade of 1 and more is relevant."""

    query_id: str
    document_id: str
    grade: int


class RunLine(NamedTuple):
    """One retrieved document. trec_eval orders by score, then by document id descending, and never looks at ranks."""

    query_id: str
    document_id: str
    rank: int
    score: float
    tag: str


Line = TypeVar("Line", Qrel, RunLine)


def iterate_qrels(path: Path) -> Iterator[Qrel]:
    """The judgements of a file in its order; the second field is passed over, as trec_eval does.

    Raises:
        InputError: `missing_file`, `unreadable_file`, `bad_gzip`, `long_line`, and with the line `bad_fields`,
            `bad_number`, `bad_encoding`, `duplicate_document`.
    """
    return strict(parsed(path, _qrel_parser(path)))


def iterate_run(path: Path) -> Iterator[RunLine]:
    """The lines of a run in the file's order.

    Raises:
        InputError: As `iterate_qrels`, and `bad_score` for NaN.
    """
    return strict(parsed(path, _run_parser(path)))


def checked_qrels(path: Path) -> Iterator[Qrel | InputError]:
    """The judgements of a file in its order, and in the place of a bad line its fault.

    Raises:
        InputError: Faults of the file as a whole.
    """
    return parsed(path, _qrel_parser(path))


def check_qrels(path: Path) -> list[str]:
    """Every fault of a qrels file as a line; none when it is good."""
    return findings(parsed(path, _qrel_parser(path)))


def check_run(path: Path) -> list[str]:
    """Every fault of a run as a line; none when it is good."""
    return findings(parsed(path, _run_parser(path)))


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Query -> document -> grade; errors as `iterate_qrels`."""
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in iterate_qrels(path):
        qrels.setdefault(query, {})[document] = grade
    return qrels


def read_run(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Query -> (document, score) in the file's order, for `rank_by_score`; errors as `iterate_run`."""
    run: dict[str, list[tuple[str, float]]] = {}
    for line in iterate_run(path):
        run.setdefault(line.query_id, []).append((line.document_id, line.score))
    return run


def write_qrels(path: Path, qrels: Iterable[Qrel]) -> int:
    """Publishes judgements, a line each.

    Returns:
        The number of lines.

    Raises:
        InputError: `bad_id`.
    """
    count = 0
    with packing(path) as file:
        for query, document, grade in qrels:
            count += 1
            ids = f"{check_id(path, query, 'query id')} 0 {check_id(path, document, 'document id')}"
            file.write(f"{ids} {grade}\n".encode())
    return count


def write_run(path: Path, run: Iterable[RunLine]) -> int:
    """Publishes a run, a line a document; scores keep every digit.

    Returns:
        The number of lines.

    Raises:
        InputError: `bad_id`, `bad_score`.
    """
    count = 0
    with packing(path) as file:
        for count, line in enumerate(run, start=1):
            query, document = check_id(path, line.query_id, "query id"), check_id(path, line.document_id, "document id")
            if math.isnan(line.score):
                raise InputError("bad_score", path, f"a number as the score of {document!r}", row=count, found="nan")
            tag = check_id(path, line.tag, "tag")
            file.write(f"{query} Q0 {document} {line.rank} {float(line.score)!r} {tag}\n".encode())
    return count


def _qrel_parser(path: Path) -> Parse[Qrel]:
    seen = SeenPairs()

    def parse(line: bytes, row: int) -> Qrel:
        query, _, document, grade = _fields(path, line, row, "query id, iteration, document id, grade")
        qrel = Qrel(query.decode(), document.decode(), _integer(path, grade, row, "grade"))
        return _once(path, qrel, row, seen)

    return parse


def _run_parser(path: Path) -> Parse[RunLine]:
    seen = SeenPairs()

    def parse(line: bytes, row: int) -> RunLine:
        query, _, document, rank, score, tag = _fields(
            path, line, row, "query id, Q0, document id, rank, score, tag"
        )  # fmt: skip
        found = RunLine(
            query.decode(), document.decode(), _integer(path, rank, row, "rank"), _score(path, score, row), tag.decode()
        )
        return _once(path, found, row, seen)

    return parse


def _fields(path: Path, line: bytes, row: int, names: str) -> list[bytes]:
    fields = line.split()  # at ASCII white space only, as trec_eval
    expected = names.count(",") + 1
    if len(fields) != expected:
        raise InputError(
            "bad_fields", path, f"{expected} fields ({names})", row=row,
            found=f"{len(fields)} in {line[:100].decode(errors='backslashreplace')!r}",
        )  # fmt: skip
    return fields


def _integer(path: Path, text: bytes, row: int, field: str) -> int:
    if _INTEGER.fullmatch(text):
        return int(text)
    raise InputError(
        "bad_number", path, "an integer", row=row, field=field, found=text.decode(errors="backslashreplace")
    )


def _score(path: Path, text: bytes, row: int) -> float:
    shown = text.decode(errors="backslashreplace")
    if shown.lower().lstrip("+-") == "nan":
        raise InputError("bad_score", path, "a number, which NaN is not", row=row, field="score", found=shown)
    if _NUMBER.fullmatch(text):
        score = float(text)
        if math.isfinite(score) or b"n" in text.lower():
            return score
    raise InputError("bad_number", path, "a decimal number", row=row, field="score", found=shown)


def _once(path: Path, record: Line, row: int, seen: SeenPairs) -> Line:
    if seen.add(record.query_id, record.document_id):
        return record
    raise InputError(
        "duplicate_document", path, f"each document once for query {record.query_id!r}", row=row, field="document id",
        found=record.document_id,
    )  # fmt: skip
