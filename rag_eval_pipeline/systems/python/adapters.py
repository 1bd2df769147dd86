"""What frameworks return, read as one form: an answer, what was retrieved, citations, usage.

Adapters look at keys and attributes and import nothing: LangChain, LlamaIndex and Haystack need not be installed. Each
takes a value and returns None where it is not meant; the first that is meant decides.
"""

from collections import ChainMap
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from rag_eval_pipeline.systems.python.passages import SaidPassage, part, passages, plain_text, scalar_text

ANSWERS = ("answer", "result", "output", "output_text", "response", "generated_answer", "text", "content")
CONTEXTS = (
    "contexts", "source_documents", "context", "documents", "source_nodes", "retrieved_contexts", "passages",
    "generated_contexts", "sources",
)  # fmt: skip
USAGE = ("usage", "usage_metadata", "token_usage")


class Said(NamedTuple):
    """What a system said, before its documents are found in the corpus.

    Args:
        answer: None when it said nothing.
        passages: In its order.
        citations: As stated, each a mapping, an object or text in the grammar of citations; None when it states none.
        abstained: As stated.
        usage: As stated, a mapping or an object.
        model: As stated.
    """

    answer: str | None
    passages: tuple[SaidPassage, ...] = ()
    citations: tuple[Any, ...] | None = None
    abstained: bool | None = None
    usage: Any = None
    model: str | None = None


Adapter = Callable[[Any], Said | None]


class NoAnswer(ValueError):
    """A value in which no adapter finds an answer; its text says what the value is."""


def said(value: Any) -> Said:
    """What a system's return value says.

    Raises:
        NoAnswer: No adapter is meant, or a part is not what its name says.
    """
    for adapt in ADAPTERS.values():
        if (found := adapt(value)) is not None:
            return found
    raise NoAnswer(shown(value))


def shown(value: Any) -> str:
    """What a value is, for messages: its type, its keys if it has some, and how it begins if it is plain."""
    name = type(value).__name__
    if isinstance(value, Mapping):
        keys = " ".join(", ".join(sorted(map(str, value))).split())
        return f"{name} with the keys {keys[:150] or '(none)'}"
    if value is None or isinstance(value, bool | int | float | bytes | list | tuple):
        return f"{name} {repr(value)[:100]}" if value is not None else "None"
    return name


def text_answer(value: Any) -> Said | None:
    """A text, or a number or a boolean, which is its text."""
    text = scalar_text(value)
    return None if text is None else Said(text)


def haystack_answer(value: Any) -> Said | None:
    """Haystack: `{"answers" | "replies": [...], "documents": [...]}`, alone or by the name of each component."""
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
            raise NoAnswer(f"a reply that is {shown(first)}")
        return Said(reply, passages(_list(flat.get("documents"))), usage=_usage(first), model=_model(first))
    best = next(iter(answers), None)  # they are sorted, best first
    documents = _list(flat.get("documents")) or _list(part(best, "documents")) or _list(part(best, "document"))
    answer = _text(part(best, "data", "answer"))
    return Said(answer or "", passages(documents), abstained=answer is None, usage=_usage(best))


def llama_index_answer(value: Any) -> Said | None:
    """LlamaIndex: `Response(response, source_nodes=[NodeWithScore(node, score)])`, also of a chat engine."""
    nodes = None if isinstance(value, Mapping) else getattr(value, "source_nodes", None)
    if nodes is None:
        return None
    response = getattr(value, "response", None)
    answer = response if isinstance(response, str) else str(value)
    return Said(plain_text(answer), passages(_list(nodes)), usage=_usage(value))


def unread_stream(value: Any) -> Iterator[str] | AsyncIterator[str] | None:
    """The pieces of a LlamaIndex response whose text nobody has read yet; None for anything else.

    Its text is empty until its generator is exhausted: another thread or task provides it meanwhile.
    """
    if isinstance(value, Mapping) or getattr(value, "source_nodes", None) is None:
        return None
    # A finished chat response has a generator too, which plays its text back slowly.
    if part(value, "response", "response_txt") or hasattr(value, "is_dummy_stream"):
        return None
    if getattr(value, "achat_stream", None) is not None:
        return cast("AsyncIterator[str]", value.async_response_gen())
    return cast("Iterator[str] | AsyncIterator[str] | None", getattr(value, "response_gen", None))


def with_text(value: Any, pieces: Iterable[str]) -> SimpleNamespace:
    """A LlamaIndex response with the text of its exhausted stream."""
    text = "".join(piece or "" for piece in pieces)
    return SimpleNamespace(response=text, source_nodes=value.source_nodes, metadata=getattr(value, "metadata", None))


def message_answer(value: Any) -> Said | None:
    """LangGraph's state `{"messages": [...]}`: the last message answers."""
    messages = part(value, "messages") if isinstance(value, Mapping) else None
    if not isinstance(messages, list) or not messages or part(value, *ANSWERS) is not None:
        return None
    last = messages[-1]
    answer = _text(last)
    if answer is None:
        raise NoAnswer(f"a last message that is {shown(last)}")
    return Said(answer, passages(_list(part(value, *CONTEXTS))), usage=_usage(last), model=_model(last))


def plain_answer(value: Any) -> Said | None:
    """A mapping or an object with `answer` and `contexts`, by these names or those of LangChain and others."""
    if isinstance(value, str | bytes | int | float | list | tuple) or value is None:
        return None
    answer = part(value, *ANSWERS)
    abstained = part(value, "abstained")
    if abstained is not None and not isinstance(abstained, bool):
        raise NoAnswer(f"abstained that is {shown(abstained)}")
    text = _text(answer)
    if text is None and (answer is not None or abstained is not True):
        if answer is None and not _has(value, *ANSWERS):
            return None
        raise NoAnswer(f"an answer that is {shown(answer)}")
    citations = part(value, "citations")
    if citations is not None and not isinstance(citations, list | tuple):
        raise NoAnswer(f"citations that are {shown(citations)}")
    return Said(
        answer=text or "",
        passages=passages(_list(part(value, *CONTEXTS))),
        citations=None if citations is None else tuple(citations),
        abstained=abstained,
        usage=_usage(value) or _usage(answer),
        model=_model(value) or _model(answer),
    )


ADAPTERS: dict[str, Adapter] = {
    "text": text_answer,
    "haystack": haystack_answer,
    "llama_index": llama_index_answer,
    "messages": message_answer,
    "plain": plain_answer,
}


def _components(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """The outputs of a pipeline's components as one mapping; of repeated names the last counts."""
    components = [component for component in value.values() if isinstance(component, Mapping)]
    return ChainMap(*cast("list[dict[Any, Any]]", [value, *reversed(components)]))


def _text(value: Any) -> str | None:
    """The text of a text, a number, or a message: `content` or `text`, which may be a list of parts."""
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
