"""What is known of a system before it is asked, what is proposed, and how it is asked one question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rag_eval_pipeline import clock
from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.corpus.document_names import DocumentNames
from rag_eval_pipeline.errors import EndpointError, InputError, ServiceError
from rag_eval_pipeline.evaluation.asking import run_queries
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles, retrieved_documents, system_corpus
from rag_eval_pipeline.evaluation.probing import names_documents, reply_row
from rag_eval_pipeline.formats.dataset import open_dataset
from rag_eval_pipeline.formats.model import bad_format_of
from rag_eval_pipeline.scaffold.name_map import MappedName
from rag_eval_pipeline.storage.yaml_files import parse_yaml, resolve_scalars
from rag_eval_pipeline.systems.base import Query, RagAnswer, SystemCorpus
from rag_eval_pipeline.systems.config import SystemFile, open_system, parse_system
from rag_eval_pipeline.web.server_settings import EndpointSettings
from rag_eval_pipeline.workspace import Workspace

DEFAULT_QUESTION = "What are these documents about?"  # while no benchmark is converted
QUERY_ID = "system-init"
CHAT_PATH = "/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is known of the system before it is asked; all but its name by options of the command.

    Args:
        url: Of the question; the base URL of an openai or nvidia server.
        body: JSON with {question}; None to find it out.
        answer: Path of the answer, if it is not to be guessed.
        question: By default the first answerable one of the benchmark.
        benchmark: By default the first converted one.
        headers_env: Header to the name of the environment variable with its value.
    """

    name: str
    kind: str
    url: str | None = None
    body: Any = None
    method: str | None = None
    answer: str | None = None
    question: str | None = None
    benchmark: str | None = None
    api_key_env: str | None = None
    headers_env: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    ingestor: str | None = None
    callable: str | None = None
    path: Path | None = None
    python: Path | None = None


@dataclass(slots=True)
class Proposal:
    """A proposed settings file, and what it rests on.

    Args:
        asked: The request, or what else was asked, one line.
        reply: The JSON of the reply; None if nothing was asked.
        row: The reply as it is parsed with the file, as `system probe` has it.
        notes: What to know, or to do by hand.
        benchmark: The one whose question was asked; None if none is converted.
        names: A draft of the map from the system's ids and titles to files; empty if none is needed or found.
    """

    text: str
    asked: str
    reply: Any = None
    guesses: list[str] = field(default_factory=list)
    row: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    benchmark: str | None = None
    names: list[MappedName] = field(default_factory=list)

    @property
    def is_scored(self) -> bool:
        """Whether more than half of the passages name a document of the corpus, or there are none."""
        return self.benchmark is None or self.row is None or names_documents([self.row])


@dataclass(frozen=True)
class Target:
    """Where the system is asked: its file, a question, and a corpus that may be empty."""

    file: Path
    question: str
    corpus: SystemCorpus
    files: CorpusFiles | None
    notes: list[str]

    @cached_property
    def names(self) -> DocumentNames:
        """The documents by name."""
        return self.corpus.names()

    def names_document(self, name: str) -> bool:
        """Return whether a system's name means a document of the corpus."""
        return self.names.find(name) is not None


def find_target(workspace: Workspace, wanted: Wanted) -> Target:
    """Return where the system is asked, with the first converted benchmark unless another is named."""
    converted = [name for name in workspace.benchmarks() if workspace.benchmark(name).stamp.exists()]
    name = wanted.benchmark or next(iter(converted), None)
    file = workspace.system_file(wanted.name)
    if name is None:
        note = "No benchmark is converted yet, so names of documents were not compared with a corpus."
        corpus = SystemCorpus(
            benchmark="none", folder=workspace.root, files=(), aliases={}, fingerprint="", system=wanted.name,
            started=clock.now(), pages=list, settings_folder=file.parent, state_folder=workspace.root,
        )  # fmt: skip
        return Target(file, wanted.question or DEFAULT_QUESTION, corpus, None, [note])
    paths = workspace.benchmark(name)
    if name not in converted:
        hint = f"Convert it first: rag-eval convert {name}"
        raise InputError("not_converted", name, "a converted benchmark", hint=hint)
    stamp = Stamp.read(paths.stamp)
    dataset = open_dataset(workspace.eval_json(stamp.dataset_id, stamp.dataset_version))
    first = next((query.query_text for query in dataset.queries if not query.is_impossible), DEFAULT_QUESTION)
    files = CorpusFiles.read(paths)
    corpus = system_corpus(
        workspace,
        paths,
        wanted.name,
        files,
        fingerprint=stamp.corpus_fingerprint,
        started=clock.now(),
        retrieval_only=dataset.is_retrieval_only,
    )
    return Target(file, wanted.question or first, corpus, files, [])


