"""The events of a RAG server's answer: chunks of text, citations on the first of them, metrics on the last."""

import html
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from rag_eval_pipeline.loopback.answering import FoundPassage
from rag_eval_pipeline.loopback.faults import Fault

ERROR_TEXT = "Error from rag-server. Please check rag-server logs for more details."
MODEL = "loopback/llm"
EMBEDDING_MODEL = "loopback/bm25"
RERANKER_MODEL = "loopback/coverage"
PICTURE = (  # one grey pixel, PNG in base64: what stands in `content` of tables, charts and images
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)
ERROR_PIECE = 5  # characters of an error text in a chunk
_MEDIA = ("table", "chart", "image")
_PIECE = re.compile(r"\s*\S+\s*")
_PIECES_MAX = 40  # a longer answer comes in longer pieces


class Answer(NamedTuple):
    """What the events are made of.

    Args:
        id: Of the answer.
        text: Plain.
        citations: As `citations_of` makes them.
        asked_words: Of the question, for the usage.
        retrieval_ms: Time until the passages were there.
        generation_ms: Time for the text.
    """

    id: str
    text: str
    citations: dict[str, Any]
    asked_words: int
    retrieval_ms: float = 0.0
    generation_ms: float = 0.0


def citations_of(passages: Sequence[FoundPassage], *, media_every: int, page_base: int) -> dict[str, Any]:
    """Passages as the server lists them; every `media_every`-th as a picture of what its description says."""
    return {
        "total_results": len(passages),
        "results": [_result(passage, _kind(rank, media_every), page_base) for rank, passage in enumerate(passages, 1)],
    }


def answer_events(answer: Answer, fault: Fault | None, *, is_agentic: bool) -> list[dict[str, Any]]:
    """The whole stream, or what a fault of `SPOILING` makes of it."""
    name = fault.name if fault else None
    if name == "no_generator":
        return [{**_chunk(answer), "choices": []}]
    if name == "error_text":
        return error_events(ERROR_TEXT, answer.id)
    kind, stage = ("final_answer", "answer") if is_agentic else (None, None)
    events = [_chunk(answer, piece, event_type=kind, stage=stage) for piece in _pieces(answer.text)]
    events[0]["citations"] = answer.citations
    last = _chunk(answer, event_type=kind, stage=stage, finish_reason="stop")
    last["usage"], last["metrics"] = _usage(answer), _metrics(answer)
    before = _stages(answer) if is_agentic else []
    if name in ("cut", "broken_off"):
        return [*before, *events[: (len(events) + 1) // 2]]
    if name == "error_event":
        error = _chunk(answer, ERROR_TEXT, event_type="error", stage=stage)
        return [*before, *events[: (len(events) + 1) // 2], error, last]
    return [*before, *events, last]


def whole_answer(answer: Answer) -> dict[str, Any]:
    """The answer of an agent that was asked not to stream: one object with all of it."""
    chunk = _chunk(answer, answer.text, event_type="final_answer", stage="answer", finish_reason="stop")
    return {**chunk, "citations": answer.citations, "usage": _usage(answer), "metrics": _metrics(answer)}


def error_events(message: str, answer_id: str) -> list[dict[str, Any]]:
    """An error as the server streams it, five characters a chunk."""
    answer = Answer(answer_id, message, _no_citations(), 0)
    pieces = [message[at : at + ERROR_PIECE] for at in range(0, len(message), ERROR_PIECE)]
    return [*(_chunk(answer, piece) for piece in pieces), _chunk(answer, finish_reason="stop")]


def _stages(answer: Answer) -> list[dict[str, Any]]:
    """What an agent says before its answer, none of which belongs to it."""
    return [
        _chunk(answer, "Planning.", event_type="stage_start", stage="plan"),
        _chunk(answer, event_type="intermediate_reasoning", stage="plan", reasoning="The question has one part."),
        _chunk(answer, "A draft that is not the answer.", event_type="intermediate_output", stage="retrieve"),
        _chunk(answer, event_type="stage_end", stage="retrieve"),
        _chunk(answer, event_type="final_reasoning", stage="answer", reasoning="The passages suffice."),
    ]


def _chunk(
    answer: Answer,
    content: str = "",
    *,
    event_type: str | None = None,
    stage: str | None = None,
    reasoning: str | None = None,
    finish_reason: str | None = None,
) -> dict[str, Any]:
    # The server cleans what it sends as it cleans HTML, so `<` and `&` are escaped in every message.
    said = {"content": html.escape(content, quote=False), "reasoning_content": reasoning}
    return {
        "id": answer.id,
        "object": "chat.completion.chunk",
        "model": MODEL,
        "created": int(time.time()),
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", **said},
                "delta": {"role": None, **said},
                "finish_reason": finish_reason,
            }
        ],
        "citations": _no_citations(),
        "usage": {"total_tokens": 0, "prompt_tokens": 0, "completion_tokens": 0},
        "metrics": {},
        "event_type": event_type,
        "stage": stage,
    }


def _no_citations() -> dict[str, Any]:
    return {"total_results": 0, "results": []}


def _pieces(text: str) -> list[str]:
    words = _PIECE.findall(text) or [text]
    size = -(-len(words) // _PIECES_MAX)
    return ["".join(words[at : at + size]) for at in range(0, len(words), size)]


def _usage(answer: Answer) -> dict[str, int]:
    """Words stand for tokens."""
    read = answer.asked_words + sum(
        len(result["metadata"]["description"].split()) for result in answer.citations["results"]
    )
    written = len(answer.text.split())
    return {"total_tokens": read + written, "prompt_tokens": read, "completion_tokens": written}


def _metrics(answer: Answer) -> dict[str, float]:
    return {
        "rag_ttft_ms": answer.retrieval_ms,
        "llm_ttft_ms": answer.generation_ms,
        "context_reranker_time_ms": 0.0,
        "retrieval_time_ms": answer.retrieval_ms,
        "llm_generation_time_ms": answer.generation_ms,
    }


def _kind(rank: int, media_every: int) -> str:
    if not media_every or rank % media_every:
        return "text"
    return _MEDIA[rank // media_every % len(_MEDIA)]


def _result(passage: FoundPassage, kind: str, page_base: int) -> dict[str, Any]:
    return {
        "document_id": "",
        "content": passage.text if kind == "text" else PICTURE,
        "document_name": passage.document,
        "document_type": kind,
        "score": passage.score,
        "stage": "rag",
        "metadata": {
            "language": "",
            "date_created": "",
            "last_modified": "",
            "page_number": passage.page - 1 + page_base,
            "description": passage.text,
            "height": 0,
            "width": 0,
            "location": [],
            "location_max_dimensions": [],
            "content_metadata": {},
        },
    }
