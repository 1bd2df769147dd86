"""The report shows what is registered, escapes what is foreign, and gives a verdict only where one is due."""

import csv
import json
import shutil
from xml.etree import ElementTree

import pytest
import yaml

from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.report.site import render_report, write_report
from rag_eval_pipeline.reporting.comparison import compare_runs, run_of_evaluation
from rag_eval_pipeline.reporting.history import read_history
from rag_eval_pipeline.reporting.leaderboard import Bar, bars, write_leaderboard
from rag_eval_pipeline.reporting.nightly import Nights
from rag_eval_pipeline.reporting.regressions import read_comparisons, write_comparisons

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"


@pytest.fixture
def evaluated(workspace):
    """Both benchmarks evaluated with both systems."""
    for benchmark in (OBSERVATORY, RAILWAY):
        for system in ("embedded", "embedded-weak"):
            evaluate(workspace, load_pair(workspace, benchmark, system))
    return workspace


def test_a_line_a_pair_with_its_newest_results(evaluated):
    _, newest = evaluate(evaluated, load_pair(evaluated, RAILWAY, "embedded"))

    board = write_leaderboard(evaluated)

    records = json.loads(board.path.read_text())
    assert [(r["benchmark"], r["system"]) for r in records] == [
        (OBSERVATORY, "embedded"), (OBSERVATORY, "embedded-weak"), (RAILWAY, "embedded"), (RAILWAY, "embedded-weak"),
    ]  # fmt: skip
    assert records[2]["evaluation_id"] == newest.evaluation_id
    assert records[2]["metrics"]["f1"]["value"] == newest.headline["f1"]
    assert len(board.path.with_suffix(".csv").read_text().splitlines()) == 5


def test_what_is_gone_from_the_registry_is_gone_from_the_report(evaluated):
    evaluated.system_file("embedded-weak").unlink()

    board = write_leaderboard(evaluated)

    assert {row.system for row in board.rows} == {"embedded"}


def test_a_damaged_results_file_is_named_and_the_others_are_shown(evaluated):
    path = results_path(evaluated, read_history(evaluated).newest()[0].evaluation_id)
    path.write_text(path.read_text()[:500])

    board = write_leaderboard(evaluated)

    assert len(board.rows) == 3
    assert board.notes[0].startswith(str(path))
    assert str(path) in render_report(evaluated)


# 11 answers of 40 became wrong, those of 7 documents: enough for 40 questions, too few for 20 groups by document.
@pytest.mark.parametrize(("units", "worse"), [("questions", {"exact_match"}), ("documents", set())])
def test_forty_questions_get_a_verdict_and_sixteen_do_not(units, worse, evaluated):
    (evaluated.config / "verdicts.config.yaml").write_text(f"units: {units}\n")

    rows = {row.benchmark: row for row in write_comparisons(evaluated).rows if row.kind == "systems"}

    assert {found.kind for found in rows[OBSERVATORY].verdicts.values()} == {"no_verdict"}
    assert set(rows[RAILWAY].regressed) == worse
    assert "no_verdict" not in {found.kind for found in rows[RAILWAY].verdicts.values()}
    assert {found.evidence.is_exact for found in rows[RAILWAY].verdicts.values()} == {True}


def test_a_deterministic_systems_first_night_is_its_baseline_and_the_next_is_compared(evaluated):
    first = {(r.benchmark, r.new): r for r in write_comparisons(evaluated).rows if r.kind == "baseline"}
    evaluate(evaluated, load_pair(evaluated, RAILWAY, "embedded"))

    second = {(r.benchmark, r.new): r for r in write_comparisons(evaluated).rows if r.kind == "baseline"}

    assert {row.reason for row in first.values()} == {"is_baseline"}
    assert second[OBSERVATORY, "embedded"].reason == "is_baseline"
    # The same answers: nothing moved, and no interval of 40 questions is as narrow as two points.
    assert {found.kind for found in second[RAILWAY, "embedded"].verdicts.values()} == {"inconclusive"}
    assert {found.evidence.estimate for found in second[RAILWAY, "embedded"].verdicts.values()} == {0.0}


