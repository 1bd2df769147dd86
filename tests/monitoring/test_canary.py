"""A canary stops early both ways over real HTTP, leaves nothing behind, and lets a gate ask only the rest.

So does a bisection, which starts the versions of a service.
"""

import json
import re
import shlex
import socket
import subprocess
import sys
from collections import Counter
from typing import get_args

import pytest
import yaml

from rag_eval_pipeline import clock
from rag_eval_pipeline.cli import main
from rag_eval_pipeline.evaluation.compared_runs import COMPARED
from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation, published_evaluations
from rag_eval_pipeline.evaluation.evaluation_settings import ComparedName
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.metrics.early_stop import plan_looks
from rag_eval_pipeline.monitoring.baselines import pin
from rag_eval_pipeline.monitoring.canary import question_order, wrong_lines
from rag_eval_pipeline.systems.base import Query, failed_answer
from tests.conftest import REPOSITORY
from tests.evaluation.conftest import answered
from tests.json_server import json_server
from tests.monitoring.conftest import RAILWAY, RUNS
from tests.ports import free_port
from tests.talks import make_talks, question_of, set_chat


@pytest.fixture
def workspace(served):
    return served


def ids(workspace):
    return [one.record.evaluation_id for one in published_evaluations(workspace, RAILWAY, "own")]


CANARIES = {
    #                            wrong                                 word          code  asked at most
    "all is as it was":         (lambda number: False,                 "pass",       0,    30),
    "all questions are broken": (lambda number: True,                  "regression", 3,    8),
    "a third is broken":        (lambda number: number % 3 == 0,       "regression", 3,    24),
    "three are broken":         (lambda number: number in (5, 12, 21), "undecided",  0,    30),
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "word", "code", "most"), CANARIES.values(), ids=CANARIES)
def test_canary(wrong, word, code, most, service, workspace, rag_eval, tmp_path):
    before, newest = ids(workspace), newest_evaluation(workspace, RAILWAY, "own").record.evaluation_id
    service.is_wrong = wrong
    junit = tmp_path / "canary.xml"

    found, out, _ = rag_eval("evaluate", RAILWAY, "--system", "own", "--canary", "30", "--json", "--junit", str(junit))

    record = json.loads(out)
    assert (found, record["decision"]) == (code, word)
    assert record["asked"] == service.asked.total() <= most
    assert ("<failure" in junit.read_text()) == (code == 3)
    assert ids(workspace) == before
    assert newest_evaluation(workspace, RAILWAY, "own").record.evaluation_id == newest
    assert sorted(path.parent.name for path in workspace.runs.glob("*/evaluation.json")) == before


def test_canary_names_the_metrics_of_a_question_whose_answer_is_right(workspace):
    pair = load_pair(workspace, RAILWAY, "own").only(range(3))
    names = [query.query_id for query in pair.queries]
    answers = [
        answered(names[0], "as before"),
        answered(names[1], "else"),
        failed_answer(Query(names[2], "Q"), "error", code="http_500", error="HTTP 500", latency_ms=None),
    ]
    fallen = {names[0]: ["hit@1", "mrr"], names[1]: ["hit@1", "exact_match"], names[2]: ["hit@1"]}

    lines = wrong_lines(pair, answers, names, fallen)

    assert [line.partition("answered ")[2] for line in lines] == [
        '"as before"; lower: Hit@1, MRR',
        '"else"',
        '"HTTP 500"',
    ]


def test_canary_of_a_service_that_is_down_is_no_regression(service, workspace, rag_eval):
    service.status = 500
    code, _, err = rag_eval("evaluate", RAILWAY, "--system", "own", "--canary", "30")
    assert (code, "[no_answers]" in err) == (4, True)
    file = workspace.system_file("own")
    file.write_text(file.read_text() + "evaluation: {stop_after_failures: 5}\n")
    code, _, err = rag_eval("evaluate", RAILWAY, "--system", "own", "--canary", "30")
    assert (code, "[failing]. Of a canary no answer is kept." in err) == (4, True)
    assert len(list(workspace.runs.glob("*/evaluation.json"))) == RUNS


def test_gate_asks_the_rest_once_and_compares(service, workspace, rag_eval, tmp_path, monkeypatch):
    service.is_wrong = lambda number: number in (5, 12, 21) or number > 30
    later = ids(workspace)[-1]

    code, out, err = rag_eval("gate", RAILWAY, "own", "--markdown", str(tmp_path / "gate.md"))

    assert set(service.asked.values()) == {1}
    assert len(service.asked) == 40
    assert code == 3, out + err
    assert out.startswith("REGRESSED")
    assert "| Exact match |" in (tmp_path / "gate.md").read_text()
    assert ids(workspace)[-1] > later


