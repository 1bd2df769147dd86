"""What an evaluation would take, before anything is spent: questions, requests, tokens, cost, what is left today."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from rag_eval_pipeline.endpoints.budget import Budget
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.asking import questions_to_ask
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import iter_responses
from rag_eval_pipeline.evaluation.runs import Evaluation, load_evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.spending import Spent, spent_today
from rag_eval_pipeline.evaluation.taking_over import Which
from rag_eval_pipeline.workspace import Workspace

BY_PAIR = "by_pair"
# Records that are read where a pair's newest evaluation is unfinished; the one before it is a night old, and a night of
# 200 pairs is long. Ids begin with their day, so the last names are the newest.
LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class Estimate:
    """An evaluation before it begins.

    Args:
        questions: Of the pair.
        to_ask: Of those, not answered yet and not to be copied from an earlier night.
        requests: HTTP requests; one a question where nothing was measured.
        tokens: None where nothing was measured.
        usd: By the prices of the system's file; None where nothing was measured.
        basis: The evaluation whose answers these means are of; None without one.
        spent: What the system has used today.
        budget: What it may use in a day.
        judge_requests: Of the judge: more where answers have many claims, fewer where its cache has judged them.
    """

    questions: int
    to_ask: int
    requests: float
    tokens: float | None
    usd: float | None
    basis: str | None
    spent: Spent
    budget: Budget
    judge_requests: int = 0

    @property
    def exceeds(self) -> tuple[str, ...]:
        """The limits of today's budget that the evaluation would reach."""
        asked = (
            ("requests", self.spent.requests, self.requests, self.budget.requests),
            ("tokens", self.spent.tokens, self.tokens, self.budget.tokens),
            ("usd", self.spent.usd, self.usd, self.budget.usd),
        )
        return tuple(name for name, used, more, limit in asked if limit is not None and used + (more or 0) > limit)


def estimate(workspace: Workspace, pair: Pair, *, now: datetime, which: Which = "missing") -> Estimate:
    """The pair's next evaluation; sends nothing and writes nothing.

    Args:
        workspace: Where.
        pair: What.
        now: Aware; says which day's budget counts.
        which: As in `asking.ask`.
    """
    to_ask = len(questions_to_ask(workspace, pair, which=which))
    measured = newest_measured(workspace, pair)
    tokens = usd = None
    requests = 1.0
    if measured is not None:
        n = measured.answers
        requests, tokens, usd = measured.requests / n, to_ask * measured.tokens / n, to_ask * measured.usd / n
    return Estimate(
        questions=len(pair.queries),
        to_ask=to_ask,
        requests=to_ask * requests,
        tokens=tokens,
        usd=usd,
        basis=None if measured is None else measured.evaluation_id,
        spent=spent_today(workspace.spending, f"system-{pair.system}", now),
        budget=pair.system_file.budget,
        judge_requests=len(pair.queries) * pair.settings.judge.calls_per_answer,
    )


class Measured(NamedTuple):
    """What the answers of an evaluation took.

    Args:
        evaluation_id: Whose.
        answers: How many; one or more.
        requests: HTTP requests for all of them.
        tokens: Of prompts and completions.
        usd: By the prices of then.
    """

    evaluation_id: str
    answers: int
    requests: float
    tokens: float
    usd: float


def newest_measured(workspace: Workspace, pair: Pair) -> Measured | None:
    """The newest answered evaluation of the system, on this benchmark if there is one; None without any.

    Args:
        workspace: Where.
        pair: Whose benchmark and system are meant.
    """
    for evaluation in _evaluations(workspace, pair):
        total, n = Spent(), 0
        try:
            for answer in iter_responses(evaluation.responses):
                usage = answer.usage
                total = total.plus(Spent(usage.requests, usage.total_tokens, usage.estimated_cost_usd))
                n += 1
        except InputError:
            continue
        if n:
            return Measured(evaluation.record.evaluation_id, n, total.requests, total.tokens, total.usd)
    return None


def _evaluations(workspace: Workspace, pair: Pair) -> Iterator[Evaluation]:
    """Answered evaluations of the system, the best basis first, each record read when it is wanted.

    The pair's newest, of which a file tells; where that one is unfinished, the last before it; then the newest on each
    other benchmark.
    """
    elsewhere = []
    for benchmark in sorted(path.name for path in (workspace.runs / BY_PAIR).glob("*")):
        newest = newest_evaluation(workspace, benchmark, pair.system)
        if newest is None or newest.record.state == "open":
            continue
        if benchmark == pair.paths.name:
            yield newest
        else:
            elsewhere.append(newest)
    yield from _last_of_pair(workspace, pair)
    yield from sorted(elsewhere, key=lambda one: one.record.opened_at, reverse=True)


def _last_of_pair(workspace: Workspace, pair: Pair) -> Iterator[Evaluation]:
    """Among the last evaluations of all, the pair's, newest first."""
    names = sorted((path.name for path in workspace.runs.glob("eval_run_*")), reverse=True)
    for name in names[:LOOKED_AT]:
        try:
            evaluation = load_evaluation(workspace, name)
        except InputError:
            continue
        record = evaluation.record
        if (record.benchmark, record.system, record.state == "open") == (pair.paths.name, pair.system, False):
            yield evaluation
