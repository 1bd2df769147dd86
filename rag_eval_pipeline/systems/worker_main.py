"""The worker process of a system of kind python; it runs in the user's own interpreter, by the path of this file.

    python worker_main.py COMMANDS REPLIES

Both are descriptors of pipes, with one JSON object a line; `python_worker` has the other ends. Standard output and
standard error are the user's. The process ends with its parent: when COMMANDS ends. It needs only the standard library
of Python 3.9 or newer, and imports nothing of this package; what it shares with it, it loads by path.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]  # before anything is imported: modules beside this one, such as http, are not meant

import asyncio
import collections.abc
import functools
import importlib.util
import json
import signal
import threading
from typing import Any, NoReturn

OLDEST = (3, 9)
REPLY_LIMIT = 64_000_000  # bytes of one answer
PARTS_LIMIT = 100_000  # of one answer: an object whose every attribute is another object has no end
DEPTH_LIMIT = 24
TEXT_LIMIT = 1_000_000  # characters of an object's `str`


# --- Values


class Encoder:
    """Encodes what was returned as JSON that `python_worker.decode` turns into values that are read alike.

    Args:
        names: Of the attributes that are read; of an object no others are encoded.
    """

    def __init__(self, names: collections.abc.Iterable[str]) -> None:
        self._names = frozenset(names)
        self._parts = 0

    def encode(self, value: Any, depth: int = 0) -> Any:
        """Return JSON; what is neither a scalar nor a list is an object with a key for its type."""
        if value is None or isinstance(value, (bool, str, int, float)):
            return value
        self._parts += 1
        if self._parts > PARTS_LIMIT or depth > DEPTH_LIMIT:
            raise ValueError(f"it has more than {PARTS_LIMIT} parts, or parts more than {DEPTH_LIMIT} deep")
        if isinstance(value, collections.abc.Mapping):
            return {"mapping": {str(name): self.encode(item, depth + 1) for name, item in value.items()}}
        if isinstance(value, list):
            return [self.encode(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            fields = getattr(value, "_fields", None)  # of a named tuple
            return {"tuple": [self.encode(item, depth + 1) for item in value], "fields": fields, **_class(value)}
        if isinstance(value, os.PathLike):
            return {"path": str(value)}
        if getattr(value, "shape", None) == () and hasattr(value, "dtype"):
            return self.encode(value.item(), depth + 1)  # a number of numpy
        if depth and callable(value):
            return {"callable": True}
        return self._object(value, depth)

    def _object(self, value: Any, depth: int) -> dict[str, Any]:
        attributes, failing = {}, {}
        for name in sorted(self._names_of(value)):
            try:
                found = getattr(value, name)
            except AttributeError:
                continue
            except Exception as error:
                failing[name] = [type(error).__name__, str(error)]
                continue
            attributes[name] = self.encode(found, depth + 1)
        return {
            "attributes": attributes,
            "failing": failing,
            "text": _text(value) if depth < 2 else None,
            **_class(value),
        }

    def _names_of(self, value: Any) -> collections.abc.Set[str]:
        """Return the names that an object can have: asking it for each of the others would take most of the time."""
        defined, is_dynamic = _names_of_class(type(value), self._names)  # type: ignore[arg-type]  # a class has a hash
        if is_dynamic:
            return self._names
        own = {*getattr(value, "__dict__", ()), *(getattr(value, "__pydantic_extra__", None) or ())}
        return defined | (self._names & own)


@functools.lru_cache(1024)
def _names_of_class(kind: type, names: frozenset[str]) -> tuple[frozenset[str], bool]:
    """Return which names a class defines, and whether its objects may have any other one."""
    defined = {name for base in kind.__mro__ for name in vars(base)}
    # The models of pydantic look up nothing but further fields.
    is_dynamic = "__getattr__" in defined and "__pydantic_fields__" not in defined
    own_lookup = any("__getattribute__" in vars(base) for base in kind.__mro__[:-1])
    return names & defined, is_dynamic or own_lookup


def _class(value: Any) -> dict[str, str]:
    return {"class": type(value).__name__}


def _text(value: Any) -> str | None:
    """Return the text that an object has by its own `__str__`, which is an answer of LlamaIndex."""
    own = {method for kind in type(value).__mro__[:-1] for method in ("__str__", "__repr__") if method in vars(kind)}
    if not own:
        return None
    try:
        return str(value)[:TEXT_LIMIT]
    except Exception:
        return None


# --- Commands


class Replies:
    """Writes replies; only the thread of the event loop does."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, reply: dict[str, Any]) -> None:
        """Write a reply; one that is too long is an error of its question."""
        line = json.dumps(reply).encode() + b"\n"
        if len(line) > REPLY_LIMIT:
            raise ValueError(f"it has {len(line)} bytes, more than {REPLY_LIMIT}")
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:  # nobody reads: the parent has ended
            end_with_parent()


