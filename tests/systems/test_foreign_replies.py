"""A reply means the same answer, or the same failure, whatever kind of system gives it, and streamed or not."""

import contextlib
import json

import pytest

from rag_eval_pipeline.systems.base import Query
from rag_eval_pipeline.systems.frameworks import parse_answer, to_rag_answer
from rag_eval_pipeline.systems.http import open_http
from rag_eval_pipeline.systems.kind_settings import HttpSettings, OpenAiSettings, ReplaySettings
from rag_eval_pipeline.systems.openai import open_openai
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.systems.replay import open_replay
from tests.systems.conftest import HARBOUR, LIGHT
from tests.web.scripted_server import reply, serving, stream

ASKED = Query("7", "How tall is the tower?")
KINDS = ("http", "http, streamed", "openai", "openai, streamed", "python", "replay")


def completion_chunk(text=None, *, key="delta", **choice):
    return {"model": "m", "choices": [{"index": 0, key: {"content": text}, "finish_reason": None, **choice}]}


def served(kind, text, finish_reason, facts):
    """The steps of a server and the settings with which it is asked."""
    flat = {"answer": text, "finish_reason": finish_reason, **facts}
    paths = {
        "answer": "answer",
        "finish_reason": "finish_reason",
        "contexts": {"path": "documents"},
        "citations": {"path": "citations"},
    }
    if kind == "http":
        return reply(200, flat), {"body": {"q": "{question}"}, **paths}
    if kind == "http, streamed":
        half = len(text) // 2
        events = [{"answer": text[:half]}, {"answer": text[half:]}, {"finish_reason": finish_reason, **facts}]
        return events_of(*events), {"body": {"q": "{question}"}, "streaming": "sse", **paths}
    chat = {"chat": {"model": "m"}, "contexts_path": "documents", "citations_path": "citations"}
    if kind == "openai":
        whole = completion_chunk(text, key="message", finish_reason=finish_reason)
        return reply(200, {**whole, **facts}), {**chat, "stream": False}
    chunks = [*map(completion_chunk, (text[:1], text[1:])), {**completion_chunk(finish_reason=finish_reason), **facts}]
    return events_of(*chunks, "[DONE]"), chat


