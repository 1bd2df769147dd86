"""Runs a user's code in a worker process, of the user's own interpreter if it is named, and reads what it returns.

Commands and replies are JSON lines over two pipes of their own, so that whatever the code, a C library or a child
process prints disturbs nothing: it goes to standard error, and its last line is in the message when the worker dies.
A worker that dies fails the questions that it was asked, and is started again.
"""

import ast
import asyncio
import contextlib
import functools
import inspect
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import AsyncIterator, Callable
from pathlib import Path, PurePosixPath
from typing import Any

from rag_eval_pipeline.systems import citations, foreign_values, frameworks, parsing, passages, reply
from rag_eval_pipeline.systems.user_code import CodeError, CodeFacts, CodeSettings, Outcome, Question
from rag_eval_pipeline.systems.worker_main import OLDEST

# The modules that read what was returned.
READERS = (citations, frameworks, parsing, passages, reply, foreign_values)
SCRIPT = Path(__file__).with_name("worker_main.py")
HELLO_SECONDS = 60.0  # from the start of the interpreter to its first line
OPENING_SECONDS = 1800.0  # for importing the code and making its objects, which may load models
CLOSING_SECONDS = 20.0  # for closing the code, and for what the interpreter does at its end
UNRESPONSIVE_SECONDS = 30.0  # a worker that does not notice for so long that a question was given up is ended
DEATHS_LIMIT = 3  # in a row, without an answer in between; then it is not started again
OUTPUT_KEPT = 4_000  # bytes
# By another interpreter: they name modules of this one, or change where the other one finds its own.
NOT_INHERITED = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__"})


# --- Values


