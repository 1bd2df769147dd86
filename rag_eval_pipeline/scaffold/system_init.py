"""Propose the settings file of a system under test: ask it one question, and guess how its reply is read.

The question goes through the client that evaluations use. The file has each guess as a comment, with the value found.
"""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import EndpointError, InputError
from rag_eval_pipeline.scaffold.http_proposal import propose_http
from rag_eval_pipeline.scaffold.name_map import MappedName, draft_name_map, name_map_csv
from rag_eval_pipeline.scaffold.system_file_text import endpoint_lines, file_text, flow, indent
from rag_eval_pipeline.scaffold.system_proposal import (
    CHAT_PATH,
    QUERY_ID,
    Proposal,
    Target,
    Wanted,
    ask_system,
    endpoint_settings,
    find_target,
    parse_file_text,
    parse_settings,
    reply_as_row,
    required_option,
    server_error,
)
from rag_eval_pipeline.scaffold.writer import comment_lines, quote_scalar
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.systems.guessing import PASSAGE_PARTS, guess_paths
from rag_eval_pipeline.systems.http import fill_template
from rag_eval_pipeline.systems.json_paths import items_at
from rag_eval_pipeline.systems.kind_settings import ReadingSettings
from rag_eval_pipeline.systems.nvidia_rag import check_ready
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.web.client import Endpoint
from rag_eval_pipeline.web.server_settings import EndpointSettings
from rag_eval_pipeline.workspace import Workspace


def propose_system(workspace: Workspace, wanted: Wanted) -> Proposal:
    """Ask the system one question and propose its settings file; nothing is written.

    Raises:
        InputError: `missing_option`, `unknown_body`, `no_answer_found`, or a bad setting.
        ServiceError: The system cannot be used.
    """
    target = find_target(workspace, wanted)
    proposal = asyncio.run(_PROPOSERS[wanted.kind](wanted, target))
    if target.files is not None:
        proposal.benchmark = target.corpus.benchmark
        proposal.names = draft_name_map((proposal.row or {}).get("passages", ()), proposal.reply, target.files)
    return proposal


def write_name_map(workspace: Workspace, name: str, rows: Sequence[MappedName]) -> Path:
    """Write the draft of a map beside the system's file; one that is there is kept."""
    path = workspace.system_file(name).with_name(f"{name}.names.csv")
    if not path.exists():
        atomic_write(path, name_map_csv(rows))
    return path


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


async def _propose_openai(wanted: Wanted, target: Target) -> Proposal:
    url = required_option(wanted.url, "--url", "http://127.0.0.1:8000/v1").rstrip("/").removesuffix(CHAT_PATH)
    endpoint = endpoint_settings(wanted, url, target.file)
    async with Endpoint(EndpointSettings.model_validate(endpoint), folder=target.file.parent) as client:
        models, note = await _models(client)
    model = wanted.model or next((name for name in models if "embed" not in name.lower()), None)
    if model is None:
        raise InputError("missing_option", "--model", "the name of a model", hint=note)
    settings: dict[str, Any] = {"endpoint": endpoint, "chat": {"model": model}}
    replies: list[Any] = []

    def observe(value: Any) -> Any:
        replies.append(value)
        return value

    answer, warnings = await ask_system(parse_settings("openai", settings, target.file), target, observe)
    guesses = guess_paths(replies, target.question, target.names_document)
    listed = f"{len(models)} models: {', '.join(models[:8])}" if models else note
    lines = [*endpoint_lines("endpoint", endpoint, answer.latency_ms), "chat:", *indent(comment_lines(listed))]
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
        reader = AnswerReader(target.corpus, ReadingSettings(page_base=guesses.page_base))
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
        asked=f"POST {url}{CHAT_PATH} {json.dumps({'model': model, 'question': target.question}, ensure_ascii=False)}",
        reply=max(replies, key=lambda one: len(str(one)), default=None),
        guesses=[f"model = {model}{'' if wanted.model else ', the first of those that the server lists'}", *found],
        row=reply_as_row(target, answer),
        notes=[*target.notes, *warnings],
    )


