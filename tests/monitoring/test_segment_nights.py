"""A section that falls while all questions together show nothing is run again, alerts, and is over after three nights."""

from rag_eval_pipeline.metrics.verdict_rules import Budget
from rag_eval_pipeline.monitoring.comparison_files import comparison_lines
from rag_eval_pipeline.monitoring.incidents import courses, incident_of
from rag_eval_pipeline.monitoring.night_records import Night
from rag_eval_pipeline.monitoring.nightly import alerts_due
from rag_eval_pipeline.monitoring.verdict_records import Comparison
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_runs import made_history, made_run

SECTIONS = {("section", name): [str(place) for place in range(50 * n, 50 * n + 50)] for n, name in enumerate("abcd")}
USUAL = (60, 61, 110, 111, 160, 161)  # wrong until tonight, two questions of each other section
KEY = "exact_match of section a"
FELL = range(6)


def history(*nights, groups=SECTIONS):
    pinned = [made_run(f"base{n}", USUAL) for n in range(5)]
    runs = [made_run(f"n{hours}", wrong, hours=hours) for wrong, hours in nights]
    return made_history(*runs, pinned=pinned, groups=groups, budget=Budget(0.5, 10, 0.5))


def test_section_that_fell_alone_waits_for_a_rerun_and_alerts_until_three_nights_do_not_show_it():
    [first] = history((FELL, 0))
    found = history((FELL, 0), (FELL, 3), (FELL, 24), (USUAL, 48), (USUAL, 72), (USUAL, 96))
    row = Comparison(kind="baseline", benchmark="b", old="baseline", new="s", verdicts=found[0].metrics)
    line = next(line for line, verdict in comparison_lines(row) if verdict.segment)

    assert first.awaits_rerun
    assert first.metrics["exact_match"].confirmation is None
    assert line.partition(" (adjusted")[0] == (
        "Exact match of section a  1.000 -> 0.880 (50 of 200)  regressed: Exact match of section a fell 12.0 points"
    )
    assert line.partition("): ")[2] == (  # p is four times 1 / C(7, 2)^6
        "6 questions fell and 0 rose, in both runs; the other 150: +4.0 points; p = 5e-8 after correction for 4 tests, "
        "1.7e-5 is needed so that 10 pairs raise at most one false alarm in two years; n = 50."
    )
    assert [one.state(KEY) for one in found] == ["regressed", "regressed", *["unflagged"] * 3]
    assert alerts_due(found) == {"n0": [KEY]}
    assert [course.resolved for course in courses(found)] == [found[-1]]
    assert not found[0].joins_reference
    assert Night.model_validate_json(found[0].model_dump_json()) == found[0]


def test_section_that_a_rerun_does_not_show_again_is_inconclusive():
    [night] = history((FELL, 0), (USUAL, 3))

    assert night.metrics[KEY].confirmation == "not_confirmed"
    assert KEY not in history((FELL, 0), groups={})[0].metrics


def test_section_is_the_cause_where_its_metric_fell_as_a_whole(tmp_path):
    [night] = history(((*FELL, *USUAL), 0), ((*FELL, *USUAL), 3))
    told = {"evaluation_id": None, "rerun": "n3", "baseline": ("base4",)}
    incident = incident_of(Workspace(tmp_path), "b", "s", night.metrics, **told)

    assert (incident.headline_text, len(incident.changes)) == ("Exact match 97 → 94", 1)
    assert night.metrics[KEY].kind == "regressed"