def reply_as_row(target: Target, answer: RagAnswer) -> dict[str, Any]:
    """Return an answer as `system probe` shows it."""
    return reply_row(target.question, answer, target.files or frozenset(), [])


def server_error(
    error: EndpointError, is_refusal: bool, settings: EndpointSettings | None = None
) -> ServiceError | InputError:
    """Return the error of a server that cannot be used, with the option that may help as its hint."""
    if is_refusal:
        give = 'Give the body with {question} in it, such as: --body \'{"question": "{question}"}\''
        return InputError("unknown_body", "--body", "the JSON that the server takes", found=error.message, hint=give)
    hints: dict[int | None, str] = {
        401: "Name the environment variable with its key: --api-key-env VARIABLE, or --header-env HEADER=VARIABLE",
        404: "Is the path of --url right?",
        405: "Is the path of --url right? Another method: --method GET",
    }
    if settings is not None and (secrets := [*filter(None, [settings.api_key_env]), *settings.headers_env.values()]):
        hints[401] = f"The server refuses what {' and '.join(secrets)} holds. Is it right, and in the right header?"
    hints[403] = hints[401]
    is_down = error.code == "connection_refused"
    hint = "Is the server running, and is the port right?" if is_down else hints.get(error.http_status)
    return ServiceError(error.code, error.message, hint=hint)


async def ask_system(file: SystemFile, target: Target, observe: Any) -> tuple[RagAnswer, list[str]]:
    """Ask the system one question.

    Raises:
        ServiceError: There is no answer.
    """
    answers: list[RagAnswer] = []
    async with open_system(file.kind, file.settings, replace(target.corpus, observe=observe)) as system:
        queries = [[Query(QUERY_ID, target.question)]]
        timeout_s = None if file.traits.has_own_limits else 60.0
        await run_queries(system, queries, answers.append, in_flight=1, timeout_s=timeout_s)
    answer = answers[0]
    if answer.status != "ok":
        hint = "Is the path of --url right? A base URL often ends in /v1." if answer.error_code == "http_404" else None
        raise ServiceError(answer.error_code or answer.status, f"No answer: {answer.error}", hint=hint)
    return answer, document_warnings(target, answers, file.kind) if file.kind != "openai" else []


def document_warnings(target: Target, answers: Sequence[RagAnswer], kind: str) -> list[str]:
    """Return the warnings about documents that the corpus does not have."""
    return [] if target.files is None else retrieved_documents(answers, target.files, kind=kind).warnings()


def required_option(value: str | None, option: str, example: str) -> str:
    """Return an option's value, or raise `missing_option`."""
    if value is None:
        raise InputError("missing_option", option, f"a value, such as {example}")
    return value


def endpoint_settings(wanted: Wanted, url: str, file: Path) -> dict[str, Any]:
    """Return the settings of a server, checked."""
    found: dict[str, Any] = {"base_url": url.rstrip("/")}
    if wanted.api_key_env is not None:
        found["api_key_env"] = wanted.api_key_env
    if wanted.headers_env:
        found["headers_env"] = dict(wanted.headers_env)
    with bad_format_of(file, EndpointSettings):
        EndpointSettings.model_validate(found)
    return found


def parse_file_text(text: str, file: Path) -> SystemFile:
    """Parse the text of a settings file as evaluations do."""
    return parse_system(resolve_scalars(parse_yaml(text.encode(), str(file)).value), file)


def parse_settings(kind: str, settings: Mapping[str, Any], file: Path) -> SystemFile:
    """Parse settings as those of a file of a kind."""
    return parse_system({"kind": kind, "settings": settings}, file)
