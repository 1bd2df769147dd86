"""Trust cards: how far a judge agrees with labels on one benchmark, and whether its scores may be relied on there.

A card is about one benchmark, one fingerprint of a judge, and people's labels. It is looked up when scores are shown,
and stored with none.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model, SchemaVersion
from rag_eval_pipeline.storage.atomic_files import atomic_write

SUFFIX = ".trust.json"
Task = Literal["correctness", "support", "refusal"]
LabelsBy = Literal["human", "own", "model ratings"]

_WHOSE = {
    "human": "people's labels",
    "own": "labels of this project's own: they calibrate nothing",
    "model ratings": "ratings of another model, which are no truth: they calibrate nothing",
}
YES: dict[Task, str] = {"correctness": "correct", "support": "supported", "refusal": "refused"}
"""What "yes" means for each task."""

logger = logging.getLogger(__name__)


class Limits(Model):
    """A value's 95 % interval."""

    low: float
    high: float


class Share(Model):
    """A share with its 95 % interval."""

    value: float = pydantic.Field(ge=0, le=1)
    interval: Limits  # Wilson's
    n: int = pydantic.Field(ge=1)


class KappaRecord(Model):
    """Cohen's kappa; see `calibration.kappa_of`."""

    value: float | None = None  # at most 1; null with a reason
    reason: str | None = None  # nothing_to_compare, no_variation
    interval: Limits | None = None  # the wider ends of both; its lower one decides
    analytic: Limits | None = None  # by the large-sample standard error
    bootstrap: Limits | None = None  # percentiles over seeded resamples


class ConfusionRecord(Model):
    """Verdicts of both; yes is correct, supported or refused."""

    both_yes: int = pydantic.Field(ge=0)  # yes by labels and judge
    labels_yes_judge_no: int = pydantic.Field(ge=0)  # the judge is too strict
    labels_no_judge_yes: int = pydantic.Field(ge=0)  # the judge is too lenient
    both_no: int = pydantic.Field(ge=0)  # no by labels and judge


class Bias(Model):
    """What the judge does to a mean."""

    value: float = pydantic.Field(ge=-1, le=1)  # the judge's share of yes less that of the labels
    interval: Limits  # Agresti and Min's, 95 %


class Disagreement(Model):
    """One of the worst disagreements."""

    query_id: str
    label: bool  # yes or no by the labels
    judge: str
    score: float = pydantic.Field(ge=0, le=1)
    reason: str
    text: str  # of the claim, else of the answer; its first 200 characters
    against: str = ""  # gold answers, else the evidence compared with; its first 200 characters. Empty for refusals.


class LabelledEvaluation(Model):
    """The labels of one evaluation's answers against the judge's verdicts, and all answers it was given there."""

    system: str
    evaluation: str
    confusion: ConfusionRecord
    judged: int = pydantic.Field(ge=1)  # answers with a verdict, labelled or not
    passed: int = pydantic.Field(ge=0)  # of them, those that the judge finds correct


class TaskTrust(Model):
    """Agreement on one task."""

    task: Task
    n_labels: int = pydantic.Field(ge=0)  # things labelled, ties and those without an answer included
    n_compared: int = pydantic.Field(ge=0)  # of them, those that the judge judged too
    n_ties: int = pydantic.Field(0, ge=0)  # labelled yes as often as no; left out
    # Why the others are left out: the judge's failures by code, no_answer, ...
    not_judged: dict[str, int] = pydantic.Field(default_factory=dict)
    n_unsure: int = pydantic.Field(0, ge=0)  # of those compared: the judge is unsure, which counts as no
    kappa: KappaRecord  # over all that were compared
    kappa_sure: KappaRecord  # without those of which the judge is unsure
    confusion: ConfusionRecord
    bias: Bias | None = None  # null without anything compared
    # Equal verdicts if judged twice; null for a judge that cannot differ, or if not asked for.
    repeat_agreement: Share | None = None
    annotator_alpha: float | None = None  # Krippendorff's alpha of those who labelled the same; null if none did
    worst: tuple[Disagreement, ...] = ()  # up to twenty, the surest mistakes first
    evaluations: tuple[LabelledEvaluation, ...] = ()  # of correctness: what corrects the judge's rates
    different_errors: str | None = None  # how the judge's errors differ between two systems, if they surely do
    is_calibrated: bool  # whether the judge's scores of this task may be relied on here
    shortcomings: tuple[str, ...] = ()  # why not, a sentence each


