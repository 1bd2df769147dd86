"""Code of a user that answers questions: import it, call it, close it.

It runs in the worker process (`worker_main`), by its path and in the user's own interpreter; our process shares its
values. It needs only the standard library of Python 3.9 or newer, and imports nothing of this package.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import importlib
import inspect
import os
import platform
import queue
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

ERROR_LENGTH = 300  # characters; some libraries put a whole response into their messages
CLOSING_SECONDS = 10.0  # for the code's own `close`; one that takes longer is left behind
# Threads, at 8 MB of address space each; code that hangs this often does not recover.
ABANDONED_LIMIT = 256
QUERY = "query"  # a parameter of this name gets the question with its id
METHODS = ("invoke", "query", "run", "ainvoke", "aquery")  # of an object that is not callable, in this order
INSTALLED = frozenset({"site-packages", "dist-packages"})  # folders of packages, whose versions are published instead

_WANTS_MAPPING = re.compile(
    r"\bdict(ionary)?\b|\bmapping\b|string indices must be"
    r"|'(str|QueryText)' object has no attribute '(items|keys|get)'",
    re.IGNORECASE,
)


class CodeError(Exception):
    """Code that cannot be used.

    Args:
        field: Key of the settings, such as `callable` or `path[0]`.
        found: Shown by its `repr`.
    """

    def __init__(self, code: str, field: str, expected: str, found: object = None, hint: str | None = None) -> None:
        super().__init__(code, field, expected)
        self.code = code
        self.field = field
        self.expected = expected
        self.found = found
        self.hint = hint


class CodeSettings(NamedTuple):
    """What is imported and how it is called.

    Args:
        callable: `package.module:name`.
        folders: Of `path`, as they are; they come first in the module search path.
        takes_input: The question comes as a value of the user's form.
    """

    callable: str
    folders: Sequence[str]
    factory: bool
    method: str | None
    arguments: Mapping[str, Any]
    version_of: Sequence[str]
    takes_input: bool


class Question(NamedTuple):
    """A question; `input` is its value in the user's form, or None for its text."""

    query_id: str
    text: str
    input: Any = None


class Outcome(NamedTuple):
    """What a call returned, or why it failed: an error of one line and its code.

    Args:
        first_token_ms: When the first text of a stream came.
        latency_ms: Until the code was done; None if it never was.
    """

    value: Any = None
    code: str | None = None
    error: str | None = None
    first_token_ms: float | None = None
    latency_ms: float | None = None


class CodeFacts(NamedTuple):
    """What is published of the code.

    Args:
        method: The method that was chosen, because the object is not callable; None if it was not chosen.
        methods: All that could have been chosen.
        versions: Of installed packages.
        source_sha256: Of the module and all modules that it imported from the folders of `path`.
        python: Version of the interpreter.
    """

    method: str | None
    methods: Sequence[str]
    versions: dict[str, str]
    source_sha256: str
    python: str


class QueryText(str):
    """A question's text that also has its id, for a parameter `query`.

    It is a text and not a record, because most functions call their question `query`, and one that puts a record into
    its prompt would answer another question without anybody noticing.
    """

    query_id: str

    @classmethod
    def of(cls, question: Question) -> QueryText:
        """Return the text of a question."""
        text = cls(question.text)
        text.query_id = question.query_id
        return text

    @property
    def text(self) -> str:
        """The question, as plain text."""
        return str(self)


