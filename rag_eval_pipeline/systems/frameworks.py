"""Read what frameworks return as one form: an answer, what was retrieved, citations, usage.

Adapters look at keys and attributes and import nothing, so LangChain, LlamaIndex and Haystack need not be installed.
Each returns None for a value that is not its framework's; the first that does not decides.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from rag_eval_pipeline.systems.base import Citation, Query, RagAnswer, Usage
from rag_eval_pipeline.systems.citations import cited_place
from rag_eval_pipeline.systems.foreign_values import WrongShape, describe, is_amount, part, peek, whole_number
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.systems.passages import ParsedPassage, is_file_name, is_passage, parse_passages
from rag_eval_pipeline.systems.reply import (
    COMPLETION_TOKENS,
    CONTEXTS,
    PROMPT_TOKENS,
    message_text,
    newest_turn,
    retrieved_by_tools,
    stated_finish,
    stated_model,
    stated_usage,
    summed_usage,
    unread_documents,
)
from rag_eval_pipeline.systems.user_streams import first_choice
from rag_eval_pipeline.text.folding import plain_text, scalar_text

ANSWERS = (
    "answer", "final_answer", "result", "output_text", "output", "response", "generated_answer", "generation",
    "generated_text", "text", "content",
)  # fmt: skip


class ParsedAnswer(NamedTuple):
    """An answer as the system states it, before its documents are found in the corpus.

    Args:
        answer: None if the system retrieves and does not answer.
        citations: As stated, usually a list; None if the system states none.
        usage: A mapping or an object.
        unread: Keys under which there are documents, if no passages were found where they are looked for.
        finish_reason: Why the generation ended, in the words of the model's server.
        refusal: What a chat model stated in place of an answer.
    """

    answer: str | None
    passages: tuple[ParsedPassage, ...] = ()
    citations: Any = None
    abstained: bool | None = None
    usage: Any = None
    model: str | None = None
    unread: tuple[str, ...] = ()
    finish_reason: str | None = None
    refusal: str | None = None


def parse_answer(value: Any) -> ParsedAnswer:
    """Parse what a system returned; a mapping of components, such as a pipeline's, is also read as one."""
    for candidate in (value, _components(value)) if _has_components(value) else (value,):
        for adapt in ADAPTERS:
            if (found := adapt(candidate)) is not None:
                unread = () if found.passages else tuple(unread_documents(value))
                return found._replace(unread=unread) if unread else found
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

    Raises:
        WrongShape: There are passages without an answer, and the benchmark wants answers.
    """
    usage = parse_usage(parsed.usage) if parsed.usage is not None else unstated_usage or Usage()
    reader.notice_unread(parsed.unread)
    contexts = tuple(reader.passage(passage, rank) for rank, passage in enumerate(parsed.passages, start=1))
    if parsed.answer is None and not parsed.abstained:
        return reader.retrieval(query, contexts, latency_ms=latency_ms, usage=usage)
    text = parsed.answer or ""

    def cite(final: str) -> tuple[Citation, ...]:
        in_text = reader.citations(final, contexts)
        if parsed.citations is not None:
            stated = reader.stated_citations(parsed.citations, contexts, answer=final)
            if stated or not parsed.citations:  # those that name no place do not replace marks that do
                return tuple(_with_valid_marker(citation, in_text, text, final) for citation in stated)
        return in_text

    return reader.record(
        query,
        text,
        latency_ms=latency_ms,
        usage=usage,
        contexts=contexts,
        cite=cite,
        abstained=parsed.abstained,
        finish_reason=parsed.finish_reason,
        refusal=parsed.refusal,
        model=parsed.model,
    )


def _with_valid_marker(citation: Citation, in_text: tuple[Citation, ...], text: str, final: str) -> Citation:
    """Return the citation with its marker as stated of the whole text, else with that of an equal one in the answer."""
    if citation.marker_start is not None and citation.marker_end is not None:
        before = max(0, text.find(final))  # characters of thoughts
        start, end = citation.marker_start - before, citation.marker_end - before
        if 0 <= start < end <= len(final):
            return msgspec.structs.replace(citation, marker_start=start, marker_end=end)
        citation = msgspec.structs.replace(citation, marker_start=None, marker_end=None)
    return next((other for other in in_text if cited_place(other) == cited_place(citation)), citation)


def parse_usage(value: Any) -> Usage:
    """Parse the usage of one question: one request unless more are stated."""
    prompt = _count(value, *PROMPT_TOKENS) or 0
    completion = _count(value, *COMPLETION_TOKENS) or 0
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


def answer_with_passages(value: Any) -> ParsedAnswer | None:
    """Read the pair `(answer, passages)`, whose answer is a text or a message."""
    if not isinstance(value, list | tuple) or len(value) != 2 or not isinstance(value[1], list | tuple):
        return None
    answer, passages = value
    text = None if isinstance(answer, list | tuple) or is_passage(answer) else message_text(answer)
    if text is None or not all(isinstance(item, str) or is_passage(item) for item in passages):
        return None
    return ParsedAnswer(text, parse_passages(passages), **_facts(answer))


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
        reply = message_text(first)
        if first is not None and reply is None:
            raise WrongShape(f"a reply that is {describe(first)}")
        # Generators of texts have the metadata of each beside them.
        meta = next(iter(_list(flat.get("meta"))), None) if isinstance(first, str) else None
        return ParsedAnswer(
            reply or "",
            parse_passages(_list(flat.get("documents"))) or retrieved_by_tools(flat),
            **_facts(first, meta),
        )
    best = next(iter(answers), None)  # they are sorted, best first
    documents = _list(flat.get("documents")) or _list(part(best, "documents")) or _list(part(best, "document"))
    answer = message_text(part(best, "data", "answer"))
    return ParsedAnswer(
        answer or "",
        parse_passages(documents),
        abstained=answer is None,
        **_facts(best),
    )


def llama_index_answer(value: Any) -> ParsedAnswer | None:
    """Read LlamaIndex's `Response(response, source_nodes=[NodeWithScore(node, score)])`, also of a chat engine.

    A structured response, such as `PydanticResponse`, is read by its `answer`, else by its text.
    """
    nodes = None if isinstance(value, Mapping) else getattr(value, "source_nodes", None)
    if nodes is None:
        return None
    response = getattr(value, "response", None)
    structured = None if response is None or isinstance(response, str) else peek(response, "answer")
    answer = response if isinstance(response, str) else message_text(structured) or str(value)
    return ParsedAnswer(
        plain_text(answer),
        parse_passages(_list(nodes)),
        citations=None if structured is None else part(response, "citations"),
        **_facts(value),
    )


def openai_answer(value: Any) -> ParsedAnswer | None:
    """Read OpenAI's chat completion: its first choice, and what a server that retrieves has added to it."""
    choices = part(value, "choices")
    first = first_choice(choices) if isinstance(choices, list) else None
    message = part(first, "message")
    if message is None:
        return None
    return ParsedAnswer(
        message_text(part(message, "content")) or "",
        _stated_passages(value) or _stated_passages(message),
        refusal=part(message, "refusal"),
        **_facts(value, first),
    )


