"""A chat server's answer has its passages, its citations by mark and by number, and its cost."""

import json

import pytest

from rag_eval_pipeline.systems.base import Query
from rag_eval_pipeline.systems.kind_settings import OpenAiSettings
from rag_eval_pipeline.systems.openai import open_openai
from tests.systems.conftest import corpus_in
from tests.web.scripted_server import reply, serving, stream

ASKED = Query("7", "When was the Marsh Point light first lit?")
PRICES = {"usd_per_million_prompt_tokens": 1.0, "usd_per_request": 0.01}


def completion(text, *, finish_reason="stop", **more):
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}
    return reply(200, {"model": "m-2026", "choices": [choice], **more})


def streamed(*texts, finish_reason="stop", first=None):
    events = [{"choices": [{"delta": {"content": text}}]} for text in texts]
    events[0] |= first or {}
    events[-1]["choices"][0]["finish_reason"] = finish_reason
    return stream(*[f"data: {json.dumps(event)}\n\n" for event in events], "data: [DONE]\n\n")


async def asked(tmp_path, *steps, query=ASKED, **settings):
    """Return the answer over a server's script, and the server."""
    async with serving(*steps) as server:
        endpoint = {"base_url": server.base_url, "backoff_seconds": 0.001, "max_retries": 1}
        given = {"endpoint": endpoint, "chat": {"model": "m", "prices": PRICES}, "stream": False, **settings}
        async with open_openai(OpenAiSettings.model_validate(given), corpus_in(tmp_path)) as system:
            return await system.answer(query), server


async def test_plain_answer(tmp_path):
    usage = {"prompt_tokens": 1_000, "completion_tokens": 10}
    answer, server = await asked(tmp_path, completion("In 1887 [light.pdf:1:0-64].", usage=usage))

    assert (answer.query_id, answer.status, answer.answer) == ("7", "ok", "In 1887 [light.pdf:1:0-64].")
    assert [(c.file_name, c.start_char, c.end_char, c.page_number) for c in answer.citations] == [
        ("light.pdf", 0, 64, 1)
    ]
    assert (answer.model, answer.contexts, answer.abstained) == ("m-2026", (), False)
    assert (answer.usage.total_tokens, answer.usage.requests) == (1_010, 1)
    assert answer.usage.estimated_cost_usd == pytest.approx(0.001 + 0.01)
    assert answer.raw_sha256
    assert server.asked[0].json["messages"][-1] == {"role": "user", "content": ASKED.text}


async def test_retrieved_passages_are_sent_numbered_and_kept(tmp_path):
    answer, server = await asked(tmp_path, completion("3 May 1887 [1]."), retrieval={"k": 2})
    system_prompt, question = (message["content"] for message in server.asked[0].json["messages"])

    assert "[report.pdf:3:120-188]" in system_prompt
    assert question.startswith("[1] [light.pdf:1:0-93]\nThe Marsh Point light was first lit")
    assert question.endswith(f"Question: {ASKED.text}")
    assert (answer.contexts[0].document, answer.contexts[0].start, answer.contexts[0].rank) == ("light.pdf", 0, 1)
    assert [(c.file_name, c.start_char, c.end_char) for c in answer.citations] == [("light.pdf", 0, 93)]
    assert answer.latency_ms > answer.timings["retrieval"] > 0


async def test_messages_of_a_conversation_come_before_the_question(tmp_path):
    said = ({"role": "user", "content": "How high is it?"}, {"role": "assistant", "content": "31 m"})
    _, server = await asked(
        tmp_path, completion("x"), query=Query("7", "Who built it?", said), system_prompt="Be brief."
    )

    system, *rest = server.asked[0].json["messages"]
    assert (system["content"], rest) == ("Be brief.", [*said, {"role": "user", "content": "Who built it?"}])


