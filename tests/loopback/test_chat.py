"""The OpenAI-compatible server answers, streams, fills forms, and refuses what its models do not take."""

import json

import pytest

from rag_eval_pipeline.endpoints.events import DONE, parse_events
from rag_eval_pipeline.loopback.openai_shapes import ChatChunk, ChatCompletion, ChatError, ModelList
from tests.loopback import plain_http

QUESTION = "How long is the breakwater of the harbour?"


def ask(server, question=QUESTION, **parameters):
    body = {"model": "loopback", "messages": [{"role": "user", "content": question}]} | parameters
    return plain_http.post(f"{server.openai}/chat/completions", json=body)


def whole(reply):
    assert reply.status_code == 200, reply.text
    return ChatCompletion.model_validate_json(reply.content, strict=True)


def test_an_answer_in_one_piece(server):
    said = whole(ask(server))

    assert said.choices[0].message.content.startswith("240 metres [tollan.pdf:2:")
    assert (said.choices[0].finish_reason, said.model) == ("stop", "loopback")
    assert said.usage.total_tokens == said.usage.prompt_tokens + said.usage.completion_tokens
    assert (said.citations[0].document_name, said.citations[0].page_number) == ("tollan.pdf", 2)


def test_a_stream_says_the_same_and_ends_with_its_usage(server):
    reply = ask(server, stream=True, stream_options={"include_usage": True})

    *events, done = [event.data for event in parse_events(reply.content)]
    chunks = [ChatChunk.model_validate_json(event, strict=True) for event in events]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert reply.content.startswith(b": LOOPBACK PROCESSING\n\n")
    assert done == DONE
    assert text == whole(ask(server)).choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert (chunks[-1].choices, chunks[-1].usage) == ([], whole(ask(server)).usage)


def test_a_stream_without_the_option_has_no_usage(server):
    events = [event.data for event in parse_events(ask(server, stream=True).content)][:-1]

    assert {ChatChunk.model_validate_json(event).usage for event in events} == {None}


def test_an_answer_is_cut_at_max_tokens(server):
    said = whole(ask(server, max_tokens=1))

    assert (said.choices[0].message.content, said.choices[0].finish_reason) == ("240", "length")


SCHEMA = {
    "type": "object",
    "properties": {
        "rationale": {"type": "string"},
        "verdict": {"enum": ["yes", "no"]},
        "claims": {"type": "array", "items": {"$ref": "#/$defs/claim"}, "minItems": 1},
        "sure": {"type": "boolean"},
        "count": {"type": "integer", "minimum": 1},
        "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
    },
    "$defs": {"claim": {"type": "object", "properties": {"kind": {"const": "claim"}}}},
}


def test_a_form_is_filled(server):
    wanted = {"type": "json_schema", "json_schema": {"name": "v", "strict": True, "schema": SCHEMA}}
    said = whole(ask(server, response_format=wanted)).choices[0].message.content

    filled = json.loads(said)
    assert filled.pop("rationale").startswith("240 metres")
    assert filled == {"verdict": "yes", "claims": [{"kind": "claim"}], "sure": False, "count": 1, "note": None}


REFUSALS = {
    "an unknown model":          ("gpt", {}, 404, "model"),
    "a schema":                  ("loopback-object", {"response_format": {"type": "json_schema", "json_schema": {}}}, 400, "response_format"),
    "any JSON":                  ("loopback-plain", {"response_format": {"type": "json_object"}}, 400, "response_format"),
    "a seed":                    ("loopback-plain", {"seed": 1}, 400, "seed"),
    "max_tokens by its old name": ("loopback-reasoning", {"max_tokens": 5}, 400, "max_tokens"),
    "a temperature":             ("loopback-reasoning", {"temperature": 0}, 400, "temperature"),
}  # fmt: skip


@pytest.mark.parametrize(("model", "parameters", "status", "param"), REFUSALS.values(), ids=REFUSALS)
def test_models_refuse_what_they_do_not_take(server, model, parameters, status, param):
    reply = ask(server, model=model, **parameters)

    assert (reply.status_code, ChatError.model_validate_json(reply.content).error.param) == (status, param)


def test_what_they_take_they_answer(server):
    assert whole(ask(server, model="loopback-object", response_format={"type": "json_object"}))
    assert whole(ask(server, model="loopback-reasoning", max_completion_tokens=50))


def test_models_are_listed(server):
    listed = ModelList.model_validate_json(plain_http.get(f"{server.openai}/models").content, strict=True)

    assert "loopback-judge" in [card.id for card in listed.data]


def test_a_judge_repeats_the_nonce_of_the_case_and_its_attempts_are_counted_as_one_question(canned):
    prompts = [f'Judge this.\nDATA {nonce}\n{{"answer": "a }} b"}}\nEND {nonce}' for nonce in ("a1", "b2")]

    said = [whole(ask(canned, prompt, model="loopback-judge")).choices[0].message.content for prompt in prompts]

    assert [json.loads(reply)["nonce"] for reply in said] == ["a1", "b2"]
    assert canned.counts()["attempts_by_question"]["chat"] == {'Judge this.\nDATA \n{"answer": "a } b"}\nEND ': 2}
