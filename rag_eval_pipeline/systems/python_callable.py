"""A callable as a system under test: a function, a chain, a query engine; it runs in a worker process."""

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import JsonObject, JsonValue
from rag_eval_pipeline.systems.base import NO_USAGE, Configuration, Query, RagAnswer, SystemCorpus, Usage, failed_answer
from rag_eval_pipeline.systems.foreign_values import WrongShape
from rag_eval_pipeline.systems.frameworks import parse_answer, to_rag_answer
from rag_eval_pipeline.systems.http import fill_template
from rag_eval_pipeline.systems.parsing import AnswerReader, ReadingSettings
from rag_eval_pipeline.systems.python_worker import WorkerCode, open_worker
from rag_eval_pipeline.systems.user_code import CodeError, CodeSettings, Outcome, Question, one_line

NOT_ASKED = frozenset({"python_stuck", "python_stopped"})  # codes of questions that did not reach the callable

_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
_DOTTED = re.compile(_NAME)
_CALLABLE = re.compile(f"{_NAME}:{_NAME}")


class PythonSettings(ReadingSettings):
    """What is imported and how it is called.

    A callable with a parameter of the name `query` gets the question by that name, as a text that also has the
    attributes `query_id` and `text`; any other gets the question's text as its first argument.
    """

    callable: str = pydantic.Field(
        description="The function that answers, as `package.module:name`; the name may "
        "be a path, such as `engine.query`.",
    )
    python: str | None = pydantic.Field(
        None,
        description="Interpreter of the code's own environment, relative to this file, such as "
        "`../../../app/.venv/bin/python`. By default the pipeline's.",
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
        description="Method that answers, such as `retrieve`. By default the object itself; if it is not callable, the "
        "first that it has of invoke, query, run, ainvoke and aquery.",
    )
    input: JsonValue = pydantic.Field(
        None,
        description='What is passed instead of the question\'s text, such as {question: "{question}"} for a graph or '
        "chain that takes a mapping; {question}, {query_id} and {benchmark} in its texts are replaced.",
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

    @pydantic.field_validator("callable")
    @classmethod
    def _names_a_module_and_a_name(cls, value: str) -> str:
        if _CALLABLE.fullmatch(value):
            return value
        module, _, name = value.rpartition(".")
        example = f"{module}:{name}" if module and _DOTTED.fullmatch(value) else "my_rag.chain:answer"
        raise ValueError(f"package.module:name, with a colon, such as {example}")

    @pydantic.field_validator("input")
    @classmethod
    def _has_the_question(cls, value: Any) -> Any:
        if value is not None and "{question}" not in json.dumps(value):
            raise ValueError("a value with {question} in a text")
        return value

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
        values = {"question": query.text, "query_id": query.query_id, "benchmark": self._benchmark}
        question = Question(query.query_id, query.text, fill_template(self._settings.input, values))
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
