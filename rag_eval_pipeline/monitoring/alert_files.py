"""Files of alerts: their settings, and what `data/reports/alerts/<id>.alert.json` holds."""

from pathlib import Path
from typing import ClassVar, Literal

import pydantic

from rag_eval_pipeline.formats.model import FileModel, Model, SchemaVersion, bad_format
from rag_eval_pipeline.storage.yaml_files import read_settings
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
    webhook_format: Literal["slack", "teams"] = pydantic.Field(
        "slack",
        description="What an http(s) address is sent: the JSON of Slack's incoming webhooks, or an Adaptive Card for a "
        "Teams workflow.",
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

    metric: str = pydantic.Field(description="Metric key.")
    kind: Kind = pydantic.Field(description="regressed or improved.")
    sentence: str = pydantic.Field(description="Verdict in one sentence.")
    summary: str = pydantic.Field("", description="Label, means, points, p and confirmation in a few words.")
    evaluation_id: str | None = pydantic.Field(None, description="Evaluation that showed it, if not the first one.")


class LatePair(Model):
    """A pair and its newest publication, which is late or may become so."""

    benchmark: str = pydantic.Field(description="Benchmark name.")
    system: str = pydantic.Field(description="System name.")
    since: pydantic.AwareDatetime = pydantic.Field(description="Its newest publication, or else its conversion.")
    evaluation_id: str | None = pydantic.Field(None, description="Its newest evaluation; absent if there is none.")

    @property
    def sentence(self) -> str:
        """The pair and its last publication in a line."""
        if self.evaluation_id is None:
            return f"{self.system} on {self.benchmark}: never, and converted {self.since:%Y-%m-%d %H:%M} UTC"
        return f"{self.system} on {self.benchmark}: not since {self.since:%Y-%m-%d %H:%M} UTC, {self.evaluation_id}"


class AlertedQuestion(Model):
    """A question whose answer got worse."""

    name: str = pydantic.Field(description="Question id in the source, or else in the dataset.")
    query_id: str = pydantic.Field(description="Question id in the dataset.")
    text: str = pydantic.Field(description="The question.")
    expected: str | None = pydantic.Field(None, description="The gold answer; absent if it has none.")
    before: str = pydantic.Field(description="The answer in the newest pinned run.")
    now: str = pydantic.Field(description="The answer now, or the error.")


class CourseStep(Model):
    """A night on which something changed."""

    night: pydantic.AwareDatetime = pydantic.Field(description="When the evaluation began.")
    evaluation_id: str = pydantic.Field(description="Evaluation of that night.")
    text: str = pydantic.Field(description="What changed.")


class Alert(FileModel):
    """One incident, failed run, or set of overdue pairs."""

    file_type: ClassVar[str] = "alert"
    current_version: ClassVar[str] = "1.1"

    schema_version: SchemaVersion = pydantic.Field(current_version, description="Of this file's form.")
    alert_id: str = pydantic.Field(description="Stable id; prevents duplicate alerts.")
    kind: Kind = pydantic.Field(description="The worst change in it.")
    subject: str = pydantic.Field(description="Subject in one line.")
    night: pydantic.AwareDatetime = pydantic.Field(description="When the evaluation or the run began.")
    created_at: pydantic.AwareDatetime = pydantic.Field(description="When the alert was written.")
    benchmark: str | None = pydantic.Field(None, description="Benchmark name.")
    system: str | None = pydantic.Field(None, description="System name.")
    evaluation_id: str | None = pydantic.Field(None, description="Evaluation that showed it.")
    rerun: str | None = pydantic.Field(None, description="Rerun that confirmed it.")
    page: str = pydantic.Field("index.html", description="Page of the report.")
    baseline: tuple[str, ...] = pydantic.Field((), description="Evaluations that it was compared with.")
    changes: tuple[AlertedMetric, ...] = pydantic.Field((), description="Changes, one per metric.")
    together: tuple[str, ...] = pydantic.Field((), description="Metrics that also moved, but not significantly.")
    cause: str | None = pydantic.Field(None, description="Where to look; absent if nothing is known.")
    failed: tuple[int, int, int] | None = pydantic.Field(
        None, description="Failed questions now and before; all questions."
    )
    worst: tuple[AlertedQuestion, ...] = pydantic.Field((), description="Questions that got worse.")
    course: tuple[CourseStep, ...] = pydantic.Field((), description="Nights on which something changed, oldest first.")
    error: str | None = pydantic.Field(None, description="Error of the failed run.")
    late: tuple[LatePair, ...] = pydantic.Field((), description="Pairs that are late.")
    delivered_at: pydantic.AwareDatetime | None = pydantic.Field(None, description="When it was delivered.")
    closed: bool = pydantic.Field(False, description="True once later changes start a new incident.")
    resolved_at: pydantic.AwareDatetime | None = pydantic.Field(
        None, description="When the incident was found to be over."
    )
    resolution_delivered_at: pydantic.AwareDatetime | None = pydantic.Field(
        None, description="When that was delivered."
    )


def alerts_folder(workspace: Workspace) -> Path:
    """Return the folder of alerts."""
    return workspace.reports / "alerts"
