"""A chat request has what its server accepts, learned once; a reply has one form, whole or streamed."""

import asyncio
import json

import pytest

from rag_eval_pipeline.errors import EndpointError
from rag_eval_pipeline.web.client import Endpoint
from rag_eval_pipeline.web.openai_chat import Chat, ChatUsage, Message
from rag_eval_pipeline.web.server_settings import ChatSettings, EndpointSettings
from tests.web.scripted_server import hang, head, reply, serving, stream

ASK = [Message("system", "Be brief."), Message("user", "Why?")]
SCHEMA = {"title": "a verdict", "type": "object", "properties": {}, "required": [], "additionalProperties": False}
PRICES = {"usd_per_million_prompt_tokens": 2.0, "usd_per_million_completion_tokens": 10.0, "usd_per_request": 0.001}


def completion(text="Because.", *, finish_reason="stop", usage=None, **message):
    body = {
        "id": "1",
        "object": "chat.completion",
        "model": "m-2026",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish_reason}
        ],
    }
    return reply(200, body if usage is None else {**body, "usage": usage})


def chunk(text=None, *, finish_reason=None, **more):
    value = {
        "object": "chat.completion.chunk",
        "choices": [{"delta": {"content": text}, "finish_reason": finish_reason}],
    }
    return f"data: {json.dumps({**value, **more})}\n\n"


def chat_over(endpoint, *, head_start_s=60.0, **settings):
    return Chat(endpoint, ChatSettings.model_validate({"model": "m", **settings}), head_start_s=head_start_s)


def opened(server, **settings):
    return Endpoint(EndpointSettings(base_url=server.base_url, backoff_seconds=0.001, **settings), seed=1)


async def completed(*steps, settings=None, **arguments):
    """The reply over a server's script, and what the server was sent."""
    async with serving(*steps) as server, opened(server) as endpoint:
        answer = await chat_over(endpoint, **(settings or {})).complete(ASK, **arguments)
    return answer, [asked.json for asked in server.asked]


async def failed(*steps, **arguments):
    async with serving(*steps) as server, opened(server, attempt_seconds=3, max_retries=0) as endpoint:
        with pytest.raises(EndpointError) as raised:
            await chat_over(endpoint).complete(ASK, **arguments)
    return raised.value


async def test_chat_sends_what_is_set_and_the_servers_further_fields():
    settings = {"temperature": None, "seed": None, "max_tokens": 9, "extra_body": {"provider": {"order": ["a"]}}}
    _, sent = await completed(completion(), settings=settings)

    assert sent == [
        {
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],
            "max_tokens": 9,
            "provider": {"order": ["a"]},
        }
    ]


async def test_chat_reply_has_text_model_usage_and_account():
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
    answer, _ = await completed(completion(usage=usage, reasoning_content="Hm."), settings={"prices": PRICES})

    assert (answer.text, answer.refusal) == ("Because.", None)
    assert (answer.model, answer.finish_reason) == ("m-2026", "stop")
    # 1,000 x 2 + 100 x 10 = 3,000 millionths, and one request
    assert answer.usage == ChatUsage(1_000, 100, 1_100, pytest.approx(0.003 + 0.001))
    assert (answer.requests, answer.first_token_ms) == (1, None)
    assert answer.objects[0]["id"] == "1"


USAGES = {
    "no sum":                    ({"prompt_tokens": 3, "completion_tokens": 2},              ChatUsage(3, 2, 5, 0.0)),
    "the server's own cost":     ({"prompt_tokens": 3, "completion_tokens": 2, "cost": 0.5}, ChatUsage(3, 2, 5, 0.5)),
    "more than 64 bits":         ({"prompt_tokens": 10**400, "completion_tokens": 10**30},   ChatUsage(0, 0, 0, 0.0)),
    "nonsense":                  ({"prompt_tokens": "3", "completion_tokens": -2, "cost": "x"}, ChatUsage(0, 0, 0, 0.0)),
}  # fmt: skip


@pytest.mark.parametrize(("usage", "expected"), USAGES.values(), ids=USAGES)
async def test_chat_usage(usage, expected):
    answer, _ = await completed(completion(usage=usage))

    assert answer.usage == expected


ENDINGS = {
    #               message                                    text   refusal            finish_reason
    "filtered":    (completion(None, finish_reason="content_filter"), "",   "content_filter",  "content_filter"),
    "refused":     (completion(None, refusal="I will not."),         "",    "I will not.",     "stop"),
    "empty":       (completion(""),                                  "",    None,              "stop"),
    "in parts":    (completion([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]), "ab", None, "stop"),
}  # fmt: skip


