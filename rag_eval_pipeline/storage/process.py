"""Child processes: limits for those that read untrusted files, the end of servers, and what all of them use.

The parent uses `run_module`, or `child_environment` and `module_command`; the child calls `set_limits` before it
touches the file.
"""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import psutil

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.2
_SAMPLE_SECONDS = 1.0  # listing the children reads every process of the machine, which takes some milliseconds
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


def is_answering(url: str) -> bool:
    """Return whether a server answers a request without a proxy; 502, 503 and 504 say that it is not ready."""
    import ssl
    import urllib.error
    import urllib.request  # children that read files start without it

    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5).close()
    except urllib.error.HTTPError as error:
        return error.code not in (502, 503, 504)
    except OSError as error:
        return isinstance(getattr(error, "reason", None), ssl.SSLError)  # a server with a certificate of its own
    return True


def end_tree(
    process: "subprocess.Popen[bytes]",
    *,
    depth: int,
    again_after_s: float,
    kill_after_s: float,
    again: threading.Event | None = None,
) -> int:
    """End a server that runs were started by, and everything below it, so that the runs can record what happened.

    The server and the processes down to a depth below it receive SIGTERM, the lowest first. An interrupt is an
    exception, raised wherever a run happens to be; in a callback of the browser's driver it is logged and lost, so all
    but the server are interrupted again. What a run has started is left to it: a run whose browser ends first records a
    failed step, which is not retried; an interrupted run is. What has not ended in time is killed, the server last.

    Args:
        depth: Of the runs below the server.
        again_after_s: Interval of the interrupts, and the time that the server has once the runs are killed.
        again: Once set, they are interrupted at once.

    Returns:
        How many processes below the server were killed.
    """
    family = {psutil.Process(process.pid)} if process.poll() is None else set()
    asked_at = None
    started = time.monotonic()
    while alive := {one for one in family if _is_alive(one)}:
        now = time.monotonic()
        if now > started + kill_after_s:
            break
        if asked_at is None or now > asked_at + again_after_s or (again is not None and again.is_set()):
            _interrupt(process.pid, depth, with_leader=asked_at is None)
            asked_at = now
            if again is not None:
                again.clear()
        process.poll()
        time.sleep(_POLL_S)
        family |= {child for one in alive for child in _children(one, recursive=True)}
    killed = 0
    for one in family:
        if one.pid != process.pid and _is_alive(one):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
                killed += 1
    try:
        process.wait(again_after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return killed


def _interrupt(leader: int, depth: int, *, with_leader: bool) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        generations = [[psutil.Process(leader)]]
        for _ in range(depth):
            generations.append([child for one in generations[-1] for child in _children(one)])
        for generation in reversed(generations if with_leader else generations[1:]):
            for one in generation:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.terminate()


def _children(process: psutil.Process, *, recursive: bool = False) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children(recursive=recursive)
    return []


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


class ChildResult(NamedTuple):
    """How a child ended: its exit code, the last line of its standard error, and whether memory failed."""

    code: int  # -9 is an end by signal 9
    last_line: str
    out_of_memory: bool


def run_module(
    module: str, folder: Path, *, deadline_s: float, stdin: BinaryIO | None = None, environment: Mapping[str, str] = {}
) -> ChildResult:
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
    return ChildResult(child.returncode, last_line, out_of_memory)


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


@contextlib.contextmanager
def sample_resources() -> Iterator[dict[str, list[float]]]:
    """Sample this process and its children once a second while a block runs, and once at its end.

    Memory is in 10^6 bytes; `cpu_percent` is of one core.
    """
    samples: dict[str, list[float]] = {"memory_mb": [], "cpu_percent": []}
    process = psutil.Process()
    process.cpu_percent()  # the first call sets the mark from which the next one counts
    known: dict[int, psutil.Process] = {}  # a process counts from the mark that its own object carries
    stop = threading.Event()

    def take() -> None:
        memory, percent = process.memory_info().rss, process.cpu_percent()
        children = {child.pid: known.get(child.pid, child) for child in process.children(recursive=True)}
        for child in children.values():
            try:
                memory += child.memory_info().rss
                percent += child.cpu_percent()  # 0 when a child is first seen
            except psutil.Error:
                continue  # it ended after it was listed
        known.clear()
        known.update(children)
        samples["memory_mb"].append(memory / 1e6)
        samples["cpu_percent"].append(percent)

    def watch() -> None:
        while not stop.wait(_SAMPLE_SECONDS):
            with contextlib.suppress(psutil.Error):  # one sample less, not all that follow
                take()

    thread = threading.Thread(target=watch, name="resource-sampling", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()
        take()