def message_answer(value: Any) -> ParsedAnswer | None:
    """Read the state of an agent or a graph, `{"messages": [...]}`: the last message answers."""
    messages = part(value, "messages") if isinstance(value, Mapping) else None
    if not isinstance(messages, list) or not messages or part(value, *ANSWERS) is not None:
        return None
    last, structured = messages[-1], peek(value, "structured_response")
    answer = message_text(peek(structured, "answer"))
    answer = answer if answer is not None else message_text(last)
    if answer is None:
        raise WrongShape(f"a last message that is {describe(last)}")
    return ParsedAnswer(
        answer,
        _stated_passages(value) or retrieved_by_tools(value),
        citations=part(part(value, "structured_response"), "citations"),
        **_facts(last, value) | {"usage": summed_usage(newest_turn(messages)) or stated_usage(value)},
    )


def plain_answer(value: Any) -> ParsedAnswer | None:
    """Read a mapping or an object with `answer` and `contexts`, by these names or those of LangChain and others.

    The answer may be an object itself, such as LangChain's `{answer: QuotedAnswer(answer, citations), context: [...]}`.
    """
    if isinstance(value, str | bytes | int | float | list | tuple) or value is None:
        return None
    answer = part(value, *ANSWERS)
    abstained = part(value, "abstained")
    if abstained is not None and not isinstance(abstained, bool):
        raise WrongShape(f"abstained that is {describe(abstained)}")
    inner = None if isinstance(answer, str | bytes | int | float | list | tuple) else answer
    if inner is not None and not _has(inner, *ANSWERS):
        raise WrongShape(f"an answer that is {describe(answer)}")
    text = message_text(answer)
    if text is None and inner is not None and (nested := parse_answer(inner)).answer is not None:
        return nested
    if text is None and (answer is not None or abstained is not True):
        if answer is None and not _has(value, *ANSWERS):
            return None
        raise WrongShape(f"an answer that is {describe(answer)}")
    messages, facts = peek(value, "messages"), _facts(value, answer)
    if facts["usage"] is None and isinstance(messages, list):
        facts["usage"] = summed_usage(newest_turn(messages))
    return ParsedAnswer(
        answer=text or "",
        passages=_stated_passages(value) or _stated_passages(inner) or retrieved_by_tools(value),
        citations=part(value, "citations") if peek(value, "citations") is not None else part(inner, "citations"),
        abstained=abstained,
        **facts,
    )


