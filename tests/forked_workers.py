"""Children that read untrusted files, forked from a server that has imported what they need; and forks of a test.

A child's imports take half a second of processor time, and the suite runs more than a thousand. One that is forked has
the same working folder, environment, input and limits, and is a new process each time. Linux only.
"""

import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.patience import PATIENCE_S

T = TypeVar("T")
# What they import, but not the modules that are run.
_IMPORTED = [
    "duckdb",
    "openpyxl",
    "pyarrow.parquet",
    "rag_eval_pipeline.conversion.sql_checks",
    "rag_eval_pipeline.sources.decoder",
]
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(_IMPORTED)


def run(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: Any, timeout: float, **_: object
) -> "subprocess.CompletedProcess[bytes]":
    """Do what `subprocess.run` does for a command of `module_command`."""
    _, _, _, module, *arguments = command
    given = os.devnull if stdin == subprocess.DEVNULL else f"/proc/{os.getpid()}/fd/{stdin.fileno()}"
    with tempfile.NamedTemporaryFile() as stderr:
        child = _context.Process(target=_run, args=(module, arguments, cwd, dict(env), given, stderr.name), daemon=True)
        child.start()
        child.join(timeout)
        if child.exitcode is None:
            child.kill()
            child.join()
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, child.exitcode, stderr=Path(stderr.name).read_bytes())


def run_sql_here(
    otherwise: "Callable[..., subprocess.CompletedProcess[bytes]]", command: Sequence[str], **how: Any
) -> "subprocess.CompletedProcess[bytes]":
    """Run a benchmark's SQL in this process, which takes half as long, and `otherwise` other commands."""
    from rag_eval_pipeline.conversion import sql_worker

    *_, module, folder = command
    if module != sql_worker.__name__:
        return otherwise(command, **how)
    sql_worker.write_result(json.loads(Path(folder, "job.json").read_text()), Path(folder))
    return subprocess.CompletedProcess(command, 0, stderr=b"")


def call_at_once(function: Callable[..., T], calls: Iterable[Sequence[object]]) -> list[T]:
    """Call a function at the same moment in a forked process for each sequence of arguments; return what each returns."""
    fork, given = multiprocessing.get_context("fork"), list(calls)
    all_there = fork.Barrier(len(given), timeout=PATIENCE_S)

    def call(sender: Any, arguments: Sequence[object]) -> None:
        all_there.wait()
        sender.send(function(*arguments))

    receivers = []
    for arguments in given:
        receiver, sender = fork.Pipe(duplex=False)
        fork.Process(target=call, args=(sender, arguments)).start()
        sender.close()  # so that the end of the process ends the pipe
        receivers.append(receiver)
    return [receiver.recv() for receiver in receivers]


def _run(module: str, arguments: list[str], cwd: Path, env: dict[str, str], stdin: str, stderr: str) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, path, flags in ((0, stdin, os.O_RDONLY), (2, stderr, os.O_WRONLY)):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
