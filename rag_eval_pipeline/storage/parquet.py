"""Small parquet files as rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a file, in its order.

    Raises:
        FileNotFoundError: The file is missing.
        pyarrow.ArrowException: Of what is no whole parquet file.
        OSError: The machine could not read it, which says nothing of the file.
    """
    import pyarrow.parquet as pq

    # A handle and not a path: pyarrow takes a path for a URI when it looks like one, and loses what follows a `#`.
    # `read_table` would import pyarrow.dataset, which takes 0.27 s.
    with damage_raised(), path.open("rb") as handle, pq.ParquetFile(handle) as file:
        rows: list[dict[str, Any]] = file.read().to_pylist()
    return rows


@contextmanager
def damage_raised() -> Iterator[None]:
    """Raise `pyarrow.ArrowInvalid` for damage that Arrow reports as an OSError: it has no error number."""
    import pyarrow as pa

    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise pa.ArrowInvalid(str(error)) from error
        raise
