"""TREC topics: the questions of a test collection, as `num<TAB>text` or in the `<top>` form of the TREC tracks.

Both are read, told apart by the first line. Only the first is written: it is what Anserini, PyTerrier and ir_datasets
take, one line a question, and any text without tab and line break can stand in it. The `<top>` form has no way to
write a question that holds one of its own tags.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.trec_lines import Parse, check_id, findings, lines, packing, parsed, strict

# All that str.splitlines takes for the end of a line, and the tab.
BREAKING = re.compile("[\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]+")

_TOP = re.compile(r"</?top>", re.IGNORECASE)
# Fields of the ad hoc tracks since 1992; only four are kept.
_FIELD = re.compile(r"<(num|title|desc|narr|head|dom|smry|con|fac|def|nat|time)>", re.IGNORECASE)
_END = re.compile(r"</(num|title|desc|narr|head|dom|smry|con|fac|def|nat|time)>", re.IGNORECASE)
_LABEL = re.compile(r"\A(?:number|topic|description|narrative)\s*:\s*", re.IGNORECASE)


class Topic(NamedTuple):
    """A question; description and narrative say more about what is sought, where the track has them."""

    query_id: str
    text: str
    description: str | None = None
    narrative: str | None = None


def iterate_topics(path: Path) -> Iterator[Topic]:
    """The topics of a file in its order.

    In the `<top>` form labels such as `Number:` are taken off, and runs of white space are one space.

    Raises:
        InputError: Faults of the file as `iterate_qrels`, and with the line `bad_fields`, `bad_topic`, `bad_encoding`,
            `duplicate_query`.
    """
    return strict(_topics(path))


def checked_topics(path: Path) -> Iterator[Topic | InputError]:
    """The topics of a file in its order, and in the place of a bad one its fault.

    Raises:
        InputError: Faults of the file as a whole.
    """
    return _topics(path)


def check_topics(path: Path) -> list[str]:
    """Every fault of a topics file as a line; none when it is good."""
    return findings(_topics(path))


def write_topics(path: Path, topics: Iterable[Topic]) -> int:
    """Publishes topics as `num<TAB>text`; descriptions and narratives have no place there.

    Returns:
        The number of lines.

    Raises:
        InputError: `bad_id`, or `bad_topic` for a text that is empty or holds a tab or a line break.
    """
    count = 0
    with packing(path) as file:
        for count, topic in enumerate(topics, start=1):
            if not topic.text or BREAKING.search(topic.text):
                raise InputError(
                    "bad_topic", path, "a text without tab and line break", row=count, field="text", found=topic.text
                )
            file.write(f"{check_id(path, topic.query_id, 'query id')}\t{topic.text}\n".encode())
    return count


def _topics(path: Path) -> Iterator[Topic | InputError]:
    first = next((line for _, line in lines(path) if line.strip()), b"")
    marked = b"\t" not in first and first.strip().lower().startswith(b"<top>")
    return _marked_up(path) if marked else parsed(path, _line_parser(path))


def _line_parser(path: Path) -> Parse[Topic]:
    seen: set[str] = set()

    def parse(line: bytes, row: int) -> Topic:
        query, tab, text = line.partition(b"\t")
        if not (tab and query.strip() and text.strip()) or b"\t" in text:
            raise InputError(
                "bad_fields", path, "2 fields with a tab between (query id, text)", row=row,
                found=line.decode(errors="backslashreplace"),
            )  # fmt: skip
        return _once(path, Topic(query.decode(), text.decode()), row, seen)

    return parse


def _marked_up(path: Path) -> Iterator[Topic | InputError]:
    """Topics of the `<top>` form; a fault ends the topic it is in."""
    seen: set[str] = set()
    parts: list[str] | None = None
    begun = 0

    def fault(expected: str, row: int, found: str | None = None) -> InputError:
        return InputError("bad_topic", path, expected, row=row, found=found)

    for line in parsed(path, lambda line, row: (row, line.decode())):
        if isinstance(line, InputError):
            yield line
            continue
        row, text = line
        place = 0
        for mark in chain(_TOP.finditer(text), (None,)):
            between = text[place : mark.start() if mark else None]
            place = mark.end() if mark else len(text)
            if parts is not None:
                parts.append(between)
            elif between.strip():
                yield fault("nothing between </top> and <top>", row, between.strip())
            if mark is None:
                continue
            if mark[0].startswith("</"):
                if parts is None:
                    yield fault("<top> before </top>", row)
                else:
                    yield _topic(path, "\n".join(parts), begun, seen)
                parts = None
            else:
                if parts is not None:
                    yield fault("</top> before the next <top>", begun)
                parts, begun = [], row
    if parts is not None:
        yield fault("</top> before the file's end", begun)


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
        return _once(path, topic, row, seen)
    except InputError as error:
        return error


def _once(path: Path, topic: Topic, row: int, seen: set[str]) -> Topic:
    if topic.query_id in seen:
        raise InputError("duplicate_query", path, "each query id once", row=row, found=topic.query_id)
    seen.add(topic.query_id)
    return topic
