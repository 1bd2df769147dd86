"""Questions asked of a server over real HTTP: answers in the normal form, failures as what they are."""

import asyncio
import dataclasses

import pytest

from examples.mock_rag_server import mock_rag_server
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.systems.base import Citation, Query
from rag_eval_pipeline.systems.nvidia import NvidiaSettings, open_nvidia
from tests.examples.papers import BELL, HARBOUR, LIGHT, papers_corpus


async def test_an_answer_with_its_contexts_and_citations(server, corpus, opened):
    async with opened(server, corpus) as system:
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
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert (answer.usage.requests, answer.usage.completion_tokens) == (1, 4)
    assert set(answer.timings) == {"first_token", "retrieval", "reranking", "generation"}
    assert len(answer.raw_sha256) == 64
    assert answer.model == "mock/llm"


async def test_a_name_that_uploading_changes_is_found_again_in_contexts_and_citations(server, corpus, opened):
    async with opened(server, corpus) as system:
        answer = await system.answer(Query("1", "What does the bell of Café Zürich weigh?"))

    assert answer.contexts[0].document == 'bell "one".pdf'
    assert answer.answer == f"{BELL[0]} [bell %22one%22.pdf:1:0-45]"
    assert [citation.file_name for citation in answer.citations] == ['bell "one".pdf']


async def test_an_agents_drafts_are_no_part_of_its_answer(server, corpus, opened):
    async with opened(server, corpus, generate={"agentic": True}) as system:
        answer = await system.answer(Query("1", "When was the harbour of Tollan built?"))

    assert answer.answer == "1901 [tollan.pdf:1:0-40]"
    assert answer.contexts[0].document == "tollan.pdf"


async def test_what_is_escaped_on_the_way_is_as_it_was(canned, corpus, opened):
    async with opened(canned, corpus) as plain, opened(canned, corpus, unescape_html=False) as raw:
        answers = [(await system.answer(Query("1", "Why?"))).answer for system in (plain, raw)]

    assert [answer.partition(" naïve ")[2] for answer in answers] == ["& short.", "&amp; short."]


async def test_no_answer_in_the_documents_is_an_abstention(server, corpus, opened):
    async with opened(server, corpus) as system:
        answer = await system.answer(Query("1", "Which bishop blessed the wooden chapel?"))

    assert (answer.status, answer.abstained, answer.citations) == ("ok", True, ())


async def test_parameters_are_sent_and_told(server, corpus, opened):
    async with opened(
        server, corpus, generate={"reranker_top_k": 1, "enable_reranker": False, "stop": ["a", "b"]}
    ) as s:
        answer = await s.answer(Query("1", "How long is the breakwater?"))
        told = s.configuration()

    assert len(answer.contexts) == 1
    assert (told["retrieval_k"], told["reranking_enabled"], told["stop"]) == (1, False, "a, b")
    assert (told["model"], told["embedding_model"], told["page_base"]) == ("mock/llm", "mock/bm25", 1)


async def test_the_servers_configuration_is_read(server, corpus, opened):
    async with opened(server, corpus) as system:
        assert system.server_configuration()["rag_configuration"]["vdb_top_k"] == 100


async def test_a_server_too_old_to_tell_its_configuration(corpus, opened):
    with mock_rag_server(canned=True, faults={"paths": {"GET /rag/v1/configuration": ["http_404"]}}) as server:
        async with opened(server, corpus) as system:
            assert (system.server_configuration(), system.configuration()["model"]) == (None, None)


@pytest.mark.parametrize("page_base", [0, 1])
async def test_pages_count_from_one_whatever_the_server_counts_from(corpus, opened, page_base):
    with mock_rag_server(page_base=page_base) as server:
        async with opened(server, corpus) as system:
            answer = await system.answer(Query("1", "Who was the keeper of the light in 1911?"))
            told = system.configuration()["page_base"]

    assert (told, answer.contexts[0].page) == (page_base, 2)
    assert [(c.file_name, c.page_number) for c in answer.citations] == [("light.pdf", 2)]


async def test_a_stated_page_base_is_believed_and_not_looked_for(server, corpus, opened):
    server.reset()
    async with opened(server, corpus, page_base=0) as system:
        answer = await system.answer(Query("1", "Who was the keeper of the light in 1911?"))

    assert answer.contexts[0].page == 3
    assert "POST /rag/v1/search" not in server.counts()["paths"]


