"""OpenAI chat completions: streamed or whole, with JSON schemas, several models and the errors of refused requests."""

import json
import re
import time
import uuid
from collections.abc import Sequence
from typing import Any, Literal

import pydantic
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from examples.mock_server.faults import FAULT_MARK, SPOILING, Fault, event_stream, fail
from examples.mock_server.judge import judge
from examples.mock_server.site import DEFAULT_COLLECTION, Passage, Site, answer_from_prompt, content_parts

# What each chat model refuses with status 400, by the name in the request.
MODELS: dict[str, frozenset[str]] = {
    "mock": frozenset(),
    "mock-judge": frozenset(),
    "mock-object": frozenset({"json_schema"}),
    "mock-plain": frozenset({"json_schema", "json_object", "seed"}),
    "mock-reasoning": frozenset({"max_tokens", "temperature", "top_p"}),
}


class ChatPart(pydantic.BaseModel):
    """The base of everything in a chat request: types are not converted, and unknown fields are refused."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class ChatTurn(ChatPart):
    """A message of a conversation; of its parts only text is read."""

    role: Literal["system", "assistant", "user", "function", "tool", "developer"]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    function_call: Any = None
    audio: Any = None
    annotations: Any = None

    @property
    def text(self) -> str:
        """The text of the message."""
        return " ".join(part.get("text", "") for part in content_parts(self.content))


class NamedSchema(ChatPart):
    """A JSON Schema that an answer has to have."""

    name: str
    description: str | None = None
    form: dict[str, Any] | None = pydantic.Field(None, alias="schema")
    strict: bool | None = None


class ResponseFormat(ChatPart):
    """The form of an answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class ChatRequest(ChatPart):
    """The body of `POST /chat/completions`; documented fields without a type here have no effect."""

    model: str
    messages: list[ChatTurn] = pydantic.Field(min_length=1)
    n: int | None = pydantic.Field(None, ge=1, le=128)
    temperature: float | None = pydantic.Field(None, ge=0, le=2)
    top_p: float | None = pydantic.Field(None, ge=0, le=1)
    max_tokens: int | None = pydantic.Field(None, ge=1)
    max_completion_tokens: int | None = pydantic.Field(None, ge=1)
    frequency_penalty: float | None = pydantic.Field(None, ge=-2, le=2)
    presence_penalty: float | None = pydantic.Field(None, ge=-2, le=2)
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: dict[str, bool] | None = None
    response_format: ResponseFormat | None = None
    logprobs: bool | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    user: str | None = None
    audio: Any = None
    function_call: Any = None
    functions: Any = None
    logit_bias: Any = None
    metadata: Any = None
    modalities: Any = None
    parallel_tool_calls: Any = None
    prediction: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    reasoning_effort: Any = None
    safety_identifier: Any = None
    service_tier: Any = None
    store: Any = None
    top_logprobs: Any = None
    verbosity: Any = None
    web_search_options: Any = None


# The names of JSON types in OpenAI's messages, by the beginning of pydantic's error type, and by Python's type.
EXPECTED_TYPES = {
    "string": "a string", "int": "an integer", "float": "a decimal", "bool": "a boolean", "list": "an array",
    "dict": "an object", "model": "an object",
}  # fmt: skip
GIVEN_TYPES = {
    str: "a string", int: "an integer", float: "a decimal", bool: "a boolean", list: "an array", dict: "an object",
    type(None): "null",
}  # fmt: skip


