"""What is known of a system is kept with each evaluation, and what changed between two is named, each by its name."""

import shutil
import subprocess
from datetime import timedelta

import pytest
import yaml

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.system_state import known_changes
from tests.evaluation.conftest import NIGHT, OBSERVATORY, change_defaults
from tests.json_server import json_server
from tests.judges.judge_server import Completion, honest, judge_server

LONG = "Answer from the passages, in one sentence, and cite each of them. " * 8
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")


def commit(root):
    for command in (("init", "-q"), ("add", "README.md"), ("commit", "-q", "--allow-empty", "-m", "x")):
        (root / "README.md").touch()
        subprocess.run([*GIT, *command], cwd=root, check=True)


def rewrite(name, text):
    return lambda reply, systems: (systems / name).write_text(text)


def state(**values):
    return lambda reply, systems: reply.update(values)


CASES = {
    # where the version is read         what changes                              what is said
    "reply":       ({"reply": "build.id"},            state(build={"id": "b2"}),            "version a1 → b2"),
    "number":      ({"reply": "build.number"},        state(build={"number": 8}),           "version 7 → 8"),
    "header":      ({"header": "Content-Type"},       state(media="application/json; b=2"), "version application/json → application/json; b=2"),
    "command":     ({"command": ["cat", "b.txt"]},    rewrite("b.txt", "c9\nmore"),         "version c8 → c9"),
    "file":        ({"file": "b.txt"},                rewrite("b.txt", "c9"),               "version 7ed6a8377b92 → 95144b44f2a5"),
    "model":       (None,                            state(model="x-11"),                  "model x-08 → x-11"),
    "fingerprint": (None,                            state(system_fingerprint="fp_2"),     "system_fingerprint fp_1 → fp_2"),
    "commit":      (None,                            lambda reply, systems: commit(systems.parents[2]), "workspace commit "),
    "nothing":     ({"reply": "build.id"},            state(),                              "Unchanged since 21 November: version, model, system_fingerprint."),
}  # fmt: skip


@pytest.fixture
def asked(workspace):
    """Asks a server whose replies a test changes; returns the records of the evaluations, newest first."""
    systems = workspace.config / "systems"

    def ask_twice(version, change, **more):
        (systems / "b.txt").write_text("c8")
        reply = {"text": "4", "model": "x-08", "system_fingerprint": "fp_1", "build": {"id": "a1", "number": 7}}

        def answer(*_):
            return (
                200,
                {name: value for name, value in reply.items() if name != "media"},
                reply.get("media", "application/json"),
            )

        with json_server(answer) as server:
            body = {"question": "{question}"}
            settings = {"endpoint": {"base_url": server.url}, "body": body, "answer": "text", "model": "model"}
            file = {"kind": "http", "version_from": version, "settings": settings, **more}
            (systems / "mine.config.yaml").write_text(yaml.safe_dump(file))
            records = []
            for night in (NIGHT, NIGHT + timedelta(days=1)):
                report = ask(workspace, load_pair(workspace, OBSERVATORY, "mine", limit=1), now=night, which="all")
                records.append(load_evaluation(workspace, report.evaluation_id).record)
                load_evaluation(workspace, report.evaluation_id).save(state="published")
                change(reply, systems)
        return records

    return ask_twice


def test_what_changed_between_two_nights_is_named(asked, workspace):
    commit(workspace.root)
    for what, (version, change, said) in CASES.items():
        before, now = asked(version, change)

        assert said in known_changes(before, now), what
        assert before.fingerprints == now.fingerprints, what  # they are compared all the same
        assert (known_changes(before, now).count("→"), before.warnings) == (what != "nothing", ()), what


