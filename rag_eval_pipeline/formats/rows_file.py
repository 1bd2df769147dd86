"""Files of very many rows: written a batch at a time, so that a million rows need no more memory than a thousand."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rag_eval_pipeline.formats.json_columns import INDENT, consecutive
from rag_eval_pipeline.storage.atomic import publishing

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

THREADS = 2  # Arrow lets go of the interpreter's lock while it writes text
AHEAD = 2  # batches that may wait to be written


def write_rows(
    path: Path,
    batches: "Iterable[pa.RecordBatch]",
    render: "Callable[[pa.RecordBatch], pa.Array]",
    *,
    depth: int,
    head: bytes = b"",
    tail: bytes = b"\n",
    check: "Callable[[memoryview], None] | None" = None,
) -> None:
    """Publishes an array of rows atomically; equal batches give equal bytes.

    Args:
        path: Where.
        batches: The rows.
        render: JSON text of each row of a batch, at `depth`.
        depth: How deep a row stands in the file.
        head: What stands before the array.
        tail: What stands after it.
        check: Shown the bytes of each batch's rows, with commas between them, in order.
    """
    between = ("\n" + INDENT * depth).encode()
    with publishing(path) as file:
        file.write(head + b"[")
        is_first = True
        for text in _in_order(
            lambda batch: consecutive(render(batch), depth), (batch for batch in batches if len(batch))
        ):
            file.write(between if is_first else b"," + between)
            file.write(text)
            if check is not None:
                check(text)
            is_first = False
        file.write((b"]" if is_first else b"\n" + (INDENT * (depth - 1)).encode() + b"]") + tail)


def _in_order(
    function: "Callable[[pa.RecordBatch], memoryview]", batches: "Iterator[pa.RecordBatch]"
) -> "Iterator[memoryview]":
    with ThreadPoolExecutor(THREADS, thread_name_prefix="rows") as pool:
        waiting: list[Future[memoryview]] = [pool.submit(function, batch) for batch in islice(batches, AHEAD)]
        while waiting:
            text = waiting.pop(0).result()
            waiting.extend(pool.submit(function, batch) for batch in islice(batches, 1))
            yield text
