"""What a child process that reads other people's files is given: bounded memory, and an end with its parent.

The parent asks for `environment` and `module_command`; the child calls `confine` before it touches the file.
"""

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_KEPT = ("PATH", "PYTHONPATH", "LANG")  # PYTHONPATH is what may make the package importable


def environment() -> dict[str, str]:
    """What is passed on of this process's environment: no keys, no tokens."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package with this interpreter; the working folder holds no modules."""
    return [sys.executable, "-P", "-m", module, *arguments]


def confine(*, memory_bytes: int, file_bytes: int) -> None:
    """Bounds this process and ends it with its parent.

    Args:
        memory_bytes: Address space beyond what is mapped now; not bounded where there is no /proc.
        file_bytes: Size of any file that it writes.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes, mapped + memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def allow_cpu(seconds: float) -> None:
    """Lets this process use so many further seconds of processor time; then SIGXCPU ends it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 1, hard))
