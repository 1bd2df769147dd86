"""Streams that a user's code or a server returns: their pieces are joined to the value that they add up to.

Like `user_code`, this module also runs by its path in the user's own interpreter: it needs only the standard library
of Python 3.9 or newer, and imports nothing of this package.
"""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

GRAPH_MODES = ("values", "updates", "messages", "custom")  # of LangGraph, by how much of the answer they have


class Streams:
    """The streams in a value that was returned.

    Args:
        sources: Iterators and asynchronous iterators.
        rebuild: Makes the value of what was read from each of them.
        answer_keys: Keys under which mappings have their answer.
    """

    def __init__(self, sources: Sequence[Any], rebuild: Callable[[list[Any]], Any], answer_keys: Sequence[str]) -> None:
        self._sources = sources
        self._rebuild = rebuild
        self._keys = answer_keys
        self._read: list[Any] = []
        self.first_text_at: float | None = None  # as time.perf_counter has it

    @property
    def is_async(self) -> bool:
        """Whether one of them needs an event loop."""
        return any(isinstance(source, AsyncIterable) for source in self._sources)

    def read(self, is_given_up: Callable[[], bool]) -> Any:
        """Read all of them, and return the value; what is given up is not read on."""
        for source in self._sources:
            self._read.append(self._read_one(source, is_given_up))
        return self._rebuild(self._read)

    async def read_async(
        self, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]], is_given_up: Callable[[], bool]
    ) -> Any:
        """Read all of them, those without `async` in a thread, and return the value."""
        for source in self._sources:
            if isinstance(source, AsyncIterable):
                pieces: list[Any] = []
                async for piece in source:
                    self._add(piece, pieces)
                self._read.append(merge(pieces, self._keys))
            else:
                self._read.append(await in_thread(functools.partial(self._read_one, source, is_given_up)))
        return self._rebuild(self._read)

    def _read_one(self, source: Iterator[Any], is_given_up: Callable[[], bool]) -> Any:
        pieces: list[Any] = []
        for piece in source:
            self._add(piece, pieces)
            if is_given_up():
                break
        return merge(pieces, self._keys)

    def _add(self, piece: Any, pieces: list[Any]) -> None:
        pieces.append(piece)
        if self.first_text_at is None and _has_text(piece, self._keys):
            self.first_text_at = time.perf_counter()


def find_streams(value: Any, answer_keys: Sequence[str]) -> Streams | None:
    """Return the streams of a value: itself, an item of a mapping or tuple, or the text of a LlamaIndex response."""
    if _is_stream(value):
        return Streams([value], lambda read: read[0], answer_keys)
    if isinstance(value, Mapping):
        names = [name for name, item in value.items() if _is_stream(item)]
        sources = [value[name] for name in names]
        return Streams(sources, lambda read: {**value, **dict(zip(names, read))}, answer_keys) if names else None  # noqa: B905  # 3.9 has no `strict`
    if isinstance(value, tuple):
        places = [place for place, item in enumerate(value) if _is_stream(item)]

        def rebuild(read: list[Any]) -> tuple[Any, ...]:
            items = list(value)
            for number, place in enumerate(places):
                items[place] = read[number]
            return tuple(items)

        return Streams([value[place] for place in places], rebuild, answer_keys) if places else None
    pieces = _unread_text(value)
    return None if pieces is None else Streams([pieces], lambda read: _with_text(value, read[0]), answer_keys)


def _is_stream(value: Any) -> bool:
    return isinstance(value, (Iterator, AsyncIterator))


def _unread_text(value: Any) -> Any:
    """Return the pieces of a LlamaIndex response whose text was not read yet; None for anything else.

    Its text is empty until its generator is exhausted: another thread or task produces it meanwhile.
    """
    if getattr(value, "source_nodes", None) is None:
        return None
    # A finished chat response has a generator too, which plays its text back slowly.
    if getattr(value, "response", None) or getattr(value, "response_txt", None) or hasattr(value, "is_dummy_stream"):
        return None
    if getattr(value, "achat_stream", None) is not None:
        return value.async_response_gen()
    pieces = getattr(value, "response_gen", None)
    return pieces() if callable(pieces) else pieces


