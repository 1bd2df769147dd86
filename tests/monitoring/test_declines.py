"""A decline that no single night is sure of adds up over nights, alerts once, and names the night it began."""

from datetime import timedelta

import pytest

from rag_eval_pipeline.monitoring.alert_files import AlertSettings, alerts_folder, read_alerts
from rag_eval_pipeline.monitoring.alert_messages import message_of, text_lines
from rag_eval_pipeline.monitoring.alerts import send_change_alerts
from rag_eval_pipeline.monitoring.incidents import decline_alerts, declines, follow_declines
from rag_eval_pipeline.monitoring.night_records import Nights
from rag_eval_pipeline.monitoring.nightly import alerts_due
from rag_eval_pipeline.monitoring.status import verdict_text
from rag_eval_pipeline.monitoring.summary_lines import comparisons_headline
from rag_eval_pipeline.monitoring.verdict_records import Comparison
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_runs import START, five_runs, made_history, made_run

N = 400
LOST = [390, 391]  # half a point: below the minimum effect of a single night


def run(night, wrong=(), **options):
    """One wavering question is wrong every fifth night."""
    return made_run(f"n{night}", [*([0] if night % 5 == 0 else []), *wrong], hours=24 * night, n=N, **options)


def nights(*runs, **options):
    return made_history(*runs, pinned=five_runs(n=N), **options)


QUIET = [run(night) for night in range(20)]
DECLINING = [*QUIET, *(run(night, LOST) for night in range(20, 28))]
OVER = [*DECLINING, *(run(night) for night in range(28, 36))]


@pytest.fixture(scope="module")
def history():
    return nights(*OVER)


def test_decline_below_the_minimum_effect_alerts_once_and_is_dated(history):
    [alert] = decline_alerts(history)
    [found] = alert.declines

    assert alerts_due(history) == {}
    assert [found.metric, found.first, found.since] == ["exact_match", "n20", "2026-09-27"]
    assert found.alert_at == 365 * 2 * 2 / 0.5  # one pair, two metrics, two comparisons
    assert 20 < int(alert.night.evaluation_id[1:]) < 27
    # Two nights, one of them with the wavering answer, which was wrong in 3 of the 20 reference runs.
    assert found.change == pytest.approx(-(2.5 - 3 / 20) / 400)
    assert alert.resolved_at == START + timedelta(days=33)  # the third quiet night after the wavering one of day 30


def test_decline_is_no_news_on_quiet_nights_and_of_deterministic_or_hardly_pinned_systems(history):
    [quiet, failures] = declines(history[:20])

    assert (quiet.metric, quiet.is_notable, failures.evidence) == ("exact_match", False, 0)
    assert failures.sentence == "Failure rate: no sign of a decline (an alert at 2,920)"
    few = made_history(*QUIET[:3], pinned=five_runs(n=N)[:4])
    sure = made_history(*(run(n, deterministic=True) for n in range(3)), pinned=five_runs(n=N, deterministic=True))
    assert [night.watch for night in (*few, *sure)] == [None] * 6


def test_decline_that_reruns_confirm_is_not_alerted_twice():
    fell = [made_run(f"f{n}", range(300, 330), hours=480 + 24 * (n // 2) + 3 * (n % 2), n=N) for n in range(8)]
    confirmed = nights(*QUIET, *fell)

    assert list(alerts_due(confirmed)) == ["f0"]
    assert decline_alerts(confirmed) == []
    assert follow_declines(confirmed)["exact_match"][-1].is_known


def test_decline_is_shown_and_sent_once(tmp_path, history):
    workspace, now = Workspace(tmp_path), START + timedelta(days=40)
    for until in (20, *range(22, len(history) + 1)):
        pair = Nights(benchmark="b", system="s", baseline=("base4",), nights=history[:until])
        send_change_alerts(workspace, [pair], now=now)

    [alert] = read_alerts(workspace).alerts
    [due] = decline_alerts(history)
    lines = list(text_lines(message_of(alert.model_copy(update={"page": "p"}), AlertSettings(), tmp_path)))
    assert (alert.kind, alert.closed, alert.resolved_at) == ("declined", True, now)
    assert lines[0] == "s on b declines: Exact match −0.6 points since 27 September"
    assert lines[2].split() == ["Night:", f"{due.night.opened_at:%Y-%m-%d}", "02:00", "UTC,", due.night.evaluation_id]
    assert " nights, and an alert comes at 2,920; first seen in n20)" in lines[3]
    assert lines[-1] == f"Next: rag-eval compare base4 {due.night.evaluation_id}"
    assert len(list(alerts_folder(workspace).glob("*.resolved.eml"))) == 1
    row = Comparison(kind="baseline", benchmark="b", old="baseline", new="s", evaluation_id="n27",
                     verdicts=history[27].metrics, declines=tuple(declines(history[:28])))  # fmt: skip
    said = row.declines[0].sentence
    assert said.startswith("Exact match: a possible decline since 27 September, as an unchanged system shows once in ")
    assert said.endswith(" nights (an alert at 2,920)")
    assert verdict_text({("b", "s"): row}, ("b", "s"), "n27") == said
    assert comparisons_headline([row]).endswith(f"- s on b\n    - {said}")
