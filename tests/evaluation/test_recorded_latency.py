"""A latency that a recording does not have is published as not measured, never as no time at all."""

import json
from pathlib import Path

import pytest
import yaml

from rag_eval_pipeline import cli
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.report.site import write_report
from rag_eval_pipeline.reporting.leaderboard import write_leaderboard

RAILWAY = "skarn-railway"


@pytest.fixture
def evaluated(workspace, monkeypatch, capsys):
    """Results of recorded answers that took what a function says, by the question's number."""

    def run(latency_of):
        queries = load_pair(workspace, RAILWAY, "embedded").queries
        rows = [{"id": query.query_id, "answer": "x"} | latency_of(number) for number, query in enumerate(queries)]
        folder = workspace.config / "systems"
        (folder / "recorded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "recorded.config.yaml").write_text(
            yaml.safe_dump({"kind": "replay", "settings": {"path": "recorded.jsonl"}})
        )
        monkeypatch.chdir(workspace.root)
        monkeypatch.setattr("sys.argv", ["rag-eval", "evaluate", RAILWAY, "--system", "recorded", "--json"])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        assert not exit_.value.code
        return EvaluationResults.read(Path(json.loads(capsys.readouterr().out)[0]["results"]))

    return run


def test_no_recorded_latency_is_no_figure(evaluated, workspace):
    results = evaluated(lambda number: {})

    measured = results.performance_metrics
    assert set(measured.latency_stats.values()) == {None}
    assert set(measured.latency_intervals.values()) == {None}
    assert measured.latency_reason == "no_latencies"
    assert results.summary.average_latency_ms is None
    assert {row.latency_ms for row in results.query_results} == {None}

    (shown,) = write_leaderboard(workspace).records()
    latency = shown["metrics"]["latency_p50_ms"]
    assert (latency["value"], latency["n"], latency["reason"]) == (None, 0, "no_latencies")
    assert (write_report(workspace).parent / "runs" / results.evaluation_id / "index.html").exists()


def test_recorded_latencies_count_without_those_that_were_not_recorded(evaluated):
    results = evaluated(lambda number: {"latency_ms": 10.0} if number % 2 else {})

    assert results.performance_metrics.latency_stats["min"] == 10.0
    assert results.performance_metrics.latency_reason is None
    assert results.summary.average_latency_ms == 10.0
