"""Alerts: confirmed changes on the night they are new, failed runs, and pairs that are late.

An alert is a file, `data/reports/alerts/<id>.alert.json`, with a mail beside it, so that nothing is sent twice. One
that was not delivered is sent again by the next aggregation. The address of the receiver is a secret: it is in an
environment variable and never in a message or log.
"""

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any, ClassVar, Literal

import apprise
import httpx
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.registry import Registry, read_registry
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.model import FileModel, Model, SchemaVersion, bad_format
from rag_eval_pipeline.formats.yaml import read_settings
from rag_eval_pipeline.reporting.comparison import MovedQuestion
from rag_eval_pipeline.reporting.history import read_history
from rag_eval_pipeline.reporting.nightly import Night, Nights, alerts_due
from rag_eval_pipeline.storage.files import atomic_write
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import Workspace

FILE = "alerts.config.yaml"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


class AlertSettings(Model):
    """Where alerts are sent; they are always written as files."""

    webhook_url_env: str | None = pydantic.Field(
        None,
        pattern=VARIABLE,
        description="Name of the environment variable that holds where alerts are sent: the http(s) address of an "
        "incoming webhook, or an Apprise URL such as slack://, msteams:// or mailto://. It is a secret; keep it out of "
        "files.",
    )
    run_failures: bool = pydantic.Field(True, description="Whether failed runs are alerted.")
    late_after_hours: float | None = pydantic.Field(
        30.0,
        gt=0,
        description="A pair of the nightly schedule is late when its newest published evaluation is older; it is "
        "alerted once. null turns these alerts off. Leave room for nights that take hours.",
    )
    report_url: str | None = pydantic.Field(
        None, pattern=r"^https?://", description="Where people open the report; included in every message."
    )
    mail_from: str | None = pydantic.Field(None, description="`From` of the mail files.")
    mail_to: str | None = pydantic.Field(None, description="`To` of the mail files.")
    questions_shown: int = pydantic.Field(
        5, ge=0, le=50, description="Number of questions shown per metric in a message."
    )
    retry_days: int = pydantic.Field(3, ge=1, description="Days after which an undelivered alert is given up.")


def read_alert_settings(workspace: Workspace) -> AlertSettings:
    """Read the settings; the defaults if there is no file.

    Raises:
        InputError: `bad_yaml`, or `bad_format` naming the first bad setting.
    """
    path = workspace.config / FILE
    try:
        return AlertSettings.model_validate(read_settings(path, missing_ok=True))
    except pydantic.ValidationError as error:
        raise bad_format(path, error, AlertSettings) from error


SUFFIX = ".alert.json"
Kind = Literal["regressed", "improved", "run_failed", "late"]
LATE = "late_"  # how the ids of alerts of late nights begin


class AlertedMetric(Model):
    """One change."""

    metric: str = pydantic.Field(description="Which metric.")
    kind: Kind = pydantic.Field(description="regressed, improved.")
    sentence: str = pydantic.Field(description="How much, how sure.")
    questions: tuple[MovedQuestion, ...] = pydantic.Field((), description="Those that moved most.")


class LatePair(Model):
    """A pair and its newest publication, which is late or may become so."""

    benchmark: str = pydantic.Field(description="Of the pair.")
    system: str = pydantic.Field(description="Of the pair.")
    since: pydantic.AwareDatetime = pydantic.Field(description="Its newest publication, or its conversion.")
    evaluation_id: str | None = pydantic.Field(None, description="The newest; absent where there is none.")

    @property
    def sentence(self) -> str:
        """The pair and its last publication in a line."""
        if self.evaluation_id is None:
            return f"{self.system} on {self.benchmark}: never, and converted {self.since:%Y-%m-%d %H:%M} UTC"
        return f"{self.system} on {self.benchmark}: not since {self.since:%Y-%m-%d %H:%M} UTC, {self.evaluation_id}"