def end_with_parent() -> NoReturn:
    """End this process and its children at once."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


class Server:
    """Does what the commands say."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._closed = asyncio.Event()
        self._code: Any = None
        self._names: list[str] = []

    async def serve(self, commands: int) -> None:
        """Read commands until one closes the code."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            with open(commands, encoding="utf-8") as lines:
                for line in lines:
                    loop.call_soon_threadsafe(self._do, json.loads(line))
            end_with_parent()

        threading.Thread(target=read, name="rag-eval-commands", daemon=True).start()
        await self._closed.wait()

    def _do(self, command: dict[str, Any]) -> None:
        if "open" in command:
            self._open(command["open"])
        elif "ask" in command:
            number = command["ask"]
            self._tasks[number] = asyncio.ensure_future(self._ask(number, command["question"]))
            self._tasks[number].add_done_callback(lambda _: self._tasks.pop(number, None))
        elif "give_up" in command:
            if command["give_up"] in self._tasks:
                self._tasks[command["give_up"]].cancel()
            self._replies.send({"given_up": command["give_up"]})
        elif "close" in command:
            self._closing = asyncio.ensure_future(self._close())

    def _open(self, opening: dict[str, Any]) -> None:
        user_code, streams = _sibling("user_code"), _sibling("user_streams")
        self._user_code = user_code
        self._names = opening["names"]
        settings = user_code.CodeSettings(**opening["settings"])
        try:
            loaded = user_code.load_code(settings)
        except user_code.CodeError as error:
            refused = {"code": error.code, "field": error.field, "expected": error.expected, "hint": error.hint}
            self._replies.send({"refused": {**refused, "found": error.found}})
            return
        self._code = user_code.UserCode(loaded, settings, lambda value: streams.find_streams(value, opening["answers"]))
        self._replies.send({"opened": self._code.facts._asdict()})

    async def _ask(self, number: int, question: list[Any]) -> None:
        try:
            outcome = await self._code.ask(self._user_code.Question(*question))
        except asyncio.CancelledError:  # given up, or raised by the code: then somebody waits for the reply
            outcome = self._user_code.Outcome(code="python_error", error="CancelledError")
        try:
            value = Encoder(self._names).encode(outcome.value)
            self._replies.send({"answered": number, "outcome": [value, *outcome[1:]]})
        except Exception as error:  # an attribute of any object may raise anything
            text = f"expected an answer, reading what the callable returned raised {self._user_code.one_line(error)}"
            self._replies.send({"answered": number, "outcome": [None, "bad_response", text, None, outcome.latency_ms]})

    async def _close(self) -> None:
        if self._code is not None:
            await self._code.close()
        self._closed.set()


def _sibling(name: str) -> Any:
    """Return a module beside this one, under a name that no other module has."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"_rag_eval_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def _serve(commands: int, replies: Replies) -> None:
    await Server(replies).serve(commands)


def main() -> None:
    """Say hello, then serve."""
    commands, descriptor = int(sys.argv[1]), int(sys.argv[2])
    del sys.argv[1:]
    for pipe in (commands, descriptor):
        os.set_inheritable(pipe, False)
    replies = Replies(descriptor)
    replies.send({"hello": list(sys.version_info[:3])})
    if sys.version_info >= OLDEST:
        asyncio.run(_serve(commands, replies))


if __name__ == "__main__":
    main()
