"""Run a decoder of binary files in a child process with limited memory and a deadline.

The child reads the file from standard input, `job.json` from its folder, and writes `rows.arrow` and `result.json`: the
error if there was one, and remarks on what it read.
"""

import io
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.compression import DECODED
from rag_eval_pipeline.storage.process import run_module

MEMORY_BYTES = 2 << 30  # address space beyond the interpreter's
DEADLINE_S = 600.0


class Decoder(NamedTuple):
    """A worker module, what it decodes (`a parquet file`), and the code of its errors."""

    module: str
    what: str
    code: str


def run_decoder(decoder: Decoder, handle: BinaryIO, folder: Path, shown: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """Decode a file into `rows.arrow` and return the rest of the result.

    Args:
        job: What the worker needs to know besides its limits.

    Raises:
        InputError: The decoder's code, for a damaged file and one that exceeds a limit; or the code that it states;
            `missing_package`.
    """
    with _on_disk(handle, folder) as plain:
        size = plain.seek(0, io.SEEK_END)
        limits = {"max_bytes": DECODED.allowed(size), "memory_bytes": MEMORY_BYTES}
        (folder / "job.json").write_text(json.dumps({**job, **limits}))
        try:
            # Arrow's default memory pool reserves address space by the gigabyte.
            pool = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
            child = run_module(decoder.module, folder, deadline_s=DEADLINE_S, stdin=plain, environment=pool)
        except subprocess.TimeoutExpired:
            expected = f"{decoder.what} that is decoded within {DEADLINE_S:g} s"
            raise InputError(decoder.code, shown, expected) from None
    if child.out_of_memory:
        expected = f"{decoder.what} that is decoded within {MEMORY_BYTES >> 20:,} MB"
        raise InputError(decoder.code, shown, expected, found=child.last_line)
    if missing := re.fullmatch(r"ModuleNotFoundError: No module named '([\w.]+)'", child.last_line):
        todo = f"Install it: {sys.executable} -m pip install {missing[1].partition('.')[0]}"
        raise InputError("missing_package", shown, f"the package {missing[1]}, which reads {decoder.what}", hint=todo)
    if child.code:
        raise RuntimeError(f"the decoder of {decoder.what} ended with exit code {child.code}: {child.last_line}")
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    if "message" in result:
        raise OSError(result["errno"] or 0, result["message"], str(folder))
    if "expected" in result:
        code, hint = result.get("code", decoder.code), result.get("hint")
        raise InputError(code, shown, result["expected"], field=result.get("field"), found=result["found"], hint=hint)
    return result


def refuse_repeated(names: list[str], shown: str) -> None:
    """Refuse columns of equal names, which SQL could not tell apart."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        expected = "column names that differ in more than case"
        raise InputError("duplicate_column", shown, expected, field=repeated[0], found=names)


def _on_disk(handle: BinaryIO, folder: Path) -> BinaryIO:
    """Return the file, or a copy if it is not a file of the operating system; the caller closes it."""
    try:
        return open(handle.fileno(), "rb", closefd=False)
    except OSError:
        path = folder / "data"
        with path.open("wb") as copy:
            shutil.copyfileobj(handle, copy)
        return path.open("rb")
