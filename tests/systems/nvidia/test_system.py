"""Questions are asked over real HTTP and answered in the normal form; each failure has its status and code."""

import asyncio
import dataclasses
import json

import pytest

from examples.mock_server.process import mock_rag_server
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.systems.base import Query
from rag_eval_pipeline.systems.nvidia_rag import open_nvidia
from rag_eval_pipeline.systems.nvidia_settings import NvidiaSettings
from tests.examples.papers import BELL, HARBOUR, LIGHT, papers_corpus
from tests.json_server import json_server
from tests.patience import PATIENCE_S


async def test_answer_has_its_contexts_and_citations(server, corpus, opened):
    prices = {"usd_per_million_prompt_tokens": 2.0, "usd_per_million_completion_tokens": 4.0, "usd_per_request": 0.5}
    async with opened(server, corpus, prices=prices) as system:
        answer = await system.answer(Query("q1", "When was the Marsh Point light first lit?"))

    assert (answer.query_id, answer.status, answer.answer) == ("q1", "ok", "3 May 1887 [light.pdf:1:0-64]")
    assert [(c.file_name, c.start_char, c.end_char, c.page_number) for c in answer.citations] == [
        ("light.pdf", 0, 64, 1)
    ]
    first, second = answer.contexts[:2]
    assert (first.document, first.page, first.rank, first.kind) == ("light.pdf", 1, 1, "text")
    assert " ".join(first.text.split()) == LIGHT[0]
    assert (second.rank, second.kind) == (2, "chart")
    assert second.text.startswith("The keeper of the light")  # its content is a picture
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.estimated_cost_usd == (usage.prompt_tokens * 2.0 + usage.completion_tokens * 4.0) / 1_000_000 + 0.5
    assert (usage.requests, usage.completion_tokens) == (1, 4)
    assert set(answer.timings) == {"first_token", "retrieval", "reranking", "generation"}
    assert len(answer.raw_sha256) == 64
    assert answer.model == "mock/llm"


async def test_stored_name_is_resolved_in_contexts_and_citations(server, corpus, opened):
    async with opened(server, corpus) as system:
        answer = await system.answer(Query("1", "What does the bell of Café Zürich weigh?"))

    assert answer.contexts[0].document == 'bell "one".pdf'
    assert answer.answer == f"{BELL[0]} [bell %22one%22.pdf:1:0-45]"
    assert [citation.file_name for citation in answer.citations] == ['bell "one".pdf']


async def test_html_escapes_are_undone_unless_configured(canned, corpus, opened):
    async with opened(canned, corpus) as plain, opened(canned, corpus, unescape_html=False) as raw:
        answers = [(await system.answer(Query("1", "Why?"))).answer for system in (plain, raw)]

    assert [answer.partition(" naïve ")[2] for answer in answers] == ["& short.", "&amp; short."]


async def test_parameters_are_sent_and_published(server, corpus, opened):
    clauses = [{"term": {"metadata.language": "en"}}]
    extra = {"reranker_top_k": 1, "enable_reranker": False, "stop": ["a", "b"], "filter_expr": clauses}
    async with opened(server, corpus, extra_body=extra) as s:
        answer = await s.answer(Query("1", "How long is the breakwater?"))
        stated = s.configuration()

    assert len(answer.contexts) == 1
    assert (stated["retrieval_k"], stated["reranking_enabled"], stated["stop"]) == (1, False, "a, b")
    assert stated["filter_expr"] == json.dumps(clauses)
    assert (stated["model"], stated["embedding_model"], stated["page_base"]) == ("mock/llm", "mock/bm25", 1)
    assert s.server_configuration()["rag_configuration"]["vdb_top_k"] == 100


async def test_distances_of_a_server_that_states_to_rerank_are_left_out_and_said(corpus, settings):
    results = [
        {"document_name": "light.pdf", "document_type": "text", "content": "a", "score": score} for score in (0.2, 0.9)
    ]
    event = {"choices": [{"message": {"content": "31"}, "finish_reason": "stop"}], "citations": {"results": results}}
    replies = {
        "/v1/health": {},
        "/v1/configuration": {"feature_toggles": {"enable_reranker": True}},
        "/v1/generate": event,
    }
    with json_server(lambda path, body: replies[path]) as server:
        at = NvidiaSettings.model_validate(
            {"rag": {"base_url": server.url}, "check_dependencies": False, "page_base": 1}
        )
        async with open_nvidia(at, corpus) as system:
            answer = await system.answer(Query("1", "How tall is the tower?"))

    assert [passage.score for passage in answer.contexts] == [None, None]
    assert system.warnings() == [
        "Scores of passages are left out, in 1 of the answers: they rise with the rank, as distances do, although the "
        "server states that it reranks."
    ]


