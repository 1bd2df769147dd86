"""Corrected rates: the share of right answers by people's standard, from a judge's share and people's labels.

A label is used by what the judge found on its answer, so labels may be chosen by the judge's verdict, as
`labelling_order` does. Where the labelled answers are a part of those whose rate is corrected, the estimate weighs the
share of right answers among those that the judge passes and among those that it fails: prediction-powered inference
for a verdict of yes or no, with the best tuning. For other answers by the same judge, only its error rates carry over,
and the estimate is Rogan and Gladen's. Both equal the judge's rate if the judge makes no errors.

Source: Tenenbein 1970 (double sampling); Angelopoulos et al. 2023, arXiv 2311.01453 (PPI++); Chen et al. 2026, arXiv
2601.05420 (it is never less precise than Rogan and Gladen's on its own answers); Rogan and Gladen 1978; Lee et al.
2025, arXiv 2511.21140 (the latter stays unbiased when the answers change); Fiedler 2026, arXiv 2605.06939 (one
calibration for systems with different errors). Coverage: `bench/corrected_rates.py`.
"""

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations
from statistics import NormalDist
from typing import NamedTuple, Self

from rag_eval_pipeline.formats.results import CorrectedRate
from rag_eval_pipeline.judges.agreement import Confusion
from rag_eval_pipeline.judges.trust_card import LabelledEvaluation, TrustCard, cards_of_people, is_other_model
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, Interval, effective_number, score_interval

MIN_LABELS = 30  # of one system, else of all; with fewer, intervals are wider than a fifth of the scale
OFFERED = 100  # answers that are offered for labelling, 25 at a time
_DIFFERENCE = 0.05  # level at which the judge's errors on two systems differ
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class LabelledAnswers(NamedTuple):
    """Labels against the judge's verdicts, and how many of all answers that they were chosen from it passes."""

    table: Confusion
    judged: int
    passed: int

    @classmethod
    def pooled(cls, parts: Iterable[LabelledEvaluation]) -> Self:
        """Add up the labels of several evaluations."""
        parts = list(parts)
        tables = [Confusion(**part.confusion.model_dump()) for part in parts]
        table = Confusion(*map(sum, zip(*tables, strict=True)))
        return cls(table, sum(part.judged for part in parts), sum(part.passed for part in parts))


class Corrected(NamedTuple):
    """A corrected rate with its 95 % interval."""

    value: float
    interval: Interval


def corrected_rate(rate: float, n: float, labels: LabelledAnswers, *, is_part: bool) -> Corrected | None:
    """Return the share of answers that people would call right.

    Args:
        rate: The judge's share.
        n: Of so many answers, fewer if they share documents.
        is_part: Whether the labelled answers are among them.

    Returns:
        Uncertain by both the labels and the answers. None where the labels are of other answers, and their error rates
        are those of chance or cannot lead to this rate.
    """
    table = labels.table
    smoothed = (rate * n + 0.5) / (n + 1)
    if is_part:
        right, wrong = _right_shares(table, 0.0)
        p, r = _right_shares(table, 0.5)
        value, centre = rate * right + (1 - rate) * wrong, rate * p + (1 - rate) * r
        variance = rate**2 * _variance(p, _passed(table)) + (1 - rate) ** 2 * _variance(r, _failed(table))
        variance += (p - r) ** 2 * _variance(smoothed, n)
        return Corrected(value, score_interval(value, centre * (1 - centre) / variance))
    hits, alarms = _error_rates(*_right_shares(table, 0.0), labels.passed / labels.judged)
    if hits <= alarms:
        return None
    value = min(1.0, max(0.0, (rate - alarms) / (hits - alarms)))
    # The rates t that a test does not reject: (rate - f - t (s - f))^2 <= z^2 Var, a quadratic in t.
    found = _Errors.of(labels)
    over, youden = smoothed - found.alarms, found.hits - found.alarms
    slopes = [(by_f, by_s - by_f, var) for by_s, by_f, var in found.gradient]
    a = youden**2 - _Z**2 * sum(slope**2 * var for _, slope, var in slopes)
    b = -2 * over * youden - 2 * _Z**2 * sum(start * slope * var for start, slope, var in slopes)
    c = over**2 - _Z**2 * (_variance(smoothed, n) + sum(start**2 * var for start, _, var in slopes))
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    ends = [t for t in (0.0, 1.0, (-b - root) / (2 * a), (-b + root) / (2 * a)) if 0 <= t <= 1]
    kept = [t for t in ends if (a * t + b) * t + c <= 1e-9]
    return Corrected(value, Interval(min(*kept, value), max(*kept, value))) if kept else None


def _passed(table: Confusion) -> int:
    return table.both_yes + table.labels_no_judge_yes


def _failed(table: Confusion) -> int:
    return table.labels_yes_judge_no + table.both_no


def _variance(share: float, n: float) -> float:
    return share * (1 - share) / max(n, 1)


def _right_shares(table: Confusion, prior: float) -> tuple[float, float]:
    """Return the share of right answers among those passed and failed; without labels the judge's word."""
    passed, failed = _passed(table) + 2 * prior, _failed(table) + 2 * prior
    right = (table.both_yes + prior) / passed if passed else 1.0
    return right, (table.labels_yes_judge_no + prior) / failed if failed else 0.0


def _error_rates(p: float, r: float, passed: float) -> tuple[float, float]:
    """Return the share passed of right and of wrong answers; p and r as of `_right_shares`."""
    right = passed * p + (1 - passed) * r
    return passed * p / right if right else 1.0, passed * (1 - p) / (1 - right) if right < 1 else 0.0


