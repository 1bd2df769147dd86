"""Small parquet files as rows."""

from pathlib import Path
from typing import Any


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a file, in its order.

    Raises:
        OSError: Also when the file is missing.
        pyarrow.ArrowException: Of what is no whole parquet file.
    """
    import pyarrow.parquet as pq

    # A handle and not a path: pyarrow takes a path for a URI when it looks like one, and loses what follows a `#`.
    # `read_table` would import pyarrow.dataset, which takes 0.27 s.
    with path.open("rb") as handle, pq.ParquetFile(handle) as file:
        rows: list[dict[str, Any]] = file.read().to_pylist()
    return rows
