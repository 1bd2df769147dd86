"""The commands plan, convert, evaluate, power and trust say how large a drop can be found and what the runs' noise is."""

import json
from datetime import timedelta

import numpy as np
import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.metrics.run_labels import PairedRuns
from rag_eval_pipeline.monitoring.baselines import pin
from rag_eval_pipeline.monitoring.power import USUAL, power, power_of_questions
from rag_eval_pipeline.monitoring.trust import metric_trust
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import FIRST, publish_night, register

RAILWAY = "skarn-railway"


def rag_eval(workspace, *words):
    done = CliRunner().invoke(app, [*words, "--workspace", str(workspace.root)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_plan_convert_and_the_first_evaluate_print_what_is_found(workspace):
    # 8 of the 40 questions name no document and are groups of their own; an unnamed document is no group.
    finds = "40 questions in 20 groups that share a document detect a drop of 12.5 points in one night, or one of 7.5 "
    evaluate = ("evaluate", RAILWAY, "--system", "embedded")

    lines = [rag_eval(workspace, *words) for words in (("plan", RAILWAY), ("convert", RAILWAY), evaluate, evaluate)]

    assert [finds in line for line in lines] == [True, True, True, False]
    assert (
        "with 20 reference runs of which any two differ in 5 % of the answers. With 20 more: 10.0 points in one night."
        in lines[2]
    )
    assert " questions are too few for a verdict (30 are needed)." in rag_eval(
        workspace, "plan", "cairnmoor-observatory"
    )


def test_plan_and_convert_which_meet_the_groups_in_another_order_print_the_same_drops():
    sizes = [228, 106, 96, *[1] * 478]

    drops = {power(order, VerdictSettings(), [USUAL]).sentence(VerdictSettings()) for order in (sizes, sizes[::-1])}

    assert len(drops) == 1


def test_benchmark_of_few_documents_is_warned_about():
    two, three = (power(sizes, VerdictSettings()) for sizes in ([18, 18], [12, 12, 12]))
    # 8 metrics, four runs at 8.6e-5 / 8 = 2.1e-5: 126^-3 = 5.0e-7 is below, 126^-2 = 6.3e-5 is not.
    unknown, other, deterministic = (two.warning("b", is_deterministic=value) for value in (None, False, True))

    assert "5 pinned runs (unless the system is deterministic): 36 questions in 2 " in unknown
    assert "5 pinned runs: 36 questions in 2 groups that share a document, and 3 groups are" in other
    assert (deterministic, three.warning("b", is_deterministic=False)) == (None, None)


@pytest.mark.parametrize(
    ("shared", "by", "add"),
    [("tt", "conversation", "conversations"), ("dd", "document", "documents"),
     ("td", "document or conversation", "documents or conversations")],
)  # fmt: skip
def test_power_says_what_the_questions_share(shared, by, add):
    metadata = {"t": {"conversation": "1"}, "d": {}}
    queries = [
        EvaluationQuery(query_id=f"{n}", query_text="Q?", relevant_documents=("a.pdf",), metadata=metadata[kind])
        for n, kind in enumerate(20 * shared)
    ]

    found = power_of_questions(queries, VerdictSettings(), [USUAL])

    groups = {1: "1 group that shares", 2: "2 groups that share"}[len(set(shared))]
    assert f"{len(queries)} questions in {groups} a {by} detect" in found.sentence(VerdictSettings())
    assert found.warning("b").endswith(f" Add {add}.")


def test_power_without_runs_is_printed_by_assumption():
    found = power([1] * 200, VerdictSettings())

    assert [(row.flip_share, row.runs) for row in found.rows] == [
        (share, runs) for share in (0.02, 0.05, 0.1) for runs in (5, 20)
    ]
    nights = [row.night for row in found.rows]
    assert nights[0] < nights[2] < nights[4]
    assert nights[1] < nights[0]
    assert all(row.week < row.night and row.with_more < row.night for row in found.rows)
    assert next(found.lines()).startswith("200 questions, 8 metrics, 1 pair a night; drops that are detected")
    assert power([], VerdictSettings()).sentence(VerdictSettings()) == "No change can be detected without questions."


@pytest.fixture(scope="module")
def pinned(tmp_path_factory):
    workspace = Workspace(tmp_path_factory.mktemp("pinned"))
    register(workspace, ["b"], ["s"])
    ids = [publish_night(workspace, "b", "s", night, questions=100, skill=0.7, number=1) for night in range(6)]
    pin(workspace, "b", "s", ids, now=FIRST + timedelta(days=7))
    return workspace


def test_power_of_a_pair_is_that_of_its_reference_runs(pinned):
    found = json.loads(rag_eval(pinned, "power", "b", "--system", "s", "--json"))

    assert (found["questions"], found["pairs"], found["metrics"]) == (100, 1, 8)
    [exact] = [row for row in found["rows"] if row["metric"] == "exact_match"]
    # Each answer differs from that of other nights in 3 of 100 cases: 2 x 0.03 x 0.97 between two runs.
    assert exact["flip_share"] == pytest.approx(0.058, abs=0.02)
    assert exact["runs"] == 6
    assert 0.02 < exact["week"] < exact["night"] < 0.15
    [line] = [line for line in rag_eval(pinned, "power", "b", "--system", "s").splitlines() if "Exact match" in line]
    assert f"{100 * exact['night']:.1f} points" in line


def test_trust_tries_each_reference_run(pinned):
    found = json.loads(rag_eval(pinned, "trust", "b", "s", "--json"))

    assert (len(found["runs"]), found["flagged"], found["expected"]) == (6, [], pytest.approx(0.12))
    assert found["sentences"][0] == "Of 6 reference runs none would have been flagged; 0.1 are expected."
    [exact] = [one for one in found["metrics"] if one["metric"] == "exact_match"]
    assert len(exact["p_values"]) == 6
    assert not exact["is_shared_by_runs"]
    unsteadiness = [round(one["mean"] * (1 - one["mean"]), 9) for one in found["wavering"]]
    assert found["n_wavering"] >= len(unsteadiness) > 5
    assert unsteadiness == sorted(unsteadiness, reverse=True)
    lines = rag_eval(pinned, "trust", "b", "s").splitlines()
    assert lines[-1].endswith(f"{found['wavering'][-1]['question']}")


def test_noise_that_documents_and_whole_runs_share():
    # Two questions of one document that are right together, in a run or not: a correlation of 1. Runs differ by both
    # documents at once: (2 + 2)^2 / (2^2 + 2^2) = 2 times as much as if these were independent.
    together = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]] * 4)
    found = metric_trust("f1", PairedRuns(together[:-1], together[-1:], np.array([0, 0, 1, 1])), [])
    # Of 16 questions of their own that are right together, 16 times, which chance does not explain.
    whole = metric_trust("f1", PairedRuns(*np.split(np.repeat(together[:, :1], 16, axis=1), [7]), np.arange(16)), [])

    assert (found.document_correlation, found.run_factor, found.is_shared_by_runs) == (1.0, 2.0, False)
    assert (whole.document_correlation, whole.run_factor, whole.is_shared_by_runs) == (None, 16.0, True)
