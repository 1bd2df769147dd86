"""The CI files of `examples/ci`: their commands exist, and their scripts do what they promise in a real shell."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from playwright._impl._driver import compute_driver_executable
from typer.main import get_command

from rag_eval_pipeline import clock
from rag_eval_pipeline.cli import app
from rag_eval_pipeline.monitoring.baselines import pin
from tests.conftest import REPOSITORY
from tests.json_server import json_server

RAILWAY = "skarn-railway"
FOLDER = REPOSITORY / "examples" / "ci"
GITHUB = yaml.safe_load((FOLDER / "github-action.yml").read_text())
GITLAB = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text())
STEPS = {step.get("name", step.get("uses")): step for step in GITHUB["jobs"]["evaluate"]["steps"]}
GITHUB_SCRIPTS = [step["run"] for step in STEPS.values() if "run" in step]
GITLAB_SCRIPTS = [line for job in GITLAB.values() for part in ("before_script", "script") for line in job.get(part, ())]
COMMANDS = sorted(
    {
        found.strip()
        for text in (*GITHUB_SCRIPTS, *GITLAB_SCRIPTS)
        for found in re.findall(r"\brag-eval ([a-z]+ \"[^\n&|]+)", text)
    }
)
MARKER = f"<!-- rag-eval {RAILWAY} embedded -->"
# What GitHub's `github-script` gives to a script, with one comment of somebody else and perhaps an old one of ours.
SCRIPT_HOST = """
const calls = []
const note = (name) => async (values) => { calls.push([name, values]) }
const rest = { issues: { listComments: 'list', updateComment: note('update'), createComment: note('create') } }
const github = { rest, paginate: async () => JSON.parse(process.env.COMMENTS) }
const context = { repo: { owner: 'o', repo: 'r' }, issue: { number: 7 }, payload: { pull_request: { head: { sha: 'abc' } } } }
const run = new (Object.getPrototypeOf(async () => {}).constructor)('require', 'github', 'context', process.env.SCRIPT)
run(require, github, context).then(() => console.log(JSON.stringify(calls)))
"""


@pytest.fixture
def shell(evaluated, tmp_path):
    """Runs a script as a CI server does; returns its exit code, its output and the values that it set."""
    folder = tmp_path / "checkout"
    folder.mkdir()

    def run(script, **variables):
        set_by_step = tmp_path / "step-output"
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "RAG_EVAL_WORKSPACE": str(evaluated.root),
            "BENCHMARK": RAILWAY,
            "SYSTEM": "embedded",
            "GITHUB_OUTPUT": str(set_by_step),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            **variables,
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        values = set_by_step.read_text() if set_by_step.exists() else ""
        return done.returncode, done.stdout + done.stderr, values

    run.folder = folder
    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_the_ci_files_exists_with_these_options(command):
    words = shlex.split(command)
    group = get_command(app)

    group.get_command(None, words[0]).make_context(words[0], words[1:])  # raises a UsageError for what it does not take


def test_ci_files_convert_pin_and_run_the_gate():
    for scripts in (GITHUB_SCRIPTS, GITLAB_SCRIPTS):
        found = {command for text in scripts for command in re.findall(r"\brag-eval (\w+) \"", text)}
        assert found == {"convert", "gate", "pin"}


def test_gitlab_job_fails_on_a_regression_and_updates_its_note(shell, evaluated):
    pin(evaluated, RAILWAY, "embedded", now=clock.now())
    evaluated.system_file("embedded").write_text(evaluated.system_file("embedded-weak").read_text())
    sent = []

    def answer(path, body):
        sent.append((path, body))
        return [{"id": 1, "body": "Nice."}, {"id": 2, "body": f"{MARKER}\nold"}] if body is None else {"id": 2}

    with json_server(answer) as server:
        code, output, _ = shell(
            "\n".join(GITLAB["rag-evaluation"]["script"]),
            CI_API_V4_URL=f"{server.url}/api/v4",
            CI_PROJECT_ID="3",
            CI_MERGE_REQUEST_IID="7",
            CI_COMMIT_SHA="abc",
            COMMENT_TOKEN="t",
        )

    notes = "/api/v4/projects/3/merge_requests/7/notes"
    assert code == 3, output
    assert [path for path, _ in sent] == [f"{notes}?per_page=100&page=1", f"{notes}/2"]
    text = sent[1][1]["body"]
    assert text.startswith(f"{MARKER}\n### {RAILWAY}: embedded against baseline\n")
    assert "questions that were right in every reference run are wrong now" in text
    assert text.endswith("\nCommit abc")
    assert "<testsuite" in (shell.folder / "verdict.xml").read_text()


def test_github_step_says_why_there_is_no_verdict_and_fails(shell):
    code, output, values = shell(STEPS["Compare with the baseline"]["run"])

    assert (code, values) == (0, "code=2\n"), output
    assert "[no_baseline]" in (shell.folder / "verdict.md").read_text()
    last = STEPS["Fail on a regression (3) and on errors"]
    assert shell(last["run"], CODE="2")[0] == 2
    assert shell(last["run"], CODE="0")[0] == 0


COMMENTS = {
    "the first time": ([{"id": 1, "body": "Nice."}], "create", {"issue_number": 7}),
    "on the next push": (
        [{"id": 1, "body": "Nice."}, {"id": 2, "body": f"{MARKER}\nold"}],
        "update",
        {"comment_id": 2},
    ),
}


@pytest.mark.parametrize(("comments", "call", "place"), COMMENTS.values(), ids=COMMENTS)
def test_github_comment_is_written_once_and_then_updated(comments, call, place, shell):
    (shell.folder / "verdict.md").write_text("### A verdict\n")
    node, _ = compute_driver_executable()
    script = STEPS["Write the comment, or update it"]["with"]["script"]

    code, output, _ = shell(
        f"{shlex.quote(str(node))} -e {shlex.quote(SCRIPT_HOST)}", SCRIPT=script, COMMENTS=json.dumps(comments)
    )

    body = f"{MARKER}\n### A verdict\n\nCommit abc"
    assert (code, json.loads(output)) == (0, [[call, {"owner": "o", "repo": "r", **place, "body": body}]])
