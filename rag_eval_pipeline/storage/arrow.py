"""What a process does once before it uses pyarrow: keep pandas out."""

import sys
from typing import NoReturn

import pyarrow as pa


class _NoPandas:
    @staticmethod
    def find_spec(name: str, *_: object) -> NoReturn | None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
        return None


def skip_pandas() -> None:
    """Have pyarrow find that pandas is missing, when it looks for it to make its first array.

    Importing pandas takes half a second, and nothing that commands and their child processes convert is of pandas.
    `to_pandas` looks again, and works.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)
        try:
            pa.scalar(0)
        finally:
            sys.meta_path.remove(_NoPandas)
