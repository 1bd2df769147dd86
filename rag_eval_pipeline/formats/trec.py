r"""TREC's text files: qrels (`qid iteration docid grade`), runs (`qid Q0 docid rank score tag`) and topics.

Qrels and runs are read line by line as trec_eval reads them, with the same values: in runs blank lines, comments and
fields after the tag, in qrels comments; any word as iteration, Q0 and rank. Where C's `atof` and `atol` would make a
number of something that is none (`0,5`, `high`), and where a document is repeated for a query, the line is an error.

Topics are read as `num<TAB>text` or in the `<top>` form of the TREC tracks, and written in the first form, which
Anserini, PyTerrier and ir_datasets read. Gzip is recognised by content on reading and by name on writing.

`encode_id` makes any text an id that can be written to such a file, and changes nothing else: each white-space
character becomes `%XX` of its UTF-8 bytes (upper-case hex), NUL likewise, and `25` is put after a `%` that such an
escape follows already. `a b.pdf` is `a%20b.pdf`, `a%20b.pdf` is `a%2520b.pdf`, and `100%.pdf` and `caf%C3%A9.pdf` stay.
"""

import gzip
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic_files import publishing
from rag_eval_pipeline.storage.json_files import BYTE_ORDER_MARK, GZIP_MAGIC, parse_json

LINE_LIMIT = 16 * 1024 * 1024  # bytes; a question has a few hundred, and a decompression bomb has no line ends
# Everything that str.splitlines takes for the end of a line, and the tab.
BREAKING = re.compile("[\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]+")
# trec_eval splits at ASCII white space, most Python readers at what Unicode calls so; NUL ends a string in C.
SPLITTING = re.compile(r"[\s\0]")

# Narrower than int() and float(), which read `1_0` and other alphabets' digits. 18 digits fit into 64 bits.
INTEGER = re.compile(rb"([+-]?[0-9]{1,18})(?:\.0*)?")
_RANK = re.compile(rb"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf(?:inity)?", re.IGNORECASE)

_TOP = re.compile(r"<top>", re.IGNORECASE)
_TOP_END = re.compile(r"</top>", re.IGNORECASE)
# Fields of the ad hoc tracks since 1992; only four are kept.
_FIELD = re.compile(r"<(num|title|desc|narr|head|dom|smry|con|fac|def|nat|time)>", re.IGNORECASE)
_END = re.compile(r"</(num|title|desc|narr|head|dom|smry|con|fac|def|nat|time)>", re.IGNORECASE)
_LABEL = re.compile(r"\A(?:number|topic|description|narrative)\s*:\s*", re.IGNORECASE)


BEIR_HEADER = ("query-id", "corpus-id", "score")  # of BEIR's judgements; TREC's have no header


class Qrel(NamedTuple):
    """One judgement; a grade of 1 and more is relevant."""

    query_id: str
    document_id: str
    grade: int


class RunLine(NamedTuple):
    """One retrieved document. trec_eval orders by score, then by document id descending, and ignores ranks."""

    query_id: str
    document_id: str
    rank: int | None  # None for a word that is no whole number
    score: float
    tag: str


class Topic(NamedTuple):
    """A question; some tracks describe it further."""

    query_id: str
    text: str
    description: str | None = None
    narrative: str | None = None


T = TypeVar("T")
Line = TypeVar("Line", Qrel, RunLine)
Parse = Callable[[bytes, int], T | None]


def iterate_qrels(path: Path) -> Iterator[Qrel]:
    """Yield the judgements of a file in its order; the second field is ignored, as by trec_eval."""
    return strict(parsed(path, _qrel_parser(path)))


def iterate_run(path: Path) -> Iterator[RunLine]:
    """Yield the lines of a run in the file's order."""
    return strict(parsed(path, _run_parser(path)))


def checked_qrels(path: Path) -> Iterator[Qrel | InputError]:
    """Yield the judgements of a file in its order, and in place of a bad line its error."""
    return parsed(path, _qrel_parser(path))


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Return query -> document -> grade; errors as `iterate_qrels`."""
    return grades_by_query(iterate_qrels(path))


def grades_by_query(judgements: Iterable[Qrel]) -> dict[str, dict[str, int]]:
    """Return query -> document -> grade."""
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in judgements:
        qrels.setdefault(query, {})[document] = grade
    return qrels


def read_run(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Return query -> (document, score) in the file's order; errors as `iterate_run`."""
    run: dict[str, list[tuple[str, float]]] = {}
    for line in iterate_run(path):
        run.setdefault(line.query_id, []).append((line.document_id, line.score))
    return run


def write_qrels(path: Path, qrels: Iterable[Qrel]) -> int:
    """Publish judgements and return the number of lines."""
    count = 0
    with packing(path) as file:
        for query, document, grade in qrels:
            count += 1
            ids = f"{_query_id(path, query)} 0 {check_id(path, document, 'document id')}"
            file.write(f"{ids} {grade}\n".encode())
    return count


