"""What is known of a system is kept with each evaluation, and what changed between two is named, each by its name."""

import subprocess
from datetime import timedelta

import pytest
import yaml

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.known_state import known_changes
from rag_eval_pipeline.evaluation.pair import load_pair
from tests.evaluation.conftest import NIGHT, OBSERVATORY
from tests.json_server import json_server

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
                report = ask(workspace, load_pair(workspace, OBSERVATORY, "mine"), now=night, which="all")
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
