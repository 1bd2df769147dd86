"""TREC qrels and runs: `qid iteration docid grade` and `qid Q0 docid rank score tag`, as trec_eval reads them.

Read line by line. What trec_eval reads is read here, with the same value: in runs blank lines, comments and fields
after the tag, in qrels comments; any word as iteration, Q0 and rank; every spelling of a number that C's `atof` and
`atol` read to its end. Where they would make a number of something that is none (`0,5`, `high`), and where a document
stands twice for a query, the line is a fault. Ids stay as they are written. `.gz` is read by content and written by
name.
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
_INTEGER = re.compile(rb"([+-]?[0-9]{1,18})(?:\.0*)?")
_RANK = re.compile(rb"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf(?:inity)?", re.IGNORECASE)
_HEX_NUMBER = re.compile(rb"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?", re.IGNORECASE)


class Qrel(NamedTuple):
    """One judgement; a grade of 1 and more is relevant."""

    query_id: str
    document_id: str
    grade: int


class RunLine(NamedTuple):
    """One retrieved document. trec_eval orders by score, then by document id descending, and never looks at ranks.

    Args:
        rank: None where the file has a word that is no whole number.
    """

    query_id: str
    document_id: str
    rank: int | None
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
            ids = f"{_query_id(path, query)} 0 {check_id(path, document, 'document id')}"
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
            query, document = _query_id(path, line.query_id), check_id(path, line.document_id, "document id")
            if math.isnan(line.score):
                raise InputError("bad_score", path, f"a number as the score of {document!r}", row=count, found="nan")
            tag = check_id(path, line.tag, "tag")
            rank = 0 if line.rank is None else line.rank
            file.write(f"{query} Q0 {document} {rank} {float(line.score)!r} {tag}\n".encode())
    return count


def _query_id(path: Path, identifier: str) -> str:
    if identifier.startswith("#"):
        expected = "a query id that does not begin with #, because trec_eval takes such a line for a comment"
        raise InputError("bad_id", path, expected, field="query id", found=identifier)
    return check_id(path, identifier, "query id")


def _qrel_parser(path: Path) -> Parse[Qrel]:
    seen = SeenPairs()

    def parse(line: bytes, row: int) -> Qrel | None:
        if line.startswith(b"#"):
            return None
        query, _, document, grade = _fields(
            path, line, row, "query id, iteration, document id, grade", line.split()
        )  # fmt: skip
        qrel = Qrel(query.decode(), document.decode(), _integer(path, grade, row, "grade"))
        return _once(path, qrel, row, seen)

    return parse


def _run_parser(path: Path) -> Parse[RunLine]:
    seen = SeenPairs()

    def parse(line: bytes, row: int) -> RunLine | None:
        fields = line.split(maxsplit=6)
        if not fields or fields[0].startswith(b"#"):
            return None
        names = "query id, Q0, document id, rank, score, tag"
        query, _, document, rank, score, tag = _fields(path, line, row, names, fields[:6])
        place = int(rank) if _RANK.fullmatch(rank) else None
        found = RunLine(query.decode(), document.decode(), place, _score(path, score, row), tag.decode())
        return _once(path, found, row, seen)

    return parse


def _fields(path: Path, line: bytes, row: int, names: str, fields: list[bytes]) -> list[bytes]:
    expected = names.count(",") + 1
    if len(fields) != expected:
        raise InputError(
            "bad_fields", path, f"{expected} fields ({names})", row=row,
            found=f"{len(fields)} in {line[:100].decode(errors='backslashreplace')!r}",
        )  # fmt: skip
    return fields


def _integer(path: Path, text: bytes, row: int, field: str) -> int:
    if found := _INTEGER.fullmatch(text):
        return int(found[1])
    raise InputError(
        "bad_number", path, "an integer", row=row, field=field, found=text.decode(errors="backslashreplace")
    )


def _score(path: Path, text: bytes, row: int) -> float:
    shown = text.decode(errors="backslashreplace")
    if shown.lower().lstrip("+-") == "nan":
        raise InputError("bad_score", path, "a number, which NaN is not", row=row, field="score", found=shown)
    if _NUMBER.fullmatch(text):
        return float(text)
    if _HEX_NUMBER.fullmatch(text):
        return float.fromhex(shown)
    raise InputError("bad_number", path, "a decimal number", row=row, field="score", found=shown)


def _once(path: Path, record: Line, row: int, seen: SeenPairs) -> Line:
    if seen.add(record.query_id, record.document_id):
        return record
    raise InputError(
        "duplicate_document", path, f"each document once for query {record.query_id!r}", row=row, field="document id",
        found=record.document_id,
    )  # fmt: skip
