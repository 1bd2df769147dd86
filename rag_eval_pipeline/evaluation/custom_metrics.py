"""Custom metrics in an evaluation: the ones that its settings name, and their scores beside those of their category.

An error in a custom metric costs the score of one question. It is stored, counted and reported, and nothing else is
lost. Evaluation records that a custom metric returns are published beside the scores.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.corpus import CorpusFiles, places
from rag_eval_pipeline.evaluation.storage import FAULTS, QueryScores
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.citations import strip_citations
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.evaluations import Evaluation
from rag_eval_pipeline.metrics.custom import AnsweredQuestion, Passage, QuestionMetric, find_metric, score_question
from rag_eval_pipeline.metrics.metric_info import MetricInfo
from rag_eval_pipeline.metrics.registry import built_in_metrics
from rag_eval_pipeline.metrics.retrieval.names import parse_measure
from rag_eval_pipeline.systems.base import RagAnswer

# Category of a metric -> the scores that it is stored with.
KIND_OF = {
    "retrieval": "retrieval_scores", "contexts": "retrieval_scores", "citations": "citation_scores",
    "answers": "answer_scores", "claims": "judge_scores",
}  # fmt: skip
FAULTS_SHOWN = 10  # per metric; a metric that always fails always fails alike
NOT_JUDGED = "not_judged"
_STATUSES = frozenset({*get_args(form.Status), NOT_JUDGED})
_COLUMNS = frozenset({"query_id", "outcome", "reason", FAULTS})  # of the score files, besides measures


@dataclass(frozen=True, slots=True)
class CustomScores:
    """Score rows with those of custom metrics, and the evaluation records that these returned."""

    rows: list[QueryScores]
    records: list[Evaluation] = field(default_factory=list)


def load_custom_metrics(names: Iterable[str]) -> dict[str, QuestionMetric]:
    """Load the metrics that settings name, by that name.

    Raises:
        InputError: `unknown_metric`; `bad_metric` for what cannot be imported, is no `QuestionMetric` or has an unknown
            category; `duplicate_metric` for a name that is taken.
    """
    found: dict[str, QuestionMetric] = {}
    taken = set(_COLUMNS)
    for name in names:
        definition = find_metric(name)
        if not isinstance(definition, QuestionMetric):
            raise InputError(
                "bad_metric", f"metric {name}", "a QuestionMetric", found=type(definition).__name__,
                hint="A Family of retrieval measures belongs into `measures`.",
            )  # fmt: skip
        info = definition.metric
        if info.category not in KIND_OF:
            expected = f"one of the categories {', '.join(KIND_OF)}"
            raise InputError("bad_metric", f"metric {name}", expected, found=info.category)
        if info.name in taken or _is_built_in(info.name):
            expected = "each name once, and none that is built in"
            raise InputError("duplicate_metric", "metrics", expected, found=info.name)
        taken.add(info.name)
        found[name] = definition
    return found


def describe_custom_metrics(names: Iterable[str]) -> dict[str, form.OwnMetric]:
    """Return what results say of the metrics that settings name, by key; errors are those of `load_custom_metrics`."""
    return {
        definition.metric.name: _describe(name, definition.metric)
        for name, definition in load_custom_metrics(names).items()
    }


def add_custom_scores(
    rows: Sequence[QueryScores],
    kind: str,
    metrics: Iterable[QuestionMetric],
    asked: Iterable[tuple[EvaluationQuery, RagAnswer]],
    files: CorpusFiles,
) -> CustomScores:
    """Add the scores of the custom metrics of a kind to score rows.

    Args:
        rows: One per question.
        kind: One of `SCORE_FILES`.
        metrics: All metrics named in the settings.
        asked: Question and answer of each row.
        files: The corpus.
    """
    own = [metric for metric in metrics if KIND_OF[metric.metric.category] == kind]
    if not own:
        return CustomScores(list(rows))
    names = files.names()
    added = CustomScores([])
    for row, (query, answer) in zip(rows, asked, strict=True):
        scores, faults = dict(row.scores), dict(row.faults)
        question = _question(query, answer, row, files, names) if answer.status == "ok" else None
        for metric in own:
            key = metric.metric.name
            if not _applies(metric.metric, query, answer, row):
                continue
            if question is None or ("judge" in metric.metric.needs and row.outcome == "failed"):
                faults[key] = answer.status if question is None else NOT_JUDGED
                continue
            try:
                value, record = score_question(metric, question)
            except InputError as error:
                faults[key] = str(error)
                continue
            if value is not None:
                scores[key] = value
            if record is not None:
                added.records.append(record)
        added.rows.append(replace(row, scores=scores, faults=faults))
    return added


def custom_columns(metrics: Iterable[QuestionMetric], kind: str) -> list[str]:
    """Return the columns that custom metrics add to the scores of a kind."""
    return [metric.metric.name for metric in metrics if KIND_OF[metric.metric.category] == kind]


def is_fault(line: str) -> bool:
    """Whether the reason of a missing score is an error in a metric, and not in the answer or its judgement."""
    return line not in _STATUSES


def first_faults(*kinds: Sequence[QueryScores]) -> tuple[form.MetricFault, ...]:
    """Return the first errors of each metric; its mean counts them all."""
    shown: Counter[str] = Counter()
    faults = []
    for row in (row for rows in kinds for row in rows):
        for name, line in row.faults.items():
            if is_fault(line) and shown[name] < FAULTS_SHOWN:
                shown[name] += 1
                faults.append(form.MetricFault(metric=name, query_id=row.query_id, message=line))
    return tuple(faults)


def _is_built_in(name: str) -> bool:
    if any(name in (info.name, *info.aliases) for info in built_in_metrics()):
        return True
    try:
        parse_measure(name)
    except InputError:
        return False
    return True


def _applies(metric: MetricInfo, query: EvaluationQuery, answer: RagAnswer, row: QueryScores) -> bool:
    """Whether question, answer and judgement have what a metric needs; a failed answer or judgement counts as had."""
    has = {
        "accepted_answers": bool(query.accepted_answers),
        "relevant": bool(query.relevant_documents),
        "gold_spans": bool(query.citations),
        "answer": answer.status != "ok" or answer.answer is not None,  # a recording of retrieval alone has none
        "judge": row.outcome != "skipped",
    }
    return all(has.get(need, True) for need in metric.needs)


def _question(
    query: EvaluationQuery, answer: RagAnswer, row: QueryScores, files: CorpusFiles, names: frozenset[str]
) -> AnsweredQuestion:
    text = answer.answer or ""
    passages = sorted(answer.contexts, key=lambda passage: passage.rank)
    return AnsweredQuestion(
        query_id=query.query_id,
        question=query.query_text,
        accepted_answers=query.accepted_answers,
        is_impossible=query.is_impossible,
        relevant_documents=[files.canonical(name) for name in query.relevant_documents],
        gold_citations=places(query.citations, files),
        metadata=query.metadata,
        answer=text,
        text="" if answer.abstained else strip_citations(text, names),
        is_abstention=answer.abstained,
        citations=places(answer.citations, files),
        passages=[Passage(files.canonical(one.document), one.page, one.text, one.score) for one in passages],
        latency_ms=answer.latency_ms,
        total_tokens=answer.usage.total_tokens,
        scores=row.scores,
    )


def _describe(name: str, info: MetricInfo) -> form.OwnMetric:
    low, high = (bound if math.isfinite(bound) else None for bound in info.range)
    return form.OwnMetric(
        definition=name, meaning=info.meaning, source=info.source, direction=info.direction, low=low, high=high,
        levels=info.levels, room=info.category, version=info.version,
    )  # fmt: skip
