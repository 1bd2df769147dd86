"""Headlines say what came out in a few lines: verdicts by pair, the best system, the distance from the baseline."""

import json
import re

import pytest

from rag_eval_pipeline.monitoring.leaderboard import read_leaderboard
from rag_eval_pipeline.monitoring.regressions import write_comparisons
from rag_eval_pipeline.monitoring.summary_lines import comparisons_headline, leaderboard_headline, results_headline
from rag_eval_pipeline.site.baseline_runs import pair_baseline, tile_changes
from rag_eval_pipeline.site.data import read_report_data
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import publish_night, register


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Six nights of a system, whose sixth is much worse than the five that are its baseline."""
    workspace = Workspace(tmp_path_factory.mktemp("nights"))
    register(workspace, ["harbour"], ["asked"])
    for night, skill in enumerate([0.7] * 5 + [0.2]):
        publish_night(workspace, "harbour", "asked", night, questions=120, skill=skill, number=1)
    return workspace, write_comparisons(workspace)


def test_comparisons_headline_names_each_pair_once(nights):
    lines = comparisons_headline(nights[1].rows).splitlines()

    assert lines[:2] == ["**1 pair compared: 1 regressed**", "- asked on harbour regressed"]
    assert lines[2].startswith("    - Exact match ")
    assert lines[3].endswith("awaits its rerun")
    assert lines[4] == "    - and 1 further metric"


def test_comparisons_headline_claims_nothing_without_comparisons():
    assert comparisons_headline([]) == "**No pair was compared with its baseline** (0 pairs)."


def test_results_headline_has_the_distance_from_the_baseline(nights):
    workspace, _ = nights

    lines = results_headline(workspace, "eval_run_20261006_001").splitlines()

    assert lines[0].startswith("**asked on harbour**: 120 questions, ")
    assert re.fullmatch(r"- Exact match \*\*0\.\d{3}\*\*, −\d\d\.\d points, 95 % 0\.\d\d to 0\.\d\d", lines[1])
    assert lines[-1] == "Points are from its baseline; `regressions` has the verdict."
    assert results_headline(workspace, "eval_run_20261005_001").endswith("This evaluation is part of the baseline.")
    assert results_headline(workspace, "eval_run_gone") == "The results cannot be read."


def test_results_headline_and_tiles_have_no_distance_from_a_baseline_of_another_dataset(tmp_path):
    workspace = Workspace(tmp_path)
    register(workspace, ["harbour"], ["asked"])
    for night in range(5):
        publish_night(workspace, "harbour", "asked", night, questions=40, skill=0.7, number=1)
    write_comparisons(workspace)
    newest = publish_night(workspace, "harbour", "asked", 5, questions=40, skill=0.2, number=1)
    for path in (workspace.results / f"{newest}.results.json", workspace.runs / newest / "evaluation.json"):
        value = json.loads(path.read_text())
        value["fingerprints"]["dataset"] = "another"
        path.write_text(json.dumps(value))
    comparisons = write_comparisons(workspace)
    report = read_report_data(workspace, comparisons)

    headline = results_headline(workspace, newest)

    assert comparisons.rows[0].reason == "different_dataset"
    assert "points" not in headline
    assert headline.endswith(
        "Not compared: its baseline is of another dataset, corpus, judge or version of the metrics."
    )
    baseline = pair_baseline(report, ("harbour", "asked"))
    assert len(baseline.runs) == 5
    assert tile_changes(report, report.newest[0], baseline, ("exact_match", "latency_p50_ms")) == {}


def test_leaderboard_headline_names_the_best_system(nights):
    lines = leaderboard_headline(read_leaderboard(nights[0])).splitlines()

    assert lines[:2] == ["**Best systems**", "- harbour: asked"]
    assert re.fullmatch(r"    - Exact match \*\*0\.\d{3}\*\*", lines[2])


def test_leaderboard_headline_names_all_systems_that_are_equal(tmp_path):
    workspace = Workspace(tmp_path)
    register(workspace, ["harbour"], ["asked", "other", "worse"])
    for number, (system, mean) in enumerate({"asked": 0.7, "other": 0.7, "worse": 0.2}.items()):
        name = publish_night(workspace, "harbour", system, 0, questions=40, skill=0.5, number=number)
        path = workspace.results / f"{name}.results.json"
        value = json.loads(path.read_text())
        value["answer_quality_metrics"]["exact_match"]["value"] = mean
        path.write_text(json.dumps(value))

    assert "- harbour: asked, other" in leaderboard_headline(read_leaderboard(workspace)).splitlines()


def test_distances_and_trends_are_of_one_level_of_retrieval(tmp_path):
    workspace = Workspace(tmp_path)
    register(workspace, ["harbour"], ["asked"])
    names = [publish_night(workspace, "harbour", "asked", n, questions=40, skill=0.7, number=1) for n in range(6)]
    for name in names:
        path = workspace.results / f"{name}.results.json"
        value = json.loads(path.read_text())
        value["retrieval_metrics"]["hit@1"] |= {"value": 0.9, "reason": None}
        value["page_retrieval_metrics"]["hit@1"] |= {
            "value": 0.5 if name == names[-1] else 0.4,
            "reason": None,
            "n_scored": 27,
        }
        value["retrieval_level"] = "page" if name == names[-1] else "document"
        path.write_text(json.dumps(value))
    report = read_report_data(workspace, write_comparisons(workspace))
    header = report.newest[0]

    [tile] = tile_changes(report, header, pair_baseline(report, ("harbour", "asked")), ["hit@1"]).values()
    points = [point.value for point in report.points(("harbour", "asked"), "hit@1")]

    assert (tile.text, points) == ("+10.0", [0.4] * 5 + [0.5])
    assert "Hit@1 **0.500** (27 of 40), +10.0 points" in results_headline(workspace, names[-1])
