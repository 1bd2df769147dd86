"""Propose the settings file of a system under test: ask it one question, and guess how its reply is read.

The question goes through the client that evaluations use. The file has each guess as a comment, with the value found.
"""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec
import pydantic

from rag_eval_pipeline import clock
from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.asking import reply_row, run_queries
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles, retrieved_documents, system_corpus
from rag_eval_pipeline.formats.dataset import open_dataset
from rag_eval_pipeline.formats.model import bad_format
from rag_eval_pipeline.scaffold.system_file_text import endpoint_lines, file_text, flow, http_lines, indent
from rag_eval_pipeline.scaffold.writer import comment_lines, quote_scalar
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.storage.yaml_files import parse_yaml, resolve_scalars
from rag_eval_pipeline.systems.base import Query, RagAnswer, SystemCorpus
from rag_eval_pipeline.systems.config import SystemFile, parse_system
from rag_eval_pipeline.systems.foreign_values import WrongShape
from rag_eval_pipeline.systems.guessing import PASSAGE_PARTS, Guesses, body_with, guess_paths, missing_fields
from rag_eval_pipeline.systems.http import SECRET_HEADER, HttpSettings, HttpSystem, fill_template
from rag_eval_pipeline.systems.json_paths import items_at
from rag_eval_pipeline.systems.nvidia_rag import check_ready
from rag_eval_pipeline.systems.parsing import AnswerReader, ReadingSettings
from rag_eval_pipeline.web.client import Endpoint, EndpointError, Reply, StreamReply
from rag_eval_pipeline.web.server_settings import EndpointSettings
from rag_eval_pipeline.web.sse import DONE, json_values, parse_events
from rag_eval_pipeline.workspace import Workspace

DEFAULT_BODY = {"question": "{question}"}
EXAMPLE_URL = "http://127.0.0.1:8000/ask"
DEFAULT_QUESTION = "What are these documents about?"  # while no benchmark is converted
BODIES_TRIED = 3
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
        api_key_env: Name of the environment variable with the bearer token.
        headers_env: Header to the name of the environment variable with its value.
        path: Folder of the callable's module.
        python: Interpreter of the callable's own environment.
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
        text: Of the file.
        asked: The request, or what else was asked, one line.
        reply: The JSON of the reply; None if nothing was asked.
        guesses: One sentence each.
        row: The reply as it is parsed with the file, as `system probe` has it.
        notes: What to know, or to do by hand.
        benchmark: The one whose question was asked; None if none is converted.
    """

    text: str
    asked: str
    reply: Any = None
    guesses: list[str] = field(default_factory=list)
    row: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    benchmark: str | None = None


def propose_system(workspace: Workspace, wanted: Wanted) -> Proposal:
    """Ask the system one question and propose its settings file; nothing is written.

    Raises:
        InputError: `missing_option`, `unknown_body`, `no_answer_found`, or a bad setting.
        ServiceError: The system cannot be used.
    """
    place = _place(workspace, wanted)
    proposal = asyncio.run(_PROPOSERS[wanted.kind](wanted, place))
    proposal.benchmark = None if place.files is None else place.corpus.benchmark
    return proposal


def write_system(workspace: Workspace, name: str, text: str, *, replace_file: bool = False) -> Path:
    """Write the settings file of a system.

    Raises:
        InputError: `system_exists`.
    """
    path = workspace.system_file(name)
    if not replace_file:
        check_free(workspace, name)
    atomic_write(path, text.encode())
    return path


def check_free(workspace: Workspace, name: str) -> None:
    """Raise `system_exists` if there is a system of this name."""
    path = workspace.system_file(name)
    if os.path.lexists(path):
        hint = "Choose another name, or replace the file: --replace"
        raise InputError("system_exists", path, "a name that is free", found=name, hint=hint)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the system is asked: its file, a question, and a corpus that may be empty."""

    file: Path
    question: str
    corpus: SystemCorpus
    files: CorpusFiles | None
    notes: list[str]

    def names_document(self, name: str) -> bool:
        """Return whether a system's name means a document of the corpus."""
        return AnswerReader(self.corpus).document(name) in self.corpus.files


