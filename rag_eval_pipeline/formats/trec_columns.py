"""TREC's qrels and runs by column: what `trec` reads line by line, many times as fast.

Most files have one space or one tab between fields, as Arrow's CSV reader wants them; a block of another form is
brought into this one first. Nothing is judged here: for what Arrow cannot read, or might read in another way than
`trec` does, `IrregularError` is raised, and the lines have to be read one by one, which says what is wrong with which.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from rag_eval_pipeline.formats.trec import INTEGER, LINE_LIMIT
from rag_eval_pipeline.storage.json_files import BYTE_ORDER_MARK, GZIP_MAGIC

BLOCK_BYTES = 4 << 20
_TEXT = pa.dictionary(pa.int32(), pa.string())  # of columns with few distinct values
_RUN = {"query_id": _TEXT, "q0": None, "document_id": pa.string(), "rank": None, "score": pa.float64(), "tag": None}
_QRELS = {"query_id": _TEXT, "iteration": None, "document_id": pa.string(), "grade": _TEXT}


class IrregularError(Exception):
    """The file has to be read line by line."""


def run_batches(path: Path) -> Iterator[tuple[pa.RecordBatch, str]]:
    """Yield the rows of a run in the file's order, each batch with the tag of its last row.

    Columns are query_id (dictionary), document_id and score. Repeated documents are not looked for.

    Raises:
        IrregularError: The rest of the file has to be read line by line, or the file cannot be read.
    """
    for block in _blocks(path):
        found = _parsed(block, _RUN) or _parsed(block := _tidied(block, _run_fields), _RUN)
        if found is None or pc.any(pc.is_nan(found.column("score"))).as_py():
            raise IrregularError
        if found.num_rows:
            yield found, block.removesuffix(b"\n").rpartition(b"\n")[2].split()[5].decode()


def read_qrels_table(path: Path) -> pa.Table:
    """Return the judgements: query_id (dictionary), document_id, grade; errors as `run_batches`."""
    batches = []
    for block in _blocks(path):
        found = _parsed(block, _QRELS) or _parsed(_tidied(block, _qrel_fields), _QRELS)
        if found is None:
            raise IrregularError
        texts = found.column("grade")
        grades = [INTEGER.fullmatch(text.encode()) for text in texts.dictionary.to_pylist()]
        if not all(grades):
            raise IrregularError
        numbers = np.array([int(grade[1]) for grade in grades if grade], np.int64)[texts.indices.to_numpy()]
        batches.append(found.set_column(2, "grade", pa.array(numbers)))
    if not batches:
        raise IrregularError
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield whole lines, each with its end."""
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            raw.seek(0)
            file: BinaryIO = gzip.GzipFile(fileobj=raw) if is_packed else raw  # type: ignore[assignment]
            is_first = True
            while block := file.read(BLOCK_BYTES):
                rest = b"" if block.endswith(b"\n") else file.readline(LINE_LIMIT)
                if len(rest) == LINE_LIMIT:
                    raise IrregularError
                block = block.removeprefix(BYTE_ORDER_MARK if is_first else b"") + rest
                is_first = False
                yield block if block.endswith(b"\n") else block + b"\n"
    except (OSError, EOFError, zlib.error) as error:
        raise IrregularError from error


def _parsed(block: bytes, columns: dict[str, pa.DataType | None]) -> pa.RecordBatch | None:
    """Return the columns that have a type; None if a line may have another number of fields."""
    kept = {name: kind for name, kind in columns.items() if kind is not None}
    if not block:
        return pa.RecordBatch.from_pydict({name: [] for name in kept}, schema=pa.schema(kept))
    # Arrow takes a carriage return for a line end, drops a mark from every block, and decodes only the columns kept.
    if b"\r" in block or block.startswith(BYTE_ORDER_MARK) or not _is_utf8(block):
        return None
    is_space = np.frombuffer(block, np.uint8) <= ord(" ")  # control characters as well
    if is_space[0] or (is_space[1:] & is_space[:-1]).any():
        return None
    delimiter = "\t" if b"\t" in block[: block.index(b"\n")] else " "
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(block),
            pa.csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=list(columns)),
            pa.csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False),
            pa.csv.ConvertOptions(include_columns=list(kept), column_types=kept, null_values=[]),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    # One character after each field is all the white space there is.
    if np.count_nonzero(is_space) != len(columns) * table.num_rows:
        return None
    [rows] = table.combine_chunks().to_batches()
    is_comment = any(query.startswith("#") for query in rows.column("query_id").dictionary.to_pylist())
    return None if is_comment else rows


def _is_utf8(block: bytes) -> bool:
    try:
        return block.isascii() or block.decode() is not None
    except UnicodeDecodeError:
        return False


def _tidied(block: bytes, fields: Callable[[bytes], list[bytes] | None]) -> bytes:
    """Return the lines with one space between fields; lines that have None are left out."""
    lines = map(fields, block.removesuffix(b"\n").split(b"\n"))
    return b"".join(b" ".join(words) + b"\n" for words in lines if words is not None)


def _run_fields(line: bytes) -> list[bytes] | None:
    words = line.split(maxsplit=6)[:6]
    return words if words and not words[0].startswith(b"#") else None


def _qrel_fields(line: bytes) -> list[bytes] | None:
    return None if line.startswith(b"#") else line.split()