def test_gate_passes_after_the_canary_and_warns_of_an_old_reference(
    service, workspace, rag_eval, tmp_path, monkeypatch
):
    monkeypatch.setenv(clock.NOW_VARIABLE, "2031-01-01T00:00:00Z")
    files = {name: tmp_path / f"gate.{name}" for name in ("junit", "markdown")}

    code, out, err = rag_eval("gate", RAILWAY, "own", *(str(x) for name, f in files.items() for x in (f"--{name}", f)))

    assert (code, service.asked.total()) == (0, 24)
    assert out.startswith("PASS  ")
    assert "older than 30 days; pin another: rag-eval pin" in err
    assert "no drop of 15 points or more" in files["markdown"].read_text()
    assert 'failures="0"' in files["junit"].read_text()


def test_gate_shows_an_advisory_metric_that_fell_and_passes(service, workspace, rag_eval):
    path = workspace.system_file("own")
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"evaluation": {"critical_metrics": ["hit@5"]}}))
    service.is_wrong = lambda number: True

    code, out, err = rag_eval("gate", RAILWAY, "own")

    assert code == 0, out + err
    assert "Advisory: −" in out


def test_gate_asks_whole_conversations_with_the_systems_own_history(tmp_path, monkeypatch, capsys):
    talks, worse = make_talks(tmp_path / "talks"), []

    def gate(*options):
        monkeypatch.setattr("sys.argv", ["rag-eval", "gate", "chats", "chat", *options])
        with pytest.raises(SystemExit) as exit_:
            main()
        return exit_.value.code, *capsys.readouterr()

    def answer(path, body):
        turn = question_of(body).split()[-1][:-1]
        return {"answer": worse[0] if worse else f"gold {turn}"}

    monkeypatch.chdir(talks.root)
    talks.config.mkdir(parents=True, exist_ok=True)
    (talks.config / "verdicts.config.yaml").write_text("min_questions: 5\n")
    with json_server(answer) as server:
        set_chat(talks, server, "own")
        for _ in range(3):  # enough for 5 groups that all fall: 4^-5 x 3 metrics is below 0.01
            evaluate(talks, load_pair(talks, "chats", "chat"), which="all")
        pin(talks, "chats", "chat", now=clock.now())
        code, _, err = gate()
        assert (code, "rag-eval gate --canary 0" in err) == (2, True)
        server.bodies.clear()
        assert gate("--canary", "0")[0] == 0
        assert Counter(map(question_of, server.bodies)).most_common()[0][1] == 1
        longest = max(server.bodies, key=lambda body: len(body["messages"]))  # the last may be another conversation's
        assert [one["content"] for one in longest["messages"]][1::2] == ["gold 1", "gold 2", "gold 3"]
        worse.append("no")
        code, out, _ = gate("--canary", "0")

    assert (code, out.startswith("REGRESSED  ")) == (3, True), out
    assert len(server.bodies) == 20
    assert len(published_evaluations(talks, "chats", "chat")) == 3 + 2


def test_critical_metrics_are_the_compared_ones():
    assert set(get_args(ComparedName)) == {name for names in COMPARED.values() for name in names}


def test_limits_are_those_of_the_binomial_distribution():
    # One look at 30 questions: P(4 or more of 30 at 0.01) = 0.00022, P(3 or more) = 0.0033; 0.85^30 = 0.0076 and
    # P(1 or less at 0.15) = 0.048, P(2 or less) = 0.151.
    [look] = plan_looks(30, 64, 0.01)
    assert look == (30, 1, 4)
    assert [look.decide(count) for count in (1, 2, 3, 4)] == ["pass", "undecided", "undecided", "regression"]


