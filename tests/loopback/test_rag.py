"""The RAG server's shapes are the documented ones, its answers are found in the documents."""

import msgspec
import pytest

from rag_eval_pipeline.endpoints.events import json_values, parse_events
from rag_eval_pipeline.loopback.shapes import (
    ChainResponse,
    Citations,
    ConfigurationResponse,
    HealthResponse,
    MessageResponse,
)
from tests.loopback import plain_http


def generate(server, question, **parameters):
    body = {"messages": [{"role": "user", "content": question}]} | parameters
    return plain_http.post(f"{server.rag}/v1/generate", json=body)


def chunks(reply):
    """Every event, checked against the documented shape."""
    values = [value for event in parse_events(reply.content) for value in json_values(event.data)]
    return [ChainResponse.model_validate(value, strict=True) for value in values]


def text(read):
    return "".join(chunk.choices[0].delta.content for chunk in read)


def test_an_answer_is_a_stream_with_citations_on_its_first_chunk_and_metrics_on_its_last(server):
    reply = generate(server, "When was the Marsh Point light first lit?")

    first, *middle, last = chunks(reply)
    assert reply.headers["content-type"] == "text/event-stream"
    assert text([first, *middle, last]) == "3 May 1887 [light.pdf:1:0-64]"
    assert first.citations.results[0].document_name == "light.pdf"
    assert first.citations.results[0].metadata.page_number == 1
    assert first.citations.results[0].metadata.description == first.citations.results[0].content
    assert [chunk.citations.total_results for chunk in [*middle, last]] == [0] * (len(middle) + 1)
    assert [chunk.choices[0].finish_reason for chunk in [first, *middle]] == [None] * (len(middle) + 1)
    assert last.choices[0].finish_reason == "stop"
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens > 0
    assert last.metrics.retrieval_time_ms >= 0


def test_nothing_follows_the_last_chunk_and_no_event_has_a_name(server):
    raw = generate(server, "How tall is the tower?").content

    assert b"[DONE]" not in raw
    assert b"event:" not in raw
    assert raw.endswith(b"\n\n")


def test_every_second_passage_is_a_picture_whose_description_is_its_text(server):
    first = chunks(generate(server, "How long is the breakwater of the harbour?"))[0]

    kinds = [result.document_type for result in first.citations.results]
    assert kinds[:6] == ["text", "chart", "text", "image", "text", "table"]
    assert all(
        (result.content == result.metadata.description) == (result.document_type == "text")
        for result in first.citations.results
    )
    assert first.citations.results[1].content.startswith("iVBOR")


def test_text_is_cleaned_as_html_is(server):
    read = chunks(generate(server, "Why & how were goats kept <there>?"))

    assert "&" not in text(read).replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")


def test_canned_answers_have_something_to_escape_and_depend_on_the_question_only(canned):
    one, again, other = (text(chunks(generate(canned, question))) for question in ("Q1", "Q1", "Q2"))

    assert one == again != other
    assert one.endswith("naïve &amp; short.")


def test_an_agent_tells_of_its_work_and_cites_with_the_first_of_its_final_answer(server):
    read = chunks(generate(server, "Who was the keeper in 1911?", agentic=True))

    kinds = [chunk.event_type for chunk in read]
    final = [chunk for chunk in read if chunk.event_type == "final_answer"]
    assert kinds[:5] == ["stage_start", "intermediate_reasoning", "intermediate_output", "stage_end", "final_reasoning"]
    assert set(kinds[5:]) == {"final_answer"}
    assert "draft" in text(read)
    assert "draft" not in text(final)
    assert [chunk.citations.total_results > 0 for chunk in read].index(True) == 5


def test_an_agent_need_not_stream(server):
    reply = generate(server, "Who was the keeper in 1911?", agentic=True, enable_streaming=False)

    whole = ChainResponse.model_validate_json(reply.content)
    assert (whole.event_type, whole.choices[0].finish_reason) == ("final_answer", "stop")
    assert whole.citations.total_results > 0


def test_without_citations_there_are_none(server):
    read = chunks(generate(server, "Who was the keeper?", enable_citations=False))

    assert {chunk.citations.total_results for chunk in read} == {0}


