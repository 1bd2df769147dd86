"""What a workspace has, what to type next, and what a terminal is shown beside results."""

import io
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer

from rag_eval_pipeline.cli.output import painted, print_next, progress_bars
from rag_eval_pipeline.evaluation.evaluation_folders import pair_pointer
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.monitoring.comparison import compare_runs
from rag_eval_pipeline.monitoring.status import verdict_text
from rag_eval_pipeline.monitoring.verdict_records import Comparison, Verdict
from rag_eval_pipeline.storage.lock import locked
from tests.monitoring.made_runs import made_run
from tests.verdict_examples import DROP, FIRST, replace

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"
SERVED = (
    "kind: http\nsettings: {endpoint: {base_url: 'http://127.0.0.1:9'}, path: /, body: {q: '{question}'}, answer: a}\n"
)


def states(records, *names):
    return {"/".join(record[name] for name in names): record["state"] for record in records}


def test_list_and_status_show_the_state_of_everything_and_the_next_command(rag_eval, workspace):
    new = workspace.sources / "new"
    new.mkdir()
    (new / "benchmark.yaml").write_text("name: new\nversion: 1.0.0\nsource: q.csv\nquestions: {question: q}\n")
    (workspace.sources / "wrong").mkdir()
    (workspace.sources / "wrong" / "benchmark.yaml").write_text("name: wrong\n")
    (workspace.benchmark(OBSERVATORY).source / "added.txt").write_text("changes the source")
    workspace.system_file("embedded-weak").write_text("kind: embedded\nenabled: false\n")
    workspace.system_file("served").write_text(SERVED)
    workspace.system_file("typo").write_text("kind: htpp\n")

    listed = json.loads(rag_eval("list", "--json")[1])
    found = json.loads(rag_eval("status", "--json")[1])
    _, out, error = rag_eval("status")

    benchmarks = {OBSERVATORY: "stale", "new": "not converted", RAILWAY: "converted", "wrong": "invalid"}
    systems = {"embedded": "nightly", "embedded-weak": "disabled", "served": "not nightly", "typo": "invalid"}
    assert states(listed["benchmarks"], "name") == states(found["benchmarks"], "name") == benchmarks
    assert states(listed["systems"], "name") == states(found["systems"], "name") == systems
    assert states(found["pairs"], "benchmark", "system") == {
        f"{RAILWAY}/embedded": "not evaluated",
        f"{RAILWAY}/served": "not evaluated",
    }
    assert re.search(rf"{RAILWAY} +converted +40 questions, \d+ documents", out)
    assert (
        "served         not nightly    kind http  (set `nightly: true` in data/config/systems/served.config.yaml" in out
    )
    assert error.splitlines()[-1] == f"Next: rag-eval convert {OBSERVATORY}"
    assert found["next"][:2] == [f"rag-eval convert {OBSERVATORY}", "rag-eval convert new"]


def test_status_names_no_report_where_nothing_was_evaluated(rag_eval, workspace):
    workspace.system_file("embedded").write_text("kind: [")
    workspace.system_file("embedded-weak").unlink()

    error = rag_eval("status")[2]

    assert "embedded.config.yaml" in error
    assert "Next:" not in error


def test_status_follows_a_pair_from_its_evaluation_to_its_verdict(rag_eval, workspace):
    def pair():
        records = json.loads(rag_eval("status", "--json")[1])["pairs"]
        [found] = [one for one in records if (one["benchmark"], one["system"]) == (OBSERVATORY, "embedded")]
        return found["state"], found["verdict"]

    with locked(pair_pointer(workspace, OBSERVATORY, "embedded").with_suffix(".lock"), holder="a test", exclusive=True):
        assert pair() == ("running", None)
    rag_eval("evaluate", OBSERVATORY, "--system", "embedded")
    assert pair() == ("evaluated", "not in the report yet")
    rag_eval("report")
    assert pair() == ("evaluated", "its evaluations are the baseline")
    rag_eval("evaluate", OBSERVATORY, "--system", "embedded")
    rag_eval("report")
    assert pair() == ("evaluated", "no change found")
    workspace.system_file("embedded").write_text("kind: embedded\nsettings: {k: 3}\n")
    assert pair()[0] == "outdated"
    workspace.system_file("embedded").write_text("kind: [")
    assert pair()[0] == "blocked"
    workspace.system_file("embedded").write_text("kind: embedded\n")
    (workspace.benchmark(OBSERVATORY).source / "new.txt").touch()
    assert pair()[0] == "blocked"


def against_baseline(verdicts, **fields):
    return Comparison(kind="baseline", benchmark="b", old="baseline", new="s", verdicts=verdicts, **fields)


def row(*runs, **fields):
    found = compare_runs("evaluations", runs[-1], runs[:-1], old="baseline", new="s") if runs else None
    return found or against_baseline({}, **fields)


def fell(confirmation):
    found = FIRST if confirmation == "pending" else DROP
    return against_baseline({"EM": Verdict.of(found, confirmation=confirmation)}, evaluation_id="new")


def partly_withheld():
    failing = Verdict.of(
        replace(DROP, n_missing=25, p_if_missing=0.2, estimate_if_missing=-0.02), confirmation="confirmed"
    )
    steady = Verdict.of(replace(FIRST, estimate=0.0, p_value=1.0, p_corrected=1.0))
    assert (failing.kind, steady.kind) == ("withheld", "inconclusive")
    return against_baseline({"EM": failing, "failures": steady}, evaluation_id="new")


