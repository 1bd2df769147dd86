"""Trust cards: how far a judge agrees with labels on one benchmark, and whether its scores may be relied on there.

A judge is calibrated for one benchmark, one fingerprint and one task, by people's labels only, when the labels are
enough, both verdicts occur, and the lower limit of kappa is high enough. It is looked up when scores are shown, and
stored with no score.
"""

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model, SchemaVersion
from rag_eval_pipeline.judges.calibration_labels import Task

SUFFIX = ".trust.json"
LabelsBy = Literal["human", "own", "model ratings"]

logger = logging.getLogger(__name__)


class Limits(Model):
    """A value's 95 % interval."""

    low: float = pydantic.Field(description="Lower limit.")
    high: float = pydantic.Field(description="Upper limit.")


class Share(Model):
    """A share with its 95 % interval."""

    value: float = pydantic.Field(ge=0, le=1, description="Of the cases.")
    interval: Limits = pydantic.Field(description="Wilson's.")
    n: int = pydantic.Field(ge=1, description="Cases.")


class KappaRecord(Model):
    """Cohen's kappa; see `calibration_agreement`."""

    value: float | None = pydantic.Field(None, description="At most 1; null with a reason.")
    reason: str | None = pydantic.Field(None, description="nothing_to_compare, no_variation.")
    interval: Limits | None = pydantic.Field(None, description="The wider ends of both; its lower one decides.")
    analytic: Limits | None = pydantic.Field(None, description="By the large-sample standard error.")
    bootstrap: Limits | None = pydantic.Field(None, description="Percentiles over seeded resamples.")


class ConfusionRecord(Model):
    """Verdicts of both; yes is correct, supported or refused."""

    both_yes: int = pydantic.Field(ge=0, description="Labels and judge say yes.")
    labels_yes_judge_no: int = pydantic.Field(ge=0, description="The judge is too strict.")
    labels_no_judge_yes: int = pydantic.Field(ge=0, description="The judge is too kind.")
    both_no: int = pydantic.Field(ge=0, description="Labels and judge say no.")


class Bias(Model):
    """What the judge does to a mean."""

    value: float = pydantic.Field(ge=-1, le=1, description="The judge's share of yes less that of the labels.")
    interval: Limits = pydantic.Field(description="Agresti and Min's, 95 %.")


class Disagreement(Model):
    """One of the worst."""

    query_id: str = pydantic.Field(description="Whose answer it is.")
    label: bool = pydantic.Field(description="What the labels say.")
    judge: str = pydantic.Field(description="What the judge says.")
    score: float = pydantic.Field(ge=0, le=1, description="The judge's.")
    reason: str = pydantic.Field(description="The judge's.")
    text: str = pydantic.Field(description="Of the claim, else of the answer; its first 200 characters.")
    against: str = pydantic.Field(
        "", description="Gold answers, else the evidence looked at; its first 200 characters. Empty for refusals."
    )


class TaskTrust(Model):
    """Agreement on one task."""

    task: Task = pydantic.Field(description="What was asked.")
    n_labels: int = pydantic.Field(ge=0, description="Things labelled, ties and those without an answer included.")
    n_compared: int = pydantic.Field(ge=0, description="Of them, those that the judge judged too.")
    n_ties: int = pydantic.Field(0, ge=0, description="Labelled by as many so as the other way; left out.")
    not_judged: dict[str, int] = pydantic.Field(
        default_factory=dict, description="Why the others are left out: the judge's failures by code, no_answer, ..."
    )
    n_unsure: int = pydantic.Field(0, ge=0, description="Of those compared: the judge is unsure, which counts as no.")
    kappa: KappaRecord = pydantic.Field(description="Over all that were compared.")
    kappa_sure: KappaRecord = pydantic.Field(description="Without those of which the judge is unsure.")
    confusion: ConfusionRecord = pydantic.Field(description="Counts behind kappa.")
    bias: Bias | None = pydantic.Field(None, description="Null without anything compared.")
    repeat_agreement: Share | None = pydantic.Field(
        None,
        description="Equal verdicts when judged twice; null for a judge that cannot differ, or when not asked for.",
    )
    annotator_alpha: float | None = pydantic.Field(
        None, description="Krippendorff's alpha of those who labelled the same; null when none did."
    )
    worst: tuple[Disagreement, ...] = pydantic.Field((), description="Up to twenty, the surest mistakes first.")
    is_calibrated: bool = pydantic.Field(description="Whether the judge's scores of this task may be relied on here.")
    shortcomings: tuple[str, ...] = pydantic.Field((), description="Why not, a sentence each.")