class UserCode:
    """Code that answers; `load_code` makes one.

    Async callables run on the event loop, where one that blocks delays all questions; others run in threads.

    Args:
        find_streams: Returns the streams in a value, None if there are none.
    """

    def __init__(self, loaded: LoadedCode, settings: CodeSettings, find_streams: Callable[[Any], Any]) -> None:
        self.facts = loaded.facts
        self._loaded = loaded
        self._settings = settings
        self._find_streams = find_streams
        self._threads = CallThreads()

    async def ask(self, question: Question) -> Outcome:
        """Answer one question; what the code raises is an outcome."""
        started = time.perf_counter()
        outcome = await self._outcome(question, started)
        return outcome._replace(latency_ms=(time.perf_counter() - started) * 1000)

    async def _outcome(self, question: Question, started: float) -> Outcome:
        given_up = threading.Event()
        task = asyncio.current_task()
        try:
            return await self._ask(question, started, given_up.is_set)
        except asyncio.CancelledError as error:
            if task is None or getattr(task, "cancelling", lambda: True)():  # Python 3.10 cannot tell
                raise  # this question timed out
            return Outcome(code="python_error", error=one_line(error))  # the callable raised it
        except TooManyAbandoned as error:
            return Outcome(code="python_stuck", error=one_line(error))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            return Outcome(code="python_error", error=one_line(error) + self._place(error) + self._hint(error))
        finally:
            given_up.set()

    async def close(self) -> None:
        """Close the object that a factory made, within 10 s."""
        owner = self._loaded.owner
        closing = getattr(owner, "aclose", None) or getattr(owner, "close", None)
        if self._settings.factory and callable(closing):
            with contextlib.suppress(Exception):  # the answers are there, whatever becomes of the code
                await asyncio.wait_for(self._close(closing), CLOSING_SECONDS)
        self._threads.close()

    async def _close(self, closing: Callable[[], Any]) -> None:
        outcome = await self._threads.call(closing)
        if inspect.isawaitable(outcome):
            await outcome

    async def _ask(self, question: Question, started: float, is_given_up: Callable[[], bool]) -> Outcome:
        call = self._call_of(question)
        streams = None

        def call_and_read() -> Any:
            """Call the function, and read its streams in the same thread: some objects may not change theirs."""
            nonlocal streams
            value = call()
            streams = self._find_streams(value)
            return value if streams is None or streams.is_async else streams.read(is_given_up)

        if self._loaded.is_async:
            value = call()
        else:
            value = await self._threads.call(call_and_read)
        if inspect.isawaitable(value):
            value = await value
        if streams is None or streams.is_async:
            streams = self._find_streams(value) if streams is None else streams
            if streams is not None:
                value = await streams.read_async(self._threads.call, is_given_up)
        first = None if streams is None else streams.first_text_at
        return Outcome(value, first_token_ms=None if first is None else (first - started) * 1000)

    def _call_of(self, question: Question) -> Callable[[], Any]:
        extra = {} if self._settings.factory else self._settings.arguments
        value = question.input if self._settings.takes_input else question.text
        if not self._loaded.takes_query:
            return functools.partial(self._loaded.function, value, **extra)
        named = value if self._settings.takes_input else QueryText.of(question)
        return functools.partial(self._loaded.function, **{QUERY: named}, **extra)

    def _place(self, error: BaseException) -> str:
        """Return the innermost line of the user's own code that an error went through: ` (my_rag.py, line 7)`."""
        folders = [Path(folder).resolve() for folder in self._settings.folders]
        for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
            file = Path(frame.f_code.co_filename)
            if INSTALLED.isdisjoint(file.parts) and any(file.is_relative_to(folder) for folder in folders):
                return f" ({file.name}, line {line})"
        return ""

    def _hint(self, error: BaseException) -> str:
        """Return what to do about an error that is known, behind a space."""
        message = _message_of(error)
        if "no running event loop" in message:
            return " (Make the callable `async def`: what it calls needs an event loop.)"
        if not self._settings.takes_input and _WANTS_MAPPING.search(message):
            return ' (If it takes a mapping and not a text, set `input`, such as {question: "{question}"}.)'
        return ""


def one_line(error: BaseException) -> str:
    """Return class and message of an exception on one line, cut to 300 characters; never a traceback."""
    message = _message_of(error)
    line = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return line if len(line) <= ERROR_LENGTH else line[: ERROR_LENGTH - 1] + "…"


def _message_of(error: BaseException) -> str:
    try:
        return " ".join(str(error).split())
    except Exception:  # its own __str__ fails
        return ""


# --- Threads


class TooManyAbandoned(Exception):
    """Calls that timed out have not returned."""


_Result = tuple[Any, "BaseException | None"]  # an exception is a value here, because a future refuses some of them
_Job = tuple[Callable[[], Any], "asyncio.Future[_Result]"]