async def test_messages_of_a_conversation_come_before_the_question(corpus):
    said = ({"role": "user", "content": "Who built it?"}, {"role": "assistant", "content": "Ada Prew"})
    event = {"choices": [{"message": {"content": "31"}, "finish_reason": "stop"}]}
    with json_server(lambda path, body: event if path == "/v1/generate" else {}) as server:
        at = NvidiaSettings.model_validate(
            {"rag": {"base_url": server.url}, "check_dependencies": False, "page_base": 1}
        )
        async with open_nvidia(at, corpus) as system:
            await system.answer(Query("1", "How tall is it?", said))

    assert server.bodies[-1]["messages"] == [*said, {"role": "user", "content": "How tall is it?"}]


async def test_server_without_a_configuration_endpoint(canned, corpus, opened):
    canned.reset(paths={"GET /rag/v1/configuration": ["http_404"]})
    async with opened(canned, corpus) as system:
        assert (system.server_configuration(), system.configuration()["model"]) == (None, None)


async def test_pages_of_a_server_that_counts_from_zero(corpus, opened, tmp_path):
    one_page = dataclasses.replace(papers_corpus(tmp_path, {"tollan.pdf": HARBOUR[:1]}), fingerprint="1" * 64)
    with mock_rag_server(page_base=0) as server:
        async with opened(server, corpus) as system:
            answer = await system.answer(Query("1", "Who was the keeper of the light in 1911?"))
        async with opened(server, one_page) as other:
            harbour = await other.answer(Query("1", "When was the harbour of Tollan built?"))

    assert (system.configuration()["page_base"], answer.contexts[0].page) == (0, 2)
    assert [(c.file_name, c.page_number) for c in answer.citations] == [("light.pdf", 2)]
    assert [context.page for context in harbour.contexts] == [1]


async def test_stated_page_base_is_not_probed(server, corpus, opened):
    server.reset()
    async with opened(server, corpus, page_base=0) as system:
        answer = await system.answer(Query("1", "Who was the keeper of the light in 1911?"))

    assert answer.contexts[0].page == 3
    assert "POST /rag/v1/search" not in server.counts()["paths"]


async def test_pages_are_none_if_the_base_is_unknown(canned, corpus, opened):  # canned passages stand on no page
    async with opened(canned, corpus) as system:
        answer = await system.answer(Query("1", "Who?"))
        stated = system.configuration()["page_base"]

    assert (stated, {context.page for context in answer.contexts}) == (None, {None})


FAILURES = {
    #                                       mark                       status       code                requests
    "an error's text for an answer":        ("error_text",              "error",     "error_reply",      1),
    "an error after some of the answer":    ("error_event",             "error",     "error_reply",      1),
    "a stream that ends early":             ("cut",                     "truncated", "stream_truncated", 1),
    "a connection that ends early":         ("broken_off",              "truncated", "stream_truncated", 1),
    "a server without a model":             ("no_generator",            "error",     "no_generator",     1),
    "a server that is down, to the end":    ("http_503",                "error",     "http_503",         3),
    "a server that never answers":          ("half_open",               "timeout",   "total_timeout",    1),
}  # fmt: skip


@pytest.mark.fault(46)
@pytest.mark.parametrize(("mark", "status", "code", "requests"), FAILURES.values(), ids=FAILURES)
async def test_failure_is_a_status_and_never_an_answer(server, corpus, opened, mark, status, code, requests):
    async with opened(server, corpus):
        pass
    limits = {"max_retries": 2, "total_seconds": 2.0 if status == "timeout" else PATIENCE_S, "backoff_seconds": 0.001}
    asked = NvidiaSettings.model_validate({"rag": {"base_url": server.rag} | limits, "page_base": 1})
    async with open_nvidia(asked, corpus) as system:
        answer = await system.answer(Query("1", f"When was the harbour built? [[fault {mark}]]"))

    assert (answer.status, answer.error_code, answer.usage.requests) == (status, code, requests)
    assert (answer.answer, answer.contexts, answer.citations, answer.abstained) == (None, (), (), False)
    assert answer.error
    assert "\n" not in answer.error
    assert mark != "cut" or answer.partial


