"""Alerts: one for each incident, failed run and set of overdue pairs.

An incident is all confirmed changes of a pair until nothing is flagged any more: it is sent once, metrics that change
later join its course, and a second message closes it. An alert is a file, `data/reports/alerts/<id>.alert.json`, with a
mail beside it, so that nothing is sent twice. One that was not delivered is sent again by the next aggregation. The
address of the receiver is a secret: it is in an environment variable and never in a message or log.
"""

import hashlib
import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.evaluation.evaluation_folders import EvaluationRecord, newest_evaluation
from rag_eval_pipeline.monitoring.alert_files import (
    DECLINE,
    LATE,
    SUFFIX,
    Alert,
    AlertedMetric,
    AlertedQuestion,
    AlertSettings,
    CourseStep,
    LatePair,
    alerts_folder,
    late_pairs,
    read_alert_settings,
    read_alerts,
)
from rag_eval_pipeline.monitoring.alert_messages import PAYLOADS, Message, mail_of, message_of, text_lines
from rag_eval_pipeline.monitoring.incidents import (
    Course,
    DeclineAlert,
    change_text,
    courses,
    decline_alerts,
    incident_of,
    means_text,
    strongest_change,
)
from rag_eval_pipeline.monitoring.night_records import Night, Nights
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import Workspace

SENT = ("delivered_at", "resolution_delivered_at")  # only `_send` sets them
TIMEOUT_S = 10.0  # a receiver that does not answer is tried again by the next aggregation
_CHATTY_LOGGERS = {"httpx": logging.WARNING, "httpcore": logging.WARNING, "urllib3": logging.CRITICAL}


def post(variable: str, message: Message, settings: AlertSettings) -> str | None:
    """Send a message to the address in an environment variable.

    An http(s) address gets the JSON of `webhook_format`; any other is an Apprise URL.

    Returns:
        Why the message was not delivered, in a line that names the variable and never the address; None if it was.
    """
    address = os.environ.get(variable, "").strip()
    if not address:
        return f"expected the address of a webhook in ${variable}, found nothing [missing_secret]"
    for name, level in _CHATTY_LOGGERS.items():  # they log whole addresses
        logging.getLogger(name).setLevel(level)
    if address.startswith(("https://", "http://")):
        return _post_json(variable, address, PAYLOADS[settings.webhook_format](message))
    return _notify(variable, address, list(text_lines(message)))


