"""Keep pandas out of processes that run nothing but our code: commands and their child processes."""

import sys
from typing import NoReturn

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