def test_what_was_compared_is_not_compared_again(evaluated):
    """The report shows what stands in `regressions.json`, to the letter, until a run, a setting or a rule changes."""
    first = write_comparisons(evaluated)
    text = first.path.read_text()
    first.path.write_text(text.replace("Exact match fell 27.5 points", "Exact match FELL 27.5 points"))

    again, [systems] = read_comparisons(evaluated), [r for r in first.rows if r.benchmark == RAILWAY and r.regressed]
    (evaluated.config / "verdicts.config.yaml").write_text("alpha: 0.021\n")
    changed = read_comparisons(evaluated)

    assert systems.verdicts["exact_match"].sentence.startswith("Exact match fell 27.5 points")
    sentences = [
        row.verdicts["exact_match"].sentence[:17]
        for found in (again, changed)
        for row in found.rows
        if (row.kind, row.benchmark) == ("systems", RAILWAY)
    ]
    assert sentences == ["Exact match FELL ", "Exact match fell "]


def test_a_comparison_is_the_same_when_it_is_read_again(evaluated):
    first = write_comparisons(evaluated)
    before = first.path.read_bytes()

    again = read_comparisons(evaluated)
    second = write_comparisons(evaluated)

    assert again.rows == second.rows == first.rows
    assert second.path.read_bytes() == before


def test_results_name_the_file_in_which_their_verdict_stands(evaluated):
    """The first evaluation has no baseline when it is published; the next one's verdict is in the file of nights."""
    write_comparisons(evaluated)
    _, published = evaluate(evaluated, load_pair(evaluated, RAILWAY, "embedded"))
    write_comparisons(evaluated)

    first, second = (
        EvaluationResults.read(results_path(evaluated, name)).statistical_analysis.significance_tests["against_baseline"]
        for name in (
            next(r for r in read_history(evaluated).by_pair[RAILWAY, "embedded"]).evaluation_id, published.evaluation_id
        )
    )  # fmt: skip

    assert (first.reason, first.verdicts) == ("no_baseline", "data/reports/regressions.json")
    assert second.reason == "in_verdict_file"
    [night] = Nights.read(evaluated.root / second.verdicts).nights
    assert night.evaluation_id == published.evaluation_id


def test_each_figure_of_the_leaderboard_has_its_own_n(evaluated):
    """32 of the 40 questions have documents: retrieval is of those, answers are of all."""
    board = write_leaderboard(evaluated)

    [cells] = [c for c in board.cells() if (c["benchmark"], c["system"]) == (RAILWAY, "embedded")]
    [record] = [r for r in board.records() if (r["benchmark"], r["system"]) == (RAILWAY, "embedded")]
    sheet = list(csv.DictReader(board.path.with_suffix(".csv").open()))
    [line] = [one for one in sheet if (one["benchmark"], one["system"]) == (RAILWAY, "embedded")]

    assert (cells["questions"], cells["hit@1"], cells["exact_match"]) == (40, "1.000/32", "0.275")
    assert [record["metrics"][name]["n"] for name in ("hit@1", "exact_match", "latency_p50_ms")] == [32, 40, 40]
    assert (line["hit@1_n"], line["exact_match_n"]) == ("32", "40")
    assert "n = 32" in render_report(evaluated)


def test_reading_comparisons_pins_nothing(evaluated):
    rows = [row for row in read_comparisons(evaluated).rows if row.kind == "baseline"]

    assert {row.reason for row in rows} == {"no_baseline"}
    assert not evaluated.baselines.exists()


