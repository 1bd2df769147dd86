"""Calibration: compares a judge with people's labels and makes a trust card of their agreement.

Labels are JSON Lines or CSV, one label a line:

```text
{"query_id": "12", "task": "correctness", "label": "correct", "annotator": "ada"}
{"query_id": "12", "task": "support", "label": "not_supported", "claim": "It was built in 1874."}
```

A label of `support` is about the claim it names, else about all claims of the answer; by the evidence it names, else by
what the claim cites, else by what was retrieved.
"""

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple, Self

import krippendorff
import msgspec
import numpy as np
import pydantic
from numpy.typing import NDArray

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import Model, bad_format
from rag_eval_pipeline.judges.judgement import (
    LANGUAGE_NOT_SUPPORTED,
    NEEDS_SUPPORT_JUDGE,
    Case,
    CitedText,
    Claim,
    Judge,
    Judgement,
    Support,
)
from rag_eval_pipeline.judges.trust_card import (
    Bias,
    ConfusionRecord,
    Disagreement,
    KappaRecord,
    LabelsBy,
    Limits,
    Share,
    Task,
    TaskTrust,
    TrustCard,
)
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, RESAMPLES, SEED, wilson_interval
from rag_eval_pipeline.storage.csv_tables import read_csv_table
from rag_eval_pipeline.storage.json_files import checked_json, read_bytes

MIN_LABELS = 100  # at kappa 0.75 they leave about +-0.13
MIN_CLASS_SHARE = 0.10  # of either verdict; kappa means little if nearly all labels are equal
MIN_AGREEMENT = 0.60  # of kappa's lower limit
WORST_LISTED = 20
TEXT_SHOWN = 200  # characters
CASES_AT_ONCE = 32  # the endpoint limits how many are sent at once
SECOND_JUDGING = 1_000  # its entries in the cache are not those of the first
LABELS: dict[Task, tuple[frozenset[str], frozenset[str]]] = {
    "correctness": (frozenset({"correct"}), frozenset({"incorrect"})),
    "support": (frozenset({"supported"}), frozenset({"not_supported", "not_found", "conflicting"})),
    "refusal": (frozenset({"refused"}), frozenset({"answered"})),
}
"""Labels of each task that mean yes, and those that mean no."""


# --- labels


class Label(Model):
    """A person's verdict on an answer or on one of its claims."""

    query_id: str = pydantic.Field(min_length=1, description="The question's id.")
    task: Task = pydantic.Field(description="What was asked: correctness, support or refusal.")
    label: str = pydantic.Field(
        description="correct or incorrect; supported or not_supported (not_found, conflicting); refused or answered. "
        "Refusing an impossible question is correct."
    )
    claim: str | None = pydantic.Field(None, min_length=1, description="Of support: the claim, as the answer has it.")
    evidence: str | None = pydantic.Field(None, min_length=1, description="Of support: the text compared with.")
    annotator: str | None = pydantic.Field(None, min_length=1, description="Who labelled it.")
    note: str | None = pydantic.Field(None, description="For people; not evaluated.")

    @pydantic.model_validator(mode="after")
    def _one_of_the_task(self) -> Self:
        known = sorted(frozenset().union(*LABELS[self.task]))
        if self.label not in known:
            raise ValueError(f"a label of {self.task}: {', '.join(known)}")
        if self.task != "support" and (self.claim is not None or self.evidence is not None):
            raise ValueError("claim and evidence only for support")
        if self.evidence is not None and self.claim is None:
            raise ValueError("evidence only with its claim")
        return self

    @property
    def is_true(self) -> bool:
        """Whether it is the yes of its task."""
        return self.label in LABELS[self.task][0]

    @property
    def item(self) -> "Item":
        """What was labelled."""
        return Item(self.query_id, self.task, self.claim, self.evidence)


class Item(NamedTuple):
    """What was labelled: an answer, one of its claims, or a claim against one text."""

    query_id: str
    task: Task
    claim: str | None
    evidence: str | None


class Truth(NamedTuple):
    """The majority label of each item, in the labels' order.

    Args:
        ties: Items of each task labelled yes as often as no, which are left out.
        alpha: Krippendorff's; None if no two annotators labelled the same item, or if all labels are equal.
    """

    values: dict[Item, bool]
    ties: Counter[Task]
    annotators: tuple[str, ...]
    alpha: dict[Task, float | None]