def write_run(path: Path, run: Iterable[RunLine]) -> int:
    """Publish a run and return the number of lines; scores keep every digit."""
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


def iterate_topics(path: Path) -> Iterator[Topic]:
    """Yield the topics of a file in its order.

    In the `<top>` form labels such as `Number:` are removed, and runs of white space become one space.
    """
    return strict(checked_topics(path))


def write_topics(path: Path, topics: Iterable[Topic]) -> int:
    """Publish topics as `num<TAB>text`, without descriptions and narratives, and return the number of lines."""
    count = 0
    with packing(path) as file:
        for count, topic in enumerate(topics, start=1):
            if not topic.text or BREAKING.search(topic.text):
                expected = "a text without tab and line break"
                raise InputError("bad_topic", path, expected, row=count, field="text", found=topic.text)
            file.write(f"{check_id(path, topic.query_id, 'query id')}\t{topic.text}\n".encode())
    return count


def _escape(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


_ESCAPED = {_escape(chr(code)): chr(code) for code in range(0x3001) if SPLITTING.match(chr(code))}
_ESCAPE = re.compile(f"%((?:25)*)({'|'.join(escape[1:] for escape in _ESCAPED)})")


def encode_id(text: str) -> str:
    """Return the text as an id without white space; `decode_id` reverses it, and no two texts share an id."""
    guarded = _ESCAPE.sub(r"%25\1\2", text)
    return SPLITTING.sub(lambda found: _escape(found[0]), guarded)


def decode_id(identifier: str) -> str:
    """Return the text that `encode_id` made an id of; not for other people's ids, which may hold a literal `%20`."""

    def plain(found: re.Match[str]) -> str:
        return f"%{found[1][2:]}{found[2]}" if found[1] else _ESCAPED[found[0]]

    return _ESCAPE.sub(plain, identifier)


def check_id(path: Path, identifier: str, field: str) -> str:
    """Return the id itself if it can be written to a TREC file."""
    if identifier and not SPLITTING.search(identifier):
        return identifier
    raise InputError(
        "bad_id", path, "an id that is not empty and holds no white space", field=field, found=identifier,
        hint="encode_id makes one.",
    )  # fmt: skip


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    r"""Yield each line of a plain or gzip file, without `\n` or `\r\n`, with its 1-based number; only `\n` ends one."""
    row = 0
    try:
        with path.open("rb") as raw:
            packed = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            raw.seek(0)
            file: BinaryIO = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
            while line := file.readline(LINE_LIMIT):
                row += 1
                if len(line) == LINE_LIMIT and not line.endswith(b"\n"):
                    raise InputError("long_line", path, f"a line shorter than {LINE_LIMIT} bytes", row=row)
                if row == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                yield row, line.removesuffix(b"\n").removesuffix(b"\r")
    except FileNotFoundError:
        raise InputError("missing_file", path, "a file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError("bad_gzip", path, "a whole gzip file", row=row + 1, found=str(error)) from error
    except OSError as error:
        raise InputError("unreadable_file", path, "a readable file", found=error.strerror) from error


def read_json_lines(path: Path, kind: type[T]) -> Iterator[T]:
    """Yield the records of a file of JSON lines, plain or gzip-compressed, that an export wrote."""
    for row, line in lines(path):
        try:
            yield msgspec.convert(parse_json(line, path), kind)
        except (InputError, msgspec.ValidationError) as error:
            expected = "a line as the export writes it"
            raise InputError("bad_format", path, expected, row=row, found=str(error)) from error


def write_json_lines(path: Path, records: Iterable[msgspec.Struct]) -> None:
    """Publish records as JSON lines, in constant memory."""
    with publishing(path) as file:
        for record in records:
            # Not msgspec's encoder: metadata may hold integers beyond 64 bits.
            text = json.dumps(msgspec.to_builtins(record), ensure_ascii=False, allow_nan=False)
            file.write(text.encode() + b"\n")


def parsed(path: Path, parse: Parse[T]) -> Iterator[T | InputError]:
    """Yield what `parse` makes of each line that is no comment, or the error that it raises for it."""
    for row, line in lines(path):
        try:
            if (record := parse(line, row)) is not None:
                yield record
        except InputError as error:
            yield error
        except UnicodeDecodeError as error:
            yield InputError("bad_encoding", path, "UTF-8", row=row, found=error.object[error.start : error.end])


def strict(records: Iterator[T | InputError]) -> Iterator[T]:
    """Yield the records; raise the first error."""
    for record in records:
        if isinstance(record, InputError):
            raise record
        yield record


@contextmanager
def packing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write to, published atomically; compressed, without a time, if its name ends in `.gz`."""
    with publishing(path) as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            yield packed  # type: ignore[misc]


class SeenPairs:
    """Finds repeated documents of a query in little memory.

    Lines of a query are usually consecutive: its documents are a set until the next query begins, and a JSON list
    afterwards, little larger than the ids themselves.
    """

    def __init__(self) -> None:
        self._query: str | None = None
        self._current: set[str] = set()
        self._others: dict[str, bytes] = {}

    def add(self, query: str, document: str) -> bool:
        """Add a pair and return whether it is new."""
        if query != self._query:
            self._switch_to(query)
        size = len(self._current)
        self._current.add(document)
        return len(self._current) > size

    def _switch_to(self, query: str) -> None:
        if self._query is not None:
            self._others[self._query] = msgspec.json.encode(list(self._current))
        self._query = query
        self._current = msgspec.json.decode(self._others.pop(query, b"[]"), type=set[str])


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
        names = "query id, iteration, document id, grade"
        query, _, document, grade = _fields(path, line, row, names, line.split())
        qrel = Qrel(query.decode(), document.decode(), _integer(path, grade, row, "grade"))
        return once(path, qrel, row, seen)

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
        return once(path, found, row, seen)

    return parse


def _fields(path: Path, line: bytes, row: int, names: str, fields: list[bytes]) -> list[bytes]:
    expected = names.count(",") + 1
    if len(fields) != expected:
        found = f"{len(fields)} in {_shown(line[:100])!r}"
        raise InputError("bad_fields", path, f"{expected} fields ({names})", row=row, found=found)
    return fields


def _shown(text: bytes) -> str:
    return text.decode(errors="backslashreplace")


def _integer(path: Path, text: bytes, row: int, field: str) -> int:
    if found := INTEGER.fullmatch(text):
        return int(found[1])
    raise InputError("bad_number", path, "an integer", row=row, field=field, found=_shown(text))


def _score(path: Path, text: bytes, row: int) -> float:
    shown = _shown(text)
    if shown.lower().lstrip("+-") == "nan":
        raise InputError("bad_score", path, "a number other than NaN", row=row, field="score", found=shown)
    if _NUMBER.fullmatch(text):
        return float(text)
    raise InputError("bad_number", path, "a decimal number", row=row, field="score", found=shown)


def once(path: Path, record: Line, row: int, seen: SeenPairs) -> Line:
    """Return a record of a document that its query did not have before."""
    if seen.add(record.query_id, record.document_id):
        return record
    raise InputError(
        "duplicate_document", path, f"each document once for query {record.query_id!r}", row=row, field="document id",
        found=record.document_id,
    )  # fmt: skip


def checked_topics(path: Path) -> Iterator[Topic | InputError]:
    """Yield the topics of a file in its order, and in place of a bad one its error."""
    first = next((line for _, line in lines(path) if line.strip()), b"")
    marked = b"\t" not in first and first.strip().lower().startswith(b"<top>")
    return _marked_up(path) if marked else parsed(path, _topic_parser(path))


def _topic_parser(path: Path) -> Parse[Topic]:
    seen: set[str] = set()

    def parse(line: bytes, row: int) -> Topic:
        query, tab, text = line.partition(b"\t")
        if not (tab and query.strip() and text.strip()) or b"\t" in text:
            expected = "2 fields with a tab between (query id, text)"
            raise InputError("bad_fields", path, expected, row=row, found=_shown(line))
        return _once_topic(path, Topic(query.decode(), text.decode()), row, seen)

    return parse


def _marked_up(path: Path) -> Iterator[Topic | InputError]:
    """Yield topics of the `<top>` form; whatever is not between the tags of a topic is an error."""
    kept: list[str] = []
    for row, line in lines(path):
        try:
            kept.append(line.decode())
        except UnicodeDecodeError as error:
            yield InputError("bad_encoding", path, "UTF-8", row=row, found=error.object[error.start : error.end])
            kept.append("")
    seen: set[str] = set()
    before, *parts = _TOP.split("\n".join(kept))
    row = 1 + before.count("\n")
    if before.strip():
        yield InputError("bad_topic", path, "<top> before a topic", row=row, found=before.strip())
    for part in parts:
        body, *rest = _TOP_END.split(part)
        if len(rest) == 1 and not rest[0].strip():
            yield _topic(path, body, row, seen)
        else:
            yield InputError("bad_topic", path, "one </top> after each topic, and <top> after it", row=row)
        row += part.count("\n")


def _topic(path: Path, text: str, row: int, seen: set[str]) -> Topic | InputError:
    _, *parts = _FIELD.split(text)
    fields: dict[str, str] = {}
    for name, content in zip(parts[::2], parts[1::2], strict=True):
        words = " ".join(_LABEL.sub("", _END.sub("", content).strip()).split())
        fields.setdefault(name.lower(), words)
    if not fields.get("num") or not fields.get("title"):
        return InputError("bad_topic", path, "a <num> and a <title>", row=row, found=text.strip())
    topic = Topic(fields["num"], fields["title"], fields.get("desc"), fields.get("narr"))
    try:
        return _once_topic(path, topic, row, seen)
    except InputError as error:
        return error


def _once_topic(path: Path, topic: Topic, row: int, seen: set[str]) -> Topic:
    if topic.query_id in seen:
        raise InputError("duplicate_query", path, "each query id once", row=row, found=topic.query_id)
    seen.add(topic.query_id)
    return topic