def retrieved_alone(value: Any) -> ParsedAnswer | None:
    """Read what a retriever returns: a list of documents, or a mapping with such a list and no answer."""
    if isinstance(value, list | tuple):
        return ParsedAnswer(None, parse_passages(value)) if all(map(is_passage, value)) else None
    passages = _stated_passages(value) if isinstance(value, Mapping) else ()
    return ParsedAnswer(None, passages) if passages else None


ADAPTERS: tuple[Callable[[Any], ParsedAnswer | None], ...] = (
    scalar_answer,
    answer_with_passages,
    haystack_answer,
    llama_index_answer,
    openai_answer,
    message_answer,
    plain_answer,
    retrieved_alone,
)


def _facts(*values: Any) -> dict[str, Any]:
    """Return usage, model and end of generation, each as the first of some values states it."""
    read = {"usage": stated_usage, "model": stated_model, "finish_reason": stated_finish}
    return {name: next(filter(None, map(stated, values)), None) for name, stated in read.items()}


def _has_components(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(one, Mapping) for one in value.values())


def _components(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the outputs of a pipeline's components as one mapping; of repeated names the last counts."""
    components = [component for component in value.values() if isinstance(component, Mapping)]
    # A component may have the name of an output, such as `answers`.
    outputs = [] if _has_components(value) else [value]
    return ChainMap(*cast("list[dict[Any, Any]]", [*outputs, *reversed(components)]))


def _stated_passages(value: Any) -> tuple[ParsedPassage, ...]:
    """Return the passages under the usual keys: of several lists the first of documents, else the first of texts.

    LangChain's tutorials have `context` as one text beside `docs`. Texts beside as many file names are in these files.
    """
    if value is None or isinstance(value, str):
        return ()
    lists = {name: _list(_passages_below(found)) for name in CONTEXTS if (found := peek(value, name)) is not None}
    name = min(lists, key=lambda name: _order(lists[name], peek(value, name)), default=None)
    if name is None:
        return ()
    part(value, name)  # counts as read
    passages = parse_passages([item for item in lists[name] if part(item, "raw_output") is None])
    if passages and all(isinstance(item, str) and not is_file_name(item) for item in lists[name]):
        for other, names in lists.items():
            if len(names) == len(passages) and all(isinstance(one, str) and is_file_name(one) for one in names):
                part(value, other)
                return tuple(
                    passage._replace(document=plain_text(file)) for passage, file in zip(passages, names, strict=True)
                )
    return passages


def _passages_below(value: Any) -> Any:
    """Return the list in `{context: {documents: [...]}}`; any other value as it is."""
    if isinstance(value, Mapping) and not is_passage(value):
        return next((found for name in (*CONTEXTS, "citations") if isinstance(found := peek(value, name), list)), value)
    return value


def _order(items: Sequence[Any], stated: Any) -> int:
    if not items:
        return 3
    if isinstance(stated, str):
        return 2
    return 1 if all(isinstance(item, str) for item in items) else 0


def _has(value: Any, *names: str) -> bool:
    return any(name in value if isinstance(value, Mapping) else hasattr(value, name) for name in names)


def _list(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)
