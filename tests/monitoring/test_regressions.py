"""Comparisons have a verdict only if there is enough evidence, are made once, and survive damage."""

import csv
import json
import re
import shutil
from datetime import timedelta
from xml.etree import ElementTree

import pytest
import yaml

from rag_eval_pipeline import clock
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.monitoring.baselines import pin
from rag_eval_pipeline.monitoring.history import read_history
from rag_eval_pipeline.monitoring.leaderboard import Bar, bars, write_leaderboard
from rag_eval_pipeline.monitoring.night_records import Nights
from rag_eval_pipeline.monitoring.regressions import read_comparisons, write_comparisons
from rag_eval_pipeline.site.site import write_report
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import FIRST, publish_night, register

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"


def of_kind(comparisons, kind):
    return {(row.benchmark, row.old, row.new): row for row in comparisons.rows if row.kind == kind}


def newest(workspace, benchmark, system="embedded"):
    return read_history(workspace).nights[benchmark, system][-1].evaluation_id


def test_leaderboard_has_a_row_for_each_pair_with_its_newest_results(evaluated):
    """32 of the 40 questions have documents: retrieval is scored on those, answers on all."""
    _, published = evaluate(evaluated, load_pair(evaluated, RAILWAY, "embedded"))
    board = write_leaderboard(evaluated)

    records = json.loads(board.path.read_text())
    assert [(r["benchmark"], r["system"]) for r in records] == [
        (OBSERVATORY, "embedded"), (OBSERVATORY, "embedded-weak"), (RAILWAY, "embedded"), (RAILWAY, "embedded-weak"),
    ]  # fmt: skip
    assert records[2]["evaluation_id"] == published.evaluation_id
    assert records[2]["metrics"]["f1"]["value"] == published.headline["f1"]
    assert [records[2]["metrics"][name]["n"] for name in ("hit@1", "exact_match", "latency_p50_ms")] == [32, 40, 40]
    cells = board.cells()[2]
    assert (cells["questions"], cells["hit@1"], cells["exact_match"]) == (40, "1.000 (32 of 40)", "0.275")
    sheet = list(csv.DictReader(board.path.with_suffix(".csv").open()))
    assert (len(sheet), sheet[2]["hit@1_n"], sheet[2]["exact_match_n"]) == (4, "32", "40")


