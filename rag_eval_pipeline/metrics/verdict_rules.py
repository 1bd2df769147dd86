"""The parameters of verdicts: levels, limits, the yearly budget of false alarms, and the names of their outcomes."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import pydantic

from rag_eval_pipeline.formats.model import Model, bad_format_of
from rag_eval_pipeline.storage.yaml_files import read_settings
from rag_eval_pipeline.workspace import Workspace

FAILURE_RATE = "Failure rate"


# Raised with every change of the rules by which verdicts are found; recorded with every night.
PROCEDURE = 4
Confirmation = Literal["pending", "confirmed", "not_confirmed", "not_needed", "no_rerun", "provisional"]
VerdictKind = Literal["withheld", "regressed", "changed", "improved", "equivalent", "inconclusive", "no_verdict"]
State = Literal["unflagged", "unconfirmed", "regressed", "changed", "improved", "unknown"]
CHANGES: tuple[Literal["regressed", "changed", "improved"], ...] = ("regressed", "changed", "improved")
BASELINE_RUNS = 5  # that are pinned; with fewer, no change alerts
REFERENCE_RUNS = 20  # pinned ones and quiet nights; later ones would hide a slow decline
RUNS = 4  # of a night at most: itself and three reruns
FIRST_LOOK = 0.01  # after Holm's correction: a smaller p asks for a rerun
ONE_SIDED = 2 / 3  # of the questions that changed for good; with fewer on one side it is a change, not a decline
FLIP_SHARE_MAX = 0.10  # the error rates of the procedure were simulated up to here
QUIET_NIGHTS = 3  # unflagged nights in a row after which the same change alerts again
CONFIDENCE_LEVEL = 0.025  # of either side of the 95 % interval
ROUNDING = 1e-9  # a drop of exactly one point, averaged over fifths, comes out as 0.00999999999999999
ZERO_LIMIT = 1e-12  # replaces a limit of exactly 0 that rounding would reach


@dataclass(frozen=True, slots=True)
class Rules:
    """The parameters of the procedure; effects are shares of a metric's range."""

    level: float = FIRST_LOOK  # one-sided, after Holm's correction over the metrics of one comparison
    level_text: str = ""  # what the level is for: `so that 12 pairs raise at most one false alarm in two years`
    final_level: float = FIRST_LOOK  # of the last decision, with so many runs
    final_runs: int = 1
    min_effect: float = 0.01  # smaller changes of the mean are never reported
    equivalence_margin: float = 0.02  # a metric is equivalent if its whole interval is inside this
    min_questions: int = 30  # fewer questions get no verdict


RULES = Rules()


class Budget(NamedTuple):
    """How many false alarms the nights of all pairs may raise; an upper bound for any number of nights."""

    false_alarms_a_year: float = 0.5
    n_pairs: int = 1  # evaluated every night
    share: float = 1.0  # of it for verdicts on all questions; where segments are tested, they have the other half

    @property
    def a(self) -> float:
        """The share of one pair, night and side."""
        return self.false_alarms_a_year / 2 / 365 / self.n_pairs

    def level(self, runs: int) -> float:
        """Return the level of a decision with the night and its reruns: half for the first, a quarter for each later.

        Source: the union bound (Bonferroni) over the decisions of a night, the sides, the nights and the pairs.
        """
        return self.a * self.share / (2 if runs <= 2 else 4)

    @property
    def text(self) -> str:
        """`so that 12 pairs raise at most one false alarm in two years`."""
        pairs = "1 pair raises" if self.n_pairs == 1 else f"{self.n_pairs} pairs raise"
        a_year = self.false_alarms_a_year
        if a_year < 1:
            rate = f"one false alarm in {_few(1 / a_year)} years"
        else:
            rate = "one false alarm a year" if a_year == 1 else f"{_few(a_year)} false alarms a year"
        return f"so that {pairs} at most {rate}"


def _few(number: float) -> str:
    words = {2: "two", 3: "three", 4: "four", 5: "five"}
    return words.get(round(number, 6), f"{number:.3g}")  # type: ignore[call-overload,no-any-return]


VERDICTS_FILE = "verdicts.config.yaml"
THRESHOLDS_KEY = "quality_thresholds"  # in that file


class QualityThresholds(Model):
    """The least, and for hallucination the most, that a mean or an answer's score may be; null sets no limit."""

    span_accuracy: float | None = pydantic.Field(None, ge=0, le=1, description="Minimum of the citation overlap.")
    citation_validity: float | None = pydantic.Field(
        None, ge=0, le=1, description="Minimum share of citations that support their claim."
    )
    answer_consistency: float | None = pydantic.Field(None, ge=0, le=1, description="Minimum factual consistency.")
    hallucination_tolerance: float | None = pydantic.Field(
        None, ge=0, le=1, description="Maximum share of claims that no cited text supports."
    )


def read_quality_thresholds(workspace: Workspace) -> QualityThresholds:
    """Read the thresholds of a workspace; none without the file.

    They move no score, so they are read when results are published and are in no fingerprint.

    Raises:
        InputError: `bad_yaml`, or `bad_format` naming the first bad limit.
    """
    path = workspace.config / VERDICTS_FILE
    settings = read_settings(path, missing_ok=True)
    with bad_format_of(f"{path}, {THRESHOLDS_KEY}", QualityThresholds):
        return QualityThresholds.model_validate(settings.get(THRESHOLDS_KEY) or {})
