"""A local chat-completions server that replies as its test says, and keeps what it was asked."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.json_server import JsonServer, json_server


@dataclass
class Completion:
    """What the server sends; a status other than 200 sends `text` as the body."""

    text: str = ""
    model: str | None = "judge-1"
    system_fingerprint: str | None = None
    finish_reason: str = "stop"
    refusal: str | None = None
    status: int = 200


def data_of(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The nonce and the data of a request."""
    return read_data_section("\n".join(message["content"] for message in body["messages"]))


def read_data_section(text: str) -> tuple[str, dict[str, Any]]:
    """The inverse of `data_section`, of its first section in a text."""
    found = re.search(r"(?m)^DATA (?P<nonce>[0-9a-f]{24})\n(?P<data>\{.*\})\nEND (?P=nonce)$", text)
    assert found is not None
    return found["nonce"], json.loads(found["data"])


def sections(server: JsonServer) -> list[dict[str, Any]]:
    """The data of each request."""
    return [data_of(body)[1] for body in server.bodies]


@contextlib.contextmanager
def judge_server(answer: Callable[[dict[str, Any]], Completion | str]) -> Iterator[JsonServer]:
    """Serves until the block ends; `answer` sees each request's body."""

    def reply(_: str, body: dict[str, Any]) -> tuple[int, Any]:
        given = answer(body)
        made = given if isinstance(given, Completion) else Completion(given)
        message = {"role": "assistant", "content": made.text, "refusal": made.refusal}
        value = {
            "id": "1", "object": "chat.completion", "model": made.model,
            "system_fingerprint": made.system_fingerprint,
            "choices": [{"index": 0, "message": message, "finish_reason": made.finish_reason}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }  # fmt: skip
        return made.status, value if made.status == 200 else made.text

    with json_server(reply) as server:
        server.url += "/v1"
        yield server


def honest(body: dict[str, Any]) -> str:
    """A judge that reads the data and nothing else: words that stand there are supported."""
    nonce, data = data_of(body)
    if data["task"] == "rating":
        return json.dumps({"nonce": nonce, "rationale": "it is", "rating": 2})
    if data["task"] == "facts":
        said = data["answer"].casefold()
        values = ("support" if fact["text"].casefold() in said else "not_support" for fact in data["facts"])
        found = [{"id": f"f{n}", "rationale": "-", "verdict": value} for n, value in enumerate(values, 1)]
        return json.dumps({"nonce": nonce, "facts": found})
    cited = {text["id"]: text["text"] for text in data["cited_texts"]}

    def value(claim: str, texts: list[str]) -> str:
        words = set(claim.casefold().rstrip(".").split())
        held = set(" ".join(texts).casefold().replace(".", "").split())
        return "no_text" if not texts else "supported" if words <= held else "not_found"

    claims = {claim["id"]: claim["text"].partition(" [")[0] for claim in data["claims"]}
    if data["task"] == "entailment":
        texts = {claim["id"]: [cited[i] for i in claim["against"]] for claim in data["claims"]}
        labels = [
            {"id": one, "rationale": "-", "entailed": value(claim, texts[one]) == "supported"}
            for one, claim in claims.items()
        ]
        return json.dumps({"nonce": nonce, "labels": labels})

    def best(claim: str, text: str) -> str:
        own = claims.values() if claim == "any" else [claims[claim]]
        return "supported" if "supported" in [value(one, [text]) for one in own] else "not_found"

    reply: dict[str, Any] = {"nonce": nonce}
    if "answer" in data:
        answer = data["answer"].casefold()
        right = any(gold.casefold() in answer for gold in data["gold_answers"])
        declines = "do not know" in answer
        verdict = "refused" if declines else "correct" if right else "incorrect"
        reply["correctness"] = {"rationale": "by its words", "verdict": verdict}
    reply["claims"] = [
        {
            "id": claim["id"],
            "rationale": "by its words",
            "by_citations": value(claims[claim["id"]], [cited[i] for i in claim["cited"]]),
            "by_contexts": value(claims[claim["id"]], data["contexts"]),
        }
        for claim in data["claims"]
    ]
    reply["citations"] = [
        {"id": check["id"], "rationale": "-", "verdict": best(check["claim"], cited[check["cited"]])}
        for check in data["citation_checks"]
    ]
    return json.dumps(reply)


def honest_but(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Callable[[dict[str, Any]], str]:
    """An honest judge whose every reply is changed by a function of the reply and the data."""

    def answer(body: dict[str, Any]) -> str:
        reply = json.loads(honest(body))
        change(reply, data_of(body)[1])
        return json.dumps(reply)

    return answer


def verdict_is(*verdicts: str) -> Callable[[dict[str, Any]], str]:
    """An honest judge but for its verdicts on answers: these in turn, the last one again and again."""
    left = [*verdicts]

    def change(reply: dict[str, Any], _: dict[str, Any]) -> None:
        if "correctness" in reply:
            reply["correctness"]["verdict"] = left.pop(0) if len(left) > 1 else left[0]

    return honest_but(change)
