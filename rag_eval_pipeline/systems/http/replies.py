"""What a reply says, by the paths of a system's file; a stream says it in pieces."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rag_eval_pipeline.endpoints.client import EndpointError, StreamReply
from rag_eval_pipeline.endpoints.events import DONE, json_values
from rag_eval_pipeline.systems.http.settings import CitationPaths, ContextPaths, HttpSettings
from rag_eval_pipeline.systems.json_paths import UnfoundPaths, WrongShape, items_at, number_at, text_at, value_at

CONTEXT_PARTS = ("document", "page", "text", "score")
CITATION_PARTS = ("document", "page", "start", "end")


class ReplyPaths:
    """The paths of a system's file that have found nothing so far: in replies, in passages, in citations.

    Those of the answer and of an error are not among them: a reply without an answer fails, and one without an error
    is as it should be.
    """

    def __init__(self, settings: HttpSettings) -> None:
        whole = {
            "contexts.path": settings.contexts.path if settings.contexts else None,
            "citations.path": settings.citations.path if settings.citations else None,
            **{name: getattr(settings, name) for name in ("prompt_tokens", "completion_tokens", "cost", "model")},
        }
        self.replies = UnfoundPaths(whole, of="replies")
        self.contexts = UnfoundPaths(_inner("contexts", settings.contexts), of="passages")
        self.citations = UnfoundPaths(_inner("citations", settings.citations), of="citations")

    def warnings(self) -> list[str]:
        """A line for each path that found nothing."""
        return [*self.replies.warnings(), *self.contexts.warnings(), *self.citations.warnings()]


class Told(NamedTuple):
    """The parts of a reply as the server tells them.

    Args:
        answer: Its text.
        contexts: Items of the list of passages, under usual keys.
        citations: Items of the list of citations, under usual keys.
        prompt_tokens: Zero where none are told.
        completion_tokens: Zero where none are told.
        cost: None where none is told.
        model: None where none is told.
        first_token_ms: None of a reply that was not streamed.
    """

    answer: str
    contexts: Sequence[Any]
    citations: Sequence[Any]
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    model: str | None
    first_token_ms: float | None = None


def told(values: Sequence[Any], settings: HttpSettings, paths: ReplyPaths) -> Told:
    """The parts of a reply.

    Args:
        values: Its JSON; several of a stream, where each part is taken from the last that has it.
        settings: The paths.
        paths: Those that have found nothing yet.

    Raises:
        WrongShape: A part is not what its path says, or no value has an answer.
    """
    pieces = [text for value in values if (text := text_at(value, settings.answer)) is not None]
    if not pieces:
        found = values[-1] if values else None
        raise WrongShape(f"a text at {settings.answer!r}, found nothing there in {str(found)[:200]!r}")
    paths.replies.search(values)
    return Told(
        answer="".join(pieces),
        contexts=_items(values, settings.contexts, CONTEXT_PARTS, paths.contexts),
        citations=_items(values, settings.citations, CITATION_PARTS, paths.citations),
        prompt_tokens=int(_last(number_at, values, settings.prompt_tokens) or 0),
        completion_tokens=int(_last(number_at, values, settings.completion_tokens) or 0),
        cost=_last(number_at, values, settings.cost),
        model=_last(text_at, values, settings.model),
    )


def told_by_stream(
    reply: StreamReply, settings: HttpSettings, paths: ReplyPaths, observe: Callable[[Any], Any]
) -> Told:
    """The parts of a streamed reply; `observe` is given each JSON value and returns what is read in its place.

    Raises:
        WrongShape: As of `told`, or an event that is no JSON.
        EndpointError: `stream_truncated` with the text so far, `error_reply`.
    """
    values: list[Any] = []
    first_token_ms = None
    for number, event in enumerate(reply.events, start=1):
        if event.data.strip() == DONE:
            continue
        try:
            values += map(observe, json_values(event.data))
        except ValueError:
            raise WrongShape(f"JSON in event {number}, found {event.data[:200]!r}") from None
        if first_token_ms is None and any(text_at(value, settings.answer) for value in values):
            first_token_ms = event.at_ms
    raise_told_error(values, settings)
    if reply.ended == "cut":
        text = "".join(text_at(value, settings.answer) or "" for value in values)
        raise EndpointError(
            "stream_truncated", f"the connection ended after {len(reply.events)} events", status="truncated",
            requests=reply.requests, partial=text.encode(), elapsed_ms=reply.elapsed_ms,
        )  # fmt: skip
    return told(values, settings, paths)._replace(first_token_ms=first_token_ms)


def raise_told_error(values: Iterable[Any], settings: HttpSettings) -> None:
    """Nothing, unless a reply with a status of success tells an error.

    Raises:
        EndpointError: `error_reply`.
    """
    for value in values if settings.error is not None else ():
        if error := value_at(value, str(settings.error)):
            raise EndpointError("error_reply", f"the server says {str(error)[:300]!r} at {settings.error!r}")


def _last(read: Any, values: Sequence[Any], path: str | None) -> Any:
    if path is None:
        return None
    return next((found for value in reversed(values) if (found := read(value, path)) is not None), None)


def _items(
    values: Sequence[Any],
    paths: ContextPaths | CitationPaths | None,
    names: tuple[str, ...],
    unfound: UnfoundPaths,
) -> Sequence[Any]:
    if paths is None:
        return ()
    items = next((found for value in reversed(values) if (found := items_at(value, paths.path))), [])
    for item in items:
        unfound.search([item])
    inner = {name: path for name in names if (path := getattr(paths, name)) is not None}
    if not inner:
        return items
    # The parts with a path of their own replace what stands under a usual key.
    return [_under_usual_keys(item, inner) for item in items]


def _under_usual_keys(item: Any, paths: Mapping[str, str]) -> Any:
    found = {name: value_at(item, path) for name, path in paths.items()}
    if isinstance(item, dict):
        return item | found
    # No path leads into a text, unless it is the text itself (`@`).
    return found if any(value is not None for value in found.values()) else item


def _inner(of: str, paths: ContextPaths | CitationPaths | None) -> dict[str, str | None]:
    names = CONTEXT_PARTS if of == "contexts" else CITATION_PARTS
    return {f"{of}.{name}": getattr(paths, name, None) for name in names}