STEADY = [made_run(name) for name in ("old", "new")]
VERDICTS = {
    "none":         (None,                               "not in the report yet"),
    "of another":   (row(made_run("a"), made_run("b")),  "not in the report yet"),
    "no baseline":  (row(reason="no_baseline", newest=("new",)), "no baseline yet, and no comparable earlier evaluation"),
    "older reason": (row(reason="no_baseline", newest=("old",)), "not in the report yet"),
    "not alike":    (row(reason="different_dataset", newest=("new",)), "different_dataset"),
    "equal":        (row(*STEADY),                       "no change found"),
    "withheld":     (partly_withheld(),                  "no verdict on 1 of 2 metrics: 25 questions without a score could overturn it: unchanged at "
                                                         "best, they leave −2.0 points, p = 0.2"),
    "fell":         (fell("pending"),                    "regressed: EM −6.0 points (awaits its rerun)"),
    "fell twice":   (fell("confirmed"),                  "regressed: EM −6.0 points (confirmed by a rerun)"),
}  # fmt: skip


@pytest.mark.parametrize(("row", "text"), VERDICTS.values(), ids=VERDICTS)
def test_status_says_the_verdict_in_a_few_words(row, text):
    rows = {} if row is None else {("b", "s"): row}

    assert verdict_text(rows, ("b", "s"), "new") == text


@pytest.mark.parametrize("command", ["leaderboard", "history"])
def test_commands_on_results_say_that_there_are_none(command, rag_eval):
    code, out, error = rag_eval(command)

    assert (code, out) == (0, "")
    assert error.splitlines() == ["rag-eval: no published evaluations found", "Next: rag-eval status"]
    assert json.loads(rag_eval(command, "--json")[1]) == []


def test_each_command_ends_with_the_next_one_and_json_never_does(rag_eval, workspace, tmp_path):
    source = tmp_path / "quiz.jsonl"
    source.write_text('{"question": "one", "answer": "1"}\n')
    workspace.system_file("mine").write_text("kind: python\nsettings: {callable: 'mine:answer', path: [.]}\n")
    (workspace.config / "systems" / "mine.py").write_text("def answer(question): return '1'\n")
    steps = [
        (("init", "quiz", "--from", str(source)), "Next: rag-eval plan quiz"),
        (("plan", "quiz"), "Next: rag-eval convert quiz"),
        (("convert", "quiz"), "Next: rag-eval evaluate quiz --system embedded"),
        (("evaluate", "quiz", "--system", "mine", "--dry-run"), "Next: rag-eval evaluate quiz --system mine"),
        (
            ("evaluate", "quiz", "--system", "mine"),
            "rag-eval: mine is not nightly: set `nightly: true` in data/config/systems/mine.config.yaml",
        ),
        (("report",), "Next: rag-eval up"),
        (("pin", "quiz", "mine"), "Next: rag-eval up"),
    ]

    for typed, last in steps:
        code, _, error = rag_eval(*typed)

        assert (code, error.splitlines()[-1]) == (0, last)
    assert "quiz x mine: 1 question, 0 failed (eval_run_" in rag_eval("evaluate", "quiz", "--system", "mine")[1]
    for typed, _ in steps[1:]:
        _, out, error = rag_eval(*typed, "--json")
        assert json.loads(out)
        assert "Next:" not in error
        assert "not nightly" not in error


def test_report_is_not_opened_where_there_is_no_browser(rag_eval, workspace, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")

    code, out, error = rag_eval("report", "--open")

    assert (code, out) == (0, f"{workspace.reports / 'index.html'}\n")
    assert error == "rag-eval: no browser could be opened here; open the file above in one\nNext: rag-eval up\n"


def test_version_is_that_of_the_package(rag_eval):
    assert rag_eval("--version")[:2] == (0, f"{version('rag-eval-pipeline')}\n")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("plan sk", [RAILWAY]), ("evaluate x --system emb", ["embedded", "embedded-weak"])],
)
def test_names_are_completed(typed, completed, workspace):
    words = f"rag-eval {typed}"
    asked = {"_RAG_EVAL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    program = "import sys; sys.argv = ['rag-eval']; from rag_eval_pipeline.cli import main; main()"

    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | asked, cwd=workspace.root, capture_output=True, text=True
    )

    assert done.stdout.split() == completed


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "no_color", "shown"),
    [(Terminal(), None, typer.style("fell", fg="red")), (Terminal(), "1", "fell"), (io.StringIO(), None, "fell")],
    ids=["terminal", "NO_COLOR", "file"],
)
def test_colour_is_for_terminals_without_no_color(stream, no_color, shown, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)

    assert painted("fell", "red", stream) == shown


def test_next_command_is_not_printed_beside_json(capsys):
    print_next(True, "rag-eval up")

    assert capsys.readouterr().err == ""


def test_evaluation_names_its_phases_and_counts_what_is_asked_and_judged(workspace):
    phases, counts = [], {}

    def begin(phase):
        phases.append(phase)
        return lambda done, total: counts.update({phase: (done, total)})

    evaluate(workspace, load_pair(workspace, OBSERVATORY, "embedded"), begin)

    assert list(dict.fromkeys(phases)) == ["asking", "scoring", "judging", "publishing"]
    assert counts == {"asking": (16, 16), "judging": (16, 16)}


def test_progress_shows_one_phase_and_no_full_bar(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")

    with progress_bars("b x s:") as begin:
        begin("asking")(8, 16)
        update = begin("judging")
        update(15, 16)
        update(16, 16)

    shown = stream.getvalue()
    assert "/?" not in shown
    assert "b x s: judging" in shown
    assert "100%" not in shown
