"""Alerts of the last nights, as the first page shows them: what was told, where to look, and whether it is still so."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.reporting.alerts import SUFFIX, Alert, alerts_folder
from rag_eval_pipeline.reporting.comparison import Comparison
from rag_eval_pipeline.reporting.site.comparison_pages import comparison_name
from rag_eval_pipeline.reporting.site.morning import Morning
from rag_eval_pipeline.workspace import Workspace

NIGHTS_TOLD = 14  # before the newest evaluation; older alerts stay in their folder
ALERTS_SHOWN = 20


class AlertShown(NamedTuple):
    """An alert on the first page.

    Args:
        alert: What was told.
        page: Of the comparison as it is now, else of the benchmark; None where neither is there.
        run: Page of the run in which it was seen; None where the report has none.
        standing: `still regressed`, `no longer regressed`; empty where nothing can be said.
    """

    alert: Alert
    page: str | None
    run: str | None
    standing: str


class ToldAlerts(NamedTuple):
    """Alerts for the first page.

    Args:
        shown: Newest first.
        n_older: Readable ones that are not shown.
        damaged: A line for each file that cannot be read.
    """

    shown: Sequence[AlertShown]
    n_older: int
    damaged: Sequence[str]


def told_alerts(morning: Morning) -> ToldAlerts:
    """The alerts of the last nights."""
    alerts, damaged = _read(morning.workspace)
    last = max([row.timestamp for row in morning.newest] or [alert.night for alert in alerts], default=None)
    recent = [alert for alert in alerts if last is not None and alert.night >= last - timedelta(days=NIGHTS_TOLD)]
    recent = recent[-ALERTS_SHOWN:]
    shown = [_shown(morning, alert) for alert in reversed(recent)]
    return ToldAlerts(shown, len(alerts) - len(shown), damaged)


def _read(workspace: Workspace) -> tuple[list[Alert], list[str]]:
    """Oldest first; one that is damaged costs itself."""
    alerts, damaged = [], []
    for path in sorted(alerts_folder(workspace).glob(f"*{SUFFIX}")):
        try:
            alerts.append(Alert.read(path))
        except InputError as error:
            damaged.append(str(error))
    return sorted(alerts, key=lambda alert: (alert.night, alert.alert_id)), damaged


def _shown(morning: Morning, alert: Alert) -> AlertShown:
    row = _comparison(morning, alert)
    page = None
    if row is not None and row.verdicts:
        page = f"comparisons/{comparison_name(row)}.html"
    elif alert.benchmark in morning.benchmarks:
        page = f"benchmarks/{alert.benchmark}.html"
    pair = alert.benchmark or "", alert.system or ""
    runs = {header.evaluation_id for header in morning.by_pair.get(pair, ())}
    run = f"runs/{alert.evaluation_id}/index.html" if alert.evaluation_id in runs else None
    return AlertShown(alert, page, run, _standing(row, alert))


def _comparison(morning: Morning, alert: Alert) -> Comparison | None:
    wanted = "baseline", alert.benchmark, alert.system
    return next((row for row in morning.comparisons if (row.kind, row.benchmark, row.new) == wanted), None)


def _standing(row: Comparison | None, alert: Alert) -> str:
    if row is None or not row.verdicts or not alert.changes:
        return ""
    kinds = {row.verdicts[change.metric].kind for change in alert.changes if change.metric in row.verdicts}
    return f"still {alert.kind}" if alert.kind in kinds else f"no longer {alert.kind}"