def _with_text(value: Any, text: Any) -> SimpleNamespace:
    """Return a LlamaIndex response with the text of its exhausted stream."""
    return SimpleNamespace(response=text, source_nodes=value.source_nodes, metadata=getattr(value, "metadata", None))


# --- Merging


def merge(pieces: Sequence[Any], answer_keys: Sequence[str]) -> Any:
    """Return what the pieces of a stream add up to.

    Texts and messages are joined. Of mappings, the answer is joined and the last value of any other key wins; states
    of a graph, which repeat the answer so far, and updates by its nodes are recognised. Of anything else the last
    piece is returned.
    """
    pieces = _of_one_mode([piece for piece in pieces if piece is not None])
    if all(isinstance(piece, str) for piece in pieces):
        return join_pieces(pieces)
    messages = [piece[0] if _is_message_with_metadata(piece) else piece for piece in pieces]
    if all(_is_message(piece) for piece in messages):
        return _merged_messages(messages)
    if all(_is_completion_chunk(piece) for piece in pieces):
        return _merged_completion(pieces)
    if all(isinstance(piece, (str, Mapping)) for piece in pieces):
        return _merged_mappings(pieces, answer_keys)
    return pieces[-1]


def join_pieces(texts: Sequence[str]) -> str:
    """Return the text of a stream: its pieces joined, or the last one where that has all of the others in it.

    A text may grow (`No`, `No, it is`), and the last events may repeat the whole. Pieces of one word or number that
    happen to begin like what came before (`1`, `10`) are joined.
    """
    filled = [text for text in texts if text]
    if not filled:
        return ""
    *before, last = filled
    while len(before) > 2 and before[-1] == last:
        del before[-1]
    whole, repeated = "".join(before).strip(), last.strip()
    is_whole = len(whole) > 1 and repeated == whole
    is_more = sum(map(bool, map(str.strip, before))) > 1 and " " in whole and repeated.startswith(whole)
    return last if is_whole or is_more or _grows(filled) else "".join(filled)


def _grows(texts: Sequence[str]) -> bool:
    """Return whether texts are the stages of one, and not pieces that happen to begin alike."""
    stages = list(dict.fromkeys(texts))
    if len(stages) < 2 or not _is_growing(texts):
        return False
    before, after = stages[:2]
    is_within_a_word = before[-1].isalnum() and after[len(before)].isalnum()
    return len(stages) > 2 or (any(map(str.isalnum, before)) and not is_within_a_word)


def _is_growing(texts: Sequence[str]) -> bool:
    """Return whether each text begins with the whole one before it."""
    return all(after.startswith(before) for before, after in zip(texts, texts[1:]))  # noqa: B905  # one is shorter


def first_choice(choices: Sequence[Any]) -> Any:
    """Return the choice of index 0 of a chat completion, of which there may be several; None if it has none."""
    for choice in choices:
        index = choice.get("index") if isinstance(choice, Mapping) else getattr(choice, "index", None)
        if index in (0, None):
            return choice
    return None


def _of_one_mode(pieces: list[Any]) -> list[Any]:
    """Return the pieces of LangGraph without their marks: those of the outermost graph, in the best of its modes."""
    if pieces and all(isinstance(piece, tuple) and piece and isinstance(piece[0], tuple) for piece in pieces):
        outer = [piece for piece in pieces if not piece[0]]
        pieces = [piece[1] if len(piece) == 2 else piece[1:] for piece in outer or pieces]
    if pieces and all(isinstance(piece, tuple) and len(piece) == 2 and piece[0] in GRAPH_MODES for piece in pieces):
        present = {mode for mode, _ in pieces}
        best = next(mode for mode in GRAPH_MODES if mode in present)
        return [piece for mode, piece in pieces if mode == best]
    return pieces


