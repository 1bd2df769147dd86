"""`rag-eval system probe` shows how replies are read, and changes nothing; `evaluate` names paths that find nothing."""

import json

import pytest
import yaml

from rag_eval_pipeline import cli
from tests.json_server import json_server

RAILWAY = "skarn-railway"


@pytest.fixture
def rag_eval(workspace, monkeypatch, capsys):
    """Runs a command on the system `mine`; returns exit code, standard output, standard error."""

    def run(system, *arguments):
        (workspace.config / "systems" / "mine.config.yaml").write_text(yaml.safe_dump(system))
        monkeypatch.chdir(workspace.root)
        monkeypatch.setattr("sys.argv", ["rag-eval", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        return exit_.value.code or 0, captured.out, captured.err

    return run


def http(url, **settings):
    body = {"q": "{question}"}
    return {"kind": "http", "settings": {"endpoint": {"base_url": url}, "body": body, "answer": "text", **settings}}


REPLY = {
    "text": "In 1888 [line-opening.pdf:1:588-713].",
    "hits": [
        {"page_content": "The concession", "metadata": {"source": "in/line-opening.pdf", "page": 0, "author": "A"}},
        {"page_content": "A tunnel", "metadata": {"source": "kb/Tunnel"}},
    ],
    "usage": {"in": 7, "out": 3},
    "trace": {"id": "t1"},
}


def test_probe_shows_what_was_parsed_and_writes_nothing(rag_eval, workspace):
    with json_server(lambda *_: REPLY) as server:
        system = http(server.url, contexts={"path": "hits"}, prompt_tokens="usage.in")
        rag_eval(system, "doctor", "--only", "disk")
        before = {path: path.stat().st_mtime_ns for path in workspace.root.rglob("*") if path.is_file()}

        code, out, err = rag_eval(
            system, "system", "probe", "mine", "--benchmark", RAILWAY, "--json", "--questions", "2"
        )

        after = {path: path.stat().st_mtime_ns for path in workspace.root.rglob("*") if path.is_file()}
    found = json.loads(out)
    first = found["questions"][0]
    changed = {path.name for path in after.keys() | before.keys() if after.get(path) != before.get(path)}
    assert changed == {"mine.config.yaml"}
    assert (code, found["benchmark"], found["answered"], len(found["questions"])) == (0, RAILWAY, 2, 2)
    assert (first["answer"], first["status"], first["usage"]["total_tokens"]) == (REPLY["text"], "ok", 7)
    assert [(one["document"], one["is_known"], one["page"]) for one in first["passages"]] == [
        ("line-opening.pdf", True, 1),
        ("kb/Tunnel", False, None),
    ]
    assert [(one["file_name"], one["is_known"]) for one in first["citations"]] == [("line-opening.pdf", True)]
    assert first["keys_left_unread"] == ["hits[].metadata.author", "usage.out", "trace"]
    assert found["warnings"] == [
        "2 of 4 retrieved passages name a document of the corpus, so retrieval is not scored [unknown_documents]. "
        "Returned: 'kb/Tunnel'; the corpus has 'Hestkroken_Tunnel.pdf'. Check contexts.document; ids and titles are "
        "mapped to files by contexts.names."
    ]
    assert err == f"rag-eval: {found['warnings'][0]}\n"


def test_probe_prints_lines_for_people(rag_eval):
    with json_server(lambda *_: REPLY) as server:
        system = http(server.url, contexts={"path": "hits"})
        code, out, _ = rag_eval(system, "system", "probe", "mine", "--benchmark", RAILWAY, "--questions", "1")

    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "0  When was the concession for the Skarn Valley Railway granted?"
    assert lines[1].startswith("  ok, ")
    assert lines[2:] == [
        "  answer: In 1888 [line-opening.pdf:1:588-713].",
        "  passages: 2, 1 of known documents, 1 with a page",
        "    1. line-opening.pdf, page 1: The concession",
        "    2. kb/Tunnel (not in the corpus): A tunnel",
        "  citations: 1, 1 of known documents",
        "    line-opening.pdf, page 1, characters 588 to 713",
        "  keys left unread: hits[].metadata.author, usage, trace",
    ]


def test_probe_of_a_callable_names_the_keys_of_its_pipeline(rag_eval, workspace):
    (workspace.config / "systems" / "rag_of_mine.py").write_text(
        "def ask(question):\n"
        "    return {'llm': {'replies': ['They do.'], 'seed': 7}, 'retriever': {'documents': [], 'scores': [1]}}\n"
    )
    system = {"kind": "python", "settings": {"callable": "rag_of_mine:ask", "path": ["."]}}

    code, out, _ = rag_eval(system, "system", "probe", "mine", "--json")

    (first, *_) = json.loads(out)["questions"]
    assert (code, first["answer"], first["keys_left_unread"]) == (0, "They do.", ["llm.seed", "retriever.scores"])


def test_probe_of_a_chat_server_does_not_list_what_the_protocol_has(rag_eval):
    message = {"role": "assistant", "content": "18", "context": {"citations": [{"title": "x"}]}}
    reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "usage": {"prompt_tokens": 3}}
    reply |= {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    with json_server(lambda *_: reply) as server:
        settings = {"endpoint": {"base_url": f"{server.url}/v1"}, "chat": {"model": "m"}, "stream": False}
        code, out, _ = rag_eval({"kind": "openai", "settings": settings}, "system", "probe", "mine", "--json")

    assert code == 0
    assert json.loads(out)["questions"][0]["keys_left_unread"] == ["choices[].message.context"]


def test_probe_of_an_nvidia_server_lists_only_what_its_interface_does_not_have(rag_eval):
    passage = {"document_name": "line-opening.pdf", "document_id": "", "metadata": {"height": 0}, "confidence": 0.5}
    message = {"role": "assistant", "content": "In 1888.", "reasoning_content": None}
    choice = {"index": 0, "message": message, "delta": message, "finish_reason": "stop"}
    event = {"id": "1", "choices": [choice], "citations": {"total_results": 1, "results": [passage]}, "usage": {}}
    with json_server(lambda path, body: event if path == "/v1/generate" else {}) as server:
        settings = {"rag": {"base_url": server.url}, "page_base": 1}
        code, out, _ = rag_eval({"kind": "nvidia", "settings": settings}, "system", "probe", "mine", "--json")

    [first, *_] = json.loads(out)["questions"]
    assert (code, first["status"], first["keys_left_unread"]) == (0, "ok", ["citations.results[].confidence"])


def test_probe_exits_4_when_nothing_was_answered(rag_eval):
    with json_server(lambda *_: {"text": ""}) as server:
        code, out, _ = rag_eval(http(server.url), "system", "probe", "mine", "--questions", "1")

    assert code == 4
    assert "error: the answer is empty" in out


def test_evaluate_names_paths_that_found_nothing_also_of_a_run_before(rag_eval):
    with json_server(lambda *_: REPLY) as server:
        system = http(server.url, contexts={"path": "sources"})
        stopped, *_ = rag_eval({**system, "budget": {"requests": 30}}, "evaluate", RAILWAY, "--system", "mine")
        code, out, err = rag_eval(system, "evaluate", RAILWAY, "--system", "mine", "--json")

    found = (
        "contexts.path 'sources' found nothing in any of {} replies. Keys that were there: text, "
        "hits[].page_content, hits[].metadata.source, hits[].metadata.page, hits[].metadata.author, usage.in, "
        "usage.out, trace.id."
    )
    none = "None of 40 answers states retrieved passages, so retrieval is not scored [no_contexts]."
    same = (
        "40 of 40 answers are the same text: 'In 1888 [line-opening.pdf:1:588-713].'. If the system declines with it, "
        "name it in the setting `abstention`; else check where the answer is read from: rag-eval system probe."
    )
    lines = [found.format(30), found.format(10), none, same]
    assert (stopped, code) == (4, 0)
    assert json.loads(out)[0]["warnings"] == lines
    assert err == "".join(f"rag-eval: {line}\n" for line in lines)