async def test_pages_are_not_reported_where_the_base_is_not_known(
    canned, corpus, opened
):  # canned passages stand on no page
    async with opened(canned, corpus) as system:
        answer = await system.answer(Query("1", "Who?"))
        told = system.configuration()["page_base"]

    assert (told, {context.page for context in answer.contexts}) == (None, {None})


async def test_offsets_that_count_from_the_page(server, corpus, opened):
    async with opened(server, corpus, offset_base="page") as system:
        answer = await system.answer(Query("1", "When was the Marsh Point light first lit?"))

    assert isinstance(answer.citations[0], Citation)
    assert (answer.citations[0].start_char, answer.citations[0].end_char) == (0, 64)  # page 1 starts at 0


FAILURES = {
    #                                       mark                       status       code                requests
    "an error's text for an answer":        ("error_text",              "error",     "error_reply",      1),
    "an error after some of the answer":    ("error_event",             "error",     "error_reply",      1),
    "a stream that ends early":             ("cut",                     "truncated", "stream_truncated", 1),
    "a connection that ends early":         ("broken_off",              "truncated", "stream_truncated", 1),
    "a server without a model":             ("no_generator",            "error",     "no_generator",     1),
    "a page of HTML":                       ("html",                    "error",     "bad_response",     1),
    "a text that is no JSON":               ("not_json",                "error",     "bad_response",     1),
    "half a JSON object":                   ("truncated_json",          "error",     "bad_response",     1),
    "an empty body":                        ("empty",                   "error",     "bad_response",     1),
    "a hundred megabytes":                  ("huge",                    "error",     "body_too_large",   1),
    "a bad question":                       ("http_400",                "error",     "http_400",         1),
    "a busy server, to the end":            ("http_429 after=0",        "error",     "rate_limited",     3),
    "a server that is down, to the end":    ("http_503",                "error",     "http_503",         3),
    "a connection that is reset each time": ("reset",                   "error",     "connection_reset", 3),
    "a server that never answers":          ("half_open",               "timeout",   "total_timeout",    1),
    "a server that drips":                  ("drip",                    "timeout",   "total_timeout",    1),
}  # fmt: skip


@pytest.mark.parametrize(("mark", "status", "code", "requests"), FAILURES.values(), ids=FAILURES)
async def test_a_failure_is_a_status_and_never_an_answer(server, corpus, opened, mark, status, code, requests):
    async with opened(server, corpus):
        pass
    limits = {"max_retries": 2, "total_seconds": 0.4 if status == "timeout" else 30.0, "backoff_seconds": 0.001}
    asked = NvidiaSettings.model_validate({"rag": {"base_url": server.rag} | limits, "page_base": 1})
    async with open_nvidia(asked, corpus) as system:
        answer = await system.answer(Query("1", f"When was the harbour built? [[fault {mark}]]"))

    assert (answer.status, answer.error_code, answer.usage.requests) == (status, code, requests)
    assert (answer.answer, answer.contexts, answer.citations, answer.abstained) == (None, (), (), False)
    assert answer.error
    assert "\n" not in answer.error


async def test_what_had_arrived_of_a_cut_answer_is_kept_apart(server, corpus, opened):
    async with opened(server, corpus) as system:
        answer = await system.answer(Query("1", "What does the bell of Café Zürich weigh? [[fault cut]]"))

    assert (answer.status, answer.answer) == ("truncated", None)
    assert BELL[0].startswith(answer.partial)


async def test_an_error_that_comes_in_pieces_is_told_whole(server, corpus, opened):
    async with opened(server, corpus) as system:
        answer = await system.answer(Query("1", "Why? [[fault http_400]]"))

    assert answer.error == "HTTP 400: The server was told to answer with status 400."


@pytest.mark.parametrize("disguise", ["split_utf8", "multi_line", "raw_lines", "keep_alives"])
async def test_an_answer_is_read_however_it_is_sent(server, corpus, opened, disguise):
    question = "What does the bell of Café Zürich weigh?"
    async with opened(server, corpus) as system:
        plain, disguised = [
            await system.answer(Query("1", f"{question}{mark}")) for mark in ("", f" [[fault {disguise}]]")
        ]

    assert (disguised.answer, disguised.contexts) == (plain.answer, plain.contexts)


