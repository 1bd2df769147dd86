"""The text of a proposed settings file of a system: keys in a fixed order, each guess as a comment above its key."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_pipeline.scaffold.writer import comment_lines, quote_scalar
from rag_eval_pipeline.systems.guessing import FACTS, PASSAGE_PARTS, Guesses
from rag_eval_pipeline.web.server_settings import EndpointSettings


def endpoint_lines(key: str, endpoint: Mapping[str, Any], latency_ms: float | None = None) -> list[str]:
    """Return the settings of a server, with those that are often needed as comments.

    Args:
        latency_ms: Of one answer, if one was asked for: a slow server gets fewer questions at once.
    """
    limits = EndpointSettings.model_fields
    in_flight, attempt_s = limits["in_flight"].default, limits["attempt_seconds"].default
    lines = [f"{key}:", *(f"  {name}: {flow(value)}" for name, value in endpoint.items())]
    if "api_key_env" not in endpoint:
        lines.append("  # api_key_env: MY_KEY    # name of the environment variable with a bearer token")
    # Even a server that answers one question after the other should need only half of the time limit.
    fitting = in_flight if not latency_ms else max(1, int(attempt_s / 2 / (latency_ms / 1000)))
    if latency_ms is None or fitting >= in_flight:
        return [*lines, f"  # in_flight: {in_flight}          # questions asked at once"]
    slow = f"One answer took {latency_ms / 1000:.1f} s. Raise in_flight for a server that answers many at once."
    lines += indent(comment_lines(slow))
    if fitting == 1:
        attempt_s = max(attempt_s, math.ceil(4 * latency_ms / 1000))
        lines += [f"  attempt_seconds: {attempt_s:g}", f"  total_seconds: {3 * attempt_s:g}"]
    return [*lines, f"  in_flight: {fitting}"]


def file_text(name: str, kind: str, settings: Sequence[str]) -> str:
    """Return a settings file."""
    head = comment_lines(
        "Written by `rag-eval system init`. Comments that begin with `guess:` state what was found in one reply: check "
        f"them with `rag-eval system probe {name}`, and edit what is wrong."
    )
    lines = [
        *head,
        f"kind: {kind}",
        'version: "1"              # a new version starts a new history: raise it when the system changes',
        "nightly: true             # evaluated every night, and when a benchmark appears",
        "# budget: {requests: 5000}  # per UTC day, over all benchmarks",
        "settings:",
        *indent(settings),
    ]
    return "\n".join(lines) + "\n"


def indent(lines: Sequence[str]) -> list[str]:
    """Return lines one level deeper."""
    return [f"  {line}" for line in lines]


def flow(value: Any) -> str:
    """Return a JSON value as YAML on one line, all texts in double quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        quoted = quote_scalar(value)
        return quoted if quoted.startswith('"') else f'"{quoted}"'
    return json.dumps(value)


def http_lines(
    settings: Mapping[str, Any], guesses: Guesses, *, is_named: bool, latency_ms: float | None = None
) -> list[str]:
    """Return the settings of an http system, each guess as a comment.

    Args:
        settings: Values by key; None for those that are left out.
        is_named: The path of the answer is the user's, not a guess.
        latency_ms: Of the reply.
    """

    def guessed(name: str) -> list[str]:
        guess = guesses.parts[name]
        if name == "answer" and is_named:
            return []
        return comment_lines(f"guess: {guess.evidence}") if guess.path is not None else []

    lines = endpoint_lines("endpoint", settings["endpoint"], latency_ms)
    if settings["method"] != "POST":
        lines.append(f"method: {settings['method']}")
    lines.append(f"path: {quote_scalar(settings['path'])}")
    if settings["params"]:
        lines.append(f"params: {flow(settings['params'])}")
    if settings["body"] is not None:
        lines.append(f"body: {flow(settings['body'])}")
    if settings["streaming"]:
        lines += ["# The reply is a stream of events; the answer is joined from its pieces.", "streaming: sse"]
    lines += [*guessed("answer"), f"answer: {quote_scalar(settings['answer'])}"]
    if settings["contexts"] is None:
        lines += comment_lines("No list in the reply looks like retrieved passages, so retrieval is not scored.")
        lines.append('# contexts: {path: "sources", document: file, page: page, text: text, score: score}')
    else:
        lines += [*guessed("contexts"), "contexts:"]
        for name, path in settings["contexts"].items():
            lines += indent([*(guessed(name) if name != "path" else []), f"{name}: {quote_scalar(path)}"])
        missing = [name for name in PASSAGE_PARTS if name in guesses.parts and guesses.path(name) is None]
        lines += indent([f"# {name}: nothing was found" for name in missing])
    for name in FACTS:
        if name in settings:
            lines += [*guessed(name), f"{name}: {quote_scalar(settings[name])}"]
    if "page_base" in settings:
        lines += ["# The server counts pages from 0.", "page_base: 0"]
    return lines