async def test_every_question_is_answered_once_by_a_server_that_often_fails(canned, corpus, opened):
    questions = [Query(str(number), f"question {number}") for number in range(40)]
    async with opened(canned, corpus) as system:
        canned.reset(rate=0.4)
        answers = await asyncio.gather(*map(system.answer, questions))
    counts = canned.counts()

    assert {answer.status for answer in answers} == {"ok"}
    assert set(counts["answered_by_question"]["generate"].values()) == {1}
    attempts = sum(counts["attempts_by_question"]["generate"].values())
    assert sum(answer.usage.requests for answer in answers) == attempts > 40


async def refusal(settings, corpus):
    with pytest.raises(ServiceError) as raised:
        async with open_nvidia(settings, corpus):
            pass
    assert "\n" not in str(raised.value)
    return raised.value


async def test_unready_dependency_is_named(corpus, settings, opened):
    with mock_rag_server(canned=True, unready="Ranking") as server:
        error = await refusal(settings(server), corpus)
        async with opened(server, corpus, check_dependencies=False):
            pass
    gone = await refusal(settings(server, endpoint={"max_retries": 0}), corpus)

    assert (error.code, gone.code) == ("server_unready", "server_unready")
    assert error.message.endswith("is not ready: Ranking is down, connection refused")
    assert "[connection_refused]" in gone.message


async def test_key_is_sent_to_both_servers_and_never_shown(corpus, settings, monkeypatch):
    monkeypatch.setenv("BLUEPRINT_KEY", "canary-key-of-the-blueprint")
    monkeypatch.setenv("WRONG_KEY", "canary-key-that-is-wrong")
    with mock_rag_server(canned=True, api_key="canary-key-of-the-blueprint") as server:
        right = settings(server, endpoint={"api_key_env": "BLUEPRINT_KEY"})
        async with open_nvidia(right, corpus) as system:
            answer = await system.answer(Query("1", "Why?"))
            shown = repr([system.configuration(), system.server_configuration(), answer, right])
        error = await refusal(settings(server, endpoint={"api_key_env": "WRONG_KEY"}), corpus)

    kept = b"".join(path.read_bytes() for path in corpus.state_folder.parent.parent.rglob("*") if path.is_file())
    assert (answer.status, error.code) == ("ok", "server_unready")
    assert "canary" not in shown + str(error) + repr(error) + kept.decode()


async def test_corpus_is_not_verified_without_an_ingestor(server, corpus, opened):
    async with opened(server, corpus):
        pass
    server.reset()

    async with open_nvidia(NvidiaSettings.model_validate({"rag": {"base_url": server.rag}}), corpus) as system:
        answer = await system.answer(Query("1", "When was the harbour of Tollan built?"))

    assert (answer.status, system.configuration()["is_corpus_verified"]) == ("ok", False)
    assert not [path for path in server.counts()["paths"] if "/ingestor/" in path]


RAG = {"rag": {"base_url": "http://127.0.0.1:8081"}}
FINGERPRINT = "0123456789abcdef" * 4


def test_settings_switch_the_upload():
    assert NvidiaSettings.model_validate(RAG | {"upload": False}).upload.enabled is False


@pytest.mark.parametrize("extra", [{}, {"temperature": 0, "enable_reranker": False, "stop": ["END"], "model": None}])
async def test_body_has_the_further_fields_as_they_are_and_no_others(corpus, extra):
    event = {"choices": [{"message": {"content": "31"}, "finish_reason": "stop"}]}
    with json_server(lambda path, body: event if path == "/v1/generate" else {}) as server:
        given = {"rag": {"base_url": server.url}, "page_base": 1, "collection": "papers", "extra_body": extra}
        async with open_nvidia(NvidiaSettings.model_validate(given), corpus) as system:
            await system.answer(Query("1", "Why?"))

    assert server.bodies[-1] == {
        "messages": [{"role": "user", "content": "Why?"}],
        "use_knowledge_base": True,
        "enable_citations": True,
        "collection_names": ["papers"],
        **extra,
    }


NAMES = {
    #                                    settings                                          collection
    "the corpus is in its name":         ({},                                              "marsh_point_0123456789ab"),
    "a name of one's own":               ({"collection": "my-docs"},                       "my_docs"),
    "other chunks, another collection":  ({"upload": {"chunk_size": 256, "chunk_overlap": 32}}, "marsh_point_0123456789ab_c256_32"),
    "no digit comes first in Milvus":    ({"collection": "{corpus}"},                      "c_0123456789ab"),
    "no name is longer than Milvus's":   ({"collection": "x" * 300},                       "x" * 255),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), NAMES.values(), ids=NAMES)
def test_collection_name(changes, expected):
    settings = NvidiaSettings.model_validate(RAG | changes)

    assert settings.collection_name("marsh-point", FINGERPRINT) == expected