class TrustCard(FileModel):
    """`<benchmark>.<judge>.<labels>.trust.json`."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    benchmark: str  # whose answers were judged
    systems: tuple[str, ...] = ()  # whose answers they are
    judge: str
    judge_fingerprint: str  # of the judge; another fingerprint is another judge
    # Whose labels they are: people's, the project's own, or another model's. Only people's calibrate.
    labels_by: LabelsBy
    annotators: tuple[str, ...] = ()  # who labelled, if known
    labels_sha256: str | None = None  # of the labels' file; of several, of their bytes one after the other
    models: tuple[str, ...] = ()  # the models that the judge's server reports
    seed: int  # of the resamples
    tasks: tuple[TaskTrust, ...]

    @property
    def file_name(self) -> str:
        """One file for each benchmark, judge and kind of labels; a newer card replaces the older one."""
        judge = hashlib.sha256(self.judge_fingerprint.encode()).hexdigest()[:12]
        return f"{self.benchmark}.{judge}.{self.labels_by.replace(' ', '-')}{SUFFIX}"


def write_trust_card(card: TrustCard, folder: Path) -> Path:
    """Write a card and, beside it, its text in Markdown; return the card's path."""
    path = folder / card.file_name
    card.write(path)
    atomic_write(path.with_suffix(".md"), card_markdown(card).encode())
    return path


def read_trust_cards(folder: Path) -> tuple[TrustCard, ...]:
    """Read all cards of a folder, by name; a damaged one is skipped with a warning and calibrates nothing."""
    cards = []
    for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []:
        try:
            cards.append(TrustCard.read(path))
        except InputError as error:
            logger.warning("A trust card is skipped: %s", error)
    return tuple(cards)


def cards_of_people(cards: Iterable[TrustCard], *, benchmark: str, fingerprint: str | None) -> list[TrustCard]:
    """Return the cards of the judge with this fingerprint by people's labels on one benchmark."""
    wanted = (benchmark, fingerprint, "human")
    return [card for card in cards if (card.benchmark, card.judge_fingerprint, card.labels_by) == wanted]


def is_other_model(models: Iterable[str], before: Iterable[str]) -> bool:
    """Whether a judge's server reports other models than before; False if either is unknown."""
    now, then = {*models}, {*before}
    return bool(now and then) and not now & then


def is_calibrated(cards: Iterable[TrustCard], *, benchmark: str, fingerprint: str | None, task: Task) -> bool:
    """Whether people's labels calibrate the judge with this fingerprint for a task on one benchmark."""
    own = cards_of_people(cards, benchmark=benchmark, fingerprint=fingerprint)
    return any(trust.is_calibrated for card in own for trust in card.tasks if trust.task == task)


def card_markdown(card: TrustCard) -> str:
    """Return the card's text for people, ending in a newline."""
    return "\n".join(_card_lines(card)) + "\n"


def summary_lines(card: TrustCard) -> Iterator[str]:
    """Yield the card's numbers for a terminal."""
    for trust in card.tasks:
        yield f"{trust.task}: {'calibrated' if trust.is_calibrated else 'not calibrated'}"
        yield from (f"  {sentence}" for sentence in (*trust.shortcomings, *_sentences(trust, str)))
        table, yes = trust.confusion, YES[trust.task]
        yield (
            f"  Equal verdicts: {table.both_yes + table.both_no}; {yes} only by the labels: "
            f"{table.labels_yes_judge_no}, only by the judge: {table.labels_no_judge_yes}."
        )