class CallThreads:
    """Daemon threads for calls that may never return; used on one event loop.

    The interpreter waits for the threads of `asyncio.to_thread` when it ends: a call that never returns would keep a
    finished run alive. A call that is given up keeps its thread, and its result is dropped. Other threads are reused,
    so that what a library stores per thread is kept.
    """

    def __init__(self) -> None:
        self._idle: list[tuple[threading.Thread, queue.SimpleQueue[_Job | None]]] = []
        self._abandoned: set[threading.Thread] = set()

    async def call(self, function: Callable[[], Any]) -> Any:
        """Run a function and return or raise what it does; `TooManyAbandoned` while 256 that timed out still run."""
        self._abandoned = {thread for thread in self._abandoned if thread.is_alive()}
        if len(self._abandoned) >= ABANDONED_LIMIT:
            raise TooManyAbandoned(f"{len(self._abandoned)} earlier calls have not returned")
        thread, jobs = self._idle.pop() if self._idle else _start_thread()
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        jobs.put((function, future))
        try:
            value, error = await future
        except BaseException:  # the caller was cancelled
            self._abandoned.add(thread)
            jobs.put(None)
            raise
        self._idle.append((thread, jobs))
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End the idle threads; the others are not waited for."""
        for _, jobs in self._idle:
            jobs.put(None)
        self._idle.clear()


def _start_thread() -> tuple[threading.Thread, queue.SimpleQueue[_Job | None]]:
    jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
    thread = threading.Thread(target=_run_jobs, args=(jobs,), name="python-system", daemon=True)
    thread.start()
    return thread, jobs


def _run_jobs(jobs: queue.SimpleQueue[_Job | None]) -> None:
    """Run one function after the other until None comes."""
    while True:
        job = jobs.get()
        if job is None:
            return
        function, future = job
        result: _Result
        try:
            result = function(), None
        except StopIteration as error:  # which no coroutine may raise
            result = None, RuntimeError(f"StopIteration: {error}")
        except BaseException as error:  # a SystemExit must end neither the thread nor the run
            result = None, error
        with contextlib.suppress(RuntimeError):  # the loop was closed while the call ran
            future.get_loop().call_soon_threadsafe(_deliver, future, result)
        del job, function, future, result  # keep nothing alive while waiting for the next job


def _deliver(future: asyncio.Future[_Result], result: _Result) -> None:
    if not future.done():
        future.set_result(result)


# --- Loading


class LoadedCode(NamedTuple):
    """Code that is imported; `owner` is the object that was made or looked up."""

    function: Callable[..., Any]
    owner: Any
    takes_query: bool
    is_async: bool
    facts: CodeFacts


def load_code(settings: CodeSettings) -> LoadedCode:
    """Import the code; the folders of `path` come first in `sys.path` from now on, because code imports lazily.

    Raises:
        CodeError: `bad_path`, `bad_callable`, `missing_package`.
    """
    folders = [Path(folder).resolve() for folder in settings.folders]
    for number, folder in enumerate(folders):
        if not folder.is_dir():
            raise CodeError("bad_path", f"path[{number}]", "a folder that exists", str(folder))
    versions = _versions(settings)
    sys.path[:0] = map(str, folders)
    # Python takes what it compiled for code of the same size that was changed within the same second.
    sys.dont_write_bytecode = True
    return _load(settings, folders, versions)


def _bad(expected: str, found: object, field: str = "callable", hint: str | None = None) -> NoReturn:
    raise CodeError("bad_callable", field, expected, found, hint)


def _load(settings: CodeSettings, folders: list[Path], versions: dict[str, str]) -> LoadedCode:
    module_name, _, path = settings.callable.partition(":")
    if _is_other_module(module_name, folders):
        _bad(f"a module name that is not taken: {module_name.partition('.')[0]} is loaded from elsewhere", module_name)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a module may raise anything, and a script ends the process
        _bad(f"the module {module_name} to be importable", one_line(error), hint=_import_hint(error, module_name))
    owner: Any = module
    for name in path.split("."):
        try:
            owner = getattr(owner, name)
        except AttributeError:
            _bad(f"{name!r} in {getattr(owner, '__name__', type(owner).__name__)}", settings.callable)
    if settings.factory:
        if not callable(owner):
            _bad("a factory, which is callable", type(owner).__name__, field="factory")
        try:
            owner = owner(**settings.arguments)
        except (Exception, SystemExit) as error:
            _bad(f"a factory that takes {sorted(settings.arguments)}", one_line(error), field="arguments")
    function, methods = _function_of(owner, settings)
    try:
        takes_query = _takes_query(function, settings)
    except TypeError as error:
        _bad(f"a callable of one question, found {inspect.signature(function)}: {error}", None)
    chosen = methods[0] if methods else None
    return LoadedCode(
        function=function,
        owner=owner,
        takes_query=takes_query,
        is_async=inspect.iscoroutinefunction(function)
        or inspect.iscoroutinefunction(getattr(function, "__call__", None)),  # noqa: B004  # its kind is wanted
        facts=CodeFacts(chosen, methods, versions, _source_digest(module, folders), platform.python_version()),
    )


def _import_hint(error: BaseException, module_name: str) -> str:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is None or missing == module_name or module_name.startswith(f"{missing}."):
        return "Is its folder in `path`?"
    return f"Install {missing} for {sys.executable}, or name the interpreter that has it: `python`."


def _function_of(owner: Any, settings: CodeSettings) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return what answers, and the methods it could be if none is named and the object is not callable."""
    if settings.method is not None:
        function = getattr(owner, settings.method, None)
        if not callable(function):
            _bad(f"a method of {type(owner).__name__}", settings.method, field="method")
        return function, ()
    if inspect.isclass(owner):
        _bad("a callable that is not a class", owner.__name__, hint="Set `factory: true`.")
    if callable(owner):
        return owner, ()
    methods = tuple(name for name in METHODS if callable(getattr(owner, name, None)))
    if not methods:
        _bad(
            f"a callable, or an object with one of the methods {', '.join(METHODS)}", type(owner).__name__,
            hint="Set `method` to the method that answers.",
        )  # fmt: skip
    return getattr(owner, methods[0]), methods


