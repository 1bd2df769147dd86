"""What is behind a change: the metrics that moved together, where the changed questions are, and the worst of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.runs import Evaluation, load_evaluation
from rag_eval_pipeline.evaluation.storage import iter_responses
from rag_eval_pipeline.formats.dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.metrics.registry import PAGE_PREFIX, metric_label
from rag_eval_pipeline.metrics.verdicts import FAILURE_RATE, Confirmation, Verdict
from rag_eval_pipeline.reporting.comparison import ScoredRun, run_of_evaluation
from rag_eval_pipeline.reporting.leaderboard import HEADLINE
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.workspace import Workspace

CHANGED = 0.25  # of the scale: a question whose score moved by this much counts as changed
TOGETHER = 0.05  # of the scale: a metric that is not flagged is named beside those that are
QUESTIONS = 3
DOCUMENTS = 3
# A group is named if it has so many of the changed questions, this share of them, this much more often than chance.
GROUP_MIN, GROUP_SHARE, GROUP_LIFT = 3, 0.5, 1.5
_RETRIEVAL = ("hit@1", "hit@5", "ndcg@10", "mrr")
_OWN_FIELDS = frozenset({"is_impossible", "answers", "expected_answers", "hops", "source_id", "relevance"})

CONFIRMED: dict[Confirmation, str] = {
    "pending": "awaits its rerun",
    "confirmed": "confirmed by a rerun",
    "not_confirmed": "not confirmed by its rerun",
    "not_needed": "the system is deterministic",
    "no_rerun": "single runs, not rerun",
    "provisional": "provisional",
    "weekly": "mean of a week",
}


class ChangedQuestion(Model):
    """A question whose score changed, with both answers."""

    query_id: str = pydantic.Field(description="In the dataset.")
    source_id: str | None = pydantic.Field(None, description="The source's own id, if it has one.")
    text: str = pydantic.Field("", description="The question.")
    expected: str | None = pydantic.Field(None, description="The gold answer; absent if the question has none.")
    before: float = pydantic.Field(description="Mean score of the runs that are compared with.")
    after: float = pydantic.Field(description="Score now.")
    answer_before: str | None = pydantic.Field(None, description="Of the newest of those runs that scored best.")
    answer_after: str | None = pydantic.Field(None, description="Now; absent if the question failed.")

    @property
    def name(self) -> str:
        """The id that users know."""
        return self.source_id or self.query_id


class Cause(Model):
    """What is known about why a pair changed."""

    together: tuple[str, ...] = pydantic.Field((), description="Metrics that moved the same way without being flagged.")
    look_at: str = pydantic.Field("", description="Which stage to look at first.")
    where: tuple[str, ...] = pydantic.Field((), description="Sentences on the documents and groups concerned.")
    questions: tuple[ChangedQuestion, ...] = pydantic.Field((), description="Those that changed most.")


def headline_order(names: Sequence[str]) -> list[str]:
    """Return metrics in the order of `HEADLINE`, the others after them."""
    places = {name: place for place, name in enumerate(HEADLINE)}
    return sorted(names, key=lambda name: places.get(name.removeprefix(PAGE_PREFIX), len(places)))


def percent(value: float | None) -> str:
    """Format a share as `69.0 %`."""
    return "–" if value is None else f"{100 * value:.1f} %"


def change_text(name: str, found: Verdict) -> str:
    """Return such as `Exact match 69.0 % → 27.5 % (−41.5 points, p = 0.008, confirmed by a rerun)`."""
    evidence = found.evidence
    change = 100 * (evidence.estimate or 0.0) / evidence.value_range
    p_value = evidence.p_corrected
    parts = [f"{change:+.1f} points".replace("-", "−")]
    parts += [] if p_value is None else ["p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"]
    parts += [] if found.confirmation is None else [CONFIRMED[found.confirmation]]
    means = " → ".join(percent(mean) for mean in (evidence.baseline_mean, evidence.current_mean))
    return f"{metric_label(name)} {means} ({', '.join(parts)})"


def find_cause(workspace: Workspace, new: str, old: Sequence[str], verdicts: Mapping[str, Verdict]) -> Cause:
    """Return what is behind the flagged changes of an evaluation; less of it where runs or dataset are gone.

    Args:
        new: The evaluation that was flagged.
        old: The evaluations that it is compared with, oldest first.
        verdicts: Metric -> verdict; at least one regressed or improved.
    """
    flagged = headline_order([name for name, found in verdicts.items() if found.kind in ("regressed", "improved")])
    kind = "regressed" if any(verdicts[name].kind == "regressed" for name in flagged) else "improved"
    flagged = [name for name in flagged if verdicts[name].kind == kind]
    together = [name for name in headline_order(list(verdicts)) if name not in flagged and _moved(verdicts[name], kind)]
    look_at = _look_at(verdicts, [*flagged, *together]) if kind == "regressed" else ""
    try:
        run = load_evaluation(workspace, new)
        baseline = [load_evaluation(workspace, name) for name in old]
        sides = [run_of_evaluation(one) for one in (run, *baseline)]
        dataset = EvaluationDataset.read(workspace.eval_json(run.record.dataset_id, run.record.dataset_version))
    except InputError:  # pruned, or damaged: the comparison reports it
        return Cause(together=tuple(together), look_at=look_at)
    queries = {query.query_id: query for query in dataset.queries}
    changed = _changed(sides[0], sides[1:], flagged, worse=kind == "regressed")
    worst = [_with_answers(one, queries.get(one.query_id), run, baseline) for one in changed[:QUESTIONS]]
    where = tuple(_where([one.query_id for one in changed], sides[0].query_ids, queries))
    return Cause(together=tuple(together), look_at=look_at, where=where, questions=tuple(worst))


def _moved(found: Verdict, kind: str) -> bool:
    estimate, sign = found.evidence.estimate or 0.0, 1 if found.evidence.higher_is_better else -1
    towards = -sign if kind == "regressed" else sign
    return towards * estimate / found.evidence.value_range >= TOGETHER


def _look_at(verdicts: Mapping[str, Verdict], moved: Sequence[str]) -> str:
    def means(name: str) -> str:
        evidence = verdicts[name].evidence
        return f"{metric_label(name)} {percent(evidence.baseline_mean)} → {percent(evidence.current_mean)}"

    retrieval = [name for name in verdicts if name.removeprefix(PAGE_PREFIX) in _RETRIEVAL]
    if FAILURE_RATE in moved:
        return f"Look at the failed questions first: {means(FAILURE_RATE)}."
    worse = [name for name in retrieval if name in moved]
    if worse:
        return f"Look at retrieval first: {means(worse[0])}."
    if retrieval:
        return f"Retrieval is much as it was ({means(retrieval[0])}): look at the prompt and the model."
    return ""


class _Change(NamedTuple):
    query_id: str
    before: float
    after: float
    weight: float  # how far all flagged metrics moved
    best_run: int  # of the runs before; the newest that scored best


def _changed(run: ScoredRun, others: Sequence[ScoredRun], flagged: Sequence[str], *, worse: bool) -> list[_Change]:
    """Return the questions whose score moved, those that moved most first."""
    lead, found = flagged[0], []
    for place, query_id in enumerate(run.query_ids):
        moves = {name: _move(name, place, run, others) for name in flagged}
        scores = moves[lead]
        if scores is None:
            continue
        sign = 1 if (lead == FAILURE_RATE) == worse else -1
        if sign * (scores[1] - scores[0]) < CHANGED:
            continue
        weight = sum(abs(move[1] - move[0]) for move in moves.values() if move is not None)
        ranked = [(-sign * (other.columns[lead].scores[place] or 0.0), n) for n, other in enumerate(others)]
        found.append(_Change(query_id, *scores, weight, max(ranked)[1]))
    return sorted(found, key=lambda one: -round(one.weight, 6))


def _move(name: str, place: int, run: ScoredRun, others: Sequence[ScoredRun]) -> tuple[float, float] | None:
    columns = [side.columns.get(name) for side in (run, *others)]
    scores = [None if column is None else column.scores[place] for column in columns]
    known = [score for score in scores if score is not None]
    return None if len(known) < len(scores) else (sum(known[1:]) / len(others), known[0])


def _with_answers(
    one: _Change, query: EvaluationQuery | None, run: Evaluation, baseline: Sequence[Evaluation]
) -> ChangedQuestion:
    now, before = _answer(run, one.query_id), _answer(baseline[one.best_run], one.query_id)
    source_id = None if query is None else query.metadata.get("source_id")
    return ChangedQuestion(
        query_id=one.query_id,
        source_id=None if source_id is None else str(source_id),
        text="" if query is None else query.query_text,
        expected=None if query is None else query.ground_truth_answer,
        before=one.before,
        after=one.after,
        answer_before=before.answer if before else None,
        answer_after=now.answer if now else None,
    )


def _answer(evaluation: Evaluation, query_id: str) -> RagAnswer | None:
    try:
        return next((one for one in iter_responses(evaluation.responses) if one.query_id == query_id), None)
    except InputError:
        return None


def _where(changed: Sequence[str], asked: Sequence[str], queries: Mapping[str, EvaluationQuery]) -> Iterator[str]:
    """Yield a sentence on the group of questions that explains the changed ones best, and one on their documents."""
    groups = {query_id: list(_groups(queries[query_id])) for query_id in asked if query_id in queries}
    total = Counter(group for found in groups.values() for group in found)
    inside = Counter(group for query_id in changed for group in groups.get(query_id, ()))
    expected = len(changed) / max(1, len(asked))
    large = max(GROUP_MIN, GROUP_SHARE * len(changed))
    explaining = [
        (n / len(changed) * (n / total[group]), group)
        for group, n in inside.items()
        if group[0] != "document" and n >= large and n / total[group] >= GROUP_LIFT * expected
    ]
    if explaining:
        group = min(explaining, key=lambda one: (-one[0], one[1]))[1]
        yield (
            f"{inside[group]} of the {len(changed)} changed questions have {group[0]} “{group[1]}”, "
            f"which {total[group]} questions have."
        )
    documents = sorted((-n, group[1]) for group, n in inside.items() if group[0] == "document")
    if documents:
        named = [f"{name} ({-n} of {total['document', name]})" for n, name in documents[:DOCUMENTS]]
        more = len(documents) - len(named)
        yield f"Changed questions by document: {', '.join(named)}{f' and {more} more' if more else ''}."


def _groups(query: EvaluationQuery) -> Iterator[tuple[str, str]]:
    yield from (("document", name) for name in query.relevant_documents)
    yield from (("type", value) for value in [query.query_type] if value)
    yield from (("difficulty", value) for value in [query.difficulty] if value)
    for key, value in query.metadata.items():
        if isinstance(value, str) and key not in _OWN_FIELDS:
            yield key.replace("_", " "), value
