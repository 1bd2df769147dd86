"""A callable of this process as a system under test: a function, a chain, a query engine.

Async callables run on the evaluation's event loop, where one that blocks delays all questions; others run in threads.
The folders of `path` come first in `sys.path` while the system is in use, because code imports lazily; modules that
came from them are unloaded at the end, so that the next system finds its own `rag.py`, and edits are read.
"""

import asyncio
import contextlib
import functools
import hashlib
import importlib
import inspect
import os
import queue
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn, Self

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import JsonObject
from rag_eval_pipeline.storage.files import sha256_of
from rag_eval_pipeline.systems.base import (
    NO_USAGE,
    Configuration,
    Query,
    RagAnswer,
    SystemCorpus,
    Usage,
    failed_answer,
)
from rag_eval_pipeline.systems.frameworks import parse_answer, to_rag_answer, unread_stream, with_text
from rag_eval_pipeline.systems.parsing import AnswerReader, ReadingSettings
from rag_eval_pipeline.systems.values import WrongShape

ERROR_LENGTH = 300  # characters; some libraries put a whole response into their messages
CLOSING_SECONDS = 10.0  # for the system's own `close`; one that takes longer is left behind
# Threads, at 8 MB of address space each; a system that hangs this often does not recover.
ABANDONED_LIMIT = 256
QUERY = "query"  # a parameter of this name gets the question with its id

_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# A module and an attribute path, such as `my_rag.chains:engine.query`.
_CALLABLE = r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*$"


class PythonSettings(ReadingSettings):
    """What is imported and how it is called.

    A callable with a parameter of the name `query` gets the question by that name, as a text that also has the
    attributes `query_id` and `text`; any other gets the question's text as its first argument.
    """

    callable: str = pydantic.Field(
        pattern=_CALLABLE,
        description="The function that answers, as `package.module:name`; the name may "
        "be a path, such as `engine.query`.",
    )
    path: tuple[str, ...] = pydantic.Field(
        (), description="Folders, relative to this file, that come first in the module search path."
    )
    factory: bool = pydantic.Field(
        False, description="`callable` is called once, with `arguments`, and its result answers the questions."
    )
    method: str | None = pydantic.Field(
        None,
        pattern=r"^[^\W\d]\w*$",
        description="Method that answers, such as `invoke`; by default the object itself.",
    )
    arguments: JsonObject = pydantic.Field(
        default_factory=dict,
        description="Keyword arguments of the factory, else of every call. They are published: put no secrets here.",
    )
    version_of: tuple[str, ...] = pydantic.Field(
        (), description="Installed packages whose versions are published; another version is another system."
    )
    configuration: dict[str, str | int | float | bool | None] = pydantic.Field(
        default_factory=dict,
        description="Configuration to publish with the results, such as model, embedding_model and retrieval_k.",
    )

    @pydantic.field_validator("version_of")
    @classmethod
    def _package_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _PACKAGE.fullmatch(name):
                raise ValueError(f"names of packages, which {name!r} is not")
        return value

    @pydantic.model_validator(mode="after")
    def _arguments_have_names(self) -> Self:
        if bad := next((name for name in self.arguments if not name.isidentifier()), None):
            raise ValueError(f"arguments whose names are identifiers, which {bad!r} is not")
        return self


# --- The system


class QueryText(str):
    """A question's text that also has its id, for a parameter `query`.

    It is a text and not a record, because most functions call their question `query`, and one that puts a record into
    its prompt would answer another question without anybody noticing.
    """

    query_id: str

    @classmethod
    def of(cls, query: Query) -> Self:
        """Return the text of a question."""
        text = cls(query.text)
        text.query_id = query.query_id
        return text

    @property
    def text(self) -> str:
        """The question, as plain text."""
        return str(self)


