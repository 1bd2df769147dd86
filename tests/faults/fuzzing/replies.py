"""Answers of systems, live and recorded, and replies of judges."""

import contextlib
from functools import cache
from pathlib import Path
from typing import Any

from rag_eval_pipeline.errors import EndpointError
from rag_eval_pipeline.formats.citation_marks import find_citations
from rag_eval_pipeline.judges.claim_splitting import AnswerClaim
from rag_eval_pipeline.judges.judgement import Case, CitedText
from rag_eval_pipeline.judges.prompts import judgement_prompt
from rag_eval_pipeline.judges.ratings import RatingProtocol
from rag_eval_pipeline.judges.replies import Unparsable, declines, parse_judgement, parse_rating
from rag_eval_pipeline.systems.base import Query
from rag_eval_pipeline.systems.foreign_values import WrongShape
from rag_eval_pipeline.systems.http import HttpSystem
from rag_eval_pipeline.systems.kind_settings import HttpSettings, ReadingSettings
from rag_eval_pipeline.systems.nvidia_replies import check_stream, read_chunks
from rag_eval_pipeline.systems.nvidia_replies import read_stream as read_nvidia_stream
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.systems.recording_files import read_recordings
from rag_eval_pipeline.systems.replay import recorded_answer
from rag_eval_pipeline.web.client import Reply, StreamReply
from rag_eval_pipeline.web.openai_chat import read_reply, read_stream
from rag_eval_pipeline.web.server_settings import Prices
from rag_eval_pipeline.web.sse import parse_events
from tests.faults.fuzzing.checks import Parser, encoded, read_any
from tests.faults.fuzzing.formats import RESULTS, SCORED
from tests.systems.conftest import corpus_in

RECORDED = [
    {"query_id": "0", "answer": "She.", "contexts": [{"document": "cats", "page": 2, "text": "t", "score": 0.5}], "latency_ms": 5},
    {"user_input": "When?", "response": "She.", "retrieved_contexts": ["a", {"page_content": "b", "metadata": {"source": "x/cats.pdf"}}]},
    {"id": 2, "question": "Why?", "generated_answer": "She.", "generated_contexts": ["c"], "retrieved_docs": ["cats.pdf_2"], "usage": None},
    {"query_id": "3", "answer": {"content": "She [cats.pdf:1:0-4]."}, "citations": [{"document": "cats", "start": 0, "end": 4}], "usage": {"prompt_tokens": 3}},
]  # fmt: skip


@cache
def _reader(folder: Path) -> AnswerReader:
    return AnswerReader(corpus_in(folder), ReadingSettings())


def _read_recordings(data: bytes, folder: Path) -> None:
    path = folder / "f.jsonl"
    path.write_bytes(data)
    for recording in read_recordings(path, corpus_in(folder).aliases).rows:
        with contextlib.suppress(WrongShape):
            recorded_answer(Query("0", "Who?"), recording, _reader(folder))


CHAT = {
    "id": "c", "model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "cost": 0.01},
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "She [1].", "refusal": None}, "finish_reason": "stop"}],
}  # fmt: skip
DELTAS = [
    {"model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "She "}, "finish_reason": None}]},
    {"model": "m", "choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": "lit it."}]}, "finish_reason": None}]},
    {"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}},
]  # fmt: skip
CHUNK = {
    "choices": [{"index": 0, "message": {"content": "She &lt;b&gt; [1]"}, "delta": {"content": ""}, "finish_reason": "stop"}],
    "event_type": None, "usage": {"total_tokens": 5}, "metrics": {"rag_ttft_ms": 3.5}, "model": "m",
    "citations": {"total_results": 1, "results": [{"document_name": "cats.pdf", "content": "Cats", "score": 0.5, "metadata": {"page_number": 1}}]},
}  # fmt: skip
OWN = {
    "data": {"text": "She [cats.pdf:1:0-4]", "hits": [{"file": "cats.pdf", "page": 1, "text": "Cats", "score": 0.5}]},
    "cited": [{"document": "cats", "page": 1, "start": 0, "end": 4}], "tokens": {"in": 3, "out": 2}, "cost": 0.1,
}  # fmt: skip
HTTP = {
    "endpoint": {"base_url": "http://127.0.0.1:1"}, "body": {"q": "{question}"}, "answer": "data.text || choices[0].delta.content",
    "contexts": {"path": "data.hits[]", "document": "file"}, "citations": {"path": "cited"}, "prompt_tokens": "tokens.in",
    "completion_tokens": "usage.completion_tokens", "cost": "cost", "model": "model", "error": "error",
}  # fmt: skip


