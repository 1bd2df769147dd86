"""A canary: a few questions that were steady in the reference runs are asked until a drop is sure or excluded.

The evaluation in which they are asked is never published, and never the newest of its pair, unless the rest of the
questions is to be asked in it: until then no history, baseline or night can have it.
"""

import hashlib
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.errors import InputError, ServiceError, counted, shortened
from rag_eval_pipeline.evaluation.asking import Progress, ask_in_batches
from rag_eval_pipeline.evaluation.baseline_files import required_baseline
from rag_eval_pipeline.evaluation.compared_runs import COMPARED, ScoredRun, different_part, with_levels
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, load_evaluation, locked_pair, make_newest
from rag_eval_pipeline.evaluation.evaluation_start import open_evaluation
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.score_tables import PAGE
from rag_eval_pipeline.evaluation.scoring import SCORERS
from rag_eval_pipeline.metrics.early_stop import (
    DROP,
    FALSE_ALARMS,
    MISSED,
    RATE_MIN,
    Decision,
    find_fallen,
    plan_looks,
    rate_of_wrong,
    steady_scores,
)
from rag_eval_pipeline.metrics.intervals import Values
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.monitoring.comparison import pin_again
from rag_eval_pipeline.monitoring.comparison_files import Case, quoted, write_suite
from rag_eval_pipeline.monitoring.night_records import read_nights
from rag_eval_pipeline.monitoring.nightly import BaselineRuns, read_baseline_runs
from rag_eval_pipeline.monitoring.verdict_settings import read_verdict_settings
from rag_eval_pipeline.storage.atomic_files import ScratchFolder, atomic_write
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.workspace import Workspace

TEXT_CHARS = 160  # of a question or an answer
REFERENCE_DAYS_MAX = 30  # an older reference is warned of: documents and models have changed meanwhile
JUDGED = "judge_scores"  # takes too long for a canary


@dataclass(frozen=True, slots=True)
class Canary:
    """What a canary found.

    Args:
        rate: Probability, measured on the reference runs, that an unchanged system fails a steady question.
        wrong: A line for each question that is wrong now: its id and text, what was expected, and the answer or error.
        reference_at: When the newest pinned run ended.
    """

    benchmark: str
    system: str
    decision: Decision
    asked: int
    rate: float
    wrong: Sequence[str]
    reference_runs: int
    reference_at: datetime

    @property
    def sentence(self) -> str:
        """The result with its numbers, and what it excludes."""
        count = f"{len(self.wrong)} of {self.asked} questions that were right in every reference run are wrong now"
        if self.decision == "regression":
            return f"{count} (an unchanged system: {self.rate:.1%}; false alarms at most 1 in {1 / FALSE_ALARMS:,.0f})."
        if self.decision == "pass":
            return f"{count}: no drop of {100 * DROP:.0f} points or more among such questions ({1 - MISSED:.0%} sure)."
        if not self.asked:
            return "No question was right in every reference run, so that a canary can ask none."
        return f"{count}: neither is a drop significant, nor is one of {100 * DROP:.0f} points excluded."

    def reference_sentence(self, now: datetime) -> str:
        """Return the age of the reference, and what to do if it is too old."""
        days, pin = (now - self.reference_at).days, f"rag-eval pin {self.benchmark} {self.system} --ask"
        text = (
            f"reference runs: {self.reference_runs}; the last is of "
            f"{self.reference_at:%Y-%m-%d}, {counted(days, 'day')} old"
        )
        return (
            f"{text}, older than {REFERENCE_DAYS_MAX} days; pin another: {pin}" if days > REFERENCE_DAYS_MAX else text
        )


def run_canary(
    workspace: Workspace,
    pair: Pair,
    *,
    questions: int,
    now: datetime,
    progress: Progress | None = None,
    keep_undecided: bool = False,
) -> Canary:
    """Ask at most so many steady questions, and stop as soon as the answers decide.

    Args:
        keep_undecided: Make an undecided canary the pair's newest evaluation, in which `evaluate` asks the rest; a new
            one if nothing was asked.

    Raises:
        InputError: `no_baseline`, `not_comparable`, and what `ask_in_batches` raises.
        ServiceError: `no_answers` if no question got an answer, and what `ask` raises.
    """
    steady = read_steady_questions(workspace, pair)
    order, rate = steady.order[:questions], steady.rate

    def result(decision: Decision, answers: Sequence[RagAnswer], wrong: Collection[str]) -> Canary:
        return Canary(
            pair.paths.name, pair.system, decision, len(answers), rate,
            wrong_lines(pair.only(order), answers, wrong, steady.fallen),
            len(steady.reference), steady.runs.runs[-1].ended_at,
        )  # fmt: skip

    if not order or rate == 1.0:
        if keep_undecided:
            open_evaluation(workspace, pair, now)
        return result("undecided", (), ())
    looks = {look.asked: look for look in plan_looks(len(order), steady.in_flight, rate)}
    found: Canary | None = None

    def is_enough(answers: Sequence[RagAnswer], wrong: NDArray[np.bool_]) -> bool:
        nonlocal found
        decision = looks[len(answers)].decide(int(wrong.sum()))
        if decision == "regression":
            require_answers(pair, answers)
        ids = [steady.reference[-1].query_ids[order[place]] for place in np.flatnonzero(wrong).tolist()]
        found = result(decision, answers, ids)
        return decision != "undecided"

    with locked_pair(workspace, pair):
        evaluation = steady.ask(order, is_enough, now=now, progress=progress)
        assert found is not None
        if keep_undecided and found.decision == "undecided":
            make_newest(workspace, evaluation)
        else:
            shutil.rmtree(evaluation.folder)
    return found