def test_a_provisional_comparison_shows_the_questions_that_moved_most(workspace):
    for system in ("embedded", "embedded-weak"):
        settings = yaml.safe_load(workspace.system_file(system).read_text()) | {"deterministic": False}
        workspace.system_file("embedded").write_text(yaml.safe_dump(settings))
        evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))

    [row] = [row for row in read_comparisons(workspace).rows if row.kind == "baseline"]

    # Nothing is sure enough for a flag, and still the page has its questions: 11 answers that are wrong now.
    assert {found.confirmation for found in row.verdicts.values()} == {None}
    assert len(row.moved["exact_match"]) == 10
    assert {(one.before, one.after) for one in row.moved["exact_match"]} == {(1.0, 0.0)}
    assert "page/hit@1" not in row.moved  # nothing moved


def test_evaluations_of_different_datasets_are_not_compared(evaluated):
    ids = [header.evaluation_id for header in read_history(evaluated).newest()]
    old, new = (run_of_evaluation(load_evaluation(evaluated, name)) for name in (ids[0], ids[2]))

    assert compare_runs("evaluations", new, [old], old="a", new="b").reason == "different_dataset"


def test_equal_results_give_an_equal_report(evaluated):
    first = write_report(evaluated).read_bytes()

    assert write_report(evaluated).read_bytes() == first


def test_an_empty_workspace_has_an_empty_report(workspace):
    assert write_leaderboard(workspace).rows == []
    assert "0 evaluations of 0 benchmarks" in render_report(workspace)


def test_a_chart_is_well_formed_and_shows_what_has_no_value():
    svg = bars([Bar("a<b", "s&t", 0.5, (0.4, 0.6)), Bar("a<b", "u", None, None)], "F1 > 0")

    texts = [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["F1 > 0", "0", "0.25", "0.5", "0.75", "1", "a<b", "s&t", "0.500", "u", "no value"]


def test_systems_that_were_asked_different_questions_are_not_compared_and_the_report_stands(evaluated):
    evaluated.system_file("short").write_text("kind: embedded\nlimit: 5\n")
    evaluate(evaluated, load_pair(evaluated, RAILWAY, "short"))

    reasons = {
        (r.old, r.new): r.reason
        for r in write_comparisons(evaluated).rows
        if r.benchmark == RAILWAY and r.kind == "systems"
    }

    assert reasons == {
        ("embedded", "embedded-weak"): None,
        ("embedded", "short"): "different_questions",
        ("embedded-weak", "short"): "different_questions",
    }
    assert "different_questions" in render_report(evaluated)


def damaged_scores(workspace, evaluation):
    path = evaluation.scores("answer_scores")
    path.write_bytes(path.read_bytes()[:100])


def removed_run(workspace, evaluation):
    shutil.rmtree(evaluation.folder)


def empty_baseline(workspace, evaluation):
    path = workspace.baselines / RAILWAY / "embedded.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"evaluations": []}')


@pytest.mark.parametrize("damage", [damaged_scores, removed_run, empty_baseline])
def test_a_damaged_evaluation_costs_its_own_comparisons_only(damage, evaluated):
    newest = {(h.benchmark, h.system): h for h in read_history(evaluated).newest()}
    damage(evaluated, load_evaluation(evaluated, newest[RAILWAY, "embedded"].evaluation_id))

    rows = write_comparisons(evaluated).rows

    assert [r.reason for r in rows if r.benchmark == OBSERVATORY and r.kind == "systems"] == [None]
    assert any("[" in (r.reason or "") for r in rows if r.benchmark == RAILWAY)
    assert RAILWAY in render_report(evaluated)


@pytest.mark.parametrize("part", ["query_results", "answer_quality_metrics"])
def test_a_results_file_without_a_part_does_not_take_the_report_down(part, evaluated):
    path = results_path(evaluated, read_history(evaluated).newest()[0].evaluation_id)
    results = json.loads(path.read_text())
    results[part] = {"abstention": {}} if part == "answer_quality_metrics" else [{"query_id": 7}]
    path.write_text(json.dumps(results))

    assert OBSERVATORY in render_report(evaluated)
