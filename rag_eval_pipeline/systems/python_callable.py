"""A callable as a system under test: a function, a chain, a query engine; it runs in a worker process."""

import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.systems.base import NO_USAGE, Configuration, Query, RagAnswer, SystemCorpus, Usage, failed_answer
from rag_eval_pipeline.systems.foreign_values import WrongShape
from rag_eval_pipeline.systems.frameworks import parse_answer, to_rag_answer
from rag_eval_pipeline.systems.http import fill_template
from rag_eval_pipeline.systems.kind_settings import PythonSettings
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.systems.python_worker import WorkerCode, open_worker
from rag_eval_pipeline.systems.user_code import CodeError, CodeSettings, Outcome, Question, one_line

NOT_ASKED = frozenset({"python_stuck", "python_stopped"})  # codes of questions that did not reach the callable


class PythonSystem:
    """The system under test; `open_python` makes one."""

    def __init__(self, code: WorkerCode, settings: PythonSettings, corpus: SystemCorpus) -> None:
        self._code = code
        self._settings = settings
        self._benchmark = corpus.benchmark
        self._reader = AnswerReader(corpus, settings)

    def configuration(self) -> Configuration:
        """Return the published settings, the callable and the versions of its packages."""
        stated: Configuration = dict.fromkeys(("model", "embedding_model", "retrieval_k", "reranking_enabled"))
        facts = self._code.facts
        found: Configuration = {} if facts.method is None else {"method": facts.method}
        if self._settings.python is not None:
            found |= {"python": self._settings.python, "version of Python": facts.python}
        versions = {f"version of {name}": version for name, version in facts.versions.items()}
        return {**stated, **self._settings.configuration, "callable": self._settings.callable, **found, **versions}

    def server_configuration(self) -> Mapping[str, Any]:
        """Return what changes when the code or a package does."""
        return {"source_sha256": self._code.facts.source_sha256, "versions": self._code.facts.versions}

    def warnings(self) -> list[str]:
        """Return which method was chosen of several, and what was noticed in the answers so far."""
        return [*self._choice(), *self._reader.warnings()]

    def _choice(self) -> list[str]:
        kinds = [name for name in self._code.facts.methods if not name.startswith("a")]
        if len(kinds) < 2:
            return []
        return [
            f"{self._settings.callable} has the methods {', '.join(kinds)}, of which {kinds[0]} is called. To call "
            "another, set `method`."
        ]

    async def ready(self) -> None:
        """Wait until the code can be asked: a worker that died may be loading again, for longer than a question has."""
        await self._code.ready()

    async def answer(self, query: Query) -> RagAnswer:
        """Answer one question; what the callable raises is a status."""
        question = Question(
            query.query_id, query.text, fill_template(self._settings.input, query.values(self._benchmark))
        )
        started = time.perf_counter()
        outcome = await self._code.ask(question)
        # The worker measures without the way of the answer to this process.
        latency_ms = (time.perf_counter() - started) * 1000 if outcome.latency_ms is None else outcome.latency_ms
        code, error = outcome.code, outcome.error
        try:
            if code is None:
                parsed = parse_answer(self._reader.observe(outcome.value))
                return self._timed(to_rag_answer(query, parsed, self._reader, latency_ms=latency_ms), outcome)
        except WrongShape as wrong:
            code, error = "bad_response", f"expected an answer, the callable returned {wrong}"
        except Exception as wrong:  # an attribute of a foreign object may raise anything
            code = "bad_response"
            error = f"expected an answer, reading what the callable returned raised {one_line(wrong)}"
        usage = NO_USAGE if code in NOT_ASKED else Usage()
        return failed_answer(query, "error", code=code, error=error or code, latency_ms=latency_ms, usage=usage)

    def _timed(self, answer: RagAnswer, outcome: Outcome) -> RagAnswer:
        if outcome.first_token_ms is None or answer.status != "ok":
            return answer
        return msgspec.structs.replace(answer, timings={**answer.timings, "first_token": outcome.first_token_ms})


@contextlib.asynccontextmanager
async def open_python(settings: PythonSettings, corpus: SystemCorpus) -> AsyncIterator[PythonSystem]:
    """Import the code and open the system.

    Raises:
        InputError: `bad_python`, `bad_path`, `bad_callable`, `missing_package`.
    """
    wanted = CodeSettings(
        callable=settings.callable,
        folders=[str(corpus.settings_folder / name) for name in settings.path],
        factory=settings.factory,
        method=settings.method,
        arguments=settings.arguments,
        version_of=settings.version_of,
        takes_input=settings.input is not None,
    )
    python = sys.executable
    if settings.python is not None:
        python = os.path.abspath(corpus.settings_folder / Path(settings.python).expanduser())
    with _errors_of(corpus):
        async with open_worker(Path(python), wanted) as code:
            yield PythonSystem(code, settings, corpus)


@contextlib.contextmanager
def _errors_of(corpus: SystemCorpus) -> Iterator[None]:
    """Raise errors of the code as errors of the system's file."""
    try:
        yield
    except CodeError as error:
        raise InputError(
            error.code, corpus.settings_file, error.expected, field=f"settings.{error.field}", found=error.found,
            hint=error.hint,
        ) from error  # fmt: skip
