"""Nights of a system that regresses on one of them, with a steady one beside it: one alert, on the right night."""

import json
import re
from datetime import date, timedelta

import pytest
from rich.text import Text

from examples.demo_nights import closing_lines
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.monitoring.alert_files import read_alerts

LEDGER = "station-ledger"
FIRST = date(2026, 9, 7)  # a Monday


# The baseline is made of each system's first five nights, and both have theirs before the planted one.
@pytest.mark.parametrize(
    ("nights", "quiet", "steady_from", "planted_on", "weeks"),
    [
        pytest.param(6, 4, 1, 6, [], id="six"),
        pytest.param(
            30, 0, 14, 20, ["20260914", "20260921", "20260928", "20261005"], id="thirty", marks=pytest.mark.long
        ),
    ],
)
def test_nights_alert_once_on_the_night_of_a_regression(nights, quiet, steady_from, planted_on, weeks, world):
    world.add_system("planted")
    documents = sorted({gold["document"] for gold in world.gold.values()})
    # A loader that loses the pages of 12 of 14 documents: all of their questions are answered wrongly from then on.
    broken = [query_id for query_id, gold in world.gold.items() if gold["document"] in documents[:12]]
    alerts_by_night, reruns_by_night = {}, {}
    for night in range(1, nights + 1):
        if night == steady_from:
            world.add_system("steady")
        if night == planted_on:
            world.planted = {"planted": broken}
        if world.now.weekday() == 0 and night > 1:
            world.week()
        reruns_by_night[night] = len(world.night()) if night > quiet else world.evaluation() or 0
        alerts_by_night[night] = [alert.alert_id for alert in read_alerts(world.workspace).alerts]

    [alert] = read_alerts(world.workspace).alerts
    assert [night for night, alerts in alerts_by_night.items() if alerts] == list(range(planted_on, nights + 1))
    assert (alert.kind, alert.benchmark, alert.system) == ("regressed", LEDGER, "planted")
    assert alert.night.date() == FIRST + timedelta(days=planted_on - 1)
    assert {change.metric for change in alert.changes} == {"exact_match", "f1"}
    assert {one.query_id for one in alert.worst} <= set(broken)
    for change in alert.changes:
        assert f"; n = {len(world.gold)}" in change.sentence
        assert ", in both runs; p " in change.sentence
    first, look, worst, quiet = (Text.from_markup(line).plain.split() for line in closing_lines(world.workspace))
    assert first[:9] == f"✗ REGRESSED planted on {LEDGER}, night of {alert.night:%-d %B}:".split()
    assert re.search(r"p [=<] \S+, confirmed by a rerun 2 h later\)$", " ".join(first))
    assert " ".join(look[:6]) == "Look at the answers: Exact match"
    assert " ".join(look).endswith("while retrieval shows no significant change.")
    assert (worst[0], " ".join(worst).endswith("→ entirely different words")) == ("Worst:", True)
    assert quiet == ["·", "no", "significant", "change:", "steady"]
    assert reruns_by_night == {night: int(night == planted_on) for night in range(1, nights + 1)}
    # The first five nights of each system are its baseline, and stay it.
    for name in ("steady", "planted"):
        baseline = read_baseline(world.workspace, LEDGER, name)
        assert (len(baseline.evaluations), baseline.pinned_by) == (5, "the first nights")
    written = sorted(world.workspace.results.glob("benchmark_weekly_*.results.json"))
    assert [path.name[17:25] for path in written] == weeks
    if weeks:
        regressed = {
            pair["new"]: {name for name, found in pair.get("verdicts", {}).items() if found["kind"] == "regressed"}
            for pair in json.loads(written[-1].read_text())["pairs"]
        }
        assert (regressed["planted"], regressed.get("steady", set())) == ({"exact_match", "f1"}, set())
