"""`data/config/retention.config.yaml`: how long things are kept."""

import pydantic

from rag_eval_pipeline.formats.model import Model, bad_format
from rag_eval_pipeline.systems.settings import read_yaml
from rag_eval_pipeline.workspace import Workspace

FILE = "retention.config.yaml"
LEAST_DAYS = 30  # the specification's promise of history


class RetentionSettings(Model):
    """How long things are kept; null keeps them for ever."""

    evaluation_days: int | None = pydantic.Field(
        30, ge=LEAST_DAYS, description="Answers and scores of an evaluation, since it began."
    )
    results_days: int | None = pydantic.Field(
        None, ge=LEAST_DAYS, description="Results files and their history tables, once the evaluation's folder is gone."
    )
    download_days: int | None = pydantic.Field(
        30, ge=1, description="Bodies that no benchmark names any more, since they came."
    )
    judgement_days: int | None = pydantic.Field(90, ge=1, description="Replies of judges, since their last use.")
    runs: int | None = pydantic.Field(
        90, ge=LEAST_DAYS, description="Days that Dagster's own runs are kept; the newest of each partition always are."
    )
    judgement_mb: int | None = pydantic.Field(2048, ge=1, description="Of the replies that are left, what stays.")


def read_retention_settings(workspace: Workspace) -> RetentionSettings:
    """The settings; the defaults where there is no file.

    Raises:
        InputError: `bad_yaml`, or `bad_format` naming the first bad setting.
    """
    path = workspace.config / FILE
    try:
        return RetentionSettings.model_validate(read_yaml(path) if path.exists() else {})
    except pydantic.ValidationError as error:
        raise bad_format(path, error) from error
