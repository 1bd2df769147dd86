"""What an evaluation would take, before anything is spent: questions, requests, tokens, cost, what is left today."""

from dataclasses import dataclass
from datetime import datetime

from rag_eval_pipeline.endpoints.budget import Budget
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.asking import questions_to_ask
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import iter_responses
from rag_eval_pipeline.evaluation.runs import Evaluation, load_evaluation
from rag_eval_pipeline.evaluation.spending import Spent, spent_today
from rag_eval_pipeline.evaluation.taking_over import Which
from rag_eval_pipeline.workspace import Workspace


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
    """

    questions: int
    to_ask: int
    requests: float
    tokens: float | None
    usd: float | None
    basis: str | None
    spent: Spent
    budget: Budget

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
    measured = _measured(workspace, pair)
    tokens = usd = None
    requests = 1.0
    if measured is not None:
        n, spent = measured[1], measured[2]
        requests, tokens, usd = spent.requests / n, to_ask * spent.tokens / n, to_ask * spent.usd / n
    return Estimate(
        questions=len(pair.queries),
        to_ask=to_ask,
        requests=to_ask * requests,
        tokens=tokens,
        usd=usd,
        basis=None if measured is None else measured[0],
        spent=spent_today(workspace.spending, f"system-{pair.system}", now),
        budget=pair.system_file.budget,
    )


def _measured(workspace: Workspace, pair: Pair) -> tuple[str, int, Spent] | None:
    """The newest answered evaluation of the system, on this benchmark if there is one, with what its answers took."""
    for evaluation in _evaluations(workspace, pair):
        if evaluation.record.state == "open":
            continue
        total, n = Spent(), 0
        try:
            for answer in iter_responses(evaluation.responses):
                usage = answer.usage
                total = total.plus(Spent(usage.requests, usage.total_tokens, usage.estimated_cost_usd))
                n += 1
        except InputError:
            continue
        if n:
            return evaluation.record.evaluation_id, n, total
    return None


def _evaluations(workspace: Workspace, pair: Pair) -> list[Evaluation]:
    found = []
    for folder in sorted(workspace.runs.glob("eval_run_*"), reverse=True):
        try:
            evaluation = load_evaluation(workspace, folder.name)
        except InputError:
            continue
        if evaluation.record.system == pair.system:
            found.append(evaluation)
    return sorted(found, key=lambda evaluation: evaluation.record.benchmark != pair.paths.name)
