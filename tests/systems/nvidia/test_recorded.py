"""The adapter and the mock server speak the interface of NVIDIA's RAG server 2.6.0, as recorded from the server itself.

`recorded/` is written by `python bench/nvidia_server.py --python PYTHON --record tests/systems/nvidia/recorded`.
"""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from examples.mock_server.nvidia_rag import GenerateRequest, SearchRequest
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.systems.base import Query
from rag_eval_pipeline.systems.json_paths import GENERATE_EVENT
from rag_eval_pipeline.systems.nvidia_rag import open_nvidia
from rag_eval_pipeline.systems.nvidia_settings import NvidiaSettings
from tests.examples import plain_http
from tests.examples.papers import BELL, LIGHT
from tests.json_server import json_server

RECORDED = Path(__file__).with_name("recorded")
EXCHANGES = json.loads((RECORDED / "exchanges.json").read_text())["exchanges"]
SCHEMAS = json.loads((RECORDED / "fields.json").read_text())["schemas"]
GENERATE = {"reranker_top_k": 2, "max_tokens": 8}


def errors(name, value):
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}}
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]


def key(path, body):
    return path, json.dumps(body, sort_keys=True)


REPLIES = {key(kept["path"], kept["body"]): (kept["status"], kept["reply"], kept["media_type"]) for kept in EXCHANGES}


@pytest.fixture
def replayed():
    """The recorded server; a request that was not recorded is answered with status 400."""
    with json_server(lambda path, body: REPLIES.get(key(path, body), (400, {"message": f"not recorded: {body}"}))) as s:
        yield s


def settings(server, **changes):
    values = {"rag": {"base_url": server.url}, "collection": "marsh_point", "extra_body": GENERATE}
    return NvidiaSettings.model_validate(values | changes)


async def test_answers_of_the_real_server(replayed, corpus):
    async with open_nvidia(settings(replayed), corpus) as system:
        first = await system.answer(Query("1", "When was the Marsh Point light first lit?"))
        escaped = await system.answer(Query("2", "Who kept bees & goats on the small island of Corran?"))
        quoted = await system.answer(Query("3", "What does the bell of Café Zürich weigh?"))
        stated = system.configuration()

    assert (first.status, first.answer, escaped.answer) == ("ok", "3 May 1887 [1]", "He kept bees & goats on the small")
    assert [(p.document, p.page, p.rank, p.text) for p in first.contexts][0] == ("light.pdf", 1, 1, LIGHT[0])
    assert (quoted.contexts[0].document, quoted.contexts[0].text) == ('bell "one".pdf', BELL[0])
    assert first.contexts[0].score > first.contexts[1].score > 0.5  # the reranker's, by a logistic function
    assert (first.usage.prompt_tokens, first.usage.completion_tokens, first.usage.total_tokens) == (73, 4, 77)
    assert set(first.timings) == {"first_token", "retrieval", "reranking", "generation"}
    assert (first.model, stated["model"], stated["embedding_model"]) == ("mock", "mock", "hashed-words")
    assert (stated["page_base"], stated["reranking_enabled"], stated["retrieval_k"]) == (1, True, 2)


async def test_distances_of_the_real_server_are_no_scores(replayed, corpus):
    generate = GENERATE | {"enable_reranker": False}
    async with open_nvidia(settings(replayed, page_base=1, extra_body=generate), corpus) as system:
        answer = await system.answer(Query("1", "When was the Marsh Point light first lit?"))

    assert [passage.document for passage in answer.contexts][:1] == ["light.pdf"]
    assert {passage.score for passage in answer.contexts} == {None}


@pytest.mark.parametrize("changes", [{}, {"enable_streaming": False}], ids=["in stages", "whole"])
async def test_agentic_answer_of_the_real_server_is_its_last_draft(replayed, corpus, changes):
    generate = GENERATE | {"agentic": True} | changes
    async with open_nvidia(settings(replayed, page_base=1, extra_body=generate), corpus) as system:
        answer = await system.answer(Query("1", "When was the Marsh Point light first lit?"))

    assert re.fullmatch("Answer [0-9a-f]{12} naïve & short.", answer.answer)
    assert [passage.document for passage in answer.contexts] == ["light.pdf", "light.pdf"]
    assert answer.usage.total_tokens == 0  # the server counts none in this mode; 0 is published as unknown


async def test_error_of_the_real_server_is_in_its_words(replayed, corpus):
    async with open_nvidia(settings(replayed, page_base=1, collection="missing"), corpus) as system:
        answer = await system.answer(Query("1", "Why?"))

    assert (answer.status, answer.error_code) == ("error", "http_400")
    assert answer.error.startswith("HTTP 400: Collection missing does not exist.")


def test_known_fields_of_an_event_are_the_published_ones():
    def published(name):
        return set(SCHEMAS[name]["properties"])

    choices, citations = GENERATE_EVENT["choices"], GENERATE_EVENT["citations"]
    results = citations["results"]
    known = [GENERATE_EVENT, choices, citations, results, results["metadata"]]
    schemas = ["ChainResponse", "ChainResponseChoices", "Citations", "SourceResult", "SourceMetadata"]
    assert list(map(set, known)) == list(map(published, schemas))


async def test_missing_collection_of_the_real_server_stops_before_a_question(replayed, corpus):
    missing = settings(replayed, collection="missing")
    with pytest.raises(ServiceError, match="has no collection 'missing'") as raised:
        async with open_nvidia(missing, corpus):
            pass

    assert (raised.value.code, [body["query"][:3] for body in replayed.bodies]) == ("corpus_not_ingested", ["of "])


MOCKED = {"Prompt": GenerateRequest, "DocumentSearch": SearchRequest}


@pytest.mark.parametrize(("schema", "model"), MOCKED.items(), ids=MOCKED)
def test_mock_server_accepts_the_published_fields(schema, model):
    assert set(model.model_fields) == set(SCHEMAS[schema]["properties"])


def test_recorded_requests_and_replies_have_the_published_form():
    assert [found for kept in EXCHANGES for found in exchange_errors(kept)] == []


def exchange_errors(kept):
    """The differences of an exchange from the published fields; also that what is sent has no undeclared field."""
    asked, replied = {
        "/v1/generate": ("Prompt", "ChainResponse"),
        "/v1/search": ("DocumentSearch", "Citations"),
        "/v1/configuration": (None, "ConfigurationResponse"),
        "/v1/health": (None, "RAGHealthResponse"),
    }[kept["path"].partition("?")[0]]
    if asked is not None:
        yield from errors(asked, kept["body"])
        yield from sorted(set(kept["body"]) - set(SCHEMAS[asked]["properties"]))
    events = [line.removeprefix("data: ") for line in kept["reply"].splitlines() if line.strip()]
    for value in events if kept["media_type"] == "text/event-stream" else [kept["reply"]]:
        yield from errors(replied, json.loads(value))


def test_mock_server_replies_in_the_published_form(server):
    question = {"messages": [{"role": "user", "content": "Why?"}], "use_knowledge_base": False}
    asked = [
        ("GET", "/v1/health?check_dependencies=true", None),
        ("GET", "/v1/configuration", None),
        ("POST", "/v1/generate", question),
        ("POST", "/v1/generate", {**question, "agentic": True}),
        ("POST", "/v1/generate", {**question, "agentic": True, "enable_streaming": False}),
    ]
    for method, path, body in asked:
        reply = plain_http.request(method, server.rag + path, json=body)
        media_type = reply.headers["content-type"].partition(";")[0]
        kept = {"path": path, "body": body, "media_type": media_type, "reply": reply.text}
        assert list(exchange_errors(kept)) == []