SETTINGS = {
    # kind, what the file says before   and after                                      what is said
    "prompt":        ("http",   {"body": {"q": "{question}", "prompt": LONG + "."}}, {"body": {"q": "{question}", "prompt": LONG + "!"}}, "settings.body.prompt Answer from the passages… ("),
    "top_k":         ("http",   {"body": {"q": "{question}", "k": {"top": 8}}}, {"body": {"q": "{question}", "k": {"top": 5}}}, "settings.body.k.top 8 → 5;"),
    "new in a body": ("http",   {"body": {"q": "{question}"}}, {"body": {"q": "{question}", "mmr": True}}, "settings.body.mmr none → true;"),
    "params":        ("http",   {"params": {"n": "3"}},        {"params": {"n": "4"}},                "settings.params.n 3 → 4;"),
    "headers":       ("http",   {"headers": {"X-Route": "a"}}, {"headers": {"X-Route": "b"}},         "settings.headers.X-Route a → b;"),
    "path":          ("http",   {"path": "v1"},                {"path": "v2"},                        "/v2;"),
    "stated":        ("http",   {"configuration": {"retrieval_k": 5}}, {"configuration": {"retrieval_k": 9}}, "retrieval_k 5 → 9;"),
    "own prompt":    ("openai", {},                            {"system_prompt": "Be brief."},        "settings.system_prompt none → Be brief.;"),
    "temperature":   ("openai", {"temperature": 0.0},          {"temperature": 0.7},                  "temperature 0.0 → 0.7;"),
    "extra_body":    ("openai", {"extra_body": {"k": 1}},      {"extra_body": {"k": 2}},              "settings.chat.extra_body.k 1 → 2;"),
    "retrieval":     ("openai", {"retrieval": {"k": 8}},       {"retrieval": {"k": 5}},               "retrieval_k 8 → 5;"),
    "longer ones":   ("openai", {"retrieval": {}},             {"retrieval": {"passage_words": 60}},  "passage_words 120 → 60;"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "old", "new", "said"), SETTINGS.values(), ids=SETTINGS)
def test_changed_settings_are_named(kind, old, new, said, workspace):
    message = {"index": 0, "message": {"role": "assistant", "content": "4"}, "finish_reason": "stop"}
    records = []
    with json_server(lambda *_: {"text": "4", "model": "m", "choices": [message]}) as server:
        for night, changed in ((NIGHT, old), (NIGHT + timedelta(days=1), new)):
            chat = {name: value for name, value in changed.items() if name in ("temperature", "extra_body")}
            settings = {name: value for name, value in changed.items() if name not in chat}
            kinds = {
                "http": {"body": {"q": "{question}"}, "answer": "text"},
                "openai": {"chat": {"model": "m", **chat}, "stream": False},
            }
            settings = {"endpoint": {"base_url": server.url}, **kinds[kind], **settings}
            workspace.system_file("mine").write_text(yaml.safe_dump({"kind": kind, "settings": settings}))
            report = ask(workspace, load_pair(workspace, OBSERVATORY, "mine", limit=1), now=night, which="all")
            records.append(load_evaluation(workspace, report.evaluation_id).record)
    sentence = known_changes(*records)
    assert (sentence.count("→"), said in sentence) == (1, True), sentence


def test_changed_judge_is_named(workspace):
    """A judge's model and fingerprint are those of its replies; another fingerprint of the same model is named too."""
    records, judge = [], {}
    with judge_server(lambda body: Completion(honest(body), **judge)) as server:
        settings = {"endpoint": {"base_url": server.url}, "chat": {"model": "m"}}
        change_defaults(workspace, judge={"kind": "openai", "settings": settings})
        for model, fingerprint in (("x-08", "fp_1"), ("x-11", "fp_2"), ("x-11", "fp_2")):
            judge |= {"model": model, "system_fingerprint": fingerprint}
            shutil.rmtree(workspace.judge_cache, ignore_errors=True)
            _, published = evaluate(workspace, load_pair(workspace, OBSERVATORY, "embedded", limit=1), which="all")
            records.append(load_evaluation(workspace, published.evaluation_id).record)
    assert "judge model x-08 → x-11, judge system_fingerprint fp_1 → fp_2;" in known_changes(*records[:2])
    assert known_changes(*records[1:]).startswith("Unchanged")


def test_version_that_cannot_be_read_is_a_warning(asked):
    for version, warning in (
        ({"reply": "build.name"}, "version_from: no reply has a text at 'build.name'"),
        ({"header": "X-Build"}, "version_from: no reply has the header X-Build"),
        ({"file": "none.txt"}, "version_from: there is no file none.txt"),
        ({"command": ["false"]}, "version_from: false printed nothing, or failed (exit 1): "),
    ):
        assert warning in asked(version, state())[0].warnings


def test_version_that_is_not_understood_is_refused(asked):
    python = {"kind": "python", "settings": {"callable": "a:b"}}
    for version, more, expected in (
        ({}, {}, "one of reply, header, command and file"),
        ({"reply": "a", "file": "b"}, {}, "one of reply, header, command and file"),
        ({"reply": "a["}, {}, "a JMESPath expression"),
        ({"reply": "a"}, {"deterministic": True}, "no version_from of a system that is deterministic"),
        ({"header": "a"}, python, "version_from.header of a system of kind http"),
    ):
        with pytest.raises(InputError, match=expected):
            asked(version, state(), **more)
