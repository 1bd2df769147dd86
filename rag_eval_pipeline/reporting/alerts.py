"""What people are told, each thing once: confirmed changes on the night they are news, failed runs, late nights.

An alert is a file, `data/reports/alerts/<id>.alert.json`, and the same as a mail beside it; that it is there is what
keeps it from being told twice. A webhook that could not be reached is tried again by the next aggregation.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Literal

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.forms import Form, Value
from rag_eval_pipeline.formats.model import FileModel, Model, SchemaVersion
from rag_eval_pipeline.reporting.alert_settings import AlertSettings, read_alert_settings
from rag_eval_pipeline.reporting.alert_texts import mail_of, slack_message
from rag_eval_pipeline.reporting.looks import Moved
from rag_eval_pipeline.reporting.nights import Night, Nights, told
from rag_eval_pipeline.reporting.webhook import post
from rag_eval_pipeline.storage.atomic import atomic_write
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import Workspace

SUFFIX = ".alert.json"
Kind = Literal["regressed", "improved", "run_failed", "late"]
LATE = "late_"  # how the ids of alerts of late nights begin


class AlertedMetric(Model):
    """One change."""

    metric: str = pydantic.Field(description="Which metric.")
    kind: Kind = pydantic.Field(description="regressed, improved.")
    sentence: str = pydantic.Field(description="How much, how sure.")
    questions: tuple[Moved, ...] = pydantic.Field((), description="Those that moved most.")


class LatePair(Model):
    """A pair of which nothing has been published for too long."""

    benchmark: str = pydantic.Field(description="Of the pair.")
    system: str = pydantic.Field(description="Of the pair.")
    since: pydantic.AwareDatetime = pydantic.Field(description="Its newest publication, or its conversion.")
    evaluation_id: str | None = pydantic.Field(None, description="The newest; absent where there is none.")

    @property
    def sentence(self) -> str:
        """A line for people."""
        if self.evaluation_id is None:
            return f"{self.system} on {self.benchmark}: never, and converted {self.since:%Y-%m-%d %H:%M} UTC"
        return f"{self.system} on {self.benchmark}: not since {self.since:%Y-%m-%d %H:%M} UTC, {self.evaluation_id}"


def _with_late_pairs(value: Value) -> Value:
    """1.0 -> 1.1: alerts of late nights came; an older alert is none."""
    return {**value, "late": []}


ALERT = Form("alert", ("1.0", "1.1"), {"1.0": _with_late_pairs})


class Alert(FileModel):
    """One message."""

    form: ClassVar[Form] = ALERT

    schema_version: SchemaVersion = pydantic.Field(ALERT.present, description="Of this file's form.")
    alert_id: str = pydantic.Field(description="Equal for what is told once.")
    kind: Kind = pydantic.Field(description="The worst that it tells.")
    subject: str = pydantic.Field(description="One line.")
    night: pydantic.AwareDatetime = pydantic.Field(description="When the evaluation or the run began.")
    created_at: pydantic.AwareDatetime = pydantic.Field(description="When it was written.")
    benchmark: str | None = pydantic.Field(None, description="Of the pair.")
    system: str | None = pydantic.Field(None, description="Of the pair.")
    evaluation_id: str | None = pydantic.Field(None, description="In which it was seen.")
    rerun: str | None = pydantic.Field(None, description="In which it was seen again.")
    changes: tuple[AlertedMetric, ...] = pydantic.Field((), description="A change a metric.")
    error: str | None = pydantic.Field(None, description="Of a run that failed.")
    late: tuple[LatePair, ...] = pydantic.Field((), description="Pairs that are late.")
    delivered_at: pydantic.AwareDatetime | None = pydantic.Field(None, description="When the webhook took it.")


@dataclass(frozen=True, slots=True)
class Told:
    """What came of telling.

    Args:
        new: Alerts that were not there before.
        faults: A line for each alert that the webhook did not take.
    """

    new: Sequence[Alert]
    faults: Sequence[str]


def alerts_folder(workspace: Workspace) -> Path:
    """Where alerts lie."""
    return workspace.reports / "alerts"


def tell_changes(workspace: Workspace, nights: Iterable[Nights], *, now: datetime) -> Told:
    """Writes the alerts of all nights that are not there yet, and sends what has not been sent.

    Args:
        workspace: Where.
        nights: Of each pair with a baseline.
        now: Aware.
    """
    found = [
        _change(pair, night, metrics, now)
        for pair in nights
        for evaluation_id, metrics in told(pair.nights).items()
        for night in pair.nights
        if night.evaluation_id == evaluation_id
    ]
    return tell(workspace, found, now)


def tell_run_failure(
    workspace: Workspace, *, job: str, partition: str | None, error: str, started: datetime, now: datetime
) -> Told:
    """Writes and sends that a run failed: once a day for the same job, partition and error.

    Args:
        workspace: Where.
        job: Its name.
        partition: A benchmark or a pair; None for runs over all of them.
        error: Its first line.
        started: When the run began, aware.
        now: Aware.
    """
    what = f"{job} {partition}" if partition else job
    line = error.strip().partition("\n")[0]
    same = hashlib.sha256(f"{what}\n{line}\n{started:%Y-%m-%d}".encode()).hexdigest()[:12]
    alert = Alert(
        alert_id=f"run_failed_{started:%Y%m%d}_{same}",
        kind="run_failed",
        subject=f"A run failed: {what}",
        night=started,
        created_at=now,
        error=line,
    )
    return tell(workspace, [alert], now)


def read_alerts(workspace: Workspace) -> list[Alert]:
    """All alerts, oldest first.

    Raises:
        InputError: One cannot be read.
    """
    alerts = [Alert.read(path) for path in sorted(alerts_folder(workspace).glob(f"*{SUFFIX}"))]
    return sorted(alerts, key=lambda alert: (alert.night, alert.alert_id))


def read_late_alerts(workspace: Workspace) -> list[Alert]:
    """Those of late nights, by their ids.

    Raises:
        InputError: One cannot be read.
    """
    return [Alert.read(path) for path in sorted(alerts_folder(workspace).glob(f"{LATE}*{SUFFIX}"))]


def tell(workspace: Workspace, alerts: Sequence[Alert], now: datetime) -> Told:
    """Writes alerts that are not there yet, and sends what has not been sent.

    Args:
        workspace: Where.
        alerts: Each with the id by which it is told once.
        now: Aware.
    """
    folder = alerts_folder(workspace)
    settings = read_alert_settings(workspace)
    with locked(folder / ".lock", holder="alerts", exclusive=True):
        new = [alert for alert in alerts if not (folder / f"{alert.alert_id}{SUFFIX}").exists()]
        for alert in new:
            alert.write(folder / f"{alert.alert_id}{SUFFIX}")
            atomic_write(folder / f"{alert.alert_id}.eml", mail_of(alert, _texts(workspace, alert), settings))
        faults = [fault for alert in _waiting(folder) if (fault := _send(workspace, alert, settings, now))]
    return Told(new, faults)


def _waiting(folder: Path) -> list[Alert]:
    alerts = (Alert.read(path) for path in sorted(folder.glob(f"*{SUFFIX}")))
    return [alert for alert in alerts if alert.delivered_at is None]


def _send(workspace: Workspace, alert: Alert, settings: AlertSettings, now: datetime) -> str | None:
    """Why an alert was not sent; None when it was, when nobody wants it, or when it is too old to be news."""
    if settings.webhook_url_env is None or (now - alert.created_at).days >= settings.retry_days:
        return None
    fault = post(settings.webhook_url_env, slack_message(alert, _texts(workspace, alert), settings))
    if fault is not None:
        return f"{alert.alert_id}: {fault}"
    alert.model_copy(update={"delivered_at": now}).write(alerts_folder(workspace) / f"{alert.alert_id}{SUFFIX}")
    return None


def _change(pair: Nights, night: Night, metrics: Sequence[str], now: datetime) -> Alert:
    changes = tuple(
        AlertedMetric(
            metric=name,
            kind="regressed" if night.metrics[name].state == "regressed" else "improved",
            sentence=night.metrics[name].sentence,
            questions=night.metrics[name].moved,
        )
        for name in metrics
    )
    worse = [change.metric for change in changes if change.kind == "regressed"]
    better = [change.metric for change in changes if change.kind == "improved"]
    parts = [f"{word}: {', '.join(names)}" for word, names in (("regressed", worse), ("improved", better)) if names]
    return Alert(
        alert_id=night.evaluation_id,
        kind="regressed" if worse else "improved",
        subject=f"{pair.system} on {pair.benchmark} {'; '.join(parts)}",
        night=night.opened_at,
        created_at=now,
        benchmark=pair.benchmark,
        system=pair.system,
        evaluation_id=night.evaluation_id,
        rerun=night.rerun,
        changes=changes,
    )


def _texts(workspace: Workspace, alert: Alert) -> Mapping[str, str]:
    """The questions' words; none where the evaluation or its dataset is gone."""
    from rag_eval_pipeline.evaluation.runs import load_evaluation
    from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset

    if alert.evaluation_id is None:
        return {}
    try:
        record = load_evaluation(workspace, alert.evaluation_id).record
        dataset = EvaluationDataset.read(workspace.eval_json(record.dataset_id, record.dataset_version))
    except InputError:
        return {}
    return {query.query_id: query.query_text for query in dataset.queries}
