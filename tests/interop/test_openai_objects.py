"""The objects of OpenAI's client are read as they are."""

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from rag_eval_pipeline.systems.base import Query, Usage
from rag_eval_pipeline.systems.frameworks import parse_answer, to_rag_answer
from rag_eval_pipeline.systems.kind_settings import ReadingSettings
from rag_eval_pipeline.systems.parsing import AnswerReader
from tests.systems.conftest import corpus_in


def completion(finish_reason="stop", *, refusal=None, **more):
    message = {"role": "assistant", "content": None if refusal else "In 1901.", "refusal": refusal}
    return ChatCompletion.model_validate(
        {
            "id": "1", "object": "chat.completion", "created": 1, "model": "test-1",
            "choices": [{"index": 0, "finish_reason": finish_reason, "message": message}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            **more,
        }
    )  # fmt: skip


RESPONSE = Response.model_validate(
    {
        "id": "1", "object": "response", "created_at": 1, "model": "test-1", "parallel_tool_calls": False,
        "tool_choice": "auto", "tools": [],
        "output": [
            {"id": "2", "type": "reasoning", "summary": []},
            {
                "id": "3", "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "In 1901.", "annotations": []}],
            },
        ],
        "usage": {
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15,
        },
    }
)  # fmt: skip


def read(value, tmp_path):
    reader = AnswerReader(corpus_in(tmp_path), ReadingSettings())
    return to_rag_answer(Query("1", "?"), parse_answer(value), reader, latency_ms=1.0)


SOURCES = [{"title": "Harbours", "url": "https://x.org/in/tollan.pdf?v=2", "snippet": "Built in 1901.", "page": 2}]
ANSWERS = {
    "a chat completion":                      (completion(), []),
    "its message":                            (completion().choices[0].message, []),
    "a chat completion of a RAG server":      (completion(sources=SOURCES), [("tollan.pdf", 2, "Built in 1901.")]),
    "a chat completion as plain data":        (completion(sources=SOURCES).model_dump(), [("tollan.pdf", 2, "Built in 1901.")]),
    "a response":                             (RESPONSE, []),
}  # fmt: skip


@pytest.mark.parametrize(("value", "places"), ANSWERS.values(), ids=ANSWERS)
def test_object_of_the_client_is_an_answer(value, places, tmp_path):
    answer = read(value, tmp_path)

    assert (answer.status, answer.answer) == ("ok", "In 1901.")
    assert [(one.document, one.page, one.text) for one in answer.contexts] == places
    if hasattr(value, "usage"):
        assert (answer.usage, answer.model) == (Usage(15, 0.0, 1, 10, 5), "test-1")


INCOMPLETE = {
    "cut":       (completion("length"),                         "truncated", "max_tokens_reached", "In 1901."),
    "refused":   (completion(refusal="I cannot say."),          "refused",   "refused",            None),
    "filtered":  (completion("content_filter"),                 "refused",   "refused",            "In 1901."),
}  # fmt: skip


@pytest.mark.parametrize(("value", "status", "code", "partial"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_incomplete_completion_is_a_failure_with_its_usage(value, status, code, partial, tmp_path):
    answer = read(value, tmp_path)

    assert (answer.status, answer.error_code, answer.answer, answer.partial) == (status, code, None, partial)
    assert answer.usage.total_tokens == 15