class Alert(FileModel):
    """One message."""

    file_type: ClassVar[str] = "alert"
    current_version: ClassVar[str] = "1.1"

    schema_version: SchemaVersion = pydantic.Field(current_version, description="Of this file's form.")
    alert_id: str = pydantic.Field(description="Equal for what is sent only once.")
    kind: Kind = pydantic.Field(description="The worst change in it.")
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
    delivered_at: pydantic.AwareDatetime | None = pydantic.Field(None, description="When it was delivered.")


QUESTION_LIMIT = 120  # characters of a question in a message
SECTION_LIMIT = 2900  # Slack refuses sections of more than 3,000 characters


def mail_of(alert: Alert, texts: Mapping[str, str], settings: AlertSettings) -> bytes:
    """Return the alert as a mail (RFC 5322); `texts` are those of the questions, by id."""
    mail = EmailMessage(policy=SMTP)
    mail["Subject"] = _one_line(f"[rag-eval] {alert.subject}")
    if settings.mail_from:
        mail["From"] = settings.mail_from
    if settings.mail_to:
        mail["To"] = settings.mail_to
    mail["Date"] = alert.created_at
    mail["Message-ID"] = f"<{alert.alert_id}@rag-eval>"
    mail.set_content("\n".join(_lines(alert, texts, settings)) + "\n")
    return mail.as_bytes()


def slack_message(alert: Alert, texts: Mapping[str, str], settings: AlertSettings) -> dict[str, Any]:
    """Return the JSON of an incoming webhook: `text` for any receiver, `blocks` for Slack."""
    first, *rest = _lines(alert, texts, settings)
    body = _escaped("\n".join(rest)).strip()
    blocks = [_section(f"*{_escaped(first)}*")]
    while body:
        blocks.append(_section(body[:SECTION_LIMIT]))
        body = body[SECTION_LIMIT:]
    return {"text": _escaped("\n".join((first, *rest))), "blocks": blocks}


def _lines(alert: Alert, texts: Mapping[str, str], settings: AlertSettings) -> Iterator[str]:
    yield _one_line(alert.subject)
    if not alert.late:
        yield f"Night of {alert.night:%Y-%m-%d %H:%M} UTC" + (f", {alert.evaluation_id}" if alert.evaluation_id else "")
    yield from (one.sentence for one in alert.late)
    if alert.error is not None:
        yield ""
        yield _one_line(alert.error)
    for change in alert.changes:
        yield ""
        yield f"{change.metric} {change.kind}: {change.sentence}"
        yield from _questions(change, texts, settings.questions_shown)
    if settings.report_url:
        yield ""
        yield f"Report: {settings.report_url}"


