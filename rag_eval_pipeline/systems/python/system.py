"""A callable of this process as a system under test.

Async callables run on the evaluation's own event loop, where one that blocks holds up all questions; others run in
threads, where only they wait. `concurrency` says how many questions are asked at once. The thread of a question that is
given up when its time is over cannot be ended: it goes on until its call returns, and the run ends without waiting.
"""

import asyncio
import contextlib
import functools
import inspect
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from rag_eval_pipeline.systems.answer import NO_USAGE, Configuration, Query, RagAnswer, Usage, failed_answer
from rag_eval_pipeline.systems.corpus import SystemCorpus
from rag_eval_pipeline.systems.python.adapters import NoAnswer, said, unread_stream, with_text
from rag_eval_pipeline.systems.python.faults import told
from rag_eval_pipeline.systems.python.loading import Loaded, loaded
from rag_eval_pipeline.systems.python.passages import BadPassage
from rag_eval_pipeline.systems.python.reading import answer_of
from rag_eval_pipeline.systems.python.settings import PythonSettings
from rag_eval_pipeline.systems.python.threads import CallThreads, Outcome, TooManyAbandoned
from rag_eval_pipeline.systems.reading import AnswerReader

CLOSING_SECONDS = 10.0  # for the system's own `close`; what takes longer is left behind


class AskedQuestion(str):
    """A question's text that also knows its id: what a parameter `query` is given.

    A text and not a record, because most functions call their question `query`, and one that puts a record into its
    prompt would answer another question without anybody noticing.
    """

    query_id: str

    @classmethod
    def of(cls, query: Query) -> "AskedQuestion":
        """The question of an evaluation."""
        asked = cls(query.text)
        asked.query_id = query.query_id
        return asked

    @property
    def text(self) -> str:
        """The question, as plain text."""
        return str(self)


class PythonSystem:
    """The system under test; `open_python` makes one."""

    def __init__(self, code: Loaded, settings: PythonSettings, reader: AnswerReader) -> None:
        self._code = code
        self._settings = settings
        self._reader = reader
        self._threads = CallThreads()

    def configuration(self) -> Configuration:
        """What the settings state of it, and which code and packages answered."""
        stated: Configuration = {
            "model": None, "embedding_model": None, "retrieval_k": None, "reranking_enabled": None,
        }  # fmt: skip
        versions = {f"version of {name}": version for name, version in self._code.versions.items()}
        return {**stated, **self._settings.configuration, "callable": self._settings.callable, **versions}

    def server_configuration(self) -> Mapping[str, Any]:
        """What changes when the code or a package does."""
        return {"source_sha256": self._code.source_sha256, "versions": self._code.versions}

    def warnings(self) -> list[str]:
        """What was noticed while its answers were read."""
        return self._reader.warnings()

    async def answer(self, query: Query) -> RagAnswer:
        """The answer to one question; what the callable raises is a status."""
        clock = _Clock()
        outcome = await self._call(query, clock)
        latency_ms = clock.elapsed_ms()
        try:
            if outcome.error is None:
                return answer_of(query, said(self._reader.observe(outcome.value)), self._reader, latency_ms=latency_ms)
            code = "python_stuck" if isinstance(outcome.error, TooManyAbandoned) else "python_error"
            error = told(outcome.error)
        except (NoAnswer, BadPassage) as wrong:
            code, error = "bad_response", f"expected an answer, the callable returned {wrong}"
        except Exception as wrong:  # an attribute of a foreign object may raise anything
            code, error = "bad_response", f"expected an answer, reading what the callable returned raised {told(wrong)}"
        usage = NO_USAGE if code == "python_stuck" else Usage()
        return failed_answer(query, "error", code=code, error=error, latency_ms=latency_ms, usage=usage)

    async def close(self) -> None:
        """Gives the object that answered its chance to close, within 10 s."""
        closing = getattr(self._code.owner, "aclose", None) or getattr(self._code.owner, "close", None)
        if self._settings.factory and callable(closing):
            with contextlib.suppress(Exception):  # the answers are there, whatever becomes of the system
                async with asyncio.timeout(CLOSING_SECONDS):
                    outcome = await self._threads.call(closing)
                    if inspect.isawaitable(outcome.value):
                        await outcome.value
        self._threads.close()

    async def _call(self, query: Query, clock: "_Clock") -> Outcome:
        extra = {} if self._settings.factory else self._settings.arguments
        if self._code.takes_query:
            call = functools.partial(self._code.function, query=AskedQuestion.of(query), **extra)
        else:
            call = functools.partial(self._code.function, query.text, **extra)
        if not self._code.is_async:
            outcome = await self._threads.call(lambda: clock.started(call))
            if outcome.error is not None:
                return outcome
        task = asyncio.current_task()
        try:
            value = clock.started(call) if self._code.is_async else outcome.value
            return await self._exhausted(await value if inspect.isawaitable(value) else value)
        except asyncio.CancelledError as error:
            if task is not None and task.cancelling():
                raise  # this question was given up
            return Outcome(None, error)  # the callable's own
        except (Exception, SystemExit) as error:
            return Outcome(None, error)

    async def _exhausted(self, value: Any) -> Outcome:
        """What was returned; of a stream, with the text that it has when it has ended."""
        pieces = unread_stream(value)
        if pieces is None:
            return Outcome(value, None)
        if isinstance(pieces, AsyncIterator):
            return Outcome(with_text(value, [piece async for piece in pieces]), None)
        return await self._threads.call(lambda: with_text(value, pieces))


class _Clock:
    """Time of one call; waiting for a free thread is not the system's."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    def started(self, call: Callable[[], Any]) -> Any:
        self._started = time.perf_counter()
        return call()

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started) * 1000


@contextlib.asynccontextmanager
async def open_python(settings: PythonSettings, corpus: SystemCorpus) -> AsyncIterator[PythonSystem]:
    """The system with its code imported.

    Raises:
        InputError: `bad_path`, `bad_callable`, `missing_package`.
    """
    with loaded(settings, corpus.settings_folder) as code:
        reader = AnswerReader.set_up(corpus, settings)
        system = PythonSystem(code, settings, reader)
        try:
            yield system
        finally:
            await system.close()