def _place(workspace: Workspace, wanted: Wanted) -> _Place:
    converted = [name for name in workspace.benchmarks() if workspace.benchmark(name).stamp.exists()]
    name = wanted.benchmark or next(iter(converted), None)
    file = workspace.system_file(wanted.name)
    if name is None:
        note = "No benchmark is converted yet, so names of documents were not compared with a corpus."
        corpus = SystemCorpus(
            benchmark="none", folder=workspace.root, files=(), aliases={}, fingerprint="", system=wanted.name,
            started=clock.now(), pages=list, settings_folder=file.parent, state_folder=workspace.root,
        )  # fmt: skip
        return _Place(file, wanted.question or DEFAULT_QUESTION, corpus, None, [note])
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
    return _Place(file, wanted.question or first, corpus, files, [])


def _row(place: _Place, answer: RagAnswer) -> dict[str, Any]:
    return reply_row(place.question, answer, place.files or frozenset(), [])


# --- http


async def _propose_http(wanted: Wanted, place: _Place) -> Proposal:
    parts = _split_url(_needed(wanted.url, "--url", EXAMPLE_URL))
    params = dict(parse_qsl(parts.query, keep_blank_values=True))
    if secret := next((name for name in params if SECRET_HEADER.search(name) and not name.endswith("tokens")), None):
        hint = "Name the environment variable that holds it: --api-key-env VARIABLE, or --header-env HEADER=VARIABLE"
        raise InputError("misplaced_secret", "--url", "a URL without secrets", found=f"{secret}=...", hint=hint)
    in_url = any("{question}" in text for text in params.values())
    method = wanted.method or ("GET" if in_url and wanted.body is None else "POST")
    body = wanted.body if wanted.body is not None or in_url else DEFAULT_BODY
    endpoint = _endpoint(wanted, f"{parts.scheme}://{parts.netloc}", place.file)
    settings: dict[str, Any] = {
        "endpoint": endpoint, "method": method, "path": parts.path, "params": params, "body": body,
    }  # fmt: skip
    connection = EndpointSettings.model_validate(endpoint)
    async with Endpoint(connection, folder=place.file.parent) as client:
        values = {"question": place.question, "query_id": QUERY_ID, "benchmark": place.corpus.benchmark}
        reply = await _ask_http(client, settings, values, may_guess=wanted.body is None and not in_url)
        events, objects = _objects_of(reply)
        guesses = guess_paths(objects, place.question, place.names_document)
        settings |= _http_paths(guesses, wanted, is_stream=bool(events))
        if settings["answer"] is None:
            shown = json.dumps(objects[-1] if objects else None, ensure_ascii=False)
            hint = "Name its place: --answer JMESPATH"
            raise InputError("no_answer_found", str(wanted.url), "an answer in the reply", found=shown, hint=hint)
        lines = http_lines(settings, guesses, is_named=wanted.answer is not None)
        proposal = Proposal(
            text=file_text(wanted.name, wanted.kind, lines),
            asked=f"{method} {wanted.url} {json.dumps(fill_template(settings['body'], values), ensure_ascii=False)}",
            reply=objects if events else objects[0],
            guesses=guesses.sentences(),
            notes=[*place.notes, *_chat_notes(wanted, objects)],
        )
        file = _parsed(proposal.text, place.file)
        assert isinstance(file.settings, HttpSettings)
        system = HttpSystem(file.settings, client, AnswerReader(place.corpus, file.settings), place.corpus.benchmark)
        try:
            answer = system.read(Query(QUERY_ID, place.question), reply)
        except WrongShape as wrong:
            guess = guesses.path("answer")
            is_named = wanted.answer is not None and guess is not None
            advice = f"Is --answer right? Without it the guess is {guess}." if is_named else None
            raise InputError("no_answer_found", str(wanted.url), str(wrong), hint=advice) from wrong
    proposal.row = _row(place, answer)
    proposal.notes += _warnings(place, [answer], wanted.kind)
    return proposal