class PythonSystem:
    """The system under test; `open_python` makes one."""

    def __init__(self, code: "LoadedCode", settings: PythonSettings, reader: AnswerReader) -> None:
        self._code = code
        self._settings = settings
        self._reader = reader
        self._threads = CallThreads()

    def configuration(self) -> Configuration:
        """Return the published settings, the callable and the versions of its packages."""
        stated: Configuration = dict.fromkeys(("model", "embedding_model", "retrieval_k", "reranking_enabled"))
        versions = {f"version of {name}": version for name, version in self._code.versions.items()}
        return {**stated, **self._settings.configuration, "callable": self._settings.callable, **versions}

    def server_configuration(self) -> Mapping[str, Any]:
        """Return what changes when the code or a package does."""
        return {"source_sha256": self._code.source_sha256, "versions": self._code.versions}

    def warnings(self) -> list[str]:
        """Return what was noticed in the answers so far."""
        return self._reader.warnings()

    async def answer(self, query: Query) -> RagAnswer:
        """Answer one question; what the callable raises is a status."""
        started = time.perf_counter()
        outcome = await self._call(query)
        latency_ms = (time.perf_counter() - started) * 1000
        try:
            if outcome.error is None:
                parsed = parse_answer(self._reader.observe(outcome.value))
                return to_rag_answer(query, parsed, self._reader, latency_ms=latency_ms)
            code = "python_stuck" if isinstance(outcome.error, TooManyAbandoned) else "python_error"
            error = _one_line(outcome.error)
        except WrongShape as wrong:
            code, error = "bad_response", f"expected an answer, the callable returned {wrong}"
        except Exception as wrong:  # an attribute of a foreign object may raise anything
            code = "bad_response"
            error = f"expected an answer, reading what the callable returned raised {_one_line(wrong)}"
        usage = NO_USAGE if code == "python_stuck" else Usage()
        return failed_answer(query, "error", code=code, error=error, latency_ms=latency_ms, usage=usage)

    async def close(self) -> None:
        """Close the object that a factory made, within 10 s."""
        closing = getattr(self._code.owner, "aclose", None) or getattr(self._code.owner, "close", None)
        if self._settings.factory and callable(closing):
            with contextlib.suppress(Exception):  # the answers are there, whatever becomes of the system
                async with asyncio.timeout(CLOSING_SECONDS):
                    outcome = await self._threads.call(closing)
                    if inspect.isawaitable(outcome.value):
                        await outcome.value
        self._threads.close()

    async def _call(self, query: Query) -> "Outcome":
        extra = {} if self._settings.factory else self._settings.arguments
        if self._code.takes_query:
            call = functools.partial(self._code.function, query=QueryText.of(query), **extra)
        else:
            call = functools.partial(self._code.function, query.text, **extra)
        if not self._code.is_async:
            outcome = await self._threads.call(call)
            if outcome.error is not None:
                return outcome
        task = asyncio.current_task()
        try:
            value = call() if self._code.is_async else outcome.value
            return await self._exhaust(await value if inspect.isawaitable(value) else value)
        except asyncio.CancelledError as error:
            if task is not None and task.cancelling():
                raise  # this question timed out
            return Outcome(None, error)  # the callable raised it
        except (Exception, SystemExit) as error:
            return Outcome(None, error)

    async def _exhaust(self, value: Any) -> "Outcome":
        """Return the value; of a stream, with the text that it has at its end."""
        pieces = unread_stream(value)
        if pieces is None:
            return Outcome(value, None)
        if isinstance(pieces, AsyncIterator):
            return Outcome(with_text(value, [piece async for piece in pieces]), None)
        return await self._threads.call(lambda: with_text(value, pieces))


@contextlib.asynccontextmanager
async def open_python(settings: PythonSettings, corpus: SystemCorpus) -> AsyncIterator[PythonSystem]:
    """Import the code and open the system.

    Raises:
        InputError: `bad_path`, `bad_callable`, `missing_package`.
    """
    with load_code(settings, corpus.settings_folder) as code:
        system = PythonSystem(code, settings, AnswerReader(corpus, settings))
        try:
            yield system
        finally:
            await system.close()


def _one_line(error: BaseException) -> str:
    """Return class and message of an exception on one line, cut to 300 characters; never a traceback."""
    try:
        message = " ".join(str(error).split())
    except Exception:  # its own __str__ fails
        message = ""
    line = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return line if len(line) <= ERROR_LENGTH else line[: ERROR_LENGTH - 1] + "…"


# --- Threads


class Outcome(NamedTuple):
    """What a call returned or raised; an exception is a value here, because a future refuses some of them."""

    value: Any
    error: BaseException | None


class TooManyAbandoned(Exception):
    """Calls that timed out have not returned."""


_Job = tuple[Callable[[], Any], "asyncio.Future[Outcome]"]


class CallThreads:
    """Daemon threads for calls that may never return; used on one event loop.

    The interpreter waits for the threads of `asyncio.to_thread` when it ends: a call that never returns would keep a
    finished run alive. A call that is given up keeps its thread, and its result is dropped. Other threads are reused,
    so that what a library stores per thread is kept.
    """

    def __init__(self) -> None:
        self._idle: list[tuple[threading.Thread, queue.SimpleQueue[_Job | None]]] = []
        self._abandoned: set[threading.Thread] = set()

    async def call(self, function: Callable[[], Any]) -> Outcome:
        """Run a function; the outcome is `TooManyAbandoned` while 256 calls that timed out still run."""
        self._abandoned = {thread for thread in self._abandoned if thread.is_alive()}
        if len(self._abandoned) >= ABANDONED_LIMIT:
            return Outcome(None, TooManyAbandoned(f"{len(self._abandoned)} earlier calls have not returned"))
        thread, jobs = self._idle.pop() if self._idle else _start_thread()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        jobs.put((function, future))
        try:
            outcome = await future
        except BaseException:  # the caller was cancelled
            self._abandoned.add(thread)
            jobs.put(None)
            raise
        self._idle.append((thread, jobs))
        return outcome

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
    while (job := jobs.get()) is not None:
        function, future = job
        try:
            outcome = Outcome(function(), None)
        except BaseException as error:  # a SystemExit must end neither the thread nor the run
            outcome = Outcome(None, error)
        with contextlib.suppress(RuntimeError):  # the loop was closed while the call ran
            future.get_loop().call_soon_threadsafe(_deliver, future, outcome)
        del job, function, future, outcome  # keep nothing alive while waiting for the next job