def _post_json(variable: str, address: str, message: Mapping[str, Any]) -> str | None:
    import httpx

    try:
        response = httpx.post(address, json=dict(message), timeout=TIMEOUT_S, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:  # its text may hold the address
        return f"the webhook of ${variable} could not be reached: {type(error).__name__} [webhook_unreachable]"
    if not response.is_success:
        return f"the webhook of ${variable} answered {response.status_code} [webhook_refused]"
    return None


def _notify(variable: str, url: str, lines: Sequence[str]) -> str | None:
    import apprise

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


class DeliveryReport(NamedTuple):
    """Alerts that are written for the first time, and a line for what could not be delivered or read."""

    new: Sequence[Alert]
    faults: Sequence[str]


def send_change_alerts(workspace: Workspace, nights: Iterable[Nights], *, now: datetime) -> DeliveryReport:
    """Write an alert for each incident that has none, bring the others' course up to date, and send what is due."""
    settings = read_alert_settings(workspace).settings
    folder = alerts_folder(workspace)
    found: list[Alert] = []
    known = {alert.alert_id: alert for alert in read_alerts(workspace).alerts}
    newer = [over for alert in known.values() if (over := _of_void_night(workspace, alert, now)) is not None]
    for pair in nights:
        earlier = (alert for alert in known.values() if _is_open_under_another(alert, pair))
        newer += [_of_earlier_baseline(alert, pair, now) for alert in earlier]
        for course in courses(pair.nights):
            name = course.opened.evaluation_id
            if name in known:
                newer.append(_updated(course, known[name], now))
            elif not (folder / f"{name}{SUFFIX}").exists():
                alert = _change(workspace, pair, course, settings, now)
                found.append(_updated(course, alert, now))
        for decline in decline_alerts(pair.nights):
            alert = _decline_alert(pair, decline, now)
            if alert.alert_id not in known:
                found.append(alert)
            elif alert.closed and not known[alert.alert_id].closed:
                newer.append(known[alert.alert_id].model_copy(update={"closed": True, "resolved_at": now}))
    return send_alerts(workspace, found, now, changed=newer)


def send_failure_alert(
    workspace: Workspace, *, job: str, partition: str | None, error: str, started: datetime, now: datetime,
    void: EvaluationRecord | None = None, asked_again_at: datetime | None = None,
) -> DeliveryReport:  # fmt: skip
    """Write and send an alert about a failed run, once a day for the same job, partition and error.

    Args:
        void: The evaluation that the run has left void; the alert is closed once the pair's newest one is published.
        asked_again_at: When that is asked again; None if it is not.
    """
    what = f"{job} {partition}" if partition else job
    line = error.strip().partition("\n")[0]
    key = void.evaluation_id if void else line  # the numbers in the line differ from attempt to attempt
    same = hashlib.sha256(f"{what}\n{key}\n{now:%Y-%m-%d}".encode()).hexdigest()[:12]
    note = f" The night is void, and is asked again at {asked_again_at:%H:%M} UTC." if asked_again_at else ""
    alert = Alert(
        alert_id=f"run_failed_{now:%Y%m%d}_{same}",
        kind="run_failed",
        subject=f"A run failed: {what}",
        night=started,
        created_at=now,
        error=line + note,
        **({name: getattr(void, name) for name in ("benchmark", "system", "evaluation_id")} if void else {}),
    )
    return send_alerts(workspace, [alert], now)


def _of_void_night(workspace: Workspace, alert: Alert, now: datetime) -> Alert | None:
    """Return the alert of a void night as it is closed by a published evaluation; None if there is none yet."""
    if alert.kind != "run_failed" or alert.closed or not (alert.benchmark and alert.system):
        return None
    newest = newest_evaluation(workspace, alert.benchmark, alert.system)
    if newest is None or newest.record.state != "published":
        return None
    record = newest.record
    text = next((one for one in reversed(record.warnings) if one.startswith("void at ")), "asked again: fine")
    step = CourseStep(night=record.opened_at, evaluation_id=record.evaluation_id, text=text)
    return alert.model_copy(update={"course": (step,), "closed": True, "resolved_at": now})


def send_alerts(
    workspace: Workspace, alerts: Sequence[Alert], now: datetime, *, changed: Sequence[Alert] = ()
) -> DeliveryReport:
    """Write alerts that have no file yet, and send all that were not delivered.

    Args:
        changed: Alerts that have a file, as they are now.
    """
    folder = alerts_folder(workspace)
    settings, bad_settings = read_alert_settings(workspace)
    with locked(folder / ".lock", holder="alerts", exclusive=True):
        new = [alert for alert in alerts if not (folder / f"{alert.alert_id}{SUFFIX}").exists()]
        known = {alert.alert_id: alert for alert in read_alerts(workspace).alerts}
        present = [(one, known[one.alert_id]) for one in changed if one.alert_id in known]
        # Another process may have delivered one since it was read.
        merged = [
            (one.model_copy(update={name: getattr(is_now, name) for name in SENT}), is_now) for one, is_now in present
        ]
        for alert in (*new, *(one for one, is_now in merged if one != is_now)):
            alert.write(folder / f"{alert.alert_id}{SUFFIX}")
            message = message_of(alert, settings, workspace.reports)
            atomic_write(folder / f"{alert.alert_id}.eml", mail_of(message, alert, settings))
            if alert.resolved_at is not None:
                message = message_of(alert, settings, workspace.reports, is_resolved=True)
                mail = mail_of(message, alert, settings, is_resolved=True)
                atomic_write(folder / f"{alert.alert_id}.resolved.eml", mail)
        stored = read_alerts(workspace)
        faults = [fault for alert in stored.alerts if (fault := _send(workspace, alert, settings, now))]
    return DeliveryReport(new, [*([str(bad_settings)] if bad_settings else []), *stored.damaged, *faults])


def _send(workspace: Workspace, alert: Alert, settings: AlertSettings, now: datetime) -> str | None:
    """Send an alert, or what closes it; return why it failed, None if it was sent, is not due or is too old."""
    is_resolved = alert.delivered_at is not None
    began = alert.resolved_at if is_resolved else alert.created_at
    if is_resolved and alert.resolution_delivered_at is not None:
        return None
    if settings.webhook_url_env is None or began is None or (now - began).days >= settings.retry_days:
        return None
    message = message_of(alert, settings, workspace.reports, is_resolved=is_resolved)
    fault = post(settings.webhook_url_env, message, settings)
    if fault is not None:
        return f"{alert.alert_id}: {fault}"
    sent = {"resolution_delivered_at" if is_resolved else "delivered_at": now}
    alert.model_copy(update=sent).write(alerts_folder(workspace) / f"{alert.alert_id}{SUFFIX}")
    return None


def _change(workspace: Workspace, pair: Nights, course: Course, settings: AlertSettings, now: datetime) -> Alert:
    """Return the alert with which an incident opens."""
    night = course.opened
    verdicts = night.metrics
    incident = incident_of(
        workspace, pair.benchmark, pair.system, {name: verdicts[name] for name in course.steps[0].metrics},
        evaluation_id=night.evaluation_id, rerun=night.rerun, baseline=pair.baseline, shown=settings.questions_shown,
        others=verdicts,
    )  # fmt: skip
    if incident is None:
        raise ValueError(f"a night that alerts without a change: {night.evaluation_id}")
    cause = incident.cause
    return Alert(
        **_of_night(pair, night, now),
        alert_id=night.evaluation_id,
        kind=incident.kind,
        subject=incident.headline,
        rerun=night.rerun,
        changes=tuple(_alerted(night, name) for name, _ in incident.changes),
        together=tuple(incident.unsure),
        cause=cause.sentence if cause else None,
        failed=(*cause.failed, cause.questions) if cause else None,
        worst=tuple(
            AlertedQuestion(
                name=one.name, query_id=one.query_id, text=one.question, expected=one.gold, before=one.answer_before,
                now=one.answer_after,
            )
            for one in (cause.worst if cause else ())
        ),
    )  # fmt: skip


def _of_night(pair: Nights, night: Night, now: datetime) -> dict[str, Any]:
    return {
        "night": night.opened_at,
        "created_at": now,
        "benchmark": pair.benchmark,
        "system": pair.system,
        "evaluation_id": night.evaluation_id,
        "page": f"comparisons/{pair.benchmark}.{pair.system}.against.baseline.html",
        "baseline": pair.baseline,
    }


def _decline_alert(pair: Nights, found: DeclineAlert, now: datetime) -> Alert:
    """Return the alert of a decline that no single night was sure of."""
    night, change = found.night, found.declines[0].summary.partition(" (")[0]
    return Alert(
        **_of_night(pair, night, now),
        alert_id=f"{DECLINE}{night.evaluation_id}",
        kind="declined",
        subject=f"{pair.system} on {pair.benchmark} declines: {change}",
        changes=tuple(
            AlertedMetric(metric=one.metric, kind="declined", sentence=one.sentence, summary=one.summary)
            for one in found.declines
        ),
        closed=found.resolved_at is not None,
        resolved_at=found.resolved_at and now,
    )


def _updated(course: Course, alert: Alert, now: datetime) -> Alert:
    steps = []
    changes = {change.metric: change for change in alert.changes}
    for step in course.steps:
        verdicts = step.night.metrics
        names = ", ".join(means_text(name, verdicts[name]) for name in step.metrics)
        kinds = " and ".join(dict.fromkeys(verdicts[name].kind for name in step.metrics))
        steps.append(_step(step.night, f"{kinds}: {names}"))
        for name in step.metrics:
            changes.setdefault(name, _alerted(step.night, name, joined=step.night.evaluation_id))
    if course.resolved is not None:
        verdicts = course.resolved.metrics
        names = ", ".join(means_text(name, verdicts[name]) for name in course.metrics if name in verdicts)
        steps.append(_step(course.resolved, f"no longer {course.kind}{f': {names}' if names else ''}"))
    is_over = course.resolved is not None and course.kind != "improved"
    return alert.model_copy(
        update={
            "changes": tuple(changes.values()),
            "course": tuple(steps),
            "closed": course.is_closed,
            "resolved_at": (alert.resolved_at or now) if is_over else None,
        }
    )


def _is_open_under_another(alert: Alert, pair: Nights) -> bool:
    """Whether an alert of a pair is open though its nights are not compared with that baseline any more."""
    is_of_pair = (alert.benchmark, alert.system) == (pair.benchmark, pair.system)
    return is_of_pair and bool(alert.baseline) and alert.baseline != pair.baseline and not alert.closed


def _of_earlier_baseline(alert: Alert, pair: Nights, now: datetime) -> Alert:
    """Return an alert as it is closed by the pinning of a new baseline."""
    step = CourseStep(night=now, evaluation_id=pair.baseline[-1], text="a new baseline is pinned")
    return alert.model_copy(
        update={
            "course": (*alert.course, step),
            "closed": True,
            "resolved_at": now if alert.kind != "improved" else None,
            "new_baseline": pair.baseline,
            "page": f"benchmarks/{pair.benchmark}.html",  # that of the comparison is gone until the next night
        }
    )


def _step(night: Night, text: str) -> CourseStep:
    return CourseStep(night=night.opened_at, evaluation_id=night.evaluation_id, text=text)


def _alerted(night: Night, name: str, *, joined: str | None = None) -> AlertedMetric:
    found = night.metrics[name]
    return AlertedMetric(
        metric=name,
        kind=strongest_change([found.state]),
        sentence=found.sentence,
        summary=change_text(name, found),
        evaluation_id=joined,
    )


def send_late_alerts(workspace: Workspace, published: Collection[LatePair], *, now: datetime) -> DeliveryReport:
    """Send one alert for all pairs that have become late since the last check; `published` as for `late_pairs`."""
    late = late_pairs(now, published, read_alert_settings(workspace).settings)
    alerts = read_alerts(workspace).alerts
    alerted = {(one.benchmark, one.system, one.since) for alert in alerts for one in alert.late}
    new = [one for one in late if (one.benchmark, one.system, one.since) not in alerted]
    return send_alerts(workspace, [_late_alert(new, now)] if new else [], now)


def _late_alert(late: Sequence[LatePair], now: datetime) -> Alert:
    names = "\n".join(f"{one.benchmark}|{one.system}|{one.since.isoformat()}" for one in late)
    first = min(one.since for one in late)
    what = f"{late[0].system} on {late[0].benchmark}" if len(late) == 1 else counted(len(late), "pair")
    dated = all(one.is_ahead for one in late)
    return Alert(
        alert_id=f"{LATE}{first.astimezone(UTC):%Y%m%d}_{hashlib.sha256(names.encode()).hexdigest()[:12]}",
        kind="late",
        subject=f"Dated later than now: {what}" if dated else f"Overdue: nothing was published of {what}",
        night=first,
        created_at=now,
        late=tuple(late),
    )