def _split_url(url: str) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        InputError: `bad_option` if it has no scheme or no host, such as `127.0.0.1:8000/ask`.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        found = url.partition("?")[0].rpartition("@")[2]  # without secrets
        raise InputError("bad_option", "--url", f"an http or https URL, such as {EXAMPLE_URL}", found=found)
    return parts


async def _ask_http(client: Endpoint, settings: dict[str, Any], values: Mapping[str, str], *, may_guess: bool) -> Reply:
    """Ask the question; put it under another key of the body where the server's error names one."""
    tried = []
    while True:
        tried.append(settings["body"])
        try:
            reply = await client.request(
                settings["method"],
                settings["path"],
                json=fill_template(settings["body"], values),
                params=fill_template(settings["params"], values) or None,
            )
        except EndpointError as error:
            is_refusal = error.http_status in (400, 422) and may_guess
            body = body_with(missing_fields(_json_of(error.body))) if is_refusal else None
            if body is None or body in tried or len(tried) == BODIES_TRIED:
                raise _unusable(error, is_refusal, client.settings) from error
            settings["body"] = body
        else:
            return _as_stream(reply)


def _as_stream(reply: Reply) -> Reply:
    """Return a reply as a stream if its body is one: events, or JSON lines."""
    if reply.body.lstrip()[:1] in (b"{", b"[", b'"'):
        try:
            reply.json()
        except EndpointError:
            pass
        else:
            return reply
    events = [event for event in parse_events(reply.body) if event.data.strip() != DONE]
    if not events:
        raise _unusable(reply.bad("JSON"), False)
    facts = {name: getattr(reply, name) for name in Reply.__dataclass_fields__}
    return StreamReply(**facts, events=events, is_cut=False)


def _objects_of(reply: Reply) -> tuple[int, list[Any]]:
    """Return the number of events, 0 of a reply that is no stream, and their JSON."""
    if not isinstance(reply, StreamReply):
        return 0, [reply.json()]
    try:
        return len(reply.events), [value for event in reply.events for value in json_values(event.data)]
    except ValueError:
        raise _unusable(reply.bad("JSON"), False) from None


def _unusable(
    error: EndpointError, is_refusal: bool, settings: EndpointSettings | None = None
) -> ServiceError | InputError:
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


def _json_of(body: bytes | None) -> Any:
    try:
        return msgspec.json.decode(body or b"null")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return (body or b"").decode("utf-8", "replace")


def _http_paths(guesses: Guesses, wanted: Wanted, *, is_stream: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"answer": wanted.answer or guesses.path("answer"), "streaming": None, "contexts": None}
    if is_stream:
        found["streaming"] = "sse"
    if (path := guesses.path("contexts")) is not None:
        found["contexts"] = {"path": path} | {
            name: inner for name in PASSAGE_PARTS if (inner := guesses.path(name)) is not None
        }
    return found | ({"page_base": 0} if guesses.page_base == 0 else {})


def _chat_notes(wanted: Wanted, values: Sequence[Any]) -> list[str]:
    """Suggest the kind openai for a chat completion."""
    is_chat = any(isinstance(value, dict) and isinstance(value.get("choices"), list) for value in values)
    if not is_chat:
        return []
    base = (wanted.url or "").removesuffix(CHAT_PATH)
    return [f"The reply is a chat completion: rag-eval system init {wanted.name} --kind openai --url {base}"]


# --- openai