@pytest.mark.parametrize(("step", "text", "refusal", "finish_reason"), ENDINGS.values(), ids=ENDINGS)
async def test_chat_reply_endings(step, text, refusal, finish_reason):
    answer, _ = await completed(step)

    assert (answer.text, answer.refusal, answer.finish_reason) == (text, refusal, finish_reason)


def refusing(*names, status=400):
    """A server that refuses the first of these fields that a request has, by its name."""

    async def step(asked, writer):
        found = next((name for name in names if name in asked.json), None)
        error = {"error": {"message": f"Unsupported parameter: '{found}' is not supported with this model."}}
        await (completion("{}") if found is None else reply(status, error))(asked, writer)

    return step


def knowing_formats(*known, refusal="response_format {} is unknown"):
    async def step(asked, writer):
        form = asked.json.get("response_format", {}).get("type", "plain")
        await (completion("{}") if form in known else reply(400, refusal.format(form)))(asked, writer)

    return step


FORMATS = {
    "a strict schema": (knowing_formats("json_schema", "plain"), "json_schema", 1),
    "any JSON": (knowing_formats("json_object", "plain"), "json_object", 2),
    "neither": (knowing_formats("plain"), "plain", 3),
    "neither, and the refusal names nothing": (knowing_formats("plain", refusal="Bad Request"), "plain", 3),
}


@pytest.mark.parametrize(("step", "mode", "requests"), FORMATS.values(), ids=FORMATS)
async def test_chat_requests_a_schema_as_strictly_as_the_server_can(step, mode, requests):
    async with serving(step) as server, opened(server) as endpoint:
        chat = chat_over(endpoint)
        first = await chat.complete(ASK, schema=SCHEMA)
        second = await chat.complete(ASK, schema=SCHEMA)

    assert (first.requests, second.requests) == (requests, 1)
    assert server.asked[-1].json.get("response_format", {}).get("type", "plain") == mode
    assert server.asked[0].json["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "a_verdict", "strict": True, "schema": SCHEMA},
    }


REFUSED = {
    "several, one after the other": ("seed", "temperature", "top_p"),
    "both names of the limit": ("max_tokens", "max_completion_tokens"),
}


@pytest.mark.parametrize("names", REFUSED.values(), ids=REFUSED)
async def test_chat_omits_a_field_that_is_refused_by_name(names):
    answer, sent = await completed(refusing(*names, status=422), settings={"top_p": 0.5})

    assert not set(names) & set(sent[-1])
    assert answer.requests == len(sent) == len(names) + 1


TOO_LONG = {
    "message": "maximum context length is 10, you asked for max_tokens 9",
    "code": "context_length_exceeded",
}
UNLEARNED = {
    "a question that is too long": ([reply(400, {"error": TOO_LONG})], 1),
    "no form is accepted": ([reply(400, "no")] * 3, 3),
}


@pytest.mark.parametrize(("refusals", "requests"), UNLEARNED.values(), ids=UNLEARNED)
async def test_chat_learns_nothing_from_a_request_that_never_succeeded(refusals, requests):
    async with serving(*refusals, completion()) as server, opened(server) as endpoint:
        chat = chat_over(endpoint)
        with pytest.raises(EndpointError) as raised:
            await chat.complete(ASK, schema=SCHEMA)
        answer = await chat.complete(ASK, schema=SCHEMA)

    assert (raised.value.code, raised.value.requests, answer.text) == ("http_400", requests, "Because.")
    assert server.asked[-1].json["response_format"]["type"] == "json_schema"
    assert "max_tokens" in server.asked[-1].json


async def test_chat_callers_that_begin_at_once_learn_from_one():
    async with serving(refusing("seed", "temperature")) as server, opened(server) as endpoint:
        chat = chat_over(endpoint)
        answers = await asyncio.gather(*(chat.complete(ASK) for _ in range(20)))

    assert sum(answer.requests for answer in answers) == len(server.asked) == 22


async def test_chat_callers_do_not_wait_for_the_first_answer():
    gate = asyncio.Event()

    async def step(asked, writer):
        await gate.wait()
        await refusing("seed")(asked, writer)

    async with serving(step) as server, opened(server) as endpoint:
        chat = chat_over(endpoint, head_start_s=0.01)
        tasks = [asyncio.create_task(chat.complete(ASK)) for _ in range(5)]
        while server.at_once < 5:
            await asyncio.sleep(0.001)
        gate.set()
        answers = await asyncio.gather(*tasks)

    assert [answer.requests for answer in answers] == [2] * 5  # each was refused once


