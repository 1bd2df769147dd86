"""Read what frameworks return as one form: an answer, what was retrieved, citations, usage.

Adapters look at keys and attributes and import nothing, so LangChain, LlamaIndex and Haystack need not be installed.
Each returns None for a value that is not its framework's; the first that does not decides.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from rag_eval_pipeline.systems.base import Citation, Query, RagAnswer, Usage
from rag_eval_pipeline.systems.parsing import AnswerReader, cited_place
from rag_eval_pipeline.systems.passages import ParsedPassage, parse_passages
from rag_eval_pipeline.systems.values import (
    WrongShape,
    describe,
    is_amount,
    part,
    plain_text,
    scalar_text,
    whole_number,
)

ANSWERS = ("answer", "result", "output", "output_text", "response", "generated_answer", "text", "content")
CONTEXTS = (
    "contexts", "source_documents", "context", "documents", "source_nodes", "retrieved_contexts", "passages",
    "generated_contexts", "sources",
)  # fmt: skip
USAGE = ("usage", "usage_metadata", "token_usage")


class ParsedAnswer(NamedTuple):
    """An answer as the system states it, before its documents are found in the corpus.

    Args:
        citations: Each a mapping, an object or text in the grammar of citations; None if the system states none.
        usage: A mapping or an object.
    """

    answer: str | None
    passages: tuple[ParsedPassage, ...] = ()
    citations: tuple[Any, ...] | None = None
    abstained: bool | None = None
    usage: Any = None
    model: str | None = None


def parse_answer(value: Any) -> ParsedAnswer:
    """Parse what a system returned."""
    for adapt in ADAPTERS:
        if (found := adapt(value)) is not None:
            return found
    raise WrongShape(describe(value))


def to_rag_answer(
    query: Query,
    parsed: ParsedAnswer,
    reader: AnswerReader,
    *,
    latency_ms: float | None,
    unstated_usage: Usage | None = None,
) -> RagAnswer:
    """Return a parsed answer in terms of the corpus.

    Citations that are not stated are those in the text.
    """
    text = parsed.answer or ""
    citations = in_text = reader.citations(text)
    if parsed.citations is not None:
        stated = reader.stated_citations(parsed.citations)
        citations = tuple(_with_valid_marker(citation, in_text, len(text)) for citation in stated)
    return reader.record(
        query,
        text,
        latency_ms=latency_ms,
        usage=parse_usage(parsed.usage) if parsed.usage is not None else unstated_usage or Usage(),
        contexts=tuple(reader.passage(passage, rank) for rank, passage in enumerate(parsed.passages, start=1)),
        citations=citations,
        abstained=parsed.abstained,
        model=parsed.model,
    )


def _with_valid_marker(citation: Citation, in_text: tuple[Citation, ...], length: int) -> Citation:
    """Return the citation with its stated marker, else with that of an equal citation in the text."""
    if citation.marker_start is not None and citation.marker_end is not None:
        if 0 <= citation.marker_start < citation.marker_end <= length:
            return citation
        citation = msgspec.structs.replace(citation, marker_start=None, marker_end=None)
    return next((other for other in in_text if cited_place(other) == cited_place(citation)), citation)


def parse_usage(value: Any) -> Usage:
    """Parse the usage of one question: one request unless more are stated."""
    prompt = _count(value, "prompt_tokens", "input_tokens") or 0
    completion = _count(value, "completion_tokens", "output_tokens") or 0
    total = _count(value, "total_tokens")
    requests = _count(value, "requests", "total_requests")
    cost = part(value, "estimated_cost_usd", "cost_usd", "cost")
    if cost is not None and not is_amount(cost):
        raise WrongShape(f"usage whose cost is {describe(cost)}")
    return Usage(
        total_tokens=prompt + completion if total is None else total,
        estimated_cost_usd=float(cost or 0.0),
        requests=1 if requests is None else requests,
        prompt_tokens=prompt,
        completion_tokens=completion,
    )


def _count(value: Any, *names: str) -> int | None:
    found = part(value, *names)
    if found is None:
        return None
    number = whole_number(found)
    if number is None or number < 0:
        raise WrongShape(f"usage whose {names[0]} is {describe(found)}")
    return number


# --- Adapters


def scalar_answer(value: Any) -> ParsedAnswer | None:
    """Read a text, or a number or a boolean, which is its text."""
    text = scalar_text(value)
    return None if text is None else ParsedAnswer(text)


def haystack_answer(value: Any) -> ParsedAnswer | None:
    """Read Haystack's `{"answers" | "replies": [...], "documents": [...]}`, flat or by the name of each component."""
    if not isinstance(value, Mapping):
        return None
    flat = _components(value)
    answers, replies = flat.get("answers"), flat.get("replies")
    if not isinstance(answers, list) and not isinstance(replies, list):
        return None
    if not isinstance(answers, list):
        first = next(iter(replies or ()), None)
        reply = _text(first)
        if first is not None and reply is None:
            raise WrongShape(f"a reply that is {describe(first)}")
        return ParsedAnswer(
            reply, parse_passages(_list(flat.get("documents"))), usage=_usage(first), model=_model(first)
        )
    best = next(iter(answers), None)  # they are sorted, best first
    documents = _list(flat.get("documents")) or _list(part(best, "documents")) or _list(part(best, "document"))
    answer = _text(part(best, "data", "answer"))
    return ParsedAnswer(answer or "", parse_passages(documents), abstained=answer is None, usage=_usage(best))


