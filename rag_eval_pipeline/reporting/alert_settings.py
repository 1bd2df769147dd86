"""`data/config/alerts.config.yaml`: who is told, and where a message points."""

import pydantic

from rag_eval_pipeline.formats.model import Model, bad_format
from rag_eval_pipeline.systems.settings import read_yaml
from rag_eval_pipeline.workspace import Workspace

FILE = "alerts.config.yaml"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


class AlertSettings(Model):
    """Alerts are files in any case; these settings send them too."""

    webhook_url_env: str | None = pydantic.Field(
        None,
        pattern=VARIABLE,
        description="Name of the environment variable that holds the address of an incoming webhook; the address is a "
        "secret and stands in no file.",
    )
    run_failures: bool = pydantic.Field(True, description="Runs that failed are told, too.")
    late_after_hours: float | None = pydantic.Field(
        30.0,
        gt=0,
        description="A pair of the nightly schedule is late when its newest published evaluation is older, which is "
        "told once; null never tells. A night is a day after the one before, and may take hours.",
    )
    report_url: str | None = pydantic.Field(
        None, pattern=r"^https?://", description="Where people open the report; stands in every message."
    )
    mail_from: str | None = pydantic.Field(None, description="`From` of the mail files.")
    mail_to: str | None = pydantic.Field(None, description="`To` of the mail files.")
    questions_shown: int = pydantic.Field(5, ge=0, le=50, description="Questions a metric in a message.")
    retry_days: int = pydantic.Field(3, ge=1, description="Days after which an undelivered alert is no news.")


def read_alert_settings(workspace: Workspace) -> AlertSettings:
    """The settings; the defaults where there is no file.

    Raises:
        InputError: `bad_yaml`, or `bad_format` naming the first bad setting.
    """
    path = workspace.config / FILE
    try:
        return AlertSettings.model_validate(read_yaml(path) if path.exists() else {})
    except pydantic.ValidationError as error:
        raise bad_format(path, error) from error