def _streamed(*values: Any, end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b": keep-alive\n\n" + b"".join(b"data: " + one + b"\n\n" for one in encoded(*values)) + end


@cache
def _http_system(folder: Path) -> HttpSystem:
    return HttpSystem(HttpSettings.model_validate(HTTP), None, _reader(folder), "coast")  # nothing is requested


def _common(data: bytes) -> dict[str, Any]:
    return {"status": 200, "body": data, "requests": 1, "elapsed_ms": 5.0, "raw_sha256": "0" * 64, "masked": str}


def _read_stream(data: bytes, folder: Path) -> None:
    """Read a stream as that of each kind of server."""
    events = parse_events(data)
    reply = StreamReply(headers={"content-type": "text/event-stream"}, events=events, is_cut=False, **_common(data))
    readings = (lambda: _as_nvidia(reply, folder), lambda: _as_own(reply, folder), lambda: read_stream(reply, Prices()))
    read_any(*readings, errors=(EndpointError, WrongShape))


def _as_nvidia(reply: StreamReply, folder: Path) -> None:
    stream = read_nvidia_stream(reply.events, unescape_html=True)
    check_stream(stream, is_cut=reply.is_cut, body=reply.body)
    list(read_chunks(stream.citations, _reader(folder), has_pages=True, has_scores=True))
    _reader(folder).citations(stream.text)


def _as_own(reply: Reply, folder: Path) -> None:
    _http_system(folder).read(Query("0", "Who?"), reply)


def _read_reply(data: bytes, folder: Path) -> None:
    reply = Reply(headers={"content-type": "application/json"}, **_common(data))
    read_any(lambda: _as_own(reply, folder), lambda: read_reply(reply, Prices()), errors=(EndpointError, WrongShape))


CASE = Case(
    "1", "How high?", ("12 m",), False, "It is 12 m high [a.pdf:1:0-17].", contexts=("It is 12 m high.", "No."),
    citations=(CitedText("a.pdf", "It is 12 m high.", 17, 33),),
)  # fmt: skip
ASKED = judgement_prompt(
    CASE, [AnswerClaim(0, 16, "It is 12 m high.", (0,))], asks_correctness=True, evidence_chars=10_000, salt=""
)
RATED = RatingProtocol(name="x", version="1", prompts=("?",), scale={0: 0.0, 1: 1.0}, needs=("answer",))
NONCE = ASKED.prompt.nonce


def _judge_seeds() -> list[bytes]:
    claim = {"id": "c1", "rationale": "it says so", "by_citations": "supported", "by_contexts": "supported"}
    verdict = {"rationale": "-", "verdict": "correct"}
    plain = encoded(
        {"nonce": NONCE, "correctness": verdict, "claims": [claim], "citations": []},
        {"nonce": NONCE, "rationale": "-", "rating": 1},
    )
    return [
        *plain,
        b"```json\n" + plain[0] + b"\n```",
        b"<think>8/10? {}</think>\n" + plain[0],
        b"I'm sorry, but I can't.",
    ]


def _read_judge_reply(data: bytes, folder: Path) -> None:
    text = data.decode("utf-8", "surrogateescape")
    declines(text)
    readings = (lambda: parse_judgement(text, ASKED, CASE), lambda: parse_rating(text, RATED, NONCE))
    read_any(*readings, errors=Unparsable)
    assert NONCE in text or "\\u" in text, "a verdict without the nonce"


ANSWERS = [
    b'She lit it [cats.pdf:1:0-4], and again [cats.pdf:1:0-4; tollan.pdf:2:9-49 "The harbour"].',
    b"Both [1][2] say so [a[1].pdf:1:0-4] \xe3\x80\x90cats.pdf:2:12-22\xe3\x80\x91 [report_3.pdf: 1: 5 - 9].",
]


def _read_answer(data: bytes, folder: Path) -> None:
    text = data.decode("utf-8", "surrogateescape")
    find_citations(text, corpus_in(folder).files)
    _reader(folder).citations(text)


REPLIES: dict[str, Parser] = {
    "recordings": Parser(
        lambda: [b"\n".join(encoded(*RECORDED)), *encoded(RECORDED, {"0": "She.", "1": ""}, RESULTS), SCORED[1]],
        _read_recordings,
        places=("f.jsonl",),
    ),
    "stream": Parser(
        lambda: [_streamed(*DELTAS), _streamed(CHUNK), _streamed(OWN, OWN, end=b""), b"event: error\n" + _streamed({"error": "x"})],
        _read_stream,
        errors=(EndpointError, WrongShape),
    ),
    "reply": Parser(lambda: encoded(CHAT, OWN, {"error": {"message": "no"}}), _read_reply, errors=(EndpointError, WrongShape)),
    "judge_reply": Parser(_judge_seeds, _read_judge_reply, errors=(Unparsable,)),
    "answer": Parser(lambda: ANSWERS, _read_answer),
}  # fmt: skip