async def _propose_openai(wanted: Wanted, place: _Place) -> Proposal:
    url = _needed(wanted.url, "--url", "http://127.0.0.1:8000/v1").rstrip("/").removesuffix(CHAT_PATH)
    endpoint = _endpoint(wanted, url, place.file)
    async with Endpoint(EndpointSettings.model_validate(endpoint), folder=place.file.parent) as client:
        models, note = await _models(client)
    model = wanted.model or next((name for name in models if "embed" not in name.lower()), None)
    if model is None:
        raise InputError("missing_option", "--model", "the name of a model", hint=note)
    settings: dict[str, Any] = {"endpoint": endpoint, "chat": {"model": model}}
    replies: list[Any] = []

    def observe(value: Any) -> Any:
        replies.append(value)
        return value

    answer, warnings = await _ask(_parsed_settings("openai", settings, place.file), place, observe)
    guesses = guess_paths(replies, place.question, place.names_document)
    listed = f"{len(models)} models: {', '.join(models[:8])}" if models else note
    lines = [*endpoint_lines("endpoint", endpoint), "chat:", *indent(comment_lines(listed))]
    lines += indent([f"model: {quote_scalar(model)}", "# temperature: 0"])
    path = guesses.path("contexts")
    keys = [(name, inner) for name in PASSAGE_PARTS if (inner := guesses.path(name))]
    if path is not None and keys:
        each = path if path.endswith("]") else f"{path}[]"
        renamed = f"{each}.{{{', '.join(f'{name}: {inner}' for name, inner in keys)}}}"
        evidence = "; ".join(f"{name}: {guesses.parts[name].evidence}" for name, _ in keys)
        lines += [*comment_lines(f"guess: the server retrieves by itself; {evidence}")]
        lines.append(f"contexts_path: {quote_scalar(renamed)}")
        lines += ["page_base: 0"] if guesses.page_base == 0 else []
        found = [f"contexts_path = {renamed}: {evidence}"]
        reader = AnswerReader(place.corpus, ReadingSettings(page_base=guesses.page_base))
        items = next((items for reply in reversed(replies) if (items := items_at(reply, renamed))), [])
        answer = msgspec.structs.replace(answer, contexts=reader.passages_at(renamed, items))
    else:
        lines += comment_lines(
            "The reply names no passages, so passages of the corpus are given to the model. If the server retrieves by "
            "itself, remove `retrieval`, and name where its replies have the passages: contexts_path."
        )
        lines.append("retrieval: {k: 8}")
        found = ["contexts: nothing found in the reply, so the embedded retrieval gives 8 passages to the model"]
    return Proposal(
        text=file_text(wanted.name, wanted.kind, lines),
        asked=f"POST {url}{CHAT_PATH} {json.dumps({'model': model, 'question': place.question}, ensure_ascii=False)}",
        reply=max(replies, key=lambda one: len(str(one)), default=None),
        guesses=[f"model = {model}{'' if wanted.model else ', the first of those that the server lists'}", *found],
        row=_row(place, answer),
        notes=[*place.notes, *warnings],
    )


async def _models(client: Endpoint) -> tuple[list[str], str]:
    """Return the ids of the server's models, and why there are none."""
    try:
        reply = await client.request("GET", "models")
        data = reply.json()
    except EndpointError as error:
        if error.http_status is None or error.http_status in (401, 403):
            raise _unusable(error, False, client.settings) from error
        return [], "The server does not list its models."
    rows = data.get("data", data.get("models")) if isinstance(data, dict) else data
    ids = [row.get("id") or row.get("name") for row in rows or () if isinstance(row, dict)]
    names = [str(name) for name in ids if name]
    return names, "" if names else "The server lists no models."


# --- nvidia, python


async def _propose_nvidia(wanted: Wanted, place: _Place) -> Proposal:
    rag = _endpoint(wanted, _needed(wanted.url, "--url", "http://127.0.0.1:8081"), place.file)
    servers = {"RAG server": rag}
    lines = endpoint_lines("rag", rag)
    if wanted.ingestor is not None:
        servers["ingestor"] = _endpoint(wanted, wanted.ingestor, place.file)
        lines += endpoint_lines("ingestor", servers["ingestor"])
    else:
        lines += comment_lines(
            "Without the ingestor nothing is uploaded or verified: name a collection that holds the documents."
        )
        lines.append('# ingestor: {base_url: "http://127.0.0.1:8082"}')
    found = []
    for name, endpoint in servers.items():
        async with Endpoint(EndpointSettings.model_validate(endpoint), folder=place.file.parent) as client:
            await check_ready(client, name, check_dependencies=True)
        found.append(f"The {name} at {endpoint['base_url']} and the servers behind it are healthy.")
    lines += ['collection: "{benchmark}_{corpus}"', "# extra_body: {reranker_top_k: 10, temperature: 0}"]
    text = file_text(wanted.name, wanted.kind, lines)
    _parsed(text, place.file)
    return Proposal(text=text, asked="GET v1/health of each server; no question was asked", guesses=found)


