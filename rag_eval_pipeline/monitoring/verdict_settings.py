"""The settings of verdicts, and what follows from them."""

from typing import Any

import pydantic

from rag_eval_pipeline.formats.model import Model, read_model
from rag_eval_pipeline.metrics.verdict_rules import FIRST_LOOK, RULES, VERDICTS_FILE, Budget, QualityThresholds, Rules
from rag_eval_pipeline.workspace import Workspace


class VerdictSettings(Model):
    """`data/config/verdicts.config.yaml`; the documented error rates were simulated with these defaults."""

    false_alarms_a_year: float = pydantic.Field(
        Budget().false_alarms_a_year,
        gt=0,
        le=100,
        description="Upper limit of false alarms a year over the nights of all pairs together, counting "
        "changes for the worse and for the better.",
    )
    alpha: float = pydantic.Field(
        2 * RULES.level,
        gt=0,
        lt=1,
        description="Level of the two-sided test of two evaluations (`compare`, A/B tests), after Holm's correction "
        "over the metrics.",
    )
    min_effect: float = pydantic.Field(
        RULES.min_effect, ge=0, le=1, description="Smaller changes, as a share of a metric's range, are never reported."
    )
    equivalence_margin: float = pydantic.Field(
        RULES.equivalence_margin, gt=0, le=1, description="A change is small if its whole interval is within this."
    )
    min_questions: int = pydantic.Field(
        RULES.min_questions, ge=2, description="Fewer questions get no verdict, however many documents they share."
    )
    rerun_after_hours: float = pydantic.Field(
        2.0,
        ge=0,
        description="Minimum hours between a flagged night and its rerun, so that one bad hour "
        "of a server does not confirm itself.",
    )
    blocking: bool = pydantic.Field(False, description="A confirmed regression fails the run; otherwise it warns.")
    quality_thresholds: QualityThresholds = pydantic.Field(QualityThresholds(), description="Limits on the metrics.")

    def rules(self) -> Rules:
        """Return the rules of a comparison of two evaluations."""
        return Rules(level=self.alpha / 2, final_level=self.alpha / 2, **self._limits())

    def night_rules(self, runs: int, budget: Budget) -> Rules:
        """Return the rules of a night with its reruns: a first look alone, a decision by the budget with them."""
        level, text = (FIRST_LOOK, "for a rerun") if runs == 1 else (budget.level(runs), budget.text)
        return Rules(level=level, level_text=text, final_level=budget.level(2), final_runs=2, **self._limits())

    def _limits(self) -> dict[str, Any]:
        return self.model_dump(include={"min_effect", "equivalence_margin", "min_questions"})


def read_verdict_settings(workspace: Workspace) -> VerdictSettings:
    """Read the settings; the defaults if there is no file."""
    return read_model(VerdictSettings, workspace.config / VERDICTS_FILE)