async def test_chat_callers_do_not_queue_for_a_server_that_is_down():
    gate = asyncio.Event()

    async def step(asked, writer):
        if len(server.asked) > 1:
            await gate.wait()
        await reply(503)(asked, writer)

    async with serving(step) as server, opened(server, max_retries=0) as endpoint:
        chat = chat_over(endpoint)
        tasks = [asyncio.create_task(chat.complete(ASK)) for _ in range(5)]
        while server.at_once < 4:
            await asyncio.sleep(0.001)
        gate.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)

    assert {error.code for error in found} == {"http_503"}


async def test_chat_filter_before_the_model_is_a_refusal():
    error = await failed(reply(400, {"error": {"code": "content_filter", "message": "filtered"}}), schema=SCHEMA)

    assert (error.code, error.status, error.requests) == ("content_filter", "refused", 1)


WRONG = {
    "a page":             (reply(200, "<html>"),                                        "bad_response"),
    "an empty choice":    (reply(200, {"choices": []}),                                 "bad_response"),
    "a choice that is none": (reply(200, {"choices": [None]}),                          "bad_response"),
    "a streamed choice that is none": (stream('data: {"choices": [null]}\n\n'),        "bad_response"),
    "content in numbers": (reply(200, {"choices": [{"message": {"content": 7}}]}),      "bad_response"),
    "an error with 200":  (reply(200, {"error": {"message": "out of memory"}}),         "error_reply"),
}  # fmt: skip


@pytest.mark.fault(47)
@pytest.mark.parametrize(("step", "code"), WRONG.values(), ids=WRONG)
async def test_chat_reply_of_a_wrong_shape_is_an_error(step, code):
    error = await failed(step)

    assert (error.code, error.requests) == (code, 1)


async def test_chat_cost_that_no_float_holds_is_not_stated():
    choices = [{"message": {"content": "x"}, "finish_reason": "stop"}]

    answer, _ = await completed(reply(200, {"choices": choices, "usage": {"cost": 10**400}}))

    assert answer.usage.cost == 0.0


async def test_chat_stream_is_joined_with_its_usage():
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    answer, sent = await completed(
        stream(
            ": PROCESSING\n\n",
            chunk("", model="m-2026"),
            chunk("Be"),
            chunk("cause.", finish_reason="stop"),
            f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n",
            "data: [DONE]\n\n",
        ),
        stream=True,
    )

    assert (answer.text, answer.finish_reason, answer.model) == ("Because.", "stop", "m-2026")
    assert answer.usage == ChatUsage(3, 2, 5, 0.0)
    assert 0 < answer.first_token_ms <= answer.elapsed_ms
    assert (sent[0]["stream"], sent[0]["stream_options"]) == (True, {"include_usage": True})
    assert answer.objects[-1] == {"choices": [], "usage": usage}


ENDS = {
    "an end without a reason": stream(chunk("a"), "data: [DONE]\n\n"),
    "a reason without an end": stream(chunk("a", finish_reason="stop")),
    "cut behind its end": stream(chunk("a", finish_reason="stop"), end=False),
    "one object in place of a stream": completion("a"),
}


@pytest.mark.fault(48)
@pytest.mark.parametrize("step", ENDS.values(), ids=ENDS)
async def test_chat_stream_has_an_end(step):
    answer, _ = await completed(step, stream=True)

    assert (answer.text, answer.requests) == ("a", 1)
    assert (answer.first_token_ms is None) == (step is ENDS["one object in place of a stream"])


async def test_chat_does_without_a_stream_that_is_refused():
    async def step(asked, writer):
        if "stream" in asked.json:
            await reply(400, {"message": "stream is unknown"})(asked, writer)
        else:
            await completion("a")(asked, writer)

    answer, _ = await completed(step, stream=True)

    assert (answer.text, answer.requests) == ("a", 2)


STREAM_FAULTS = {
    #                             stream                                                          code                status       text so far
    "cut":                        (stream(chunk("Be"), "data: {", end=False),                     "stream_truncated", "truncated", b"Be"),
    "an error after words":       (stream(chunk("Be"), 'data: {"error": {"message": "full"}}\n\n'), "error_reply",    "error",     b"Be"),
    "no JSON":                    (stream("data: hello\n\n"),                                     "bad_response",     "error",     None),
    "nothing":                    (stream(""),                                                    "bad_response",     "error",     None),
    "silence after words":        (hang(head(200, {"Content-Type": "text/event-stream"}), chunk("Be").encode()), "attempt_timeout", "timeout", b"Be"),
}  # fmt: skip


@pytest.mark.fault(48)
@pytest.mark.parametrize(("step", "code", "status", "partial"), STREAM_FAULTS.values(), ids=STREAM_FAULTS)
async def test_chat_stream_that_fails_keeps_the_text_so_far(step, code, status, partial):
    error = await failed(step, stream=True)

    assert (error.code, error.status, error.partial, error.requests) == (code, status, partial, 1)