class _Errors(NamedTuple):
    """Shares passed of right and wrong answers; derivatives of both by each estimated share, with its variance."""

    hits: float
    alarms: float
    gradient: tuple[tuple[float, float, float], ...]

    @classmethod
    def of(cls, labels: LabelledAnswers) -> Self:
        p, r = _right_shares(labels.table, 0.5)
        q = (labels.passed + 0.5) / (labels.judged + 1)
        right = q * p + (1 - q) * r
        s, f = right**2, (1 - right) ** 2
        both = q * (1 - q)
        return cls(
            *_error_rates(p, r, q),
            (
                (both * r / s, -both * (1 - r) / f, _variance(p, _passed(labels.table))),
                (-both * p / s, both * (1 - p) / f, _variance(r, _failed(labels.table))),
                (p * r / s, (1 - p) * (1 - r) / f, _variance(q, labels.judged)),
            ),
        )


def different_errors(systems: Mapping[str, LabelledAnswers]) -> str | None:
    """Return a sentence if a judge's error rates differ between two systems with enough labels; the surest first."""
    pairs = list(combinations([(name, one) for name, one in systems.items() if sum(one.table) >= MIN_LABELS], 2))
    limit = NormalDist().inv_cdf(1 - _DIFFERENCE / 4 / max(1, len(pairs)))  # two sides, two rates, all pairs
    z, sentence = max((one for pair in pairs for one in _differences(*pair)), default=(0.0, ""))
    return sentence if z > limit else None


def _differences(one: tuple[str, LabelledAnswers], two: tuple[str, LabelledAnswers]) -> Iterator[tuple[float, str]]:
    (name, labels), (other, others) = one, two
    a, b = _Errors.of(labels), _Errors.of(others)
    seen = [_error_rates(*_right_shares(side.table, 0.0), side.passed / side.judged) for side in (labels, others)]
    for kind, answers, difference in ((1, "wrong", a.alarms - b.alarms), (0, "right", a.hits - b.hits)):
        variance = sum(by[kind] ** 2 * by[2] for by in (*a.gradient, *b.gradient))
        yield (
            abs(difference) / math.sqrt(variance),
            f"The judge passes {100 * seen[0][kind]:.0f} % of the {answers} answers of {name} and "
            f"{100 * seen[1][kind]:.0f} % of those of {other}: its rates of the two cannot be compared, and labels of "
            "one do not correct the rate of the other.",
        )


def labelling_order(passed: Mapping[str, bool], table: Confusion | None = None) -> list[str]:
    """Return the answers whose labels shorten the interval most, first the most useful one.

    Each next label is of the answers passed or failed, whichever has the larger part in the variance (Neyman's
    allocation); within either they come in the order of a hash, as a random sample would.

    Args:
        passed: Whether the judge passes each answer that has no label.
        table: The labels so far.
    """
    p, r = _right_shares(table or Confusion(0, 0, 0, 0), 1.0)
    share = sum(passed.values()) / max(1, len(passed))
    weights = {True: share**2 * p * (1 - p), False: (1 - share) ** 2 * r * (1 - r)}
    n = {True: _passed(table), False: _failed(table)} if table else {True: 0, False: 0}
    queues = {
        kind: sorted((name for name, one in passed.items() if one == kind), key=_shuffled, reverse=True) for kind in n
    }
    order: list[str] = []
    while len(order) < OFFERED and (left := [kind for kind in n if queues[kind]]):
        kind = max(left, key=lambda kind: weights[kind] / ((n[kind] + 1) * (n[kind] + 2)))
        order.append(queues[kind].pop())
        n[kind] += 1
    return order


def _shuffled(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def correction(
    cards: Iterable[TrustCard], *, benchmark: str, fingerprint: str | None, system: str,
    models: Collection[str], answers_of: Iterable[str | None], rate: float | None,
    interval: tuple[float, float] | None,
) -> CorrectedRate | None:  # fmt: skip
    """Return a share of correct answers corrected by the labels on the judge's card; None without enough of them.

    Args:
        models: As the judge's server reported them: labels of another model's verdicts say nothing about these.
        answers_of: The evaluations that have these answers.
        rate: The judge's share, with its interval.
    """
    cards = [card for card in cards if not is_other_model(models, card.models)]
    found = labelled_evaluations(cards, benchmark=benchmark, fingerprint=fingerprint)
    if rate is None or interval is None or found is None:
        return None
    parts, differs = found
    own = [part for part in parts if part.system == system]
    used = own if sum(LabelledAnswers.pooled(own).table if own else ()) >= MIN_LABELS else parts
    labels, answers = LabelledAnswers.pooled(used), set(answers_of)
    n_labels = sum(labels.table)
    is_part = all(part.evaluation in answers for part in used)
    made = corrected_rate(rate, effective_number(rate, interval), labels, is_part=is_part)
    if n_labels < MIN_LABELS or made is None:
        return None
    systems = tuple(dict.fromkeys(part.system for part in used))
    return CorrectedRate(
        value=made.value, confidence_interval=made.interval, n_labels=n_labels, labels_of=systems,
        is_of_these_answers=is_part, warning=differs if systems != (system,) else None,
    )  # fmt: skip


def labelled_evaluations(
    cards: Iterable[TrustCard], *, benchmark: str, fingerprint: str | None
) -> tuple[tuple[LabelledEvaluation, ...], str | None] | None:
    """Return people's labels of correctness by evaluation, and how the judge's errors differ; None without any."""
    for card in cards_of_people(cards, benchmark=benchmark, fingerprint=fingerprint):
        for trust in card.tasks:
            if trust.task == "correctness" and trust.evaluations:
                return trust.evaluations, trust.different_errors
    return None