async def _models(client: Endpoint) -> tuple[list[str], str]:
    """Return the ids of the server's models, and why there are none."""
    try:
        reply = await client.request("GET", "models")
        data = reply.json()
    except EndpointError as error:
        if error.http_status is None or error.http_status in (401, 403):
            raise server_error(error, False, client.settings) from error
        return [], "The server does not list its models."
    rows = data.get("data", data.get("models")) if isinstance(data, dict) else data
    ids = [row.get("id") or row.get("name") for row in rows or () if isinstance(row, dict)]
    names = [str(name) for name in ids if name]
    return names, "" if names else "The server lists no models."


async def _propose_nvidia(wanted: Wanted, target: Target) -> Proposal:
    rag = endpoint_settings(wanted, required_option(wanted.url, "--url", "http://127.0.0.1:8081"), target.file)
    servers = {"RAG server": rag}
    lines = endpoint_lines("rag", rag)
    if wanted.ingestor is not None:
        servers["ingestor"] = endpoint_settings(wanted, wanted.ingestor, target.file)
        lines += endpoint_lines("ingestor", servers["ingestor"])
    else:
        lines += comment_lines(
            "Without the ingestor nothing is uploaded or verified: name a collection that holds the documents."
        )
        lines.append('# ingestor: {base_url: "http://127.0.0.1:8082"}')
    found = []
    for name, endpoint in servers.items():
        async with Endpoint(EndpointSettings.model_validate(endpoint), folder=target.file.parent) as client:
            await check_ready(client, name, check_dependencies=True)
        found.append(f"The {name} at {endpoint['base_url']} and the servers behind it are healthy.")
    lines += ['collection: "{benchmark}_{corpus}"', "# extra_body: {reranker_top_k: 10, temperature: 0}"]
    text = file_text(wanted.name, wanted.kind, lines)
    parse_file_text(text, target.file)
    return Proposal(text=text, asked="GET v1/health of each server; no question was asked", guesses=found)


async def _propose_python(wanted: Wanted, target: Target) -> Proposal:
    name = required_option(wanted.callable, "--callable", "my_rag.chain:answer")
    settings: dict[str, Any] = {"callable": name}
    lines = [f"callable: {quote_scalar(name)}"]
    if wanted.python is not None:
        # The interpreter of a virtual environment is a link, which is not followed.
        settings["python"] = os.path.relpath(os.path.abspath(wanted.python), target.file.parent.resolve())
        lines += [f"python: {quote_scalar(settings['python'])}"]
    path = wanted.path or _current_folder_of(name)
    if path is not None:
        folder = os.path.relpath(path.resolve(), target.file.parent.resolve())
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

    values = {"question": target.question, "query_id": QUERY_ID, "benchmark": target.corpus.benchmark}
    passed = target.question if wanted.body is None else fill_template(wanted.body, values)
    answer, warnings = await ask_system(parse_settings("python", settings, target.file), target, observe)
    return Proposal(
        text=file_text(wanted.name, wanted.kind, lines),
        asked=f"{name}({passed!r})",
        reply=_plain(replies[-1]) if replies else None,
        row=reply_as_row(target, answer),
        notes=[*target.notes, *warnings],
    )


def _current_folder_of(name: str) -> Path | None:
    """Return the current folder if it has the module of a callable, which `python` would import from there."""
    top = name.partition(":")[0].partition(".")[0]
    has_it = Path(f"{top}.py").is_file() or Path(top, "__init__.py").is_file()
    return Path() if has_it else None


def _plain(value: Any) -> Any:
    """Return a value as JSON, objects by their representation."""
    return json.loads(json.dumps(value, default=repr))


_PROPOSERS = {
    "http": propose_http,
    "openai": _propose_openai,
    "nvidia": _propose_nvidia,
    "python": _propose_python,
}
INIT_KINDS = tuple(_PROPOSERS)
