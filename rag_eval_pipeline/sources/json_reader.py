"""A JSON file: one value, good or not, whose items are the rows."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.decoded import BadRow, Piece, SourceFile, UnreadRow, object_piece
from rag_eval_pipeline.sources.json_values import json_value, whole_text

PIECE_ROWS = 20_000


def read_json(handle: BinaryIO, file: SourceFile) -> Iterator[Piece]:
    """The rows of an array of objects, an object of objects, or an object of equally long lists.

    Raises:
        InputError: `bad_json`, `bad_encoding`, `bad_number`, `duplicate_key`, `missing_root`.
    """
    try:
        value = json_value(whole_text(handle, file), allow_nan=file.spec.allow_nan)
    except BadRow as bad:
        error = InputError(bad.code, file.shown, bad.expected)
        error.found = bad.found  # an excerpt already
        raise error from None
    for key in file.spec.root.split(".") if file.spec.root else ():
        if not isinstance(value, dict) or key not in value:
            found = list(value) if isinstance(value, dict) else type(value).__name__
            raise InputError(
                "missing_root", file.shown, f"the key {key!r} of `root`", field=file.spec.root, found=found
            )
        value = value[key]
    items = _items(value, file)
    for start in range(0, len(items), PIECE_ROWS):
        objects, numbers = [], []
        unread: list[UnreadRow] = []
        for number, item in enumerate(items[start : start + PIECE_ROWS], start=start + 1):
            if isinstance(item, dict):
                objects.append(item)
                numbers.append(number)
            else:
                fault = BadRow("not_an_object", "a JSON object", item)
                unread.append(fault.unread(file.name, number, None))
        yield object_piece(objects, numbers, (), unread, file.kinds)


def _items(value: Any, file: SourceFile) -> list[Any]:
    """The rows of a JSON value, by its shape."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and value and all(isinstance(item, dict) for item in value.values()):
        return [{"source_key": key, **item} for key, item in value.items()]
    if isinstance(value, dict) and value and all(isinstance(item, list) for item in value.values()):
        lengths = {len(item) for item in value.values()}
        records = any(isinstance(cell, dict) for item in value.values() for cell in item[:1])
        if len(lengths) == 1 and not records:
            return [dict(zip(value, cells, strict=True)) for cells in zip(*value.values(), strict=True)]
    lists = [key for key, item in value.items() if isinstance(item, list)] if isinstance(value, dict) else []
    raise InputError(
        "missing_root",
        file.shown,
        "an array of objects, an object of objects, or lists of one length",
        found=list(value) if isinstance(value, dict) else value,
        hint=f"State `root: {lists[0]}`." if lists else "State `root` in benchmark.yaml.",
    )