def _questions(change: AlertedMetric, texts: Mapping[str, str], shown: int) -> Iterator[str]:
    for one in change.questions[:shown]:
        words = _one_line(texts.get(one.query_id, ""))
        words = words if len(words) <= QUESTION_LIMIT else words[: QUESTION_LIMIT - 1] + "…"
        yield f"  question {one.query_id}: {one.before:.2f} -> {one.after:.2f}  {words}".rstrip()


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _escaped(text: str) -> str:
    """Escape Slack's markup: `<!channel>` in a question would notify a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _one_line(text: str) -> str:
    return " ".join(text.split())


TIMEOUT_S = 10.0  # a receiver that does not answer is tried again by the next aggregation
_CHATTY_LOGGERS = {"httpx": logging.WARNING, "httpcore": logging.WARNING, "urllib3": logging.CRITICAL}


def post(variable: str, alert: Alert, texts: Mapping[str, str], settings: AlertSettings) -> str | None:
    """Send an alert to the address in an environment variable.

    An http(s) address gets the JSON of a Slack-compatible webhook; any other is an Apprise URL.

    Returns:
        Why the alert was not delivered, in a line that names the variable and never the address; None if it was.
    """
    address = os.environ.get(variable, "").strip()
    if not address:
        return f"expected the address of a webhook in ${variable}, found nothing [missing_secret]"
    for name, level in _CHATTY_LOGGERS.items():  # they log whole addresses
        logging.getLogger(name).setLevel(level)
    if address.startswith(("https://", "http://")):
        return _post_json(variable, address, slack_message(alert, texts, settings))
    return _notify(variable, address, list(_lines(alert, texts, settings)))


def _post_json(variable: str, address: str, message: Mapping[str, Any]) -> str | None:
    try:
        response = httpx.post(address, json=dict(message), timeout=TIMEOUT_S, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:  # its text may hold the address
        return f"the webhook of ${variable} could not be reached: {type(error).__name__} [webhook_unreachable]"
    if not response.is_success:
        return f"the webhook of ${variable} answered {response.status_code} [webhook_refused]"
    return None


def _notify(variable: str, url: str, lines: Sequence[str]) -> str | None:
    logger = logging.getLogger("apprise")
    was_disabled, logger.disabled = logger.disabled, True  # it logs addresses, also with parts of the secret
    try:
        service = apprise.Apprise()
        if not service.add(url):
            return f"expected an http(s) address or an Apprise URL in ${variable} [bad_webhook]"
        # A zero-width space after each of these keeps a question from notifying a whole channel.
        title, *rest = (line.replace("<", "<\u200b").replace("@", "@\u200b") for line in lines)
        is_sent = service.notify(title=title, body="\n".join(rest) or title, body_format=apprise.NotifyFormat.TEXT)
    except Exception as error:  # whatever a plug-in raises may hold the address
        return f"the service of ${variable} could not be reached: {type(error).__name__} [webhook_unreachable]"
    finally:
        logger.disabled = was_disabled
    return None if is_sent else f"the service of ${variable} did not take the alert [webhook_refused]"


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """Alerts that are written for the first time, and a line for each alert that could not be delivered."""

    new: Sequence[Alert]
    faults: Sequence[str]


def alerts_folder(workspace: Workspace) -> Path:
    """Return the folder of alerts."""
    return workspace.reports / "alerts"


def send_change_alerts(workspace: Workspace, nights: Iterable[Nights], *, now: datetime) -> DeliveryReport:
    """Write an alert for each night that is due one and has none, and send all that were not delivered."""
    found = [
        _change(pair, night, metrics, now)
        for pair in nights
        for evaluation_id, metrics in alerts_due(pair.nights).items()
        for night in pair.nights
        if night.evaluation_id == evaluation_id
    ]
    return send_alerts(workspace, found, now)


def send_failure_alert(
    workspace: Workspace, *, job: str, partition: str | None, error: str, started: datetime, now: datetime
) -> DeliveryReport:
    """Write and send an alert about a failed run, once a day for the same job, partition and error."""
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
    return send_alerts(workspace, [alert], now)


def read_alerts(workspace: Workspace, prefix: str = "") -> list[Alert]:
    """Return the alerts whose ids begin with a prefix, oldest first.

    Raises:
        InputError: One cannot be read.
    """
    alerts = [Alert.read(path) for path in alerts_folder(workspace).glob(f"{prefix}*{SUFFIX}")]
    return sorted(alerts, key=lambda alert: (alert.night, alert.alert_id))


def send_alerts(workspace: Workspace, alerts: Sequence[Alert], now: datetime) -> DeliveryReport:
    """Write alerts that have no file yet, and send all that were not delivered."""
    folder = alerts_folder(workspace)
    settings = read_alert_settings(workspace)
    with locked(folder / ".lock", holder="alerts", exclusive=True):
        new = [alert for alert in alerts if not (folder / f"{alert.alert_id}{SUFFIX}").exists()]
        for alert in new:
            alert.write(folder / f"{alert.alert_id}{SUFFIX}")
            atomic_write(folder / f"{alert.alert_id}.eml", mail_of(alert, _texts(workspace, alert), settings))
        known = (Alert.read(path) for path in sorted(folder.glob(f"*{SUFFIX}")))
        waiting = [alert for alert in known if alert.delivered_at is None]
        faults = [fault for alert in waiting if (fault := _send(workspace, alert, settings, now))]
    return DeliveryReport(new, faults)


def _send(workspace: Workspace, alert: Alert, settings: AlertSettings, now: datetime) -> str | None:
    """Send an alert; return why it failed, None if it was sent, is not wanted or is too old."""
    if settings.webhook_url_env is None or (now - alert.created_at).days >= settings.retry_days:
        return None
    fault = post(settings.webhook_url_env, alert, _texts(workspace, alert), settings)
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
    names = {kind: [c.metric for c in changes if c.kind == kind] for kind in ("regressed", "improved")}
    parts = [f"{kind}: {', '.join(metrics)}" for kind, metrics in names.items() if metrics]
    return Alert(
        alert_id=night.evaluation_id,
        kind="regressed" if names["regressed"] else "improved",
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
    """Return the questions' texts; empty if the evaluation or its dataset is gone."""
    if alert.evaluation_id is None:
        return {}
    try:
        record = load_evaluation(workspace, alert.evaluation_id).record
        dataset = EvaluationDataset.read(workspace.eval_json(record.dataset_id, record.dataset_version))
    except InputError:
        return {}
    return {query.query_id: query.query_text for query in dataset.queries}