def _takes_query(function: Callable[..., Any], settings: CodeSettings) -> bool:
    """Return whether the question goes to a parameter `query`; raise TypeError if it goes nowhere."""
    extra = {} if settings.factory else settings.arguments
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False  # written in C: a wrong call is noticed when it is made
    parameter = signature.parameters.get(QUERY)
    takes = parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    if takes:
        signature.bind(**{QUERY: ""}, **extra)
    else:
        signature.bind("", **extra)
    return takes


def _versions(settings: CodeSettings) -> dict[str, str]:
    versions = {}
    for number, name in enumerate(settings.version_of):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            raise CodeError("missing_package", f"version_of[{number}]", "a package that is installed", name) from None
    return versions


def _is_other_module(module_name: str, folders: list[Path]) -> bool:
    """Return whether a module of this name was loaded from elsewhere, and would silently be used instead."""
    top = module_name.partition(".")[0]
    if top not in sys.modules:
        return False
    spec = PathFinder.find_spec(top, [str(folder) for folder in folders])
    if spec is None or spec.origin is None:
        return False
    present = getattr(sys.modules[top], "__file__", None)
    return present is None or Path(present).resolve() != Path(spec.origin).resolve()


def _modules_below(folders: list[Path]) -> dict[str, Path]:
    """Return the loaded modules whose files are below some folders, without packages that are installed there."""
    found = {}
    # Thousands of modules are in hundreds of folders: resolving each folder once takes a tenth of the time.
    resolve = functools.lru_cache(None)(lambda folder: Path(folder).resolve())
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", None) or ()), None)
        if isinstance(file, str):
            path = resolve(os.path.dirname(file)) / os.path.basename(file)
            inner = [path.relative_to(folder).parts for folder in folders if path.is_relative_to(folder)]
            if any(INSTALLED.isdisjoint(parts) for parts in inner):
                found[name] = path
    return found


def _source_digest(module: ModuleType, folders: list[Path]) -> str:
    files = _modules_below(folders)
    if isinstance(module.__file__, str):
        files[module.__name__] = Path(module.__file__)
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        if path.is_file():
            digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