@pytest.mark.fault(67)
def test_bars_are_well_formed_and_show_what_has_no_value():
    svg = bars([Bar("s&t", 0.5, (0.4, 0.6)), Bar("u", None, None)], "F1 > 0")

    texts = [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["F1 > 0", "0", "0.25", "0.5", "0.75", "1", "s&t", "0.500", "u", "no value"]


def test_comparisons_give_forty_questions_a_verdict_and_sixteen_none(evaluated):
    """11 answers of 40 became wrong."""
    found = of_kind(write_comparisons(evaluated), "systems")

    small = found[OBSERVATORY, "embedded", "embedded-weak"]
    large = found[RAILWAY, "embedded", "embedded-weak"]
    assert {one.kind for one in small.verdicts.values()} == {"no_verdict"}
    assert large.regressed == ["exact_match"]
    assert "no_verdict" not in {one.kind for one in large.verdicts.values()}
    moves = {name: abs(one.estimate) for name, one in large.verdicts.items()}
    assert max(moves.values()) == moves["exact_match"] == 11 / 40
    assert large.verdicts["exact_match"].sentence.startswith("Exact match is 27.5 points lower")


LABEL = r'\w+="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(rf"(\w+)\{{({LABEL}(?:,{LABEL})*)\}} (-?[0-9.e+-]+)")


def test_newest_scores_and_verdicts_are_told_to_prometheus(evaluated):
    write_comparisons(evaluated)  # takes the first nights for the baselines
    evaluate(evaluated, load_pair(evaluated, RAILWAY, "embedded"))
    found = write_comparisons(evaluated)

    lines = (evaluated.reports / "metrics.prom").read_text().splitlines()
    samples = [match.groups() for line in lines if (match := SAMPLE.fullmatch(line))]
    families = {line.split()[2] for line in lines if line.startswith("# TYPE ") and line.endswith(" gauge")}
    assert len(lines) == len(samples) + 2 * len(families)
    assert families == {name for name, _, _ in samples}
    told = {(name, labels): float(value) for name, labels, value in samples}
    for header in found.history.newest():
        pair = f'benchmark="{header.benchmark}",system="{header.system}"'
        assert told["rag_eval_score", f'{pair},metric="f1"'] == header.metric("f1").value
        assert told["rag_eval_evaluated_timestamp_seconds", pair] == header.timestamp.timestamp()
    pair = f'benchmark="{RAILWAY}",system="embedded"'
    assert told["rag_eval_verdict", f'{pair},metric="exact_match",verdict="equivalent"'] == 1


def test_comparisons_take_a_deterministic_first_night_for_the_baseline_and_compare_the_next(evaluated):
    first = of_kind(write_comparisons(evaluated), "baseline")
    _, published = evaluate(evaluated, load_pair(evaluated, RAILWAY, "embedded"))
    second = of_kind(write_comparisons(evaluated), "baseline")

    assert {row.reason for row in first.values()} == {"is_baseline"}
    assert second[OBSERVATORY, "baseline", "embedded"].reason == "is_baseline"
    # The same answers of a deterministic system: nothing moved, and nothing is left to chance.
    verdicts = second[RAILWAY, "baseline", "embedded"].verdicts.values()
    assert {(one.kind, one.estimate) for one in verdicts} == {("equivalent", 0.0)}
    # Results name the file that has their verdict; the first evaluation had no baseline when it was published.
    runs = [header.evaluation_id for header in read_history(evaluated).by_pair[RAILWAY, "embedded"]]
    tests = [
        EvaluationResults.read(evaluated.results_file(name)).statistical_analysis.significance_tests["against_baseline"]
        for name in runs
    ]
    assert [one.reason for one in tests] == ["no_baseline", "in_verdict_file"]
    assert tests[0].verdicts == "data/reports/regressions.json"
    [night] = Nights.read(evaluated.root / tests[1].verdicts).nights
    assert night.evaluation_id == published.evaluation_id == runs[1]


def test_results_have_tests_against_the_pinned_runs(workspace):
    for system in ("embedded", "embedded-weak"):
        settings = yaml.safe_load(workspace.system_file(system).read_text()) | {"deterministic": False}
        workspace.system_file("embedded").write_text(yaml.safe_dump(settings))
        _, published = evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))
        if system == "embedded":
            pin(workspace, RAILWAY, "embedded", [published.evaluation_id], now=clock.now())

    found = EvaluationResults.read(workspace.results_file(published.evaluation_id))
    tests = found.statistical_analysis.significance_tests
    exact = tests["exact_match"]
    assert exact.current_mean == found.answer_quality_metrics.exact_match.value == 0
    assert (exact.baseline_mean, exact.significant) == (11 / 40, False)
    assert exact.p_value == 7 * 2**-7  # one reference run: 11 answers of 7 documents became wrong
    assert tests["against_baseline"].reason == "in_verdict_file"


def test_comparisons_of_the_same_runs_are_the_same_and_read_as_they_were_written(evaluated):
    first = write_comparisons(evaluated)
    before = first.path.read_bytes()

    assert write_comparisons(evaluated).rows == read_comparisons(evaluated).rows == first.rows
    assert read_comparisons(evaluated).nights == first.nights
    assert first.path.read_bytes() == before


def test_comparisons_of_a_night_and_its_rerun_are_of_the_night(tmp_path):
    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s"])
    ids = []
    for night, skill in enumerate([0.9] * 5 + [0.2] * 2):
        if night == 5:
            write_comparisons(workspace)
        ids.append(publish_night(workspace, "b", "s", night, questions=60, skill=skill, number=1))

    found = write_comparisons(workspace)

    [row] = found.rows
    assert (row.evaluation_id, row.rerun, row.newest) == (ids[5], ids[6], (ids[5],))
    assert [header.evaluation_id for header in found.history.newest()] == [ids[5]]
    assert read_comparisons(workspace).rows == found.rows