class PositionSwap(Model):
    """A rating of two texts, with the one first and with the other."""

    rating: str = pydantic.Field(description="Name of the protocol.")
    equal: Share = pydantic.Field(description="Answers that get the same grade both ways.")
    difference: float = pydantic.Field(description="Mean score of the first way less that of the second.")


class TrustCard(FileModel):
    """`<benchmark>.<judge>.<labels>.trust.json`."""

    schema_version: SchemaVersion = pydantic.Field(SCHEMA_VERSION, description="Of this file's form.")
    benchmark: str = pydantic.Field(description="Whose answers were judged.")
    systems: tuple[str, ...] = pydantic.Field((), description="Whose answers they are.")
    judge: str = pydantic.Field(description="What judges.")
    judge_fingerprint: str = pydantic.Field(description="Of the judge; another fingerprint is another judge.")
    labels_by: LabelsBy = pydantic.Field(
        description="Whose labels they are: people's, the project's own, or another model's. Only people's calibrate."
    )
    annotators: tuple[str, ...] = pydantic.Field((), description="Who labelled, where it is known.")
    labels_sha256: str | None = pydantic.Field(
        None, description="Of the labels' file; of several, of their bytes in a row."
    )
    models: tuple[str, ...] = pydantic.Field((), description="What the judge's server says that it used.")
    seed: int = pydantic.Field(description="Of the resamples.")
    tasks: tuple[TaskTrust, ...] = pydantic.Field(description="Each task that has labels.")
    position_swaps: tuple[PositionSwap, ...] = pydantic.Field((), description="Each rating that compares two texts.")

    @property
    def file_name(self) -> str:
        """One file for a benchmark, a judge and whose labels they are; a newer card replaces the older one."""
        judge = hashlib.sha256(self.judge_fingerprint.encode()).hexdigest()[:12]
        return f"{self.benchmark}.{judge}.{self.labels_by.replace(' ', '-')}{SUFFIX}"


def write_trust_card(card: TrustCard, folder: Path) -> Path:
    """Writes a card and, beside it, the same for people in Markdown; returns the card's path."""
    from rag_eval_pipeline.judges.calibration_text import card_markdown
    from rag_eval_pipeline.storage.atomic import atomic_write

    path = folder / card.file_name
    card.write(path)
    atomic_write(path.with_suffix(".md"), card_markdown(card).encode())
    return path


def read_trust_cards(folder: Path) -> tuple[TrustCard, ...]:
    """All cards of a folder, by name; a damaged one is passed over with a warning: it lifts nothing."""
    cards = []
    for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []:
        try:
            cards.append(TrustCard.read(path))
        except InputError as error:
            logger.warning("A trust card is left aside: %s", error)
    return tuple(cards)


def is_calibrated(cards: Iterable[TrustCard], *, benchmark: str, fingerprint: str | None, task: Task) -> bool:
    """Whether a judge's scores of a task may be relied on, on one benchmark.

    Args:
        cards: That there are.
        benchmark: Whose scores.
        fingerprint: The judge's; None for no judge.
        task: What was judged.
    """
    return any(
        trust.is_calibrated
        for card in cards
        if (card.benchmark, card.judge_fingerprint, card.labels_by) == (benchmark, fingerprint, "human")
        for trust in card.tasks
        if trust.task == task
    )