def _read_chat(body: bytes) -> ChatRequest | Response:
    """Return a chat request, or the refusal of the first thing in it that OpenAI's server refuses."""
    try:
        chat = ChatRequest.model_validate_json(body)
    except pydantic.ValidationError as error:
        return _refused_body(error)
    for number, turn in enumerate(chat.messages):
        if turn.content is None and turn.role != "assistant":
            message = "Invalid value for 'content': expected a string, got null."
            return _openai_error(400, message, f"messages[{number}].content")
    form = chat.response_format
    if form and form.type == "json_schema" and (form.json_schema is None or form.json_schema.form is None):
        name = "response_format.json_schema" + (".schema" if form.json_schema else "")
        return _openai_error(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if form and form.type == "json_object" and not any("json" in turn.text.lower() for turn in chat.messages):
        message = (
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        )
        return _openai_error(400, message, "messages")
    if chat.stream_options and not chat.stream:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        return _openai_error(400, message, "stream_options")
    if chat.tool_choice not in (None, "auto", "none"):
        message = "Unsupported value: 'tool_choice' supports only 'auto' and 'none' with this model."
        return _openai_error(400, message, "tool_choice", "unsupported_value")
    return chat


def _refused_body(error: pydantic.ValidationError) -> Response:
    """Return OpenAI's answer to a body of the wrong form."""
    errors = error.errors(include_url=False)
    unknown = [str(one["loc"][0]) for one in errors if one["type"] == "extra_forbidden" and len(one["loc"]) == 1]
    if len(unknown) == len(errors):
        arguments = "argument" if len(unknown) == 1 else "arguments"
        return _openai_error(400, f"Unrecognized request {arguments} supplied: {', '.join(unknown)}")
    first = next(one for one in errors if one["type"] != "extra_forbidden" or len(one["loc"]) > 1)
    kind, value, limits = first["type"], first["input"], first.get("ctx", {})
    if kind == "json_invalid":
        return _openai_error(400, "We could not parse the JSON body of your request.")
    # After the field, a union's error has the name of one of its types.
    place = [part for part in first["loc"] if isinstance(part, int) or str(part).isidentifier() and part != "str"]
    param = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
    number = "decimal" if isinstance(limits.get("ge", limits.get("le")), float) else "integer"
    match kind:
        case "missing":
            message, code = f"Missing required parameter: '{param}'.", "missing_required_parameter"
        case "extra_forbidden":
            message, code = f"Unknown parameter: '{param}'.", "unknown_parameter"
        case "literal_error":
            message, code = f"Invalid value: '{value}'. Supported values are: {limits['expected']}.", "invalid_value"
            message = message.replace(" or ", ", and ")
        case "greater_than_equal":
            message = f"{number} below minimum value. Expected a value >= {limits['ge']:g}, but got {value} instead."
            message, code = f"Invalid '{param}': {message}", f"{number}_below_min_value"
        case "less_than_equal":
            message = f"{number} above maximum value. Expected a value <= {limits['le']:g}, but got {value} instead."
            message, code = f"Invalid '{param}': {message}", f"{number}_above_max_value"
        case "too_short":
            message = "empty array. Expected an array with minimum length 1, but got an empty array instead."
            message, code = f"Invalid '{param}': {message}", "empty_array"
        case _:
            expected = EXPECTED_TYPES.get(kind.partition("_")[0], "another value")
            given = GIVEN_TYPES.get(type(value), "another value")
            message = f"Invalid type for '{param}': expected {expected}, but got {given} instead."
            code = "invalid_type"
    return _openai_error(400, message, param, code)


async def list_models(site: Site, request: Request) -> Response:
    """`GET /models`."""
    return JSONResponse({"object": "list", "data": [_model_card(name) for name in MODELS]})


async def show_model(site: Site, request: Request) -> Response:
    """`GET /models/{model}`."""
    name = request.path_params["model"]
    return JSONResponse(_model_card(name)) if name in MODELS else _unknown_model(name)


async def refuse_openai_url(site: Site, request: Request) -> Response:
    """Answer requests to any other path, such as `/embeddings`."""
    message = f"Unknown request URL: {request.method} {request.url.path}. Please check the URL for typos."
    return _openai_error(404, message, code="unknown_url")


def _model_card(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "mock"}


def _unknown_model(name: str) -> Response:
    message = f"The model `{name}` does not exist or you do not have access to it."
    return _openai_error(404, message, "model", "model_not_found")


async def complete_chat(site: Site, request: Request) -> Response:
    """`POST /chat/completions`."""
    chat = _read_chat(await request.body())
    if isinstance(chat, Response):
        return chat
    if chat.model not in MODELS:
        return _unknown_model(chat.model)
    form = chat.response_format.type if chat.response_format else "text"
    given = {name for name in ("max_tokens", "temperature", "top_p", "seed") if getattr(chat, name) is not None}
    given |= {"logprobs"} if chat.logprobs else set()
    for name in sorted((MODELS[chat.model] | {"logprobs"}) & (given | {form})):
        param = "response_format" if name == form else name
        message = f"Unsupported parameter: '{param}' is not supported with this model."
        return _openai_error(400, message, param, "unsupported_parameter")
    prompt = next((turn.text for turn in reversed(chat.messages) if turn.role == "user"), "")
    counted = re.sub(r"(?m)^(DATA|END) \S+$", r"\1", prompt)  # a repeated case has another nonce
    try:
        question = site.ask("chat", prompt, counted=counted)
    except ValueError as error:
        return _openai_error(400, str(error))
    fault = question.fault
    if (failed := await fail(request, fault, _openai_fault)) is not None:
        return failed
    text, passages = await site.answer(question.text, [DEFAULT_COLLECTION])
    text = await answer_from_prompt(question.text) or text
    if chat.model == "mock-judge":
        text, passages = judge(prompt), []
    elif form != "text":
        schema = chat.response_format.json_schema if chat.response_format else None
        text = json.dumps(fill_schema(schema.form, text) if schema and schema.form else {"answer": text})
    site.count_answer(question, counted=FAULT_MARK.sub("", counted, count=1))
    return _chat_response(request, chat, text, passages, fault)


def _chat_response(
    request: Request, chat: ChatRequest, text: str, passages: Sequence[Passage], fault: Fault | None
) -> Response:
    for stop in [chat.stop] if isinstance(chat.stop, str) else chat.stop or []:
        text = text.partition(stop)[0] if stop else text
    words = text.split(" ")
    limit = chat.max_tokens or chat.max_completion_tokens or len(words)
    finish_reason = "stop" if limit >= len(words) else "length"
    words = words[:limit]
    numbers = range(chat.n or 1)  # of the choices, which are all alike
    prompt_tokens = sum(len(turn.text.split()) for turn in chat.messages)
    completion_tokens = len(words) * len(numbers)
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    citations = [
        {"document_name": p.document, "page_number": p.page, "text": p.text, "score": p.score} for p in passages
    ]
    name = fault.name if fault else None
    frame = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": chat.model}
    frame["system_fingerprint"] = "fp_mock"
    if not chat.stream:
        message = {"role": "assistant", "content": " ".join(words), "refusal": None}
        choice = {"message": message, "finish_reason": finish_reason, "logprobs": None}
        choices = [] if name == "no_generator" else [{"index": number, **choice} for number in numbers]
        if fault is not None and name in SPOILING and choices:
            return JSONResponse(_openai_fault(fault))
        body = {**frame, "object": "chat.completion", "choices": choices, "usage": usage, "citations": citations}
        return JSONResponse(body)

    def chunk(delta: dict[str, str], reason: str | None = None, number: int = 0) -> dict[str, Any]:
        choice = {"index": number, "delta": delta, "finish_reason": reason}
        return {**frame, "object": "chat.completion.chunk", "choices": [choice]}

    events: list[dict[str, Any]] = []
    for number in numbers:
        first = chunk({"role": "assistant", "content": ""}, None, number)
        events.append(first if number else first | {"citations": citations})
        events += [chunk({"content": f" {word}" if at else word}, None, number) for at, word in enumerate(words)]
        events.append(chunk({}, finish_reason, number))
    if (chat.stream_options or {}).get("include_usage"):
        events.append({**chunk({}), "choices": [], "usage": usage})
    half = events[: (len(events) + 1) // 2]
    if name == "no_generator":
        events = []
    elif name in ("cut", "broken_off"):
        events = half
    elif fault is not None and name in ("error_event", "error_text"):
        events = [*half, {**chunk({}), **_openai_fault(fault)}]
    return event_stream(request, events, fault, done=name not in ("cut", "broken_off"))


def _openai_error(status: int, message: str, param: str | None = None, code: str | None = None) -> Response:
    return JSONResponse(error_body(status, message, param, code), status)


def _openai_fault(fault: Fault) -> dict[str, Any]:
    return error_body(fault.status or 500, fault.message)


def error_body(status: int, message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return an error as OpenAI words it."""
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def fill_schema(schema: dict[str, Any], text: str, defined: dict[str, Any] | None = None) -> Any:
    """Return the simplest value that a JSON Schema accepts, with the text where one is expected."""
    defined = schema.get("$defs", {}) if defined is None else defined
    if "$ref" in schema:
        return fill_schema(defined[schema["$ref"].rpartition("/")[2]], text, defined)
    if "anyOf" in schema:
        return fill_schema(schema["anyOf"][0], text, defined)
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    match schema.get("type", "object"):
        case "string":
            return text
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "array":
            return [fill_schema(schema.get("items", {}), text, defined) for _ in range(schema.get("minItems", 0))]
        case "object":
            return {name: fill_schema(part, text, defined) for name, part in schema.get("properties", {}).items()}
    return None
