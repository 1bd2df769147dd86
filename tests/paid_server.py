"""A server on loopback that must not be asked twice: it counts its questions, as a system and as a judge."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from rag_eval_pipeline.workspace import Workspace
from tests.json_server import json_server


class PaidServer:
    """Answers `/ask`, and refuses every chat completion with status 400, as a judge whose key is wrong does."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: Counter[str] = Counter()
        self.judged = 0
        self.refused: set[int] = set()  # numbers of the different questions that get no answer, from 1
        self.before: dict[int, Callable[[], object]] = {}  # what is done before the answer to such a question, once

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path != "/ask":
            self.judged += 1
            return 400, {"error": {"message": "unknown model"}}
        self.asked[body["question"]] += 1
        self.before.pop(len(self.asked), lambda: None)()
        return 400 if len(self.asked) in self.refused else 200, {"answer": "It is 4."}


@contextmanager
def paid_server() -> Iterator[PaidServer]:
    """Serves until the block ends."""
    paid = PaidServer()
    with json_server(paid.answer) as server:
        paid.url = server.url
        yield paid


def set_system(workspace: Workspace, server: PaidServer, endpoint: dict[str, Any] | None = None, **more: Any) -> None:
    """Makes the server the system `paid`, which takes part in nights."""
    settings = {
        "endpoint": {"base_url": server.url, "in_flight": 1, **(endpoint or {})},
        "path": "/ask",
        "body": {"question": "{question}"},
        "answer": "answer",
    }
    file = {"kind": "http", "nightly": True, "settings": settings, **more}
    workspace.system_file("paid").write_text(yaml.safe_dump(file))


def set_judge(workspace: Workspace, server: PaidServer, **more: Any) -> None:
    """Makes the server the judge."""
    judge = {"kind": "openai", "settings": {"endpoint": {"base_url": server.url}, "chat": {"model": "m"}}, **more}
    path = workspace.defaults_config
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "judge": judge}))