def read_labels(path: Path) -> list[Label]:
    """Read the labels of a `.jsonl` or `.csv` file.

    Raises:
        InputError: `missing_file`, `unknown_form`, `bad_json`, `bad_csv`, `bad_format` with the row, `duplicate_label`,
            `no_labels`.
    """
    if path.suffix not in (".jsonl", ".csv"):
        raise InputError("unknown_form", path, "a name ending in .jsonl or .csv")
    labels = [_parse_label(value, path, row) for row, value in _read_rows(path)]
    if not labels:
        raise InputError("no_labels", path, "one label or more")
    known: dict[tuple[Item, str], int] = {}
    for row, label in enumerate(labels, start=1):
        if label.annotator is not None:
            first = known.setdefault((label.item, label.annotator), row)
            if first != row:
                raise InputError(
                    "duplicate_label", path, f"one label by {label.annotator!r}", row=row, found=label.query_id,
                    hint=f"Row {first} is another of the same.",
                )  # fmt: skip
    return labels


def majority_labels(labels: Sequence[Label]) -> Truth:
    """Return the majority label of each item."""
    given: defaultdict[Item, list[bool]] = defaultdict(list)
    for label in labels:
        given[label.item].append(label.is_true)
    values, ties = {}, Counter[Task]()
    for item, votes in given.items():
        if 2 * sum(votes) == len(votes):
            ties[item.task] += 1
        else:
            values[item] = 2 * sum(votes) > len(votes)
    tasks = dict.fromkeys(item.task for item in given)
    return Truth(
        values,
        ties,
        tuple(sorted({label.annotator for label in labels if label.annotator is not None})),
        {task: _alpha([votes for item, votes in given.items() if item.task == task]) for task in tasks},
    )


def name_by_system(system: str, cases: Iterable[Case], labels: Iterable[Label]) -> tuple[list[Case], list[Label]]:
    """Return cases and labels under the name of their system: question 12 of `ours` becomes `ours/12`."""
    return (
        [msgspec.structs.replace(case, query_id=f"{system}/{case.query_id}") for case in cases],
        [label.model_copy(update={"query_id": f"{system}/{label.query_id}"}) for label in labels],
    )


def _alpha(votes: Iterable[Sequence[bool]]) -> float | None:
    counts = np.array([[given.count(False), given.count(True)] for given in votes if len(given) > 1])
    if not counts.size or not counts.any(axis=0).all():
        return None
    return float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal"))


