"""Read Arrow files batch by batch, and keep pandas out of processes that run nothing but our code."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import pyarrow as pa

is_own_process = False  # set by the command line and by child processes; in a notebook or in Dagster pandas stays


class _NoPandas:
    @staticmethod
    def find_spec(name: str, *_: object) -> NoReturn | None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
        return None


def skip_pandas() -> None:
    """In a process of our own, have pyarrow find that pandas is missing when it looks for it to make its first array.

    Importing pandas takes half a second, and nothing that commands and their child processes convert is of pandas.
    `to_pandas` looks again, and works.
    """
    if is_own_process and "pandas" not in sys.modules:
        import pyarrow as pa

        sys.meta_path.insert(0, _NoPandas)
        try:
            pa.scalar(0)
        finally:
            sys.meta_path.remove(_NoPandas)


def read_batches(path: Path) -> "Iterator[pa.RecordBatch]":
    """Yield the batches of an Arrow file, which is not mapped: that would count as memory of this process."""
    import pyarrow as pa
    import pyarrow.ipc

    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        yield from map(reader.get_batch, range(reader.num_record_batches))
