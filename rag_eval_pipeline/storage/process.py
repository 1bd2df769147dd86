"""Child processes that read untrusted files: bounded memory, and an end with their parent.

The parent uses `child_environment` and `module_command`; the child calls `set_limits` before it touches the file.
"""

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

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
