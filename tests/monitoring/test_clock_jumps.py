"""A clock that jumps ahead by two days and is set back: no wrong verdict, and what cannot be known is said."""

import json
import os
from datetime import timedelta

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import baseline_file, read_baseline
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation, make_newest, published_evaluations
from rag_eval_pipeline.monitoring.alert_files import AlertSettings, LatePair, late_pairs
from rag_eval_pipeline.monitoring.alerts import send_late_alerts
from rag_eval_pipeline.monitoring.baselines import pin, results_mark
from rag_eval_pipeline.monitoring.history import read_history
from rag_eval_pipeline.monitoring.history_tables import query_history
from rag_eval_pipeline.monitoring.nightly import alerts_due, update_nights
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import FIRST, publish_night, register
from tests.monitoring.made_runs import made_history, made_run

pytestmark = pytest.mark.fault(63)
FELL = range(20)
DAY = timedelta(days=1)


@pytest.fixture
def workspace(tmp_path):
    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s"])
    return workspace


def publish(workspace, *days):
    return [publish_night(workspace, "b", "s", day, questions=40, skill=0.5, number=1) for day in days]


def test_night_dated_ahead_is_no_rerun_has_none_and_the_next_nights_are_compared_as_ever():
    """Flagged, and recorded two days later than it was; so is the night after it, at the right time, with its rerun."""
    found = made_history(
        made_run("quiet"),
        made_run("ahead", FELL, hours=72),
        made_run("n2", FELL, hours=24),
        made_run("n2b", FELL, hours=27),
    )

    assert [night.runs for night in found] == [("quiet",), ("ahead",), ("n2", "n2b")]
    assert [night.awaits_rerun for night in found] == [False, True, False]
    assert "ahead" not in found[2].reference
    assert alerts_due(found) == {"n2": ["exact_match"]}


def test_night_dated_ahead_is_said_once_because_missed_nights_go_unnoticed_until_then(workspace):
    pair = LatePair(benchmark="b", system="s", since=FIRST + 2 * DAY, evaluation_id="e")

    [late] = late_pairs(FIRST, [pair], AlertSettings())
    alerts = [alert for _ in range(2) for alert in send_late_alerts(workspace, [pair], now=FIRST).new]

    assert "e, dated 2026-10-03 02:00 UTC, is later than now: a clock was wrong, or is" in late.sentence
    assert [alert.subject for alert in alerts] == ["Dated later than now: s on b"]
    assert late_pairs(FIRST + 2 * DAY, [pair], AlertSettings()) == []


@pytest.mark.parametrize(("begun_last", "newest"), [("ahead", "ahead"), ("since", "since")])
def test_night_dated_ahead_is_the_newest_only_until_another_is_begun(workspace, monkeypatch, begun_last, newest):
    """Else the leaderboard, the report and `status` would show it, and no later night, until its date comes."""
    names = dict(zip(("earlier", "ahead", "since"), publish(workspace, 0, 14, 1), strict=True))
    make_newest(workspace, load_evaluation(workspace, names[begun_last]))
    monkeypatch.setenv("RAG_EVAL_NOW", (FIRST + DAY).isoformat())

    [header] = read_history(workspace).newest()
    evaluations = published_evaluations(workspace, "b", "s")

    assert header.evaluation_id == names[newest]
    assert evaluations[-1].record.evaluation_id == names[newest]


def test_nights_count_after_a_baseline_that_a_clock_two_days_ahead_has_pinned(workspace, monkeypatch):
    pin(workspace, "b", "s", publish(workspace, *range(5)), now=FIRST + 7 * DAY)
    monkeypatch.setenv("RAG_EVAL_NOW", (FIRST + 5 * DAY).isoformat())
    later = publish(workspace, 5)

    evaluations, baseline = published_evaluations(workspace, "b", "s"), read_baseline(workspace, "b", "s")
    found = update_nights(workspace, evaluations, baseline, None, VerdictSettings())

    assert [night.evaluation_id for night in found.nights] == later


def test_pin_refuses_a_clock_that_is_behind_as_old_nights_would_follow_the_baseline(workspace):
    publish(workspace, *range(6))

    with pytest.raises(InputError, match="Nothing was pinned") as error:
        pin(workspace, "b", "s", now=FIRST + 3 * DAY)

    assert error.value.code == "clock_behind"
    assert not baseline_file(workspace, "b", "s").exists()


def test_files_that_are_older_than_what_they_replace_are_seen(workspace):
    """Results published again, and a baseline pinned again, after a clock that was ahead was set back."""
    [name] = publish(workspace, 0)
    sql = "SELECT DISTINCT value FROM results WHERE metric = 'f1'"
    path = workspace.results_file(name)
    [[before]] = [list(row.values()) for row in query_history(workspace, sql)[0]]
    mark = results_mark(workspace)

    record = json.loads(path.read_text())
    record["answer_quality_metrics"]["f1"]["value"] = before / 2
    record["timestamp"] = (FIRST + DAY).isoformat()
    path.write_text(json.dumps(record))
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 2 * 86_400 * 10**9))

    assert results_mark(workspace) != mark
    assert [list(row.values()) for row in query_history(workspace, sql)[0]] == [[before / 2]]
    pinned = baseline_file(workspace, "b", "s")
    pin(workspace, "b", "s", [name], now=FIRST + DAY)
    mark = results_mark(workspace)
    os.utime(pinned, ns=(1, 1))
    assert results_mark(workspace) != mark
