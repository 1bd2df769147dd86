"""The history as tables: a row a figure and a row a score; a results file that has changed is named and still shown."""

import json

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.reporting.history import read_history
from rag_eval_pipeline.reporting.history_lines import history_rows
from rag_eval_pipeline.reporting.history_table import query_history, update_history
from rag_eval_pipeline.workspace import Workspace

OBSERVATORY = "cairnmoor-observatory"


@pytest.fixture
def evaluated(workspace):
    _, published = evaluate(workspace, load_pair(workspace, OBSERVATORY, "embedded"))
    assert update_history(workspace) == []
    return workspace, published.evaluation_id


def test_figures_and_scores_are_rows(evaluated):
    workspace, name = evaluated
    results = EvaluationResults.read(results_path(workspace, name))

    [figure] = query_history(workspace, "SELECT * FROM results WHERE metric = 'f1'")
    counted = query_history(workspace, "SELECT count(DISTINCT query_id) AS n FROM questions WHERE metric = 'f1'")
    scores = query_history(workspace, "SELECT query_id, value FROM questions WHERE metric = 'f1'")

    f1 = results.answer_quality_metrics.f1
    assert (figure["evaluation_id"], figure["value"], figure["n_scored"]) == (name, f1.value, 16)
    assert (figure["low"], figure["high"]) == f1.confidence_interval
    assert counted == [{"n": 16}]
    assert {row["query_id"]: row["value"] for row in scores} == {
        row.query_id: row.individual_metrics["f1"] for row in results.query_results
    }


def test_no_history_is_an_empty_table(tmp_path):
    assert query_history(Workspace(tmp_path), "SELECT count(*) AS n FROM results, questions") == [{"n": 0}]


def test_a_bad_query_is_one_line(tmp_path):
    with pytest.raises(InputError) as caught:
        query_history(Workspace(tmp_path), "SELECT nothing FROM nowhere")

    assert caught.value.code == "bad_query"


def test_a_flipped_digit_is_named_and_the_file_is_shown_as_it_stands(evaluated):
    workspace, name = evaluated
    path = results_path(workspace, name)
    path.write_bytes(path.read_bytes().replace(b'"total_queries": 16', b'"total_queries": 17'))

    history = read_history(workspace)
    rows, damaged = history_rows(workspace)

    assert [header.summary["total_queries"] for header in history.newest()] == [17]
    assert [line.partition(":")[0] for line in history.damaged] == [str(path)]
    assert "[changed_result]" in history.damaged[0]
    assert (len(rows), damaged) == (1, history.damaged)
    update_history(workspace)
    assert read_history(workspace).damaged == history.damaged  # it is not sealed as it is now


def test_every_cut_of_a_file_is_named(evaluated):
    workspace, name = evaluated
    path = results_path(workspace, name)
    whole = path.read_bytes()
    for size in range(0, len(whole), len(whole) // 20):
        path.write_bytes(whole[:size])
        assert len(read_history(workspace).damaged) == 1


def test_results_that_were_published_again_are_sealed_anew(evaluated):
    workspace, name = evaluated
    path = results_path(workspace, name)
    results = json.loads(path.read_text())
    results["timestamp"] = "2099-01-01T00:00:00Z"
    path.write_text(json.dumps(results))

    assert read_history(workspace).damaged == []
    assert update_history(workspace) == []
    states = json.loads((workspace.results.parent / "history" / "seals" / f"{name}.json").read_text())["states"]
    assert len(states) == 2


def test_weekly_and_ab_files_are_in_no_pairs_history(evaluated):
    workspace, _ = evaluated
    for name in ("benchmark_weekly_20260914", "ab_test_a_vs_b_001"):
        (workspace.results / f"{name}.results.json").write_text("{}")

    assert read_history(workspace).damaged == []