def test_comparisons_of_newer_evaluations_are_not_read_as_theirs(evaluated):
    assert {row.reason for row in read_comparisons(evaluated).rows} == {"not_compared_yet"}
    write_comparisons(evaluated)
    evaluate(evaluated, load_pair(evaluated, RAILWAY, "embedded"))

    found = {(row.kind, row.benchmark, row.new): row.reason for row in read_comparisons(evaluated).rows}

    newer = {key for key, reason in found.items() if reason == "not_compared_yet"}
    assert newer == {("baseline", RAILWAY, "embedded"), ("systems", RAILWAY, "embedded-weak")}


def test_comparisons_without_a_baseline_show_the_questions_that_moved_most(workspace):
    for system in ("embedded", "embedded-weak"):
        settings = yaml.safe_load(workspace.system_file(system).read_text()) | {"deterministic": False}
        workspace.system_file("embedded").write_text(yaml.safe_dump(settings))
        evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))

    [row] = of_kind(write_comparisons(workspace), "baseline").values()

    # Nothing is sure enough for a flag, and still the page has its questions: 11 answers that are wrong now.
    assert {found.confirmation for found in row.verdicts.values()} == {None}
    assert len(row.moved["exact_match"]) == 10
    assert {(one.before, one.after) for one in row.moved["exact_match"]} == {(1.0, 0.0)}
    assert "page/hit@1" not in row.moved  # nothing moved


def test_comparisons_include_a_night_that_came_before_the_baseline_was_pinned(tmp_path):
    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s"])
    ids = [
        publish_night(workspace, "b", "s", night, questions=60, skill=skill, number=1)
        for night, skill in enumerate((0.9, 0.9, 0.9, 0.9, 0.9, 0.4))
    ]
    pin(workspace, "b", "s", ids[:5], now=FIRST + timedelta(days=9))

    [row] = write_comparisons(workspace).rows

    assert (row.evaluation_id, row.reason) == (ids[5], None)
    assert row.regressed[:1] == ["exact_match"]


def test_comparisons_of_different_questions_have_a_reason_and_no_verdict(evaluated):
    evaluated.system_file("short").write_text("kind: embedded\nlimit: 5\n")
    evaluate(evaluated, load_pair(evaluated, RAILWAY, "short"))

    found = of_kind(write_comparisons(evaluated), "systems")

    reasons = {key[1:]: row.reason for key, row in found.items() if key[0] == RAILWAY}
    assert reasons == {
        ("embedded", "embedded-weak"): None,
        ("embedded", "short"): "different_questions",
        ("embedded-weak", "short"): "different_questions",
    }


@pytest.mark.fault(68)
def test_comparisons_of_damaged_evaluations_are_the_only_ones_lost(evaluated):
    scores = load_evaluation(evaluated, newest(evaluated, RAILWAY)).scores("answer_scores")
    scores.write_bytes(scores.read_bytes()[:100])
    shutil.rmtree(evaluated.runs / newest(evaluated, RAILWAY, "embedded-weak"))
    baseline = evaluated.baselines / OBSERVATORY / "embedded.json"
    baseline.parent.mkdir(parents=True)
    baseline.write_text('{"evaluations": []}')

    found = {(row.benchmark, row.kind, row.new): row.reason for row in write_comparisons(evaluated).rows}

    lost = {key for key, reason in found.items() if "[" in (reason or "")}
    assert lost == {
        (RAILWAY, "baseline", "embedded"), (RAILWAY, "baseline", "embedded-weak"), (RAILWAY, "systems", "embedded-weak"),
        (OBSERVATORY, "baseline", "embedded"),
    }  # fmt: skip
    assert found[OBSERVATORY, "systems", "embedded-weak"] is None


def test_report_is_written_without_a_part_of_a_results_file(evaluated):
    parts = {
        "embedded": {"query_results": [{"query_id": 7}]},
        "embedded-weak": {"answer_quality_metrics": {"abstention": {}}},
    }
    paths = [evaluated.results_file(newest(evaluated, OBSERVATORY, system)) for system in parts]
    for path, part in zip(paths, parts.values(), strict=True):
        path.write_text(json.dumps(json.loads(path.read_text()) | part))

    board, page = write_leaderboard(evaluated), write_report(evaluated).read_text()

    assert [note.partition(":")[0] for note in board.notes] == [str(path) for path in paths]
    assert all(str(path) in page for path in paths)
    assert RAILWAY in page
