"""Whole evaluations over HTTP against a server that fails now and then: nothing is asked twice, nothing is lost."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest
import yaml

from examples.mock_server.process import mock_rag_server
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, load_evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.storage import read_responses
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.storage.journal import read_journal

RAILWAY = "skarn-railway"  # 40 questions
NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
KILL_AFTER = """
import os, signal, sys
from pathlib import Path
from rag_eval_pipeline.evaluation.pair import load_pair
from datetime import UTC, datetime
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.workspace import Workspace

root = Workspace(Path(sys.argv[1]))
die = lambda done, total: os.kill(os.getpid(), signal.SIGKILL) if done == int(sys.argv[3]) else None
ask(root, load_pair(root, sys.argv[2], "served"), now=datetime.now(UTC), progress=die)
"""


@pytest.fixture
def server():
    with mock_rag_server(faults=0.1, seed=3) as running:
        yield running


def blueprint(server):
    return {
        "kind": "nvidia",
        "settings": {
            "rag": {"base_url": server.rag, "backoff_seconds": 0.01},
            "ingestor": {"base_url": server.ingestor, "backoff_seconds": 0.01},
            "upload": {"poll_seconds": 0.05},
        },
        "evaluation": {"concurrency": 4},
    }


def chat(server):
    return {
        "kind": "openai",
        "settings": {
            "endpoint": {"base_url": server.openai, "backoff_seconds": 0.01},
            "chat": {"model": "mock"},
            "retrieval": {"k": 5},
        },
        "evaluation": {"concurrency": 4},
    }


def write_system(workspace, settings):
    workspace.system_file("served").write_text(yaml.safe_dump(settings))


def said(evaluation):
    """What does not depend on the clock."""
    return [
        (a.query_id, a.status, a.answer, a.abstained, a.contexts, a.citations)
        for a in read_responses(evaluation.responses)
    ]


def torn(data):
    """Cut a journal in the middle of its 13th line, as a power cut may leave it."""
    lines = data.split(b"\n")
    return b"\n".join(lines[:12]) + b"\n" + lines[12][: len(lines[12]) // 2]


def test_killed_evaluation_is_resumed_and_ends_as_an_undisturbed_one(server, workspace):
    write_system(workspace, blueprint(server))
    command = [sys.executable, "-c", KILL_AFTER, str(workspace.root), RAILWAY, "17"]
    killed = subprocess.run(command, check=False, env=os.environ)
    assert killed.returncode == -signal.SIGKILL
    first = newest_evaluation(workspace, RAILWAY, "served")
    written = len(list(read_journal(first.journal)))
    first.journal.write_bytes(torn(first.journal.read_bytes()))
    kept = list(read_journal(first.journal))

    answered, resumed = evaluate(workspace, load_pair(workspace, RAILWAY, "served"))
    counts = server.counts()
    _, undisturbed = evaluate(workspace, load_pair(workspace, RAILWAY, "served"))

    assert (written, len(kept)) == (17, 12)
    assert (answered.evaluation_id, answered.resumed) == (first.record.evaluation_id, 12)
    assert (answered.asked, answered.failed) == (28, 0)
    journal = list(read_journal(first.journal))
    assert (journal[:12], len({line["query_id"] for line in journal}), len(journal)) == (kept, 40, 40)
    # At most what was lost, and what was in flight when the process died, is asked once more.
    asked = counts["answered_by_question"]["generate"]
    assert len(asked) == 40
    assert sum(times - 1 for times in asked.values()) <= 5 + 4
    assert counts["faults"]
    one, other = (load_evaluation(workspace, published.evaluation_id) for published in (resumed, undisturbed))
    assert said(one) == said(other)
    for kind in SCORE_FILES:
        assert one.scores(kind).read_bytes() != b""
    mine, theirs = (EvaluationResults.read(published.path) for published in (resumed, undisturbed))
    for part in ("retrieval_metrics", "citation_metrics", "answer_quality_metrics", "judge_metrics"):
        assert getattr(mine, part) == getattr(theirs, part)


def test_blueprint_answers_from_the_pdfs_that_it_was_sent_as_the_built_in_system_does(server, workspace):
    write_system(workspace, blueprint(server))

    evaluate(workspace, load_pair(workspace, RAILWAY, "served"))
    evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))

    served, built_in = (newest_evaluation(workspace, RAILWAY, name) for name in ("served", "embedded"))
    answers = [[answer.answer for answer in read_responses(e.responses)] for e in (served, built_in)]
    assert answers[0] == answers[1]
    assert served.record.configuration["server"]
    assert served.record.fingerprints.server is not None


@pytest.mark.fault(49)
def test_ledger_counts_every_request_that_the_server_saw(server, workspace):
    write_system(workspace, chat(server))

    _, published = evaluate(workspace, load_pair(workspace, RAILWAY, "served"))

    seen = server.counts(by_question=False)["paths"]["POST /openai/v1/chat/completions"]
    usage = EvaluationResults.read(published.path).performance_metrics.api_usage
    assert usage["total_requests"] == seen > 40
    assert usage["total_tokens"] > 0


def test_judge_over_http_is_asked_once_and_answers_from_its_cache_afterwards(workspace):
    with mock_rag_server() as server:
        defaults = yaml.safe_load(workspace.defaults_config.read_text())
        judge = {
            "kind": "openai",
            "settings": {"endpoint": {"base_url": server.openai}, "chat": {"model": "mock-judge"}},
        }
        workspace.defaults_config.write_text(yaml.safe_dump(defaults | {"judge": judge}))
        results = []
        for _ in range(2):
            _, published = evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))
            results.append(EvaluationResults.read(published.path))

    first, second = (result.performance_metrics.judge_usage for result in results)
    assert (results[0].judge.kind, results[0].judge.failed, results[0].judge.models) == (
        "openai",
        0,
        ("mock-judge",),
    )
    assert first["requests"] >= 40
    assert second["cached"] / (second["cached"] + second["requests"]) > 0.8
    assert results[0].judge_metrics == results[1].judge_metrics


def test_server_that_is_down_is_one_line_and_is_asked_again_when_it_is_back(workspace):
    with mock_rag_server() as server:
        settings = chat(server)
        port = server.port
    settings["settings"]["endpoint"] |= {"max_retries": 0}
    write_system(workspace, settings)

    with pytest.raises(ServiceError) as error:
        ask(workspace, load_pair(workspace, RAILWAY, "served"), now=NIGHT)
    with mock_rag_server(port=port):
        report = ask(workspace, load_pair(workspace, RAILWAY, "served"), now=NIGHT)

    assert error.value.code == "no_answers"
    assert "\n" not in str(error.value)
    assert (report.asked, report.failed) == (40, 0)


@pytest.mark.fault(44)
def test_secret_stands_in_no_file_and_no_message(workspace, monkeypatch, caplog):
    secret = "canary-3f9a77c1e0d24b58"
    monkeypatch.setenv("SERVED_KEY", secret)
    with mock_rag_server(api_key="another-key-entirely") as server:
        settings = chat(server)
        settings["settings"]["endpoint"] |= {"api_key_env": "SERVED_KEY", "max_retries": 0}
        write_system(workspace, settings)

        with pytest.raises(ServiceError) as error:
            evaluate(workspace, load_pair(workspace, RAILWAY, "served"))

    assert secret not in str(error.value) + caplog.text
    written = [path for path in workspace.root.rglob("*") if path.is_file()]
    assert not [path for path in written if secret.encode() in path.read_bytes()]