class StandIn:
    """An object of the worker: the attributes that are read of it."""

    def __init__(self, attributes: dict[str, Any], failing: dict[str, Any], text: str | None) -> None:
        self.__dict__.update(attributes)
        self._failing = failing
        self._text = text

    def __getattr__(self, name: str) -> Any:
        failing: dict[str, list[str]] = self.__dict__.get("_failing") or {}
        if name in failing:
            kind, message = failing[name]
            raise type(kind, (Exception,), {})(message)
        raise AttributeError(name)

    def __str__(self) -> str:
        return repr(self) if self._text is None else self._text

    def __repr__(self) -> str:
        parts = (f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_"))
        return f"{type(self).__name__}({', '.join(parts)})"


def decode(value: Any) -> Any:
    """Return a value that is read like the one that `worker_main.Encoder` encoded."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "mapping" in value:
        return {name: decode(item) for name, item in value["mapping"].items()}
    if "tuple" in value:
        items = [decode(item) for item in value["tuple"]]
        return _named_tuple(value["class"], tuple(value["fields"]))(*items) if value["fields"] else tuple(items)
    if "path" in value:
        return PurePosixPath(value["path"])
    if "callable" in value:
        return _no_value
    attributes = {name: decode(item) for name, item in value["attributes"].items()}
    return _stand_in(value["class"])(attributes, value["failing"], value["text"])


def _no_value() -> None:
    """Stand in for a method."""


@functools.lru_cache(256)
def _stand_in(name: str) -> type[StandIn]:
    return type(name, (StandIn,), {})


@functools.lru_cache(256)
def _named_tuple(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    return namedtuple(name, fields)  # noqa: PYI024  # its fields are not known before


@functools.cache
def names_read() -> list[str]:
    """Return every name that may be read of an object: the identifiers among the texts of the modules that read.

    `__dict__` is none: everything in an object would be encoded twice, at each level.
    """
    trees = (ast.parse(inspect.getsource(module)) for module in READERS)
    constants = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return sorted(
        {value for value in constants if isinstance(value, str) and value.isidentifier() and value[:2] != "__"}
    )


# --- The process


class WorkerProcess:
    """One process, from its start to its end; used on one event loop.

    Args:
        on_reply: Is given each reply.
        on_end: Is called once, after the last reply.
    """

    def __init__(self, python: str, on_reply: Callable[[dict[str, Any]], None], on_end: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_reply = on_reply
        self._on_end = on_end
        self._unread = bytearray()
        self._unsent = bytearray()
        self._output = b""
        self.is_shown = False
        self._reason: str | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        ours, theirs = self._start(python)
        self._commands, self._replies, self._printed = ours
        for descriptor in theirs:
            os.close(descriptor)
        for descriptor in ours:
            os.set_blocking(descriptor, False)
        self._loop.add_reader(self._replies, self._read_replies)
        self._loop.add_reader(self._printed, self._read_output)
        threading.Thread(target=self._wait, name="python-worker", daemon=True).start()

    def _start(self, python: str) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Start the process; return our ends of the pipes, and those of the process."""
        (commands, sent), (received, replies), (printed, output) = os.pipe(), os.pipe(), os.pipe()
        hidden = frozenset() if python == sys.executable else NOT_INHERITED
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        try:
            self._process = subprocess.Popen(
                [python, "-u", str(SCRIPT), str(commands), str(replies)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(commands, replies),
                env=environment,
                start_new_session=True,  # Ctrl-C is for this process, and all of its children end with it
            )
        except BaseException:
            for descriptor in (commands, sent, received, replies, printed, output):
                os.close(descriptor)
            raise
        return (sent, received, printed), (commands, replies, output)

    def send(self, command: dict[str, Any]) -> None:
        """Send a command; one to a process that has ended is lost."""
        if not self.ended.done():
            self._unsent += json.dumps(command).encode() + b"\n"
            self._write()

    def kill(self, reason: str | None = None) -> None:
        """Kill the process and its children."""
        self._reason = self._reason or reason
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def last_line(self) -> str | None:
        """The last line that was printed."""
        lines = [line.strip() for line in self._output.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else None

    def describe_end(self) -> str:
        """Return how the process ended, and its last line of output."""
        status = self._process.returncode
        if self._reason is not None:
            how = self._reason
        elif status is not None and status < 0:
            name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
            how = f"was killed by {name}" + (" (out of memory?)" if -status == signal.SIGKILL else "")
        else:
            how = f"ended with exit status {status}"
        return how if self.last_line is None else f"{how}; its last output: {self.last_line}"

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._commands, self._unsent)]
        except BlockingIOError:
            self._loop.add_writer(self._commands, self._write)
            return
        except OSError:  # it has ended, which is noticed elsewhere
            self._unsent.clear()
        self._loop.remove_writer(self._commands)

    def _read_replies(self) -> None:
        data = _read(self._replies)
        if data == b"":  # it closed the pipe, and should end
            self._loop.remove_reader(self._replies)
            self._loop.call_later(CLOSING_SECONDS, self._kill_unended)
        self._take_replies(data or b"")

    def _take_replies(self, data: bytes) -> None:
        searched = len(self._unread)
        self._unread += data
        while (end := self._unread.find(b"\n", searched)) >= 0:
            line = bytes(self._unread[:end])
            del self._unread[: end + 1]
            searched = 0
            self._on_reply(json.loads(line))

    def _kill_unended(self) -> None:
        if not self.ended.done():
            self.kill("closed its pipe")

    def _read_output(self) -> None:
        data = _read(self._printed)
        if data == b"":
            self._loop.remove_reader(self._printed)
        self._take_output(data or b"")

    def _take_output(self, data: bytes) -> None:
        self._output = (self._output + data)[-OUTPUT_KEPT:]
        if self.is_shown and data:
            sys.stderr.write(data.decode("utf-8", "replace"))
            sys.stderr.flush()

    def _wait(self) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._exited)

    def _exited(self) -> None:
        self.kill()  # its children
        for descriptor, take in ((self._replies, self._take_replies), (self._printed, self._take_output)):
            self._loop.remove_reader(descriptor)
            while data := _read(descriptor):
                take(data)
        self._loop.remove_writer(self._commands)
        for descriptor in (self._commands, self._replies, self._printed):
            os.close(descriptor)
        self.ended.set_result(None)
        self._on_end()


def _read(descriptor: int) -> bytes | None:
    """Return what a pipe has; nothing at its end, None if there is nothing yet."""
    try:
        return os.read(descriptor, 1 << 20)
    except BlockingIOError:
        return None


# --- The code


