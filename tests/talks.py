"""A benchmark of conversations with the settings that docs/how-to/conversations.md shows, and a server to ask."""

import re
from pathlib import Path
from typing import Any

import yaml

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.workspace import Workspace
from tests.json_server import JsonServer

PAGE = (Path(__file__).parent.parent / "docs" / "how-to" / "conversations.md").read_text()
MAPPED, SYSTEM, EVALUATION = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
TURNS = {"c1": 3, "c2": 4, "c3": 1, "": 2}  # questions of each conversation; the last two are of none
SPEC = {
    "name": "chats", "title": "Chats", "version": "1.0.0", "source": {"path": "chats.csv"}, **MAPPED,
    "tables": {"docs": {"path": "docs.csv"}}, "documents": "SELECT name, text FROM docs",
}  # fmt: skip


def make_talks(root: Path) -> Workspace:
    """Return a workspace with the benchmark, whose conversations alternate, turn by turn: `c1 1?`, `c2 1?`, ..."""
    workspace = Workspace(root)
    paths = workspace.benchmark("chats")
    paths.source.mkdir(parents=True)
    (paths.source / "docs.csv").write_text("name,text\ndock,Saltmere Dock was opened in 1874.\n")
    turns = sorted((not chat, turn, chat) for chat, last in TURNS.items() for turn in range(1, last + 1))
    rows = [f"{chat},{turn if chat else ''},{chat} {turn}?,gold {turn}\n" for _, turn, chat in turns]
    (paths.source / "chats.csv").write_text("chat_id,turn,question,answer\n" + "".join(rows))
    paths.spec.write_text(yaml.safe_dump(SPEC, sort_keys=False))
    convert(workspace, "chats")
    return workspace


def set_chat(workspace: Workspace, server: JsonServer, history: str = "own", **more: Any) -> None:
    """Make the server the system `chat`; `more` are evaluation settings."""
    endpoint = {"base_url": server.url, "in_flight": 4, "max_retries": 0}
    evaluation = {**EVALUATION["evaluation"], "history": history, "stop_after_failures": 3, **more}
    file = {**SYSTEM, "settings": {**SYSTEM["settings"], "endpoint": endpoint}, "evaluation": evaluation}
    workspace.system_file("chat").parent.mkdir(parents=True, exist_ok=True)
    workspace.system_file("chat").write_text(yaml.safe_dump(file))


def question_of(body: Any) -> str:
    """Return the question of what a server was sent: the last message."""
    return str(body["messages"][-1]["content"])


def answer_with_count(path: str, body: Any) -> Any:
    """Answer with the number of messages."""
    return {"answer": f"own {len(body['messages'])}"}