def _deliver(future: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


# --- Loading


class LoadedCode(NamedTuple):
    """Code that answers; `owner` is the object that was made or looked up, `versions` are of installed packages.

    `source_sha256` is of the module and all modules that it imported from the folders of `path`.
    """

    function: Callable[..., Any]
    owner: Any
    takes_query: bool
    is_async: bool
    versions: dict[str, str]
    source_sha256: str


@contextlib.contextmanager
def load_code(settings: PythonSettings, folder: Path) -> Iterator[LoadedCode]:
    """Import the code for a block, and unload its modules afterwards.

    Raises:
        InputError: `bad_path`, `bad_callable`, `missing_package`, each with the field of the system's file.
    """
    folders = [_resolve_folder(folder, name, number) for number, name in enumerate(settings.path)]
    versions = _versions(settings, folder)
    before = frozenset(sys.modules)
    entries = [str(path) for path in folders]
    sys.path[:0] = entries
    importlib.invalidate_caches()
    try:
        yield _load(settings, folder, folders, versions)
    finally:
        for entry in entries:
            with contextlib.suppress(ValueError):  # the code has removed it itself
                sys.path.remove(entry)
        for name in _modules_below(folders):
            if name not in before:
                del sys.modules[name]


def _load(settings: PythonSettings, folder: Path, folders: list[Path], versions: dict[str, str]) -> LoadedCode:
    def bad(expected: str, found: object, field: str = "callable", hint: str | None = None) -> NoReturn:
        raise InputError("bad_callable", folder, expected, field=f"settings.{field}", found=found, hint=hint)

    module_name, _, path = settings.callable.partition(":")
    if _is_other_module(module_name, folders):
        bad(f"a module name that is not taken: {module_name.partition('.')[0]} is loaded from elsewhere", module_name)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a module may raise anything, and a script ends the process
        bad(f"the module {module_name} to be importable", _one_line(error), hint="Is its folder in `path`?")
    owner: Any = module
    for name in path.split("."):
        try:
            owner = getattr(owner, name)
        except AttributeError:
            bad(f"{name!r} in {getattr(owner, '__name__', type(owner).__name__)}", settings.callable)
    if settings.factory:
        if not callable(owner):
            bad("a factory, which is callable", owner)
        try:
            owner = owner(**settings.arguments)
        except (Exception, SystemExit) as error:
            bad(f"a factory that takes {sorted(settings.arguments)}", _one_line(error), field="arguments")
    function = owner
    if settings.method is not None:
        function = getattr(owner, settings.method, None)
        if function is None:
            bad(f"a method of {type(owner).__name__}", settings.method, field="method")
    if not callable(function):
        bad("a callable", type(function).__name__, hint="Set `method` to the method that answers, such as invoke.")
    if inspect.isclass(function):
        bad("a callable that is not a class", function.__name__, hint="Set `factory: true`.")
    try:
        takes_query = _takes_query(function, {} if settings.factory else settings.arguments)
    except TypeError as error:
        bad(f"a callable of one question, found {inspect.signature(function)}: {error}", None)
    return LoadedCode(
        function=function,
        owner=owner,
        takes_query=takes_query,
        is_async=inspect.iscoroutinefunction(function)
        or inspect.iscoroutinefunction(getattr(function, "__call__", None)),  # noqa: B004  # its kind is wanted
        versions=versions,
        source_sha256=_source_digest(module, folders),
    )


def _takes_query(function: Callable[..., Any], extra: dict[str, Any]) -> bool:
    """Return whether the question goes to a parameter `query`."""
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


def _resolve_folder(folder: Path, name: str, number: int) -> Path:
    path = (folder / name).resolve()
    if not path.is_dir():
        raise InputError("bad_path", folder, "a folder that exists", field=f"settings.path[{number}]", found=name)
    return path


def _versions(settings: PythonSettings, folder: Path) -> dict[str, str]:
    versions = {}
    for number, name in enumerate(settings.version_of):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            raise InputError(
                "missing_package", folder, "a package that is installed", field=f"settings.version_of[{number}]",
                found=name,
            ) from None  # fmt: skip
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
    """Return the loaded modules whose files are below some folders."""
    found = {}
    # Thousands of modules are in hundreds of folders: resolving each folder once takes a tenth of the time.
    resolve = functools.cache(lambda folder: Path(folder).resolve())
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", None) or ()), None)
        if isinstance(file, str):
            path = resolve(os.path.dirname(file)) / os.path.basename(file)
            if any(path.is_relative_to(folder) for folder in folders):
                found[name] = path
    return found


def _source_digest(module: ModuleType, folders: list[Path]) -> str:
    files = _modules_below(folders)
    if isinstance(module.__file__, str):
        files[module.__name__] = Path(module.__file__)
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        if path.is_file():
            digest.update(f"{name}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()
