"""A stream that breaks is a failure with what had arrived beside it, whichever kind of system sent it."""

import contextlib
import json

import pytest

from rag_eval_pipeline.systems.base import Query
from rag_eval_pipeline.systems.http import open_http
from rag_eval_pipeline.systems.kind_settings import HttpSettings, OpenAiSettings
from rag_eval_pipeline.systems.nvidia_rag import open_nvidia
from rag_eval_pipeline.systems.nvidia_settings import NvidiaSettings
from rag_eval_pipeline.systems.openai import open_openai
from tests.systems.conftest import corpus_in
from tests.web.scripted_server import reply, serving, stream

pytestmark = pytest.mark.fault(48)


def chat(text="", **more):
    return {"choices": [{"delta": {"content": text}, **more}]}


class Http:
    """Any server of events; only the connection says where a stream ends."""

    end = ""

    def event(self, text):
        return {"token": text}

    def error(self, text):
        return {"error": text}

    def open(self, url, corpus):
        given = {
            "endpoint": {"base_url": url},
            "path": "/v1/ask",
            "body": {"q": "{question}"},
            "streaming": "sse",
            "answer": "token",
            "error": "error",
        }
        return open_http(HttpSettings.model_validate(given), corpus)


class OpenAi:
    end = f"data: {json.dumps(chat(finish_reason='stop'))}\n\ndata: [DONE]\n\n"
    event = staticmethod(chat)

    def error(self, text):
        return {"error": {"message": text}}

    def open(self, url, corpus):
        given = {"endpoint": {"base_url": f"{url}/v1"}, "chat": {"model": "m"}, "stream": True}
        return open_openai(OpenAiSettings.model_validate(given), corpus)


class Nvidia:
    end = f"data: {json.dumps(chat(finish_reason='stop'))}\n\n"
    event = staticmethod(chat)

    def error(self, text):
        return {**chat(text), "event_type": "error"}

    def open(self, url, corpus):
        given = {"rag": {"base_url": url}, "check_dependencies": False, "page_base": 1}
        return open_nvidia(NvidiaSettings.model_validate(given), corpus)


KINDS = {"http": Http(), "openai": OpenAi(), "nvidia": Nvidia()}
TRUNCATED = ("truncated", "stream_truncated", None, "Mørk")
DAMAGED = ("error", "bad_response", None)


def data(value):
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def lines(value):
    """An event whose JSON is written over several lines."""
    return "".join(f"data: {line}\n" for line in json.dumps(value, indent=1).split("\n")).encode() + b"\n"


def halves(value):
    """An event in two pieces, cut within the first character that is not ASCII."""
    body = data(value)
    at = body.index(b"\xc3") + 1
    return body[:at], body[at:]


FAULTS = {
    #                                         what is sent, by a kind of system                                                       is whole  status, code, answer, text so far
    "cut within an event":                   (lambda kind: [data(kind.event("Mørk")), data(kind.event("vang"))[:9]],                    False, TRUNCATED),
    "cut within a character":                (lambda kind: [data(kind.event("Mørk")), halves(kind.event("é"))[0]],                      False, TRUNCATED),
    "cut between events":                    (lambda kind: [data(kind.event("Mørk"))],                                                  False, TRUNCATED),
    "an error after the first words":        (lambda kind: [data(kind.event("Mørk")), data(kind.error("out of memory")), kind.end],     True, ("error", "error_reply", None, "Mørk")),
    "Latin-1 after the first words":         (lambda kind: [data(kind.event("Mørk")), data(kind.event("é")).replace(b"\xc3", b""), kind.end], True, DAMAGED),
    "half a character at the end":           (lambda kind: [data(kind.event("Mørk")), b"\xc3"],                                         True, DAMAGED),
    "what is no JSON after the first words": (lambda kind: [data(kind.event("Mørk")), b"event: error\ndata: out of memory\n\n"],       True, DAMAGED),
    "a character in two pieces":             (lambda kind: [*halves(kind.event("Mørk")), kind.end],                                     True, ("ok", None, "Mørk", None)),
    "events of several lines":               (lambda kind: [lines(kind.event("Mø")), lines(kind.event("rk")), kind.end],                True, ("ok", None, "Mørk", None)),
}  # fmt: skip


@contextlib.asynccontextmanager
async def asked(kind, corpus, *pieces, is_whole):
    """The answer of a system over a server that sends these pieces, and how often it was asked."""
    counted = []

    async def step(request, writer):
        if request.method == "GET":  # health and configuration
            await reply(200, {})(request, writer)
        else:
            counted.append(request)
            await stream(*pieces, end=is_whole)(request, writer)

    async with serving(step) as server, kind.open(server.base_url.removesuffix("/v1"), corpus) as system:
        yield await system.answer(Query("7", "Where?")), len(counted)


@pytest.mark.parametrize(("sent", "is_whole", "expected"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_broken_stream_is_no_answer(kind, sent, is_whole, expected, tmp_path):
    async with asked(kind, corpus_in(tmp_path), *sent(kind), is_whole=is_whole) as (answer, requests):
        found = (answer.status, answer.error_code, answer.answer, answer.partial)

    assert found[: len(expected)] == expected
    assert answer.status == "ok" or (answer.contexts, answer.citations) == ((), ())
    assert (requests, answer.usage.requests) == (1, 1)  # what has begun is not paid for again


@pytest.mark.parametrize(("kind", "status"), [("http", "ok"), ("openai", "truncated"), ("nvidia", "truncated")])
async def test_stream_without_its_end_is_truncated_where_the_protocol_has_one(kind, status, tmp_path):
    pieces = [data(KINDS[kind].event("Mørk"))]
    async with asked(KINDS[kind], corpus_in(tmp_path), *pieces, is_whole=True) as (answer, _):
        assert (answer.status, answer.partial or answer.answer) == (status, "Mørk")
