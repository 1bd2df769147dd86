"""What a system said, as an answer in the normal form: its names found in the corpus, its citations resolved."""

import math
from typing import Any

import msgspec

from rag_eval_pipeline.systems.answer import Citation, Query, RagAnswer, Usage, failed_answer
from rag_eval_pipeline.systems.python.adapters import NoAnswer, Said, shown
from rag_eval_pipeline.systems.python.passages import identifier, part, plain_text, whole
from rag_eval_pipeline.systems.reading import EMPTY_ANSWER, AnswerReader, EmptyAnswer

ONE_REQUEST = Usage()


def answer_of(
    query: Query, said: Said, reader: AnswerReader, *, latency_ms: float | None, unstated: Usage = ONE_REQUEST
) -> RagAnswer:
    """The answer in the normal form.

    An answer that states no citations has those that its text carries in the grammar of citations; one that does not
    say whether it abstains does so by the reader's rules; an empty one is an error unless they say otherwise.

    Args:
        query: The question.
        said: What was said; `answer` is there.
        reader: Knows the corpus, and how the system counts.
        latency_ms: Of the call; None where it was not measured.
        unstated: Usage where the system states none.

    Raises:
        NoAnswer: A citation or the usage is not what it is called.
    """
    text = said.answer or ""
    citations = in_text = reader.citations(text)
    if said.citations is not None:
        stated = (c for number, value in enumerate(said.citations) for c in _citations(value, number, reader))
        citations = tuple(_marked(citation, in_text, len(text)) for citation in stated)
    usage = unstated if said.usage is None else usage_of(said.usage)
    try:
        abstained = reader.abstained(text, said.abstained)
    except EmptyAnswer as empty:
        return failed_answer(query, "error", code=EMPTY_ANSWER, error=str(empty), latency_ms=latency_ms, usage=usage)
    return RagAnswer(
        query_id=query.query_id,
        status="ok",
        answer=text,
        abstained=abstained,
        contexts=tuple(reader.passage(passage, rank) for rank, passage in enumerate(said.passages, start=1)),
        citations=citations,
        latency_ms=latency_ms,
        usage=usage,
        model=said.model,
    )


def usage_of(value: Any) -> Usage:
    """Usage of one question: one request unless more are stated.

    Raises:
        NoAnswer: A count or a cost that is none.
    """
    prompt = _count(value, "prompt_tokens", "input_tokens")
    completion = _count(value, "completion_tokens", "output_tokens")
    total = _count(value, "total_tokens")
    cost = part(value, "estimated_cost_usd", "cost_usd", "cost")
    requests = _count(value, "requests", "total_requests")
    return Usage(
        total_tokens=(prompt or 0) + (completion or 0) if total is None else total,
        estimated_cost_usd=0.0 if cost is None else _cost(cost),
        requests=1 if requests is None else requests,
        prompt_tokens=prompt or 0,
        completion_tokens=completion or 0,
    )


def _citations(value: Any, number: int, reader: AnswerReader) -> tuple[Citation, ...]:
    """Places of one stated citation; one without characters, such as a document alone, is no place and is left out."""
    if isinstance(value, str):
        found = reader.citations(plain_text(value))
        return tuple(msgspec.structs.replace(citation, marker_start=None, marker_end=None) for citation in found)
    name = identifier(part(value, "file_name", "document", "document_name", "source", "file"))
    if name is None:
        raise NoAnswer(f"citations[{number}] that is {shown(value)}")
    start, end = whole(part(value, "start_char", "start")), whole(part(value, "end_char", "end"))
    if start is None or end is None:
        return ()
    page = reader.page(whole(part(value, "page_number", "page")))
    citation = reader.citation(name, page, start, end)
    if citation is None:
        return ()
    first, last = whole(part(value, "marker_start")), whole(part(value, "marker_end"))
    return (msgspec.structs.replace(citation, marker_start=first, marker_end=last),)


def _marked(citation: Citation, in_text: tuple[Citation, ...], length: int) -> Citation:
    """A stated citation with the place of its mark in the answer: as stated, else where the text carries the same."""
    if citation.marker_start is not None and citation.marker_end is not None:
        if 0 <= citation.marker_start < citation.marker_end <= length:
            return citation
        citation = msgspec.structs.replace(citation, marker_start=None, marker_end=None)
    place = (citation.file_name, citation.start_char, citation.end_char)
    return next((own for own in in_text if (own.file_name, own.start_char, own.end_char) == place), citation)


def _count(value: Any, *names: str) -> int | None:
    found = part(value, *names)
    if found is None:
        return None
    number = whole(found)
    if number is None or number < 0:
        raise NoAnswer(f"usage whose {names[0]} is {shown(found)}")
    return number


def _cost(found: Any) -> float:
    if isinstance(found, bool | str) or not isinstance(found, int | float) or not math.isfinite(found) or found < 0:
        raise NoAnswer(f"usage whose cost is {shown(found)}")
    return float(found)
