"""Thirty nights of a system with a regression on the twentieth, a steady one beside it: one alert, on the right night."""

import json

from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.reporting.alerts import read_alerts

LEDGER = "station-ledger"
NIGHTS, PLANTED_NIGHT = 30, 20
STEADY_NIGHT = 14  # its own first five nights end before the planted one, and it stands beside it from then on


def test_one_alert_in_thirty_nights(world):
    world.add_system("planted")
    documents = sorted({gold["document"] for gold in world.gold.values()})
    # A loader that loses the pages of 12 of 14 documents: all of their questions are answered wrongly from then on.
    broken = [query_id for query_id, gold in world.gold.items() if gold["document"] in documents[:12]]
    alerts_by_night, reruns_by_night = {}, {}
    for night in range(1, NIGHTS + 1):
        if night == STEADY_NIGHT:
            world.add_system("steady")
        if night == PLANTED_NIGHT:
            world.planted = {"planted": broken}
        if world.now.weekday() == 0 and night > 1:
            world.week()
        reruns_by_night[night] = len(world.night())
        alerts_by_night[night] = [alert.alert_id for alert in read_alerts(world.workspace)]

    [alert] = read_alerts(world.workspace)
    assert [night for night, alerts in alerts_by_night.items() if alerts] == list(range(PLANTED_NIGHT, NIGHTS + 1))
    assert (alert.kind, alert.benchmark, alert.system) == ("regressed", LEDGER, "planted")
    assert f"{alert.night:%Y-%m-%d}" == "2026-09-26"  # the twentieth night from the seventh on
    assert {change.metric for change in alert.changes} == {"exact_match", "f1"}
    for change in alert.changes:
        assert {moved.query_id for moved in change.questions} <= set(broken)
        assert len(change.questions) == 10
        assert f"n = {len(world.gold)}" in change.sentence  # questions: the pinned runs show what noise documents share
        assert change.sentence.endswith("seen again in a rerun.")
    assert reruns_by_night == {night: int(night == PLANTED_NIGHT) for night in range(1, NIGHTS + 1)}
    # The first five nights of each system are its baseline, and stay it.
    for name in ("steady", "planted"):
        baseline = read_baseline(world.workspace, LEDGER, name)
        assert (len(baseline.evaluations), baseline.pinned_by) == (5, "the first nights")
    weeks = sorted(world.workspace.results.glob("benchmark_weekly_*.results.json"))
    assert [path.name[17:25] for path in weeks] == ["20260914", "20260921", "20260928", "20261005"]
    kinds = {
        pair["new"]: {name for name, found in pair["verdicts"].items() if found["kind"] == "regressed"}
        for pair in json.loads(weeks[-1].read_text())["pairs"]
    }
    assert kinds == {"planted": {"exact_match", "f1"}, "steady": set()}