def test_reranker_top_k_is_the_number_of_passages(server):
    read = chunks(generate(server, "Who was the keeper of the light?", reranker_top_k=2))

    assert [result.metadata.page_number for result in read[0].citations.results] != []
    assert read[0].citations.total_results == len(read[0].citations.results) == 2


def test_chat_completions_is_another_name_of_generate(server):
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "How tall is the tower?"}]}]}
    reply = plain_http.post(f"{server.rag}/v1/chat/completions", json=body)

    assert text(chunks(reply)).startswith("31 [light.pdf:1:")


def test_an_unknown_collection_is_an_error_in_pieces_of_five_characters(server):
    reply = generate(server, "Where?", collection_names=["nowhere"])

    read = chunks(reply)
    assert reply.status_code == 400
    assert text(read).startswith("Collection nowhere does not exist.")
    assert {len(chunk.choices[0].delta.content) for chunk in read[:-2]} == {5}


BAD_PROMPTS = {
    #                               body beside the messages
    "a list that is too long":      {"reranker_top_k": 26},
    "a list that is far too long":  {"vdb_top_k": 401},
    "more read than retrieved":     {"reranker_top_k": 10, "vdb_top_k": 5},
    "a temperature above one":      {"temperature": 1.1},
    "a top_p below a tenth":        {"top_p": 0.05},
    "an answer that is too long":   {"max_tokens": 128_001},
    "a field that is spelt wrongly": {"rerank_top_k": 3},
    "no message":                   {"messages": []},
    "a last message not the user's": {"messages": [{"role": "assistant", "content": "Hello"}]},
}  # fmt: skip


@pytest.mark.parametrize("parameters", BAD_PROMPTS.values(), ids=BAD_PROMPTS)
def test_a_prompt_beyond_the_documented_bounds_is_refused(server, parameters):
    reply = generate(server, "Why?", **parameters)

    assert reply.status_code == 422
    assert all({"type", "loc", "msg"} == finding.keys() for finding in reply.json()["detail"])


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"])
def test_a_body_that_is_no_object_is_refused(server, body):
    assert plain_http.post(f"{server.rag}/v1/generate", content=body).status_code == 422


def test_search_lists_passages(server):
    body = {"query": "the breakwater of the harbour", "reranker_top_k": 3}
    reply = plain_http.post(f"{server.rag}/v1/search", json=body)

    found = Citations.model_validate_json(reply.content, strict=True)
    assert found.total_results == len(found.results) == 3
    assert (found.results[0].document_name, found.results[0].metadata.page_number) == ("tollan.pdf", 2)
    assert found.results[0].score >= found.results[1].score


def test_search_refuses_an_unknown_collection_in_json(server):
    reply = plain_http.post(f"{server.rag}/v1/search", json={"query": "x", "collection_names": ["nowhere"]})

    assert reply.status_code == 400
    assert "nowhere" in MessageResponse.model_validate_json(reply.content).message


def test_health_names_what_is_behind_the_server_only_when_asked(server):
    short = plain_http.get(f"{server.rag}/v1/health")
    long = plain_http.get(f"{server.rag}/v1/health?check_dependencies=true")

    assert HealthResponse.model_validate_json(short.content).nim == []
    assert {service["status"] for service in HealthResponse.model_validate_json(long.content).nim} == {"healthy"}


def test_the_configuration_is_told(server):
    told = ConfigurationResponse.model_validate_json(plain_http.get(f"{server.rag}/v1/configuration").content)

    assert (told.rag_configuration.vdb_top_k, told.rag_configuration.reranker_top_k) == (100, 10)
    assert told.models.llm_model == "loopback/llm"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/rag/v1/generate", 405), ("POST", "/rag/v1/nothing", 404), ("GET", "/", 404)],
)
def test_what_is_not_there_is_said_as_such(server, method, path, status):
    reply = plain_http.request(method, f"http://127.0.0.1:{server.port}{path}")

    assert (reply.status_code, msgspec.json.decode(reply.content).keys()) == (status, {"detail"})
