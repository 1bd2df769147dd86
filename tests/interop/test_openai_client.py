"""OpenAI's own client finds in the mock server what it finds at OpenAI."""

import asyncio
import json

import openai
import pytest

from examples.mock_server.process import mock_rag_server

ASK = [{"role": "user", "content": "How long is the breakwater?"}]


@pytest.fixture(scope="module")
def server():
    with mock_rag_server(canned=True) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.openai, api_key="none", max_retries=0) as opened:
        yield opened


def create(client, **parameters):
    return client.chat.completions.create(**({"model": "mock", "messages": ASK} | parameters))


def test_client_lists_models(client):
    assert [model.id for model in client.models.list()][:2] == ["mock", "mock-judge"]
    assert client.models.retrieve("mock-judge").id == "mock-judge"


def test_client_reads_a_whole_and_a_streamed_answer(client):
    whole = create(client)
    chunks = list(create(client, stream=True, stream_options={"include_usage": True}))
    with client.chat.completions.stream(model="mock", messages=ASK) as events:
        last = events.get_final_completion()

    text = whole.choices[0].message.content
    assert text.startswith("Answer ")
    assert (whole.choices[0].finish_reason, whole.usage.total_tokens) == ("stop", 10)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 10)
    assert last.choices[0].message.content == text


def test_client_gets_as_many_choices_as_it_asks_for(client):
    whole = create(client, n=2, max_tokens=1)
    chunks = [chunk.choices[0] for chunk in create(client, n=2, stream=True)]

    assert [(choice.index, choice.finish_reason) for choice in whole.choices] == [(0, "length"), (1, "length")]
    assert whole.usage.completion_tokens == 2
    assert {choice.index for choice in chunks if choice.finish_reason == "stop"} == {0, 1}


def test_client_gets_an_answer_in_the_form_of_a_schema(client):
    schema = {"type": "object", "properties": {"answer": {"type": "string"}, "sure": {"type": "boolean"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "v", "schema": schema, "strict": True}}

    filled = json.loads(create(client, response_format=wanted).choices[0].message.content)

    assert filled.keys() == {"answer", "sure"}


async def test_client_asks_fifty_questions_at_once(server):
    async with openai.AsyncOpenAI(base_url=server.openai, api_key="none") as client:
        messages = [[{"role": "user", "content": f"question {number}"}] for number in range(50)]
        answers = await asyncio.gather(*(create(client, messages=one) for one in messages))

    assert len({answer.choices[0].message.content for answer in answers}) == 50


ERRORS = {
    "unknown model":        ({"model": "gpt"},                       openai.NotFoundError,   "model",       "model_not_found"),
    "unknown field":        ({"extra_body": {"top_k": 3}},           openai.BadRequestError, None,          None),
    "out of range":         ({"temperature": 3},                     openai.BadRequestError, "temperature", "decimal_above_max_value"),
    "fault of the server":  ({"messages": [{"role": "user", "content": "[[fault http_500]]"}]}, openai.InternalServerError, None, None),
    "too many requests":    ({"messages": [{"role": "user", "content": "[[fault http_429]]"}]}, openai.RateLimitError,      None, None),
}  # fmt: skip


@pytest.mark.parametrize(("parameters", "error", "param", "code"), ERRORS.values(), ids=ERRORS)
def test_client_raises_its_own_errors(client, parameters, error, param, code):
    with pytest.raises(error) as raised:
        create(client, **parameters)

    assert (raised.value.param, raised.value.code) == (param, code)


def test_client_raises_not_found_for_what_the_mock_has_not(client):
    with pytest.raises(openai.NotFoundError, match="Unknown request URL: POST /openai/v1/embeddings") as raised:
        client.embeddings.create(model="mock", input="x")

    assert raised.value.code == "unknown_url"
