"""Chat completions as the client of OpenAI returns them."""

from openai.types.chat import ChatCompletion, ChatCompletionChunk

ANSWER = "Cats do sleep."


def completion(question):
    message = {"role": "assistant", "content": ANSWER}
    return ChatCompletion.model_validate({
        "id": "1", "object": "chat.completion", "created": 0, "model": "constant-1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    })  # fmt: skip


def completion_stream(question):
    head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "constant-1"}
    for piece in ("Cats", " do", " sleep."):
        yield ChatCompletionChunk.model_validate({**head, "choices": [{"index": 0, "delta": {"content": piece}}]})
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    yield ChatCompletionChunk.model_validate({**head, "choices": [], "usage": usage})