async def _propose_python(wanted: Wanted, place: _Place) -> Proposal:
    name = _needed(wanted.callable, "--callable", "my_rag.chain:answer")
    settings: dict[str, Any] = {"callable": name}
    lines = [f"callable: {quote_scalar(name)}"]
    if wanted.python is not None:
        # The interpreter of a virtual environment is a link, which is not followed.
        settings["python"] = os.path.relpath(os.path.abspath(wanted.python), place.file.parent.resolve())
        lines += [f"python: {quote_scalar(settings['python'])}"]
    if wanted.path is not None:
        folder = os.path.relpath(wanted.path.resolve(), place.file.parent.resolve())
        settings["path"] = [folder]
        lines += [f"path: [{quote_scalar(folder)}]"]
    if wanted.body is not None:
        settings["input"] = wanted.body
        lines += [f"input: {flow(wanted.body)}"]
    lines += ["# version_of: [langchain-core]    # another version of these packages is another system"]
    replies: list[Any] = []

    def observe(value: Any) -> Any:
        replies.append(value)
        return value

    values = {"question": place.question, "query_id": QUERY_ID, "benchmark": place.corpus.benchmark}
    passed = place.question if wanted.body is None else fill_template(wanted.body, values)
    answer, warnings = await _ask(_parsed_settings("python", settings, place.file), place, observe)
    return Proposal(
        text=file_text(wanted.name, wanted.kind, lines),
        asked=f"{name}({passed!r})",
        reply=_plain(replies[-1]) if replies else None,
        row=_row(place, answer),
        notes=[*place.notes, *warnings],
    )


def _plain(value: Any) -> Any:
    """Return a value as JSON, objects by their representation."""
    return json.loads(json.dumps(value, default=repr))


_PROPOSERS = {
    "http": _propose_http,
    "openai": _propose_openai,
    "nvidia": _propose_nvidia,
    "python": _propose_python,
}
INIT_KINDS = tuple(_PROPOSERS)


# --- shared


async def _ask(file: SystemFile, place: _Place, observe: Any) -> tuple[RagAnswer, list[str]]:
    """Ask the system one question.

    Raises:
        ServiceError: There is no answer.
    """
    answers: list[RagAnswer] = []
    async with file.traits.open(file.settings, replace(place.corpus, observe=observe)) as system:
        queries = [Query(QUERY_ID, place.question)]
        timeout_s = None if file.traits.has_own_limits else 60.0
        await run_queries(system, queries, answers.append, in_flight=1, timeout_s=timeout_s)
    answer = answers[0]
    if answer.status != "ok":
        hint = "Is the path of --url right? A base URL often ends in /v1." if answer.error_code == "http_404" else None
        raise ServiceError(answer.error_code or answer.status, f"No answer: {answer.error}", hint=hint)
    return answer, _warnings(place, answers, file.kind) if file.kind != "openai" else []


def _warnings(place: _Place, answers: Sequence[RagAnswer], kind: str) -> list[str]:
    return [] if place.files is None else retrieved_documents(answers, place.files, kind=kind).warnings()


def _needed(value: str | None, option: str, example: str) -> str:
    if value is None:
        raise InputError("missing_option", option, f"a value, such as {example}")
    return value


def _endpoint(wanted: Wanted, url: str, file: Path) -> dict[str, Any]:
    """Return the settings of a server, checked."""
    found: dict[str, Any] = {"base_url": url.rstrip("/")}
    if wanted.api_key_env is not None:
        found["api_key_env"] = wanted.api_key_env
    if wanted.headers_env:
        found["headers_env"] = dict(wanted.headers_env)
    try:
        EndpointSettings.model_validate(found)
    except pydantic.ValidationError as error:
        raise bad_format(file, error) from error
    return found


def _parsed(text: str, file: Path) -> SystemFile:
    return parse_system(resolve_scalars(parse_yaml(text.encode(), str(file)).value), file)


def _parsed_settings(kind: str, settings: Mapping[str, Any], file: Path) -> SystemFile:
    return parse_system({"kind": kind, "settings": settings}, file)
