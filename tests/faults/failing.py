"""Run writers in processes in which one call on their files fails, is cut short or is the last before a kill.

`python -m tests.faults.failing` is a server that has imported what the writers need and forks a process for each
request, a line of JSON: hundreds of points take seconds.
"""

import ctypes
import enum
import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.cli.output import INTERNAL, print_error
from rag_eval_pipeline.errors import InputError, ServiceError
from tests.patience import PATIENCE_S

LIBRARY = Path(__file__).with_name("failing_calls.c")


class Calls(enum.IntFlag):
    """The kinds of calls of `failing_calls.c`."""

    WRITE = 1
    SYNC = 2
    RENAME = 4
    CREATE = 8
    TRUNCATE = 16
    REMOVE = 32
    READ = 64
    OPEN = 128
    STAMP = 256
    FOLDER = 512
    COPY = 1024


class Action(enum.IntEnum):
    """What becomes of the call; `FROM` of it and of all later ones."""

    COUNT = 0
    FAIL = 1
    FAIL_FROM = 2
    CUT_FROM = 3
    KILL = 4
    CUT_AND_KILL = 5


class Fault(NamedTuple):
    """Which calls count, and what becomes of one of them."""

    calls: Calls
    action: Action
    errno: int = 0

    @property
    def kills(self) -> bool:
        return self.action in (Action.KILL, Action.CUT_AND_KILL)


NO_FAULT = Fault(Calls(0), Action.COUNT)
_TAKING_SPACE = Calls.WRITE | Calls.COPY | Calls.SYNC | Calls.RENAME | Calls.CREATE | Calls.TRUNCATE | Calls.FOLDER
FAULTS = {
    "kill": Fault(_TAKING_SPACE | Calls.REMOVE | Calls.STAMP, Action.KILL),
    "kill in a write": Fault(Calls.WRITE, Action.CUT_AND_KILL),
    "ENOSPC": Fault(_TAKING_SPACE, Action.FAIL_FROM, errno.ENOSPC),
    "EDQUOT": Fault(_TAKING_SPACE, Action.FAIL_FROM, errno.EDQUOT),
    "EIO": Fault(~Calls(0), Action.FAIL, errno.EIO),
    "EIO at fsync": Fault(Calls.SYNC, Action.FAIL, errno.EIO),
    "EMFILE": Fault(Calls.CREATE | Calls.OPEN, Action.FAIL, errno.EMFILE),
    "short writes": Fault(Calls.WRITE, Action.CUT_FROM),
}


class Ended(NamedTuple):
    """How a process ended.

    Args:
        code: Its exit code; -9 is an end by signal 9.
        calls: How many calls counted.
        hit: The call that failed, and its file; empty if there were fewer calls.
        output: Of both streams.
    """

    code: int
    calls: int
    hit: str
    output: str


class Server:
    """Forks a process for each run."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def prepare(self, writer: str, folder: Path) -> None:
        """Make what the writer finds."""
        ended = self._run("prepare", writer, folder, NO_FAULT, 0)
        assert ended.code == 0, ended.output

    def run(self, writer: str, folder: Path, fault: Fault = NO_FAULT, at: int = 0) -> Ended:
        """Run a writer in a folder; a fault meets its call number `at`, which begins with 1."""
        return self._run("write", writer, folder, fault, at)

    def _run(self, step: str, writer: str, folder: Path, fault: Fault, at: int) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = [step, writer, str(folder), int(fault.calls) & 0xFFFF, fault.action, fault.errno, at]
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return Ended(*json.loads(self._process.stdout.readline()))


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    """Compile the library into a folder and run a server with it."""
    (folder / "temp").mkdir()
    library = folder / "failing_calls.so"
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), str(LIBRARY), "-ldl"]
    subprocess.run(command, check=True)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.failing", str(folder / "output")],
        cwd=LIBRARY.parents[2],
        env={**os.environ, "LD_PRELOAD": str(library), "NO_COLOR": "1", "TMPDIR": str(folder / "temp")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Server(process)
        assert process.stdin is not None
        process.stdin.close()


def _serve(output: Path) -> None:
    import gc

    from rag_eval_pipeline.storage import arrow, process

    arrow.is_own_process = True  # else pyarrow imports pandas, in each process
    arrow.skip_pandas()
    from tests import forked_workers
    from tests.faults.writers import WRITERS

    library = ctypes.CDLL(None)
    library.hit.restype, library.calls.restype = ctypes.c_char_p, ctypes.c_long
    os.register_at_fork(after_in_child=library.disarm)  # what reads untrusted files is another process
    forked_workers._context = multiprocessing.get_context("fork")
    process._run = forked_workers.run
    gc.freeze()
    for line in sys.stdin:
        step, name, folder, kinds, action, error, at = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.alarm(int(PATIENCE_S))  # should it hang
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
            library.arm(folder.encode(), kinds, action, error, ctypes.c_long(at))
            code = _outcome(getattr(WRITERS[name], step), Path(folder))
            library.disarm()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        ended = Ended(
            os.waitstatus_to_exitcode(status), library.calls(), os.fsdecode(library.hit()),
            output.read_text(errors="backslashreplace"),
        )  # fmt: skip
        print(json.dumps(ended), flush=True)


def _outcome(write: Callable[[Path], None], folder: Path) -> int:
    """What `cli.main` makes of the end of a command."""
    try:
        write(folder)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except (InputError, ServiceError, OSError) as error:
        return print_error(error)
    except BaseException:
        traceback.print_exc()
        return INTERNAL
    return 0


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
