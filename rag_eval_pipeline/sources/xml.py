"""Read the elements of an XML file that repeat as rows; a large file is parsed in a child process.

An element is an object of its attributes and children by name; one without either is its text, and an empty one null.
An attribute that is called like a child has the key `@name`. Children of one tag are a list in every row if they are
one in any row. The text of an element that has attributes or children, if there is text beside these, is `#text`, with
that of the children. White space at the ends of elements is layout; all values are texts. Document type declarations
are refused, so there are no entities to expand, and nothing outside the file is read.
"""

import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import pyarrow as pa
import pyarrow.ipc

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.arrow_types import Repeats
from rag_eval_pipeline.sources.batches import DecodedBatch, InputFile, batch_of_objects
from rag_eval_pipeline.sources.decoder import (
    STANDARD_INPUT,
    Decoder,
    RefusedError,
    decoded_batches,
    run_decoder,
    run_worker,
    write_rows,
)
from rag_eval_pipeline.sources.format_detection import SAMPLE_BYTES
from rag_eval_pipeline.storage.atomic_files import ScratchFolder

WHOLE = "$"  # the root that is the document's element, whatever its tag
TEXT = "#text"
MAX_DEPTH = 200
BATCH_ROWS = 256
_XML = Decoder("rag_eval_pipeline.sources.xml", "an XML file", "bad_xml")
_ROWS = pa.schema([("line", pa.int64()), ("row", pa.string())])  # what the child writes; the row is JSON
_BLANKS = " \t\r\n"
_DECLARED = re.compile(rb"\s*<\?xml\s[^>]*?encoding\s*=\s*[\"'](?!utf-16)([\w.-]+)", re.IGNORECASE)


def read_xml(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode an XML file; one that is its sample, as in a folder of thousands, needs no process of its own."""
    number = 1
    for rows in _batches(handle, file, file.encoding if file.encoding != "utf-8" else file.spec.encoding):
        numbers = range(number, number + len(rows))
        yield batch_of_objects([row for _, row in rows], numbers, [line for line, _ in rows], [], file.types)
        number += len(rows)


def _batches(handle: BinaryIO, file: InputFile, encoding: str | None) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    if len(file.sample) < SAMPLE_BYTES:
        try:
            yield list(_rows(io.BytesIO(file.sample), encoding, file.spec.root))
        except RefusedError as error:
            raise InputError(**{"code": _XML.code, "file": file.shown, **error.facts}) from None
        return
    folder = ScratchFolder("xml")
    run_decoder(_XML, handle, folder.path, file.shown, {"encoding": encoding, "root": file.spec.root})
    for batch in decoded_batches(folder.path):
        objects = [json.loads(row, object_hook=_with_repeats) for row in batch.column("row").to_pylist()]
        yield list(zip(batch.column("line").to_pylist(), objects, strict=True))


def _with_repeats(value: dict[str, Any]) -> dict[str, Any]:
    return {key: Repeats(item) if isinstance(item, list) else item for key, item in value.items()}


def _rows(file: BinaryIO, encoding: str | None, root: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the elements at a path of tags, by default the outermost list, each with the line on which it starts."""
    paths: list[str] = []  # of the unfinished elements
    counts: Counter[tuple[int, str]] = Counter()  # by depth and path
    objects: set[str] = set()  # paths of elements with attributes or children
    rows: list[tuple[int, dict[str, Any]]] = []
    builder: TreeBuilder | None = None
    line = 0  # on which the row starts

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal builder, line, root
        outer = paths[-1:]
        paths.append(path := ".".join([*outer, tag]))
        objects.update(outer, [path] if attributes else [])
        counts[len(paths), path] += 1
        if len(paths) > MAX_DEPTH:
            raise RefusedError(f"at most {MAX_DEPTH} nested elements", f"more on line {parser.CurrentLineNumber}")
        root = path if root == WHOLE else root
        if path == root:
            builder, line = TreeBuilder(), parser.CurrentLineNumber
            parser.CharacterDataHandler = builder.data
        if builder is not None:
            builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal builder
        if builder is not None:
            element = builder.end(tag)
            if paths[-1] == root:
                value, builder, parser.CharacterDataHandler = _value(element), None, None
                rows.append((line, {TEXT: value} if isinstance(value, str) else value or {}))
        paths.pop()

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    for _ in _parse(parser, file, encoding):
        yield from rows
        rows.clear()
    if root in {path for _, path in counts}:
        return
    repeated = [(depth, path) for (depth, path), count in counts.items() if count > 1 and path in objects]
    lists = [path for depth, path in repeated if depth == min(repeated)[0]]
    if root is None and len(lists) == 1:
        yield from _rows(file, encoding, lists[0])
        return
    expected = "one outermost list of elements, or `root`" if root is None else f"elements of `root: {root}`"
    hint = f"State `root: {lists[0] if lists else WHOLE}`, for example; `$` makes the file one row."
    raise RefusedError(expected, ", ".join(lists) or "no list", code="missing_root", hint=hint)


def _value(element: Element) -> Any:
    children: dict[str, list[Any]] = {}
    for child in element:
        children.setdefault(child.tag, []).append(_value(child))
    attributes = {name: text for name, text in element.items() if name.partition(":")[0] != "xmlns"}
    has_text = any((text or "").strip(_BLANKS) for text in (element.text, *(child.tail for child in element)))
    text = "".join(element.itertext()).strip(_BLANKS) if has_text else None
    if not attributes and not children:
        return text
    value: dict[str, Any] = {f"@{name}" if name in children else name: text for name, text in attributes.items()}
    value |= {tag: items[0] if len(items) == 1 else Repeats(items) for tag, items in children.items()}
    return value if text is None else {**value, TEXT: text}


def _parse(parser: Any, file: BinaryIO, encoding: str | None) -> Iterator[None]:
    """Parse a file from its beginning, block by block, in any encoding that Python knows."""
    file.seek(0)
    if encoding is None:  # a declaration that can be read byte by byte is not in UTF-16, whatever it says
        declared = _DECLARED.match(file.read(SAMPLE_BYTES))
        encoding = declared[1].decode() if declared else "utf-8"
        file.seek(0)

    def refuse(name: str, *_: object) -> None:
        raise RefusedError("XML without a document type declaration", f"<!DOCTYPE {name}", hint="Remove it.")

    parser.StartDoctypeDeclHandler = refuse
    try:
        text = io.TextIOWrapper(file, encoding, newline="")
        while block := text.read(SAMPLE_BYTES):
            parser.Parse(block)
            yield
        text.detach()  # else the file is closed with it
        parser.Parse("", True)
        yield  # newer versions of the parser may keep a part of the text until here
    except expat.ExpatError as error:
        raise RefusedError("a whole XML document", str(error)) from None
    except (UnicodeError, LookupError) as error:
        line, hint = parser.CurrentLineNumber, "Save the file as UTF-8, or state `encoding` in benchmark.yaml."
        raise RefusedError(f"{encoding} text, after line {line}", str(error), code="bad_encoding", hint=hint) from None


def _decode(folder: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    with open(STANDARD_INPUT, "rb") as file:
        rows = _rows(file, job["encoding"], job["root"])
        groups = iter(lambda: list(islice(rows, BATCH_ROWS)), [])
        objects = ([{"line": line, "row": json.dumps(row, ensure_ascii=False)} for line, row in g] for g in groups)
        batches = (pa.RecordBatch.from_pylist(group, schema=_ROWS) for group in objects)
        write_rows(folder, _ROWS, batches, job["max_bytes"])
    return {}


if __name__ == "__main__":
    run_worker(Path(sys.argv[1]), _decode, "a whole XML document", ())