async def test_every_question_is_answered_once_by_a_server_that_often_fails(corpus, opened):
    questions = [Query(str(number), f"question {number}") for number in range(80)]
    with mock_rag_server(canned=True, seed=5, faults=0.4) as server:
        async with opened(server, corpus) as system:
            answers = await asyncio.gather(*map(system.answer, questions))
        counts = server.counts()

    assert {answer.status for answer in answers} == {"ok"}
    assert set(counts["answered_by_question"]["generate"].values()) == {1}
    assert (
        sum(answer.usage.requests for answer in answers)
        == sum(counts["attempts_by_question"]["generate"].values())
        > 80
    )


async def test_costs_are_of_tokens_and_requests(server, corpus, opened):
    prices = {"usd_per_million_prompt_tokens": 2.0, "usd_per_million_completion_tokens": 4.0, "usd_per_request": 0.5}
    async with opened(server, corpus, prices=prices) as system:
        answer = await system.answer(Query("1", "When was the harbour of Tollan built?"))

    usage = answer.usage
    assert usage.estimated_cost_usd == (usage.prompt_tokens * 2.0 + usage.completion_tokens * 4.0) / 1_000_000 + 0.5


async def refusal(settings, corpus):
    with pytest.raises(ServiceError) as raised:
        async with open_nvidia(settings, corpus):
            pass
    assert "\n" not in str(raised.value)
    return raised.value


async def test_a_dependency_that_is_down_is_named(corpus, settings, opened):
    with mock_rag_server(canned=True, unready="Ranking") as server:
        error = await refusal(settings(server), corpus)
        async with opened(server, corpus, check_dependencies=False):
            pass

    assert error.code == "server_unready"
    assert error.message.endswith("is not ready: Ranking is down, connection refused")


async def test_a_server_that_is_not_there_is_said_so(corpus, settings):
    with mock_rag_server(canned=True) as server:
        pass

    error = await refusal(settings(server, endpoint={"max_retries": 0}), corpus)

    assert error.code == "server_unready"
    assert "[connection_refused]" in error.message


UNREADY = {
    "the RAG server":    "GET /rag/v1/health",
    "the ingestor":      "GET /ingestor/v1/health",
    "the configuration": "GET /rag/v1/configuration",
}  # fmt: skip


@pytest.mark.parametrize("path", UNREADY.values(), ids=UNREADY)
@pytest.mark.parametrize("fault", ["http_500", "html"])
async def test_a_server_that_is_not_ready(corpus, settings, path, fault):
    with mock_rag_server(canned=True, faults={"paths": {path: [fault] * 2}}) as server:
        error = await refusal(settings(server, endpoint={"max_retries": 1, "backoff_seconds": 0.001}), corpus)

    assert error.code == "server_unready"


async def test_a_key_is_sent_to_both_servers_and_shown_to_nobody(corpus, settings, monkeypatch):
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


async def test_without_an_ingestor_nothing_is_uploaded_or_verified(server, corpus, opened):
    async with opened(server, corpus):
        pass
    server.reset()

    async with open_nvidia(NvidiaSettings.model_validate({"rag": {"base_url": server.rag}}), corpus) as system:
        answer = await system.answer(Query("1", "When was the harbour of Tollan built?"))

    assert (answer.status, system.configuration()["is_corpus_verified"]) == ("ok", False)
    assert not [path for path in server.counts()["paths"] if "/ingestor/" in path]


async def test_a_question_to_a_collection_that_is_not_there_is_an_error(server, corpus, opened):
    settings = NvidiaSettings.model_validate({"rag": {"base_url": server.rag}, "collection": "nowhere", "page_base": 1})
    async with open_nvidia(settings, corpus) as system:
        answer = await system.answer(Query("1", "Why?"))

    assert (answer.status, answer.error_code) == ("error", "http_400")
    assert "Collection nowhere does not exist." in answer.error


async def test_a_page_of_a_document_of_one_page(opened, tmp_path):
    corpus = dataclasses.replace(papers_corpus(tmp_path, {"tollan.pdf": HARBOUR[:1]}), fingerprint="1" * 64)
    with mock_rag_server(page_base=0) as server:
        async with opened(server, corpus) as system:
            answer = await system.answer(Query("1", "When was the harbour of Tollan built?"))

    assert [context.page for context in answer.contexts] == [1]