def test_order_of_questions_takes_one_of_each_segment_in_turn():
    names = [f"q{number}" for number in range(9)]
    groups = {("section", "a"): names[:6], ("section", "b"): names[6:8]}
    order = question_order(range(9), names, groups)
    assert sorted(order) == list(range(9))
    assert [{0: "a", 1: "b", 2: "-"}[place // 6 + place // 8] for place in order[:5]] == ["a", "b", "-", "a", "b"]


# --- bisect: versions of a service that the command starts, one after the other

SERVE = """
import json, sys, zlib
from collections import Counter
sys.path.insert(0, {repository!r})
from tests.json_server import JsonServer

number, gold, asked = int(sys.argv[1][1:]), json.load(open("gold.json")), Counter()
if number == 4:
    print("no such build")
    sys.exit(3)

def answer(path, body):
    if body is None:
        return 404, {{}}
    question = body["question"]
    asked[question] += 1
    text = gold.get(question, "not known")
    is_broken = number >= 6 and zlib.crc32(question.encode()) % {one_in} == 0
    if is_broken or zlib.crc32(f"{{number}} {{asked[question]}} {{question}}".encode()) % 100 == 0:
        text = {worse}
    return {{"answer": text, "model": "x-11" if number >= 6 else "x-08"}}

JsonServer(answer, {port}).serve_forever()
"""
FAULTS = {
    # what a broken answer is           one in  critical  what is asked
    "a third is wrong":            ('"else"',              3, [],     "fail twice"),
    "answers have a word too many": ('gold[question] + " too" if question in gold else text', 1, ["f1"], "worse in all questions"),
}  # fmt: skip


@pytest.fixture
def versions(service, workspace, monkeypatch):
    """Writes eight versions of the service, the sixth of which is the first bad one and the fourth does not start."""

    def write(worse, one_in, critical):
        folder, port = workspace.root / "service", free_port()
        folder.mkdir()
        monkeypatch.chdir(folder)
        (folder / "gold.json").write_text(json.dumps(service.gold))
        values = {"repository": str(REPOSITORY), "port": port, "worse": worse, "one_in": one_in}
        (folder / "serve.py").write_text(SERVE.format(**values))
        (folder / "versions.txt").write_text("".join(f"v{number}\n" for number in range(9)))
        path = workspace.system_file("own")
        file = yaml.safe_load(path.read_text()) | {"evaluation": {"critical_metrics": critical}}
        file["settings"] |= {"model": "model"}
        file["settings"]["endpoint"]["base_url"] = f"http://127.0.0.1:{port}"
        path.write_text(yaml.safe_dump(file))
        return port

    return write


@pytest.mark.parametrize(("worse", "one_in", "critical", "how"), FAULTS.values(), ids=FAULTS)
def test_bisect_finds_the_first_bad_version(worse, one_in, critical, how, versions, workspace, rag_eval):
    """The command is that of docs/how-to/bisect.md."""
    port, before = versions(worse, one_in, critical), ids(workspace)
    page = (REPOSITORY / "docs/how-to/bisect.md").read_text()
    command = re.search(r"^\$ rag-eval (bisect .*)", page, re.MULTILINE).group(1)
    words = shlex.split(command.replace("handbook my-rag", f"{RAILWAY} own").replace("python3", sys.executable))

    code, out, err = rag_eval(*words)

    assert code == 0, out + err
    assert out.startswith("v6 is the first bad version; v5 is the last good one. Known to have changed between them: ")
    assert ": model x-08 → x-11. " in out
    assert how in err
    assert "v4: skipped, the command ended with exit code 3: no such build [not_started]" in err.replace("\x1b[0m", "")
    assert sorted(path.parent.name for path in workspace.runs.glob("*/evaluation.json")) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


MISTAKES = {
    "good is bad":        (["--good", "v7", "--bad", "v8"], 2, "--good v7: expected a version that answers as"),
    "bad is good":        (["--good", "v1", "--bad", "v3"], 2, "--bad v3: expected a version that is worse"),
    "bad does not start": (["--good", "v1", "--bad", "v4"], 4, "exit code 3: no such build [not_started]"),
    "no version":         (["--good", "v1", "--bad", "v8", "--command", "true"], 2, "a command with {version}"),
    "newest first":       (["--good", "v1", "--bad", "v8", "--versions", "v8,v6,v3,v1"], 2, "after v1 and before v8, oldest first"),
    "newest first, without the good one": (["--good", "v1", "--bad", "v8", "--versions", "v8,v6,v3"], 2, "before v8, oldest first"),
    "more than a file's name holds": (["--good", "v8", "--bad", "v1", "--versions", ",".join(["v1", *["v9" * 9] * 20])], 2, "oldest first"),
    "no such file":       (["--good", "v1", "--bad", "v8", "--versions", "mistyped.txt"], 2, "a file that is there"),
    "no repository":      (["--good", "v1", "--bad", "v8", "--versions", ""], 2, "or a Git repository"),
}  # fmt: skip


def test_bisect_says_what_is_wrong_with_its_ends(versions, rag_eval):
    versions('"else"', 3, [])
    words = [
        "bisect",
        RAILWAY,
        "own",
        "--versions",
        "versions.txt",
        "--command",
        f"{sys.executable} serve.py {{version}}",
    ]
    for options, code, said in MISTAKES.values():
        found, _, err = rag_eval(*words, *options)
        assert (found, said in err) == (code, True), err


def test_bisect_takes_the_commits_between(versions, rag_eval):
    versions('"else"', 3, [])
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (["init", "-q"], *(["commit", "-q", "--allow-empty", "-m", "x"] for _ in range(4))):
        subprocess.run([*git, *words], check=True)
    options = ("--good", "HEAD~3", "--bad", "HEAD", "--command", "exit 3 # {version}")
    code, _, err = rag_eval("bisect", RAILWAY, "own", *options)
    assert (code, "rag-eval: 4 versions" in err) == (4, True), err