def llama_index_answer(value: Any) -> ParsedAnswer | None:
    """Read LlamaIndex's `Response(response, source_nodes=[NodeWithScore(node, score)])`, also of a chat engine."""
    nodes = None if isinstance(value, Mapping) else getattr(value, "source_nodes", None)
    if nodes is None:
        return None
    response = getattr(value, "response", None)
    answer = response if isinstance(response, str) else str(value)
    return ParsedAnswer(plain_text(answer), parse_passages(_list(nodes)), usage=_usage(value))


def message_answer(value: Any) -> ParsedAnswer | None:
    """Read LangGraph's state `{"messages": [...]}`: the last message answers."""
    messages = part(value, "messages") if isinstance(value, Mapping) else None
    if not isinstance(messages, list) or not messages or part(value, *ANSWERS) is not None:
        return None
    last = messages[-1]
    answer = _text(last)
    if answer is None:
        raise WrongShape(f"a last message that is {describe(last)}")
    return ParsedAnswer(answer, parse_passages(_list(part(value, *CONTEXTS))), usage=_usage(last), model=_model(last))


def plain_answer(value: Any) -> ParsedAnswer | None:
    """Read a mapping or an object with `answer` and `contexts`, by these names or those of LangChain and others."""
    if isinstance(value, str | bytes | int | float | list | tuple) or value is None:
        return None
    answer = part(value, *ANSWERS)
    abstained = part(value, "abstained")
    if abstained is not None and not isinstance(abstained, bool):
        raise WrongShape(f"abstained that is {describe(abstained)}")
    text = _text(answer)
    if text is None and (answer is not None or abstained is not True):
        if answer is None and not _has(value, *ANSWERS):
            return None
        raise WrongShape(f"an answer that is {describe(answer)}")
    citations = part(value, "citations")
    if citations is not None and not isinstance(citations, list | tuple):
        raise WrongShape(f"citations that are {describe(citations)}")
    return ParsedAnswer(
        answer=text or "",
        passages=parse_passages(_list(part(value, *CONTEXTS))),
        citations=None if citations is None else tuple(citations),
        abstained=abstained,
        usage=_usage(value) or _usage(answer),
        model=_model(value) or _model(answer),
    )


ADAPTERS: tuple[Callable[[Any], ParsedAnswer | None], ...] = (
    scalar_answer,
    haystack_answer,
    llama_index_answer,
    message_answer,
    plain_answer,
)


def _components(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the outputs of a pipeline's components as one mapping; of repeated names the last counts."""
    components = [component for component in value.values() if isinstance(component, Mapping)]
    return ChainMap(*cast("list[dict[Any, Any]]", [value, *reversed(components)]))


def _text(value: Any) -> str | None:
    """Return the text of a text, a number, or a message: `content` or `text`, which may be a list of parts."""
    if value is None or isinstance(value, str | int | float):
        return scalar_text(value)
    content = value if isinstance(value, list) else part(value, "content", "text", "answer")
    if isinstance(content, str | int | float):
        return scalar_text(content)
    if isinstance(content, list) and content:
        parts = [item if isinstance(item, str) else part(item, "text") for item in content]
        texts = [item for item in parts if isinstance(item, str)]
        return plain_text("".join(texts)) if texts else None
    return None


def _usage(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return None
    found = part(value, *USAGE)
    return found if found is not None else part(part(value, "meta", "metadata", "response_metadata"), *USAGE)


def _model(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return None
    found = part(value, "model")
    found = found if found is not None else part(part(value, "response_metadata", "meta"), "model_name", "model")
    return plain_text(found) if isinstance(found, str) else None


def _has(value: Any, *names: str) -> bool:
    return any(name in value if isinstance(value, Mapping) else hasattr(value, name) for name in names)


def _list(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)