def events_of(*values):
    return stream(*[f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n" for value in values])


@contextlib.asynccontextmanager
async def opened(kind, step, settings, corpus):
    async with serving(step) as server:
        given = {"endpoint": {"base_url": server.base_url, "max_retries": 0}, **settings}
        if kind.startswith("http"):
            async with open_http(HttpSettings.model_validate(given), corpus) as system:
                yield system
        else:
            async with open_openai(OpenAiSettings.model_validate(given), corpus) as system:
                yield system


async def answered(kind, corpus, text, finish_reason="stop", **facts):
    """Return the answer of a system of a kind to a reply, and its warnings."""
    row = {"query_id": ASKED.query_id, "answer": text, "finish_reason": finish_reason, **facts}
    if kind == "python":
        reader = AnswerReader(corpus)
        return to_rag_answer(ASKED, parse_answer(row), reader, latency_ms=1.0), reader.warnings()
    if kind == "replay":
        path = corpus.settings_folder / "recorded.jsonl"
        path.write_text(json.dumps(row))
        async with open_replay(ReplaySettings(path=path.name), corpus) as system:
            return await system.answer(ASKED), system.warnings()
    async with opened(kind, *served(kind, text, finish_reason, facts), corpus) as system:
        return await system.answer(ASKED), system.warnings()


@pytest.mark.parametrize("kind", KINDS)
async def test_thoughts_are_no_part_of_the_answer_nor_of_its_citations(kind, corpus):
    written = "<think>\nIs it [2]? I don't know.\n</think>\n\n31 metres [1]</s>"
    documents = [{"document": "light.pdf", "text": LIGHT}, {"document": "tollan.pdf", "text": HARBOUR}]

    answer, _ = await answered(kind, corpus, written, documents=documents)

    assert (answer.status, answer.answer, answer.abstained, answer.raw) == ("ok", "31 metres [1]", False, written)
    assert [(c.file_name, answer.answer[c.marker_start : c.marker_end]) for c in answer.citations] == [
        ("light.pdf", "[1]")
    ]


FINISHED = {
    #                 finish_reason                 status       code
    "as it should":   ("end_turn",                  "ok",        None),
    "cut":            ("length",                    "truncated", "max_tokens_reached"),
    "cut, Gemini":    ("MAX_TOKENS",                "truncated", "max_tokens_reached"),
    "filtered":       ("content_filter",            "refused",   "refused"),
    "failed":         ("error",                     "error",     "generation_failed"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("reason", "status", "code"), FINISHED.values(), ids=FINISHED)
async def test_generation_that_did_not_end_as_it_should_is_no_answer(reason, status, code, kind, corpus):
    answer, _ = await answered(kind, corpus, "31 metres", reason)

    assert (answer.status, answer.error_code) == (status, code)
    assert (answer.answer, answer.partial) == (("31 metres", None) if status == "ok" else (None, "31 metres"))


async def test_reply_that_ends_in_a_thought_is_truncated(corpus):
    answer, _ = await answered("http", corpus, "<think>Is it 31")

    assert (answer.status, answer.error_code, answer.partial) == ("truncated", "only_thoughts", "<think>Is it 31")


@pytest.mark.parametrize("kind", KINDS)
async def test_answer_that_is_json_in_a_text_is_warned_of(kind, corpus):
    _, warnings = await answered(kind, corpus, '```json\n{"answer": "31 metres", "sure": true}\n```')

    assert any("JSON in a text, with the keys answer, sure: 1." in line for line in warnings)


# --- streams

GROWING = [completion_chunk("31"), completion_chunk("31 metres"), completion_chunk(finish_reason="stop")]
STREAMS = {
    "a growing text":      GROWING,
    "the whole at the end": [completion_chunk("31 "), completion_chunk("metres"), completion_chunk("31 metres", finish_reason="stop")],
    "two choices":         [completion_chunk("31 metres"), completion_chunk("Other", index=1), completion_chunk(finish_reason="stop")],
    "a ping":              [completion_chunk("31 metres"), {"type": "ping"}, completion_chunk(finish_reason="stop")],
}  # fmt: skip


@pytest.mark.parametrize("events", STREAMS.values(), ids=STREAMS)
async def test_streamed_completion_adds_up(events, corpus):
    async with opened("openai", events_of(*events, "[DONE]"), {"chat": {"model": "m"}}, corpus) as system:
        assert (await system.answer(ASKED)).answer == "31 metres"


SENTENCES = {
    "a growing text":       [{"a": "The sky"}, {"a": "The sky is"}, {"a": "The sky is blue."}],
    "the whole at the end": [{"a": "The sky"}, {"a": " is blue."}, {"a": "The sky is blue.", "done": True}],
    "a list of sentences":  [{"a": ["The sky", "is blue."]}],
}  # fmt: skip


@pytest.mark.parametrize("events", SENTENCES.values(), ids=SENTENCES)
async def test_streamed_text_adds_up(events, corpus):
    settings = {"body": {"q": "{question}"}, "answer": "a", "streaming": "sse"}
    async with opened("http", events_of(*events), settings, corpus) as system:
        assert (await system.answer(ASKED)).answer == "The sky is blue."


# --- citations whose offsets count in the answer

ANSWER = "It is 31 metres tall."
DOCUMENTS = [
    {"id": "kb-9", "document": "tollan.pdf", "page": 2, "text": HARBOUR},
    {"id": "kb-4", "document": "light.pdf", "page": 1, "text": LIGHT},
]
PLACES = {
    #                                  citation                                                                        cited
    "Cohere, by id":                   ({"start": 6, "end": 15, "text": "31 metres", "document_ids": ["kb-4"]},        [("light.pdf", 0)]),
    "Cohere, by place":                ({"start": 0, "end": 5, "text": "It is", "document_ids": ["doc_1"]},            [("light.pdf", 0)]),
    "Cohere, version 2":               ({"start": 0, "end": 5, "text": "It is", "sources": [{"type": "document", "id": "doc:0"}]}, [("tollan.pdf", 9)]),
    "Cohere, an unknown id":           ({"start": 0, "end": 5, "text": "It is", "document_ids": ["kb-5"]},             []),
    "OpenAI, a place in the answer":   ({"type": "file_citation", "index": 1, "file_id": "f1", "filename": "tollan.pdf"}, []),
    "OpenAI, beside no document":      ({"type": "file_citation", "index": 1, "file_id": "f1"},                        []),
    "a passage of another document":   ({"document": "tollan.pdf", "number": 2},                                       []),
    "a passage of its document":       ({"document": "light.pdf", "number": 2},                                        [("light.pdf", 0)]),
    "a place in the answer":           ({"document": "light.pdf", "start": 6, "end": 15, "text": "31 metres"},         [("light.pdf", 78)]),
}  # fmt: skip


@pytest.mark.parametrize(("citation", "cited"), PLACES.values(), ids=PLACES)
async def test_place_in_the_answer_is_no_place_in_a_document(citation, cited, corpus):
    answer, warnings = await answered("python", corpus, ANSWER, documents=DOCUMENTS, citations=[citation])

    assert [(one.file_name, one.start_char) for one in answer.citations] == cited
    assert bool(cited) != any("Citations left out: 1" in line for line in warnings)