def _read_rows(path: Path) -> Iterator[tuple[int, bytes | dict[str, str]]]:
    """Yield each label's row from 1, with its JSON or its cells."""
    if path.suffix == ".csv":
        for record in read_csv_table(path).rows:
            yield record.number, {key: cell for key, cell in record.cells.items() if cell}
        return
    for row, line in enumerate(read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield row, checked_json(line, f"{path}, line {row}")


def _parse_label(value: bytes | dict[str, str], path: Path, row: int) -> Label:
    try:
        return Label.model_validate_json(value) if isinstance(value, bytes) else Label.model_validate(value)
    except pydantic.ValidationError as error:
        fault = bad_format(path, error)
        found = error.errors()[0]["input"]
        raise InputError(
            fault.code, path, fault.expected, row=row, field=fault.field, found=found, hint=fault.hint
        ) from None


# --- kappa


class Confusion(NamedTuple):
    """Counts of pairs of verdicts, named as in `ConfusionRecord`."""

    both_yes: int
    labels_yes_judge_no: int
    labels_no_judge_yes: int
    both_no: int

    @classmethod
    def tally(cls, pairs: Iterable[tuple[bool, bool]]) -> Self:
        """Count pairs of a label and the judge's verdict."""
        counts = Counter(pairs)
        return cls(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


def kappa_of(table: Confusion, *, seed: int = SEED, resamples: int = RESAMPLES) -> KappaRecord:
    """Return Cohen's kappa: 1 for equal verdicts, 0 for what chance gives, below 0 for opposite ones.

    It has no value without pairs, and if chance alone would always agree. The interval has the wider ends of the
    analytic one, which is too narrow for small or lopsided samples, and of the bootstrap's, which has no width without
    a disagreement.
    Source: Cohen 1960; Fleiss, Cohen and Everitt 1969, formula 13, for the standard error.
    """
    if not sum(table):
        return KappaRecord(reason="nothing_to_compare")
    value = float(_kappas(np.array([table], dtype=np.float64))[0])
    if math.isnan(value):
        return KappaRecord(reason="no_variation")
    analytic = _analytic_interval(table, value)
    bootstrap = _bootstrap_interval(table, seed, resamples)
    known = [one for one in (analytic, bootstrap) if one is not None] or [_interval_without_disagreement(table)]
    widest = Limits(low=min(one.low for one in known), high=max(one.high for one in known))
    return KappaRecord(value=value, analytic=analytic, bootstrap=bootstrap, interval=widest)


def bias_of(table: Confusion) -> Bias | None:
    """Return the judge's share of yes less that of the labels, which is what the judge does to a mean.

    Source: Agresti and Min 2005, Simple improved confidence intervals for comparing matched proportions.
    """
    if not (total := sum(table)):
        return None
    _, fn, fp, _ = table
    n = total + 2
    up, down = fp + 0.5, fn + 0.5
    centre = (up - down) / n
    half = _Z * math.sqrt((up + down) - (up - down) ** 2 / n) / n
    return Bias(
        value=(fp - fn) / total,
        interval=Limits(low=max(-1.0, centre - half), high=min(1.0, centre + half)),
    )


_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def _kappas(tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """(tables,) of (tables, 4); NaN where chance always agrees."""
    tp, fn, fp, tn = (tables[:, i] for i in range(4))
    n = tables.sum(axis=1)
    chance = ((tp + fn) * (tp + fp) + (fp + tn) * (fn + tn)) / (n * n)
    with np.errstate(divide="ignore", invalid="ignore"):
        kappa = np.where(chance < 1, ((tp + tn) / n - chance) / (1 - chance), np.nan)
    return np.asarray(kappa, dtype=np.float64)


def _analytic_interval(table: Confusion, kappa: float) -> Limits | None:
    n = sum(table)
    tp, fn, fp, tn = (count / n for count in table)
    cells = [[tp, fn], [fp, tn]]
    rows = [sum(row) for row in cells]
    columns = [cells[0][i] + cells[1][i] for i in range(2)]
    chance = sum(rows[i] * columns[i] for i in range(2))
    first = sum(cells[i][i] * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in range(2))
    second = (1 - kappa) ** 2 * sum(
        cells[i][j] * (columns[i] + rows[j]) ** 2 for i in range(2) for j in range(2) if i != j
    )
    third = (kappa - chance * (1 - kappa)) ** 2
    variance = max(0.0, first + second - third) / (n * (1 - chance) ** 2)
    if variance <= 1e-15:
        return None  # a width of zero would claim certainty
    half = _Z * math.sqrt(variance)
    return Limits(low=max(-1.0, kappa - half), high=min(1.0, kappa + half))


def _interval_without_disagreement(table: Confusion) -> Limits:
    # Hanley and Lippman-Hand 1983, If nothing goes wrong, is everything all right?
    unseen = min(-math.log((1 - CONFIDENCE) / 2), sum(table) / 2)
    moved = [table.both_yes - unseen / 2, unseen / 2, unseen / 2, table.both_no - unseen / 2]
    return Limits(low=float(_kappas(np.maximum(np.array([moved]), 0.0))[0]), high=1.0)


def _bootstrap_interval(table: Confusion, seed: int, resamples: int) -> Limits | None:
    shares = np.array(table, dtype=np.float64) / sum(table)
    drawn = np.random.default_rng(seed).multinomial(sum(table), shares, size=resamples)
    values = _kappas(drawn.astype(np.float64))
    values = values[~np.isnan(values)]
    if values.size == 0 or values.min() == values.max():
        return None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    return Limits(low=float(low), high=float(high))


# --- a judge and labels


class CalibrationRequest(NamedTuple):
    """What is calibrated, and how; `judges_twice` doubles the cost of a model judge."""

    benchmark: str
    judge: str
    labels_by: LabelsBy
    labels_sha256: str | None = None
    systems: tuple[str, ...] = ()
    min_agreement: float = MIN_AGREEMENT
    judges_twice: bool = True
    seed: int = SEED


class ItemVerdict(NamedTuple):
    """A judge's verdict on one labelled item.

    Args:
        is_true: Unsure is no. None without a verdict; `verdict` is then the reason.
        against: The gold answers or the evidence it was compared with; empty if there is neither.
    """

    is_true: bool | None
    verdict: str
    score: float = 0.0
    reason: str = ""
    against: str = ""


async def calibrate(
    judge: Judge,
    cases: Sequence[Case],
    labels: Sequence[Label],
    request: CalibrationRequest,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> TrustCard:
    """Return how far the judge agrees with the labels.

    Answers without labels are not judged; labels without an answer are counted as `no_answer`.
    """
    truth = majority_labels(labels)
    known = {case.query_id: case for case in cases}
    asked = {item: _case_of(item, known[item.query_id]) for item in truth.values if item.query_id in known}
    first = await _judge_all(asked.values(), judge, 0, progress)
    second: dict[Case, Judgement] = {}
    if request.judges_twice and judge.may_differ:
        second = await _judge_all(asked.values(), judge, SECOND_JUDGING, progress)

    def verdicts(judgements: dict[Case, Judgement]) -> dict[Item, ItemVerdict]:
        return {
            item: _verdict_on(item, case, judgements[case], judges_support=judge.judges_support)
            for item, case in asked.items()
        }

    answers = {case.query_id: case.answer for case in cases}
    once, again = verdicts(first), verdicts(second) if second else {}
    return TrustCard(
        benchmark=request.benchmark,
        systems=request.systems,
        judge=request.judge,
        judge_fingerprint=judge.fingerprint,
        labels_by=request.labels_by,
        annotators=truth.annotators,
        labels_sha256=request.labels_sha256,
        models=tuple(sorted({judgement.model for judgement in first.values() if judgement.model is not None})),
        seed=request.seed,
        tasks=tuple(
            _task_trust(task, truth, once, again, answers, request)
            for task in dict.fromkeys(label.task for label in labels)
        ),
    )


async def _judge_all(
    cases: Iterable[Case], judge: Judge, repeat: int, progress: Callable[[int, int], None]
) -> dict[Case, Judgement]:
    """Return each case's judgement; a case with several labels is judged once."""
    distinct = list(dict.fromkeys(cases))
    slots = asyncio.Semaphore(CASES_AT_ONCE)
    done = 0

    async def one(case: Case) -> Judgement:
        nonlocal done
        async with slots:
            judgement = await judge.judge(case, repeat)
        done += 1
        progress(done, len(distinct))
        return judgement

    return dict(zip(distinct, await asyncio.gather(*map(one, distinct)), strict=True))


def _case_of(item: Item, case: Case) -> Case:
    """Return what the judge is given: the answer, or a claim and the text that people compared it with."""
    if item.claim is None or item.evidence is None:
        return case
    evidence = CitedText("evidence", item.evidence, len(item.claim), len(item.claim))
    return Case(case.query_id, case.question, (), False, item.claim, (evidence,))


def _verdict_on(item: Item, case: Case, judgement: Judgement, *, judges_support: bool) -> ItemVerdict:
    if judgement.status != "completed":
        return ItemVerdict(None, judgement.error_code or "failed")
    if item.task == "support":
        return _support_verdict(item, case, judgement) if judges_support else ItemVerdict(None, NEEDS_SUPPORT_JUDGE)
    found = judgement.correctness
    if found is None:
        return ItemVerdict(None, LANGUAGE_NOT_SUPPORTED if LANGUAGE_NOT_SUPPORTED in judgement.flags else "no_verdict")
    if item.task == "refusal":
        # Refusing an impossible question is what is correct there.
        refused = found.verdict == "refused" or (case.is_impossible and found.verdict == "correct")
        return ItemVerdict(refused, "refused" if refused else "answered", float(refused), found.reason)
    return ItemVerdict(found.verdict == "correct", found.verdict, found.score, found.reason, " | ".join(case.accepted))


def _support_verdict(item: Item, case: Case, judgement: Judgement) -> ItemVerdict:
    claims: Sequence[Claim] = judgement.claims
    if item.claim is not None and item.evidence is None:
        start = case.answer.find(item.claim)
        if start < 0:
            return ItemVerdict(None, "no_such_claim")
        end = start + len(item.claim)
        claims = [claim for claim in claims if claim.start < end and start < claim.end]
    if not claims:
        return ItemVerdict(None, "no_claims")
    supports: list[tuple[Support, Claim]] = []
    for claim in claims:
        support = claim.by_contexts if claim.by_citations is None else claim.by_citations
        if support is None:
            return ItemVerdict(None, "no_evidence")
        supports.append((support, claim))
    # An answer is supported if all of its claims are, so its weakest claim decides.
    weakest, claim = min(supports, key=lambda found: (found[0].outcome == "supported", found[0].score))
    cited = [case.citations[number].text for number in claim.citations]
    texts = case.contexts if claim.by_citations is None else [text for text in cited if text is not None]
    is_true = weakest.outcome == "supported"
    return ItemVerdict(is_true, weakest.outcome, weakest.score, weakest.reason, " | ".join(texts))


def _task_trust(
    task: Task,
    truth: Truth,
    once: dict[Item, ItemVerdict],
    again: dict[Item, ItemVerdict],
    answers: dict[str, str],
    request: CalibrationRequest,
) -> TaskTrust:
    items = [item for item in truth.values if item.task == task]
    compared = [item for item in items if item in once and once[item].is_true is not None]
    left_out = Counter(
        once[item].verdict if item in once else "no_answer" for item in items if item not in set(compared)
    )
    pairs = [(truth.values[item], once[item].is_true is True) for item in compared]
    table = Confusion.tally(pairs)
    sure = Confusion.tally(pair for pair, item in zip(pairs, compared, strict=True) if once[item].verdict != "unsure")
    kappa = kappa_of(table, seed=request.seed)
    shortcomings = tuple(_shortcomings(table, kappa, request))
    repeated = [item for item in compared if item in again and again[item].is_true is not None]
    return TaskTrust(
        task=task,
        n_labels=len(items) + truth.ties[task],
        n_compared=len(compared),
        n_ties=truth.ties[task],
        not_judged=dict(sorted(left_out.items())),
        n_unsure=len(pairs) - sum(sure),
        kappa=kappa,
        kappa_sure=kappa_of(sure, seed=request.seed),
        confusion=ConfusionRecord(**table._asdict()),
        bias=bias_of(table),
        repeat_agreement=_share(sum(once[item].verdict == again[item].verdict for item in repeated), len(repeated)),
        annotator_alpha=truth.alpha[task],
        worst=tuple(_worst(compared, truth, once, answers)),
        is_calibrated=not shortcomings,
        shortcomings=shortcomings,
    )


def _shortcomings(table: Confusion, kappa: KappaRecord, request: CalibrationRequest) -> list[str]:
    found = []
    if request.labels_by != "human":
        found.append("The labels are not people's.")
    total, yes = sum(table), table.both_yes + table.labels_yes_judge_no
    if total < MIN_LABELS:
        found.append(f"{total} labels were compared; {MIN_LABELS} are needed.")
    if total:
        rarer = min(yes, total - yes) / total
        if rarer < MIN_CLASS_SHARE:
            found.append(f"The rarer label has a share of {rarer:.3f}; {MIN_CLASS_SHARE:.2f} is needed.")
    if kappa.interval is None:
        found.append(f"There is no kappa ({kappa.reason}).")
    elif kappa.interval.low < request.min_agreement:
        found.append(f"Kappa may be as low as {kappa.interval.low:.3f}; {request.min_agreement:.2f} is needed.")
    return found


def _worst(
    compared: Sequence[Item], truth: Truth, once: dict[Item, ItemVerdict], answers: dict[str, str]
) -> list[Disagreement]:
    wrong = [item for item in compared if once[item].is_true != truth.values[item]]
    # The surer the judge, the worse its mistake; equal ones stay in the labels' order.
    wrong.sort(key=lambda item: -abs(once[item].score - truth.values[item]))
    return [
        Disagreement(
            query_id=item.query_id,
            label=truth.values[item],
            judge=once[item].verdict,
            score=once[item].score,
            reason=once[item].reason,
            text=(item.claim or answers[item.query_id])[:TEXT_SHOWN],
            against=once[item].against[:TEXT_SHOWN],
        )
        for item in wrong[:WORST_LISTED]
    ]


def _share(successes: int, trials: int) -> Share | None:
    if trials == 0:
        return None
    low, high = wilson_interval(successes, trials)
    return Share(value=successes / trials, interval=Limits(low=low, high=high), n=trials)