CITED = {
    "by number":                       ("1887 [1].",                           [("light.pdf", 0, 93, "[1]")]),
    "by both, in the answer's order":  ("1887 [1] 1888 [light.pdf:1:0-64] [1]", [("light.pdf", 0, 93, "[1]"), ("light.pdf", 0, 64, "[light.pdf:1:0-64]"), ("light.pdf", 0, 93, "[1]")]),
    "by several numbers in one":       ("1887 [1, 1].",                        [("light.pdf", 0, 93, "[1, 1]")] * 2),
    "by a number that is none":        ("1887 [9] [0].",                       []),
    "a number in a file's name":       ("One [a[1].pdf:1:0-4].",               [("a[1].pdf", 0, 4, "[a[1].pdf:1:0-4]")]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CITED.values(), ids=CITED)
async def test_citations_by_number_and_by_mark(text, expected, tmp_path):
    answer, _ = await asked(tmp_path, completion(text), retrieval={"k": 1})

    found = [(c.file_name, c.start_char, c.end_char, text[c.marker_start : c.marker_end]) for c in answer.citations]
    assert found == expected


async def test_server_that_retrieves_states_passages_and_citations_at_paths(tmp_path):
    sources = [
        {"file": "/in/light.pdf", "chunk": "The light", "page": 0, "score": 0.5},
        {"file": "other.pdf", "chunk": "x"},
    ]
    cites = [{"document": "tollan", "page": 1, "start": 0, "end": 40}, {"document": "light.pdf"}]
    answer, _ = await asked(
        tmp_path,
        completion("1887", context={"sources": sources, "cites": cites}),
        contexts_path="context.sources[].{document: file, text: chunk, page: page, score: score}",
        citations_path="context.cites",
        page_base=0,
        offset_base="page",
    )

    assert [(p.document, p.page, p.text, p.score, p.rank) for p in answer.contexts] == [
        ("light.pdf", 1, "The light", 0.5, 1),
        ("other.pdf", None, "x", None, 2),
    ]
    # Page 2 of tollan.pdf begins at 9.
    assert [(c.file_name, c.start_char, c.end_char, c.page_number) for c in answer.citations] == [
        ("tollan.pdf", 9, 49, 2)
    ]


async def test_streamed_answer_has_a_first_token_time_and_passages_of_any_event(tmp_path):
    first = {"citations": [{"document": "light.pdf", "text": "The light"}]}
    answer, _ = await asked(tmp_path, streamed("18", "87", first=first), stream=True, contexts_path="citations")

    assert (answer.answer, answer.contexts[0].document) == ("1887", "light.pdf")
    assert 0 < answer.timings["first_token"] <= answer.latency_ms


FAILED = {
    #                          script                                          status       code                  partial
    "cut at the limit":        ([completion("18", finish_reason="length")],          "truncated", "max_tokens_reached", "18"),
    "busy":                    ([reply(429)],                                  "error",     "rate_limited",       None),
    "without a word":          ([completion(" ")],                                   "error",     "empty_answer",       " "),
    "a passage of nothing":    ([completion("18", sources=[{}])],                    "error",     "bad_response",       "18"),
}  # fmt: skip


@pytest.mark.fault(47)
@pytest.mark.parametrize(("steps", "status", "code", "partial"), FAILED.values(), ids=FAILED)
async def test_reply_that_is_no_answer_is_a_status(steps, status, code, partial, tmp_path):
    answer, server = await asked(tmp_path, *steps, contexts_path="sources")

    assert (answer.status, answer.error_code, answer.partial, answer.answer) == (status, code, partial, None)
    assert answer.usage.requests == len(server.asked)
    assert answer.usage.estimated_cost_usd == pytest.approx(0.01 * len(server.asked))
    assert answer.latency_ms > 0
    assert answer.error
    assert "\n" not in answer.error


async def test_empty_system_prompt_sends_the_question_alone(tmp_path):
    _, server = await asked(tmp_path, completion("a"), system_prompt="")

    assert [message["role"] for message in server.asked[0].json["messages"]] == ["user"]