def _merged_mappings(pieces: Sequence[Any], answer_keys: Sequence[str]) -> dict[Any, Any]:
    mappings = [{answer_keys[0]: piece} if isinstance(piece, str) else dict(piece) for piece in pieces]
    if all(_is_update(piece, answer_keys) for piece in mappings):
        return _merged_updates(mappings)
    merged: dict[Any, Any] = {}
    for piece in mappings:
        merged.update((name, item) for name, item in piece.items() if item is not None or name not in merged)
    for key in answer_keys:
        items = [piece[key] for piece in mappings if piece.get(key) is not None]
        texts = [item for item in items if isinstance(item, str)]
        # The states of a graph repeat the answer so far, beside its other values; pieces of an answer come alone.
        is_repeated = _is_growing(texts) and all(len(piece) > 1 for piece in mappings if piece.get(key) is not None)
        if len(texts) == len(items) > 1 and not is_repeated:
            merged[key] = join_pieces(texts)
        elif len(items) > 1 and not texts and all(_is_message(item) for item in items):
            merged[key] = _merged_messages(items)
    return merged


def _is_update(piece: Mapping[Any, Any], answer_keys: Sequence[str]) -> bool:
    """Return whether a piece is what nodes of LangGraph changed, by the names of the nodes."""
    items = [item for name, item in piece.items() if not str(name).startswith("__")]
    return all(item is None or isinstance(item, Mapping) for item in items) and not piece.keys() & set(answer_keys)


def _merged_updates(pieces: Sequence[Mapping[Any, Any]]) -> dict[Any, Any]:
    """Return the state after all updates: messages are appended, of any other value the last one counts."""
    state: dict[Any, Any] = {}
    for piece in pieces:
        for name, update in piece.items():
            for key, item in (update or {}).items() if not str(name).startswith("__") else ():
                if key == "messages":
                    item = [*state.get(key, ()), *(item if isinstance(item, list) else [item])]
                state[key] = item
    return state


def _is_message(value: Any) -> bool:
    """Return whether a value is a message of LangChain, or a piece of one."""
    return not isinstance(value, (str, Mapping, tuple)) and all(hasattr(value, name) for name in ("content", "type"))


def _is_message_with_metadata(piece: Any) -> bool:
    return isinstance(piece, tuple) and len(piece) == 2 and _is_message(piece[0]) and isinstance(piece[1], Mapping)


def _merged_messages(pieces: Sequence[Any]) -> Any:
    """Return the message that the pieces are of; of several messages a state with all of them."""
    messages: list[Any] = []
    for piece in pieces:
        before: Any = messages[-1] if messages else None
        if type(before) is type(piece) and getattr(before, "id", None) == getattr(piece, "id", None):
            try:
                messages[-1] = before + piece
                continue
            except (TypeError, ValueError):
                pass  # whole messages cannot be added
        messages.append(piece)
    return messages[0] if len(messages) == 1 else {"messages": messages}


def _is_completion_chunk(value: Any) -> bool:
    """Return whether a value is a chunk of OpenAI's chat completions."""
    choices = getattr(value, "choices", None)
    return isinstance(choices, list) and all(hasattr(choice, "delta") for choice in choices)


def _merged_completion(chunks: Sequence[Any]) -> dict[str, Any]:
    usage = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None) is not None]
    ends = [end for chunk in chunks if (end := getattr(first_choice(chunk.choices), "finish_reason", None))]
    merged = {
        "answer": join_pieces([_completion_text(chunk) for chunk in chunks]),
        "model": getattr(chunks[-1], "model", None),
        **({"finish_reason": ends[-1]} if ends else {}),
    }
    return {**merged, "usage": usage[-1]} if usage else merged


def _completion_text(chunk: Any) -> str:
    return getattr(getattr(first_choice(chunk.choices), "delta", None), "content", None) or ""


def _has_text(piece: Any, answer_keys: Sequence[str]) -> bool:
    if isinstance(piece, str):
        return bool(piece.strip())
    if isinstance(piece, tuple):
        return any(_has_text(part, answer_keys) for part in piece if not isinstance(part, str))
    if isinstance(piece, Mapping):
        parts = [piece.get(key) for key in answer_keys]
        nodes = piece.values() if _is_update(piece, answer_keys) else ()
        return any(_has_text(part, answer_keys) for part in [*parts, *nodes] if part is not None)
    if _is_completion_chunk(piece):
        return bool(_completion_text(piece).strip())
    return _is_message(piece) and getattr(piece, "type", "").lower().startswith("ai") and bool(piece.content)
