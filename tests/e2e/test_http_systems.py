"""Whole evaluations over HTTP against a server that fails now and then: nothing is lost, and every request is counted."""

import pytest
import yaml

from examples.mock_server.process import mock_rag_server
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.score_tables import read_responses
from rag_eval_pipeline.formats.results import EvaluationResults

RAILWAY = "skarn-railway"  # 40 questions


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


def test_blueprint_answers_from_the_pdfs_that_it_was_sent_as_the_built_in_system_does(server, evaluated):
    write_system(evaluated, blueprint(server))

    evaluate(evaluated, load_pair(evaluated, RAILWAY, "served"))

    served, built_in = (newest_evaluation(evaluated, RAILWAY, name) for name in ("served", "embedded"))
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