def late_pairs(now: datetime, published: Iterable[LatePair], settings: AlertSettings) -> list[LatePair]:
    """Return the pairs that are late, by benchmark and system; none if the clock was set back to before a publication.

    Args:
        published: The newest publication of each nightly pair.
    """
    if settings.late_after_hours is None:
        return []
    limit = timedelta(hours=settings.late_after_hours)
    return sorted(
        (pair for pair in published if now - pair.since > limit), key=lambda pair: (pair.benchmark, pair.system)
    )


def last_published(workspace: Workspace, registry: Registry | None = None) -> list[LatePair]:
    """Return the newest publication of each pair that the nightly schedule evaluates, else its conversion.

    Args:
        registry: Read again if it is not given.
    """
    registry = registry or read_registry(workspace)
    newest = {pair: evaluations[-1] for pair, evaluations in read_history(workspace).by_pair.items()}
    found = []
    for benchmark, system in registry.automatic_pairs():
        header = newest.get((benchmark, system))
        since = header.timestamp if header else datetime.fromtimestamp(registry.stamped[benchmark] / 1e9, UTC)
        evaluation_id = header.evaluation_id if header else None
        found.append(LatePair(benchmark=benchmark, system=system, since=since, evaluation_id=evaluation_id))
    return found


def send_late_alerts(workspace: Workspace, *, now: datetime, registry: Registry | None = None) -> DeliveryReport:
    """Send one alert for all pairs that have become late since the last check."""
    late = late_pairs(now, last_published(workspace, registry), read_alert_settings(workspace))
    alerted = {(one.benchmark, one.system, one.since) for alert in read_alerts(workspace, LATE) for one in alert.late}
    new = [one for one in late if (one.benchmark, one.system, one.since) not in alerted]
    return send_alerts(workspace, [_late_alert(new, now)] if new else [], now)


def _late_alert(late: Sequence[LatePair], now: datetime) -> Alert:
    names = "\n".join(f"{one.benchmark}|{one.system}|{one.since.isoformat()}" for one in late)
    first = min(one.since for one in late)
    what = f"{late[0].system} on {late[0].benchmark}" if len(late) == 1 else f"{len(late)} pairs"
    return Alert(
        alert_id=f"{LATE}{first.astimezone(UTC):%Y%m%d}_{hashlib.sha256(names.encode()).hexdigest()[:12]}",
        kind="late",
        subject=f"A night is late: nothing was published of {what}",
        night=first,
        created_at=now,
        late=tuple(late),
    )