class WorkerCode:
    """Code in a worker process; `open_worker` makes one."""

    facts: CodeFacts

    def __init__(self, python: str, settings: CodeSettings) -> None:
        self._python = python
        self._opening = {"settings": settings._asdict(), "names": names_read(), "answers": frameworks.ANSWERS}
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Outcome]] = {}
        self._given_up: dict[int, asyncio.TimerHandle] = {}
        self._process: WorkerProcess | None = None
        self._is_open = False
        self._restarting: asyncio.Task[None] | None = None
        self._deaths = 0
        self._death = ""
        self._stopped: str | None = None

    async def start(self) -> None:
        """Start the process and have it import the code.

        Raises:
            CodeError: `bad_python`, and the errors of the code.
        """
        self._startup_replies: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        try:
            self._process = process = WorkerProcess(self._python, self._on_reply, self._on_end)
        except OSError as error:
            raise _bad_python(self._python, f"{error.strerror}.") from None
        found = (await self._next(process, HELLO_SECONDS, "started")).get("hello")
        if found is None:
            raise _bad_python(self._python, f"It {process.describe_end()}.")
        if tuple(found[:2]) < OLDEST:
            raise _bad_python(self._python, f"It is Python {'.'.join(map(str, found))}.")
        process.is_shown = True
        process.send({"open": self._opening})
        reply = await self._next(process, OPENING_SECONDS, "loaded the code")
        if "refused" in reply:
            raise CodeError(**reply["refused"])
        if "opened" not in reply:
            raise CodeError("bad_callable", "callable", "code that loads", f"a worker that {process.describe_end()}")
        facts = CodeFacts(**reply["opened"])
        if self._deaths and facts != self.facts:
            raise CodeError("bad_callable", "callable", "code that does not change while it is asked")
        self.facts = facts
        self._is_open = True

    async def ready(self) -> None:
        """Wait until a worker that died is started again, unless it will not be."""
        if self._is_open or self._stopped is not None:
            return
        if self._restarting is None:
            self._restarting = asyncio.create_task(self._restart())
        await asyncio.shield(self._restarting)

    async def ask(self, question: Question) -> Outcome:
        """Answer one question; what the code raises, and the end of the worker, is an outcome."""
        await self.ready()
        process = self._process
        if process is None or not self._is_open:
            return Outcome(code="python_stopped", error=self._stopped or self._death)
        number = next(self._numbers)
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        process.send({"ask": number, "question": question})
        try:
            return await answer
        except asyncio.CancelledError:
            if self._waiting.pop(number, None) is not None:
                self._give_up(number, process)
            raise

    async def close(self) -> None:
        """Close the code and end the process."""
        if self._restarting is not None:
            self._restarting.cancel()
        process = self._process
        if process is None or process.ended.done():
            return
        process.send({"close": True})
        try:
            await asyncio.wait([process.ended], timeout=CLOSING_SECONDS if self._is_open else 0)
        finally:
            process.kill()
        await process.ended

    async def _next(self, process: WorkerProcess, seconds: float, done: str) -> dict[str, Any]:
        """Return the next reply about the start; an empty one if the process has ended, at the latest after a time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._startup_replies.get()
        except TimeoutError:
            process.kill(f"had not {done} after {seconds:g} s")
            await process.ended
            return {}

    def _give_up(self, number: int, process: WorkerProcess) -> None:
        process.send({"give_up": number})
        reason = f"did not notice for {UNRESPONSIVE_SECONDS:g} s that a question was given up"
        timer = asyncio.get_running_loop().call_later(UNRESPONSIVE_SECONDS, process.kill, reason)
        self._given_up[number] = timer

    async def _restart(self) -> None:
        try:
            await self.start()
        except CodeError as error:
            found = "" if error.found is None else f", found {error.found}"
            self._stopped = f"{self._death}; it could not be started again: expected {error.expected}{found}"
        finally:
            self._restarting = None

    def _on_reply(self, reply: dict[str, Any]) -> None:
        if "answered" in reply:
            self._deaths = 0
            if (answer := self._waiting.pop(reply["answered"], None)) is not None and not answer.done():
                value, *rest = reply["outcome"]
                answer.set_result(Outcome(decode(value), *rest))
        elif "given_up" in reply:
            if (timer := self._given_up.pop(reply["given_up"], None)) is not None:
                timer.cancel()
        else:
            self._startup_replies.put_nowait(reply)

    def _on_end(self) -> None:
        assert self._process is not None
        self._is_open = False
        self._deaths += 1
        self._death = f"the worker process {self._process.describe_end()}"
        if self._deaths >= DEATHS_LIMIT:
            self._stopped = f"{self._death}; that is {self._deaths} times without an answer, so it is not started again"
        for timer in self._given_up.values():
            timer.cancel()
        self._given_up.clear()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result(Outcome(code="python_died", error=self._death))
        self._waiting.clear()
        self._startup_replies.put_nowait({})


def _bad_python(python: str, hint: str) -> CodeError:
    oldest = ".".join(map(str, OLDEST))
    return CodeError("bad_python", "python", f"a Python interpreter, {oldest} or newer", python, hint)


@contextlib.asynccontextmanager
async def open_worker(python: Path, settings: CodeSettings) -> AsyncIterator[WorkerCode]:
    """Start a worker process for a block.

    Args:
        python: The interpreter, absolute. A link is not followed: the interpreter of a virtual environment is one.

    Raises:
        CodeError: `bad_python`, and the errors of `user_code.load_code`.
    """
    if python.is_dir():
        known = (python / folder / "bin" / "python" for folder in ("", ".venv", "venv"))
        inner = next((path for path in known if path.exists()), None)
        raise _bad_python(str(python), "It is a folder." if inner is None else f"Did you mean {inner}?")
    code = WorkerCode(str(python), settings)
    try:
        await code.start()
        yield code
    finally:
        await code.close()
