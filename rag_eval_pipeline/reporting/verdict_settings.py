"""`data/config/verdicts.config.yaml`: the numbers of the nightly verdict, and the thresholds people have set.

The error rates that the documentation states were simulated with the numbers that stand here as defaults.
"""

import pydantic

from rag_eval_pipeline.evaluation.quality_limits import FILE
from rag_eval_pipeline.formats.model import Model, bad_format
from rag_eval_pipeline.metrics.evidence import RULES, Rules, Units
from rag_eval_pipeline.metrics.thresholds import QualityThresholds
from rag_eval_pipeline.systems.settings import read_yaml
from rag_eval_pipeline.workspace import Workspace


class VerdictSettings(Model):
    """How a night is compared with its pinned baseline."""

    alpha: float = pydantic.Field(RULES.alpha, gt=0, lt=1, description="Two-sided, after Holm over the metrics.")
    min_effect: float = pydantic.Field(
        RULES.min_effect, ge=0, le=1, description="The smallest change worth a word, as a share of a metric's range."
    )
    equivalence_margin: float = pydantic.Field(
        RULES.equivalence_margin, gt=0, le=1, description="A change is small when its whole interval is inside this."
    )
    min_questions: int = pydantic.Field(
        RULES.min_questions, ge=2, description="Fewer questions get no verdict, however many documents they share."
    )
    units: Units = pydantic.Field(
        RULES.units,
        description="What is tested where questions share documents. auto: questions, with the design effect that the "
        "pinned runs show (documents while fewer than three are pinned); documents: whole ones; questions: each by "
        "itself, also where noise is shared, which then raises false alarms.",
    )
    rerun_after_hours: float = pydantic.Field(
        2.0, ge=0, description="A bad hour of a server must not be confirmed by a rerun within it."
    )
    blocking: bool = pydantic.Field(False, description="A confirmed regression fails the run; otherwise it warns.")
    quality_thresholds: QualityThresholds = pydantic.Field(QualityThresholds(), description="Limits on the figures.")

    def rules(self, min_coverage: float) -> Rules:
        """The numbers as comparisons take them.

        Args:
            min_coverage: Of the evaluation's own settings.
        """
        return Rules(
            alpha=self.alpha,
            min_effect=self.min_effect,
            equivalence_margin=self.equivalence_margin,
            min_coverage=min_coverage,
            min_questions=self.min_questions,
            units=self.units,
        )


def read_verdict_settings(workspace: Workspace) -> VerdictSettings:
    """The settings; the defaults where there is no file.

    Raises:
        InputError: `bad_yaml`, or `bad_format` naming the first bad setting.
    """
    path = workspace.config / FILE
    try:
        return VerdictSettings.model_validate(read_yaml(path) if path.exists() else {})
    except pydantic.ValidationError as error:
        raise bad_format(path, error) from error
