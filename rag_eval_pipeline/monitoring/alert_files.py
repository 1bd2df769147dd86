"""Files of alerts: their settings, and what `data/reports/alerts/<id>.alert.json` holds."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import FileModel, Model, SchemaVersion, read_model
from rag_eval_pipeline.workspace import Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.evaluation.expected_pairs import Registry
    from rag_eval_pipeline.monitoring.history import ResultsHeader

FILE = "alerts.config.yaml"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


class AlertSettings(Model):
    """Where alerts are sent; they are always written as files."""

    webhook_url_env: str | None = pydantic.Field(
        None,
        pattern=VARIABLE,
        description="Name of the environment variable with the address that alerts are sent to: the "
        "http(s) address of an "
        "incoming webhook, or an Apprise URL such as slack://, msteams:// or mailto://. It is a secret; keep it out of "
        "files.",
    )
    webhook_format: Literal["slack", "teams"] = pydantic.Field(
        "slack",
        description="Form of the messages to an http(s) address: the JSON of Slack's incoming webhooks, "
        "or an Adaptive Card for a "
        "Teams workflow.",
    )
    run_failures: bool = pydantic.Field(True, description="Whether failed runs send an alert.")
    late_after_hours: float | None = pydantic.Field(
        30.0,
        gt=0,
        description="A pair of the nightly schedule is late when its newest published evaluation is older; it is "
        "alerted once. null turns these alerts off. Leave room for nights that take hours.",
    )
    report_url: str | None = pydantic.Field(
        None, pattern=r"^https?://", description="Where people open the report; included in every message."
    )
    otlp_files: bool = pydantic.Field(
        False,
        description="Whether the scores of each question are written as OpenTelemetry events, a file for each "
        "evaluation in data/reports/otlp.",
    )
    mail_from: str | None = pydantic.Field(None, description="`From` of the mail files.")
    mail_to: str | None = pydantic.Field(None, description="`To` of the mail files.")
    questions_shown: int = pydantic.Field(5, ge=0, le=50, description="Number of questions shown in a message.")
    retry_days: int = pydantic.Field(3, ge=1, description="Days after which an undelivered alert is given up.")


class UsableSettings(NamedTuple):
    """Settings of alerts; the defaults, and why, if the file cannot be read: an error in it must stop no alert."""

    settings: AlertSettings
    fault: InputError | None


def read_alert_settings(workspace: Workspace) -> UsableSettings:
    """Read the settings; the defaults if there is no file."""
    try:
        return UsableSettings(read_model(AlertSettings, workspace.config / FILE), None)
    except InputError as error:
        return UsableSettings(AlertSettings(), error)


SUFFIX = ".alert.json"
Kind = Literal["regressed", "changed", "improved", "declined", "run_failed", "late"]
LATE = "late_"  # how the ids of alerts of late nights begin
DECLINE = "decline_"  # and those of declines over many nights
CLOCKS_DIFFER = timedelta(hours=1)  # at most, of machines that share a workspace


class AlertedMetric(Model):
    """One change."""

    metric: str
    kind: Kind  # regressed, changed, improved or declined
    sentence: str  # verdict in one sentence
    summary: str = ""  # label, means, points, p and confirmation in a few words
    evaluation_id: str | None = None  # evaluation that showed it, if not the first one


class LatePair(Model):
    """A pair and its newest publication, which is late or may become so."""

    benchmark: str
    system: str
    since: pydantic.AwareDatetime  # its newest publication, or else its conversion
    evaluation_id: str | None = None  # its newest evaluation; absent if there is none
    obstacle: str | None = None  # why it cannot be evaluated; absent if it can
    is_ahead: bool = False  # it is dated later than the present

    @property
    def sentence(self) -> str:
        """The pair and its last publication in a line."""
        pair, why = f"{self.system} on {self.benchmark}", f"; {self.obstacle}" if self.obstacle else ""
        if self.is_ahead:
            what = f"{self.evaluation_id or 'converted'}, dated {self.since:%Y-%m-%d %H:%M} UTC, is later than now"
            return f"{pair}: {what}: a clock was wrong, or is; until then a missed night goes unnoticed{why}"
        if self.evaluation_id is None:
            return f"{pair}: never, and converted {self.since:%Y-%m-%d %H:%M} UTC{why}"
        return f"{pair}: not since {self.since:%Y-%m-%d %H:%M} UTC, {self.evaluation_id}{why}"


class AlertedQuestion(Model):
    """A question whose answer got worse."""

    name: str  # question id in the source, or else in the dataset
    query_id: str
    text: str
    expected: str | None = None  # the gold answer; absent if it has none
    before: str  # the answer in the newest pinned run
    now: str  # the answer now, or the error


class CourseStep(Model):
    """A night on which something changed."""

    night: pydantic.AwareDatetime  # when the evaluation began
    evaluation_id: str
    text: str


class Alert(FileModel):
    """One incident, failed run, or set of overdue pairs."""

    file_type: ClassVar[str] = "alert"
    current_version: ClassVar[str] = "1.1"

    schema_version: SchemaVersion = current_version
    alert_id: str  # stable id; prevents duplicate alerts
    kind: Kind  # the worst change in it
    subject: str
    night: pydantic.AwareDatetime  # when the evaluation or the run began
    created_at: pydantic.AwareDatetime
    benchmark: str | None = None
    system: str | None = None
    evaluation_id: str | None = None  # evaluation that showed it
    rerun: str | None = None  # rerun that confirmed it
    page: str = "index.html"
    baseline: tuple[str, ...] = ()  # evaluations that it was compared with
    new_baseline: tuple[str, ...] = ()  # evaluations whose pinning closed the incident
    changes: tuple[AlertedMetric, ...] = ()
    together: tuple[str, ...] = ()  # metrics that also moved, but not significantly
    cause: str | None = None  # where to look; absent if nothing is known
    failed: tuple[int, int, int] | None = None  # failed questions now and before; all questions
    worst: tuple[AlertedQuestion, ...] = ()
    course: tuple[CourseStep, ...] = ()  # nights on which something changed, oldest first
    error: str | None = None  # error of the failed run
    late: tuple[LatePair, ...] = ()
    delivered_at: pydantic.AwareDatetime | None = None
    closed: bool = False  # true once later changes start a new incident
    resolved_at: pydantic.AwareDatetime | None = None  # when the incident was found to be over
    resolution_delivered_at: pydantic.AwareDatetime | None = None  # when that was delivered


def alerts_folder(workspace: Workspace) -> Path:
    """Return the folder of alerts."""
    return workspace.reports / "alerts"


class StoredAlerts(NamedTuple):
    """The alerts on file, oldest first, and a line for each file that cannot be read."""

    alerts: Sequence[Alert]
    damaged: Sequence[str]


def read_alerts(workspace: Workspace) -> StoredAlerts:
    """Read the alerts; one that is damaged or of another version is left out, and named."""
    alerts, damaged = [], []
    for path in sorted(alerts_folder(workspace).glob(f"*{SUFFIX}")):
        try:
            alerts.append(Alert.read(path))
        except InputError as error:
            damaged.append(str(error))
    return StoredAlerts(sorted(alerts, key=lambda alert: (alert.night, alert.alert_id)), damaged)


def late_pairs(now: datetime, published: Collection[LatePair], settings: AlertSettings) -> list[LatePair]:
    """Return the pairs that are late, by benchmark and system.

    So is one that was published later than now, by a clock that was ahead: until then it could never be late.

    Args:
        published: The newest publication of each nightly pair.
    """
    if settings.late_after_hours is None:
        return []
    limit = timedelta(hours=settings.late_after_hours)
    ahead = [pair.model_copy(update={"is_ahead": True}) for pair in published if pair.since - now > CLOCKS_DIFFER]
    late = [pair for pair in published if now - pair.since > limit]
    return sorted((*ahead, *late), key=lambda pair: (pair.benchmark, pair.system))


def last_published(
    registry: "Registry", by_pair: "Mapping[tuple[str, str], Sequence[ResultsHeader]]"
) -> list[LatePair]:
    """Return the newest publication of each pair that is expected every night, else its conversion.

    Args:
        by_pair: The results of each pair, oldest first.
    """
    newest = {pair: results[-1] for pair, results in by_pair.items()}
    found = []
    for benchmark, system, obstacle in registry.expected_pairs(newest):
        header = newest.get((benchmark, system))
        since = header.timestamp if header else datetime.fromtimestamp(registry.stamped[benchmark] / 1e9, UTC)
        evaluation_id = header.evaluation_id if header else None
        found.append(
            LatePair(benchmark=benchmark, system=system, since=since, evaluation_id=evaluation_id, obstacle=obstacle)
        )
    return found
