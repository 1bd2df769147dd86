"""Child processes that read untrusted files: bounded memory, and an end with their parent.

The parent uses `run_module`, or `child_environment` and `module_command`; the child calls `set_limits` before it
touches the file.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

_PR_SET_PDEATHSIG = 1
_KEPT = ("PATH", "PYTHONPATH", "LANG")  # PYTHONPATH may be what makes the package importable


def child_environment() -> dict[str, str]:
    """Return the part of the environment that a child gets: no keys, no tokens."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package; nothing is imported from the working folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def end_with_parent(number: signal.Signals) -> None:
    """Have the kernel send this process a signal when the thread that started it ends; Linux only.

    As `preexec_fn` of a child it outlives the exec: a server whose parent was killed does not go on holding its port.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


class Ended(NamedTuple):
    """How a child ended: its exit code, the last line of its standard error, and whether memory failed."""

    code: int  # -9 is an end by signal 9
    last_line: str
    out_of_memory: bool


def run_module(
    module: str, folder: Path, *, deadline_s: float, stdin: BinaryIO | None = None, environment: Mapping[str, str] = {}
) -> Ended:
    """Run a module of this package in a child process, with a folder as its working folder and only argument.

    Args:
        stdin: A file of the operating system; nothing can be read without it.
        environment: What the child gets besides `child_environment`.

    Raises:
        subprocess.TimeoutExpired: The deadline passed; the child was killed.
    """
    child = _run(
        module_command(module, str(folder)),
        cwd=folder,
        env={**child_environment(), **environment},
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        capture_output=True,
        timeout=deadline_s,
        check=False,
    )
    lines = child.stderr.decode(errors="backslashreplace").strip().splitlines()
    last_line = lines[-1] if lines else f"its end by signal {-child.returncode}" if child.returncode < 0 else ""
    out_of_memory = child.returncode < 0 or "MemoryError" in last_line or "bad_alloc" in last_line
    return Ended(child.returncode, last_line, out_of_memory)


_run = subprocess.run  # the suite runs children from a server that has imported what they need


def set_limits(*, memory_bytes: int, file_bytes: int) -> None:
    """Limit this process, and end it with its parent.

    Args:
        memory_bytes: Address space beyond what is mapped now; not limited without /proc.
        file_bytes: Size of any file that it writes.
    """
    end_with_parent(signal.SIGKILL)
    if sys.platform == "linux":
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes, mapped + memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def set_cpu_limit(seconds: float) -> None:
    """End this process with SIGXCPU after so many further seconds of processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 1, hard))