@dataclass(frozen=True, slots=True)
class SteadyQuestions:
    """The questions that all reference runs of a pair answered alike and right, and how they are asked again.

    Args:
        names: Metrics.
        scores: What the runs agree on: (metrics, questions of the dataset), NaN where they do not.
        rate: Probability, measured on the reference runs, that an unchanged system fails one; 1 if nothing is known.
        order: Places in the dataset, in the order of asking.
        in_flight: How many are asked at once.
        fallen: Question asked -> the metrics by which it is wrong.
    """

    workspace: Workspace
    pair: Pair
    pinned: Evaluation
    runs: BaselineRuns
    reference: Sequence[ScoredRun]
    names: Sequence[str]
    scores: Values
    rate: float
    order: Sequence[int]
    in_flight: int
    fallen: dict[str, list[str]] = field(default_factory=dict)

    def ask(
        self,
        places: Sequence[int],
        is_enough: Callable[[Sequence[RagAnswer], NDArray[np.bool_]], bool],
        *,
        now: datetime,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Ask some of them in batches, as `ask_in_batches` does, until the answers are enough.

        Args:
            is_enough: Takes all answers so far, and which of the first places are wrong.
        """
        wrong = np.zeros(0, bool)

        def scored(answers: Sequence[RagAnswer]) -> bool:
            nonlocal wrong
            batch, new = list(places[wrong.size : len(answers)]), answers[wrong.size :]
            scores = _scores(self.workspace, self.pair.only(batch), self.pinned, new, self.names)
            fallen = find_fallen(self.scores[:, batch], scores)
            for answer, column in zip(new, fallen.T, strict=True):
                self.fallen[answer.query_id] = [self.names[place] for place in np.flatnonzero(column).tolist()]
            wrong = np.append(wrong, fallen.any(axis=0))
            return is_enough(answers, wrong)

        return ask_in_batches(self.workspace, self.pair.only(places), scored, now=now, progress=progress)


def read_steady_questions(workspace: Workspace, pair: Pair) -> SteadyQuestions:
    """Read the reference runs of a pair; raises `no_baseline`, `not_comparable`."""
    benchmark, system = pair.paths.name, pair.system
    baseline = required_baseline(workspace, benchmark, system)
    pinned = load_evaluation(workspace, baseline.evaluations[-1])
    runs = read_baseline_runs(workspace, pinned, baseline.evaluations, read_verdict_settings(workspace))
    nights = read_nights(workspace, benchmark, system)
    reference = runs.reference(nights.nights if nights else ())
    _require_comparable(pair, reference[-1], baseline.evaluations)
    names = list(_steady_names(reference, pair.settings.critical_metrics))
    scores = np.array([[_values(run, name) for name in names] for run in reference], dtype=np.float64)
    steady = steady_scores(scores) if names else np.full((0, len(pair.queries)), np.nan)
    rate = rate_of_wrong(scores)
    if rate is None:
        rate = RATE_MIN if reference[0].is_deterministic else 1.0  # of one run nothing is known: it decides nothing
    usable = np.flatnonzero((~np.isnan(steady)).any(axis=0)).tolist()
    order = question_order(usable, reference[-1].query_ids, runs.groups)
    in_flight = pair.settings.concurrency or pair.system_file.in_flight
    return SteadyQuestions(workspace, pair, pinned, runs, reference, names, steady, rate, order, in_flight)


def require_answers(pair: Pair, answers: Sequence[RagAnswer]) -> None:
    """Raise `no_answers` if all questions failed."""
    if all(answer.status != "ok" for answer in answers):
        text = f"{pair.system} answered none of {len(answers)} questions: {answers[0].error}"
        raise ServiceError("no_answers", text)


def question_order(
    places: Sequence[int], query_ids: Sequence[str], groups: Mapping[tuple[str, str], Sequence[str]]
) -> list[int]:
    """Return the places in the order of asking: one question of each segment in turn, always the same ones first."""
    usable = {query_ids[place]: place for place in places}
    shuffled = sorted(usable, key=lambda name: hashlib.sha256(name.encode()).digest())
    members = {value: set(own) for value, own in sorted(groups.items())}
    queues = [[name for name in shuffled if name in own] for own in members.values()]
    queues.append([name for name in shuffled if not any(name in own for own in members.values())])
    turns = (name for turn in zip_longest(*queues) for name in turn if name is not None)
    return [usable[name] for name in dict.fromkeys(turns)]


def _require_comparable(pair: Pair, run: ScoredRun, pinned: Sequence[str]) -> None:
    reason = different_part(run.fingerprints, pair.fingerprints)
    if reason is None and tuple(query.query_id for query in pair.queries) != run.query_ids:
        reason = "questions"
    if reason is not None:
        benchmark, system = pair.paths.name, pair.system
        raise InputError(
            "not_comparable", f"{benchmark} x {system}", "a baseline of the same questions, scored alike",
            found=f"different_{reason}", hint=pin_again(f"different_{reason}", benchmark, system, pinned),
        )  # fmt: skip


def _steady_names(reference: Sequence[ScoredRun], critical: Collection[str]) -> Iterator[str]:
    """Yield the metrics that all reference runs have and that need no judge; of critical ones, those."""
    for file, measures in COMPARED.items():
        for name in with_levels(file, measures) if file != JUDGED else ():
            is_level = file != "retrieval_scores" or name.startswith(PAGE) == reference[0].is_by_page
            is_critical = not critical or name.removeprefix(PAGE) in critical
            if is_level and is_critical and all(name in run.columns for run in reference):
                yield name


def _values(run: ScoredRun, name: str) -> list[float]:
    return [np.nan if score is None else score for score in run.columns[name].scores]


def _scores(
    workspace: Workspace, pair: Pair, pinned: Evaluation, answers: Sequence[RagAnswer], names: Sequence[str]
) -> Values:
    """Score the answers to the pair's chosen questions: (metrics, questions), NaN without a score."""
    scratch = ScratchFolder("canary")
    record = pinned.record.model_copy(update={"state": "answered", "settings": pair.settings})
    evaluation = Evaluation(scratch.path, record)
    by_id = {answer.query_id: answer for answer in answers}
    evaluation.write_answers(by_id[query.query_id] for query in pair.queries)
    found = np.full((len(names), len(answers)), np.nan)
    for file in COMPARED:
        if file != JUDGED:
            rows = SCORERS[file](workspace, evaluation, pair, None).rows
            for place, name in enumerate(names):
                if name in rows.measures:
                    values, has = rows.values(name)
                    found[place, has] = values
    return found


def wrong_lines(
    pair: Pair, answers: Sequence[RagAnswer], wrong: Collection[str], fallen: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return a line for each wrong question; of one whose answer is not what is wrong, with the metrics that fell."""

    def short(text: str | None) -> str:
        return shortened(" ".join((text or "").split()), TEXT_CHARS)

    def others(query_id: str) -> str:
        is_by_answer = query_id in failed or not set(fallen[query_id]).isdisjoint(COMPARED["answer_scores"])
        return "" if is_by_answer else f"; lower: {', '.join(map(metric_label, fallen[query_id]))}"

    given = {answer.query_id: answer.answer or answer.error for answer in answers}
    failed = {answer.query_id for answer in answers if answer.status != "ok"}
    return [
        f'question {query.query_id}, "{short(query.query_text)}": '
        f'expected "{short(" / ".join(query.accepted_answers))}", '
        f'answered "{short(given[query.query_id])}"{others(query.query_id)}'
        for query in pair.queries
        if query.query_id in wrong
    ]


def write_canary(canary: Canary, now: datetime, *, junit: Path | None, markdown: Path | None) -> None:
    """Write a canary as a JUnit suite of one case, and as Markdown for a comment."""
    against = f"{canary.system} against baseline"
    if junit is not None:
        failure = canary.decision if canary.decision == "regression" else None
        case = Case("canary", canary.sentence, failure, canary.decision == "undecided", canary.wrong)
        write_suite(junit, f"rag-eval canary {canary.benchmark}", against, [case])
    if markdown is not None:
        lines = [f"### {canary.benchmark}: {against}", f"**{canary.decision.capitalize()}: {canary.sentence}**"]
        lines += [canary.reference_sentence(now), *(f"- {quoted(line, 4 * TEXT_CHARS)}" for line in canary.wrong), ""]
        atomic_write(markdown, "\n\n".join(lines).encode())