def _card_lines(card: TrustCard) -> Iterator[str]:
    yield f"# Trust card: {card.judge} on {card.benchmark}"
    yield ""
    yield f"Compared with {_WHOSE[card.labels_by]}."
    if card.systems:
        yield f"Answers by {', '.join(map(_cell, card.systems))}."
    if card.annotators:
        yield f"Labelled by {', '.join(map(_cell, card.annotators))}."
    if card.models:
        yield f"The server used {', '.join(map(_cell, card.models))}."
    yield f"Judge fingerprint: `{_cell(card.judge_fingerprint)}`."
    for trust in card.tasks:
        yield ""
        yield from _task_lines(trust)


def _task_lines(trust: TaskTrust) -> Iterator[str]:
    yes = YES[trust.task]
    yield f"## {trust.task.capitalize()}: {'calibrated' if trust.is_calibrated else 'not calibrated'}"
    yield ""
    yield from (f"- {sentence}" for sentence in trust.shortcomings)
    if trust.shortcomings:
        yield ""
    yield from _sentences(trust, _cell)
    table = trust.confusion
    yield ""
    yield f"| | judge: {yes} | judge: not |"
    yield "|---|---|---|"
    yield f"| labels: {yes} | {table.both_yes} | {table.labels_yes_judge_no} |"
    yield f"| labels: not | {table.labels_no_judge_yes} | {table.both_no} |"
    if trust.worst:
        yield ""
        yield "| query | label | judge | score | reason | text | against |"
        yield "|---|---|---|---|---|---|---|"
        for one in trust.worst:
            label = yes if one.label else f"not {yes}"
            cells = (one.query_id, label, one.judge, f"{one.score:.2f}", one.reason, one.text, one.against)
            yield f"| {' | '.join(map(_cell, cells))} |"


_LEFT_OUT = {
    "needs_support_judge": "claims, which this judge cannot judge",
    "no_answer": "of questions without an answer",
    "tie": "labelled yes as often as no",
}


def _sentences(trust: TaskTrust, escape: Callable[[str], str]) -> Iterator[str]:
    yield f"Kappa {_kappa(trust.kappa)}, over {trust.n_compared} of {trust.n_labels} labelled."
    if trust.n_unsure:
        yield f"The judge is unsure of {trust.n_unsure}, which count as no; without them {_kappa(trust.kappa_sure)}."
    if trust.bias is not None:
        moved = f"{trust.bias.value:+.3f} ({_limits(trust.bias.interval, '+.3f')})"
        yield f"The judge's mean differs from the labels' by {moved}."
    left_out = trust.not_judged | ({"tie": trust.n_ties} if trust.n_ties else {})
    if left_out:
        reasons = (f"{count} {_LEFT_OUT.get(reason) or escape(reason)}" for reason, count in sorted(left_out.items()))
        yield f"Left out: {', '.join(reasons)}."
    if trust.repeat_agreement is not None:
        share = trust.repeat_agreement
        yield f"Judged twice, {share.value:.3f} of {share.n} verdicts are equal ({_limits(share.interval)})."
    if trust.different_errors is not None:
        yield escape(trust.different_errors)
    if trust.annotator_alpha is not None:
        yield f"Those who labelled the same agree with alpha {trust.annotator_alpha:.3f}."


def _kappa(kappa: KappaRecord) -> str:
    if kappa.value is None:
        return f"has no value ({kappa.reason})"
    return f"{kappa.value:.3f} ({_limits(kappa.interval)})" if kappa.interval else f"{kappa.value:.3f}"


def _limits(limits: Limits, form: str = ".3f") -> str:
    return f"{limits.low:{form}} to {limits.high:{form}}"


def _cell(text: str) -> str:
    """Escape a text of others for one cell of a Markdown table."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return "".join(f"\\{c}" if c in "\\|`*_[]<>!#" else c for c in plain)
