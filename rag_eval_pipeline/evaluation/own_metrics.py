"""Metrics of one's own in an evaluation: which its settings name, and their scores beside those of their room.

A fault of such a metric costs the score of one question: it is kept, counted, and told; everything else stands.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import get_args

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.evaluation.scores_file import FAULTS, QueryScores
from rag_eval_pipeline.evaluation.span_places import places
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.citations import strip_citations
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.metrics.question_metric import (
    AnsweredQuestion,
    Passage,
    QuestionMetric,
    score_question,
)
from rag_eval_pipeline.metrics.registry import Metric, built_in_definitions, named_definition
from rag_eval_pipeline.metrics.retrieval import parse_measure
from rag_eval_pipeline.systems.answer import RagAnswer

# Room of a metric -> the scores that it stands beside.
KIND_OF = {
    "retrieval": "retrieval_scores", "contexts": "retrieval_scores", "citations": "citation_scores",
    "answers": "answer_scores", "claims": "judge_scores",
}  # fmt: skip
FAULTS_SHOWN = 10  # a metric; one that fails everywhere fails everywhere alike
NOT_JUDGED = "not_judged"
_STATUSES = frozenset({*get_args(form.Status), NOT_JUDGED})
COLUMNS = frozenset({"query_id", "outcome", "reason", FAULTS})  # which the files of scores have beside measures


def own_metrics(names: Iterable[str]) -> dict[str, QuestionMetric]:
    """The metrics that settings name, by that name.

    Raises:
        InputError: `unknown_metric`; `bad_metric` for what cannot be imported, is no `QuestionMetric` or stands in no
            known room; `duplicate_metric` for a name that is taken.
    """
    found: dict[str, QuestionMetric] = {}
    taken = set(COLUMNS)
    for name in names:
        definition = named_definition(name)
        if not isinstance(definition, QuestionMetric):
            raise InputError(
                "bad_metric", f"metric {name}", "a QuestionMetric", found=type(definition).__name__,
                hint="Retrieval measures of one's own belong into `measures`.",
            )  # fmt: skip
        row = definition.metric
        if row.room not in KIND_OF:
            raise InputError("bad_metric", f"metric {name}", f"one of the rooms {', '.join(KIND_OF)}", found=row.room)
        if row.name in taken or _is_built_in(row.name):
            raise InputError("duplicate_metric", "metrics", "each name once, and none that is built in", found=row.name)
        taken.add(row.name)
        found[name] = definition
    return found


def described(names: Iterable[str]) -> dict[str, form.OwnMetric]:
    """What the metrics that settings name say of themselves, by their own names; errors as in `own_metrics`."""
    return {
        definition.metric.name: _described(name, definition.metric) for name, definition in own_metrics(names).items()
    }


def with_own_scores(
    rows: Sequence[QueryScores],
    kind: str,
    metrics: Iterable[QuestionMetric],
    asked: Iterable[tuple[EvaluationQuery, RagAnswer]],
    files: CorpusFiles,
) -> list[QueryScores]:
    """Score rows with those of one's own metrics of their kind.

    Args:
        rows: One a question.
        kind: One of `SCORE_FILES`.
        metrics: All that the settings name.
        asked: Question and answer of each row.
        files: Of the corpus.
    """
    own = [metric for metric in metrics if KIND_OF[metric.metric.room] == kind]
    if not own:
        return list(rows)
    names = files.names()
    scored = []
    for row, (query, answer) in zip(rows, asked, strict=True):
        scores, faults = dict(row.scores), dict(row.faults)
        question = _question(query, answer, row, files, names) if answer.status == "ok" else None
        for metric in own:
            if not _applies(metric.metric, query, answer, row):
                continue
            if question is None or ("judge" in metric.metric.needs and row.outcome == "failed"):
                faults[metric.metric.name] = answer.status if question is None else NOT_JUDGED
                continue
            try:
                score = score_question(metric, question)
            except InputError as error:
                faults[metric.metric.name] = str(error)
                continue
            if score is not None:
                scores[metric.metric.name] = score
        scored.append(replace(row, scores=scores, faults=faults))
    return scored


def own_names(metrics: Iterable[QuestionMetric], kind: str) -> list[str]:
    """The columns that metrics of one's own add to the scores of a kind."""
    return [metric.metric.name for metric in metrics if KIND_OF[metric.metric.room] == kind]


def is_fault(line: str) -> bool:
    """Whether what stands for a missing score is a metric's fault, and not that of the answer or its judgement."""
    return line not in _STATUSES


def first_faults(*rooms: Sequence[QueryScores]) -> tuple[form.MetricFault, ...]:
    """The first faults of each metric; its mean counts them all."""
    shown: Counter[str] = Counter()
    faults = []
    for row in (row for rows in rooms for row in rows):
        for name, line in row.faults.items():
            if is_fault(line) and shown[name] < FAULTS_SHOWN:
                shown[name] += 1
                faults.append(form.MetricFault(metric=name, query_id=row.query_id, message=line))
    return tuple(faults)


def _is_built_in(name: str) -> bool:
    for definition in built_in_definitions():
        if name in (definition.metric.name, *definition.metric.aliases):
            return True
    try:
        parse_measure(name)
    except InputError:
        return False
    return True


def _applies(metric: Metric, query: EvaluationQuery, answer: RagAnswer, row: QueryScores) -> bool:
    """Whether the question, its answer and its judgement bring what a metric needs; a failure of one is none."""
    brought = {
        "accepted_answers": bool(query.accepted_answers),
        "relevant": bool(query.relevant_documents),
        "gold_spans": bool(query.citations),
        "answer": answer.status != "ok" or answer.answer is not None,  # not of a recording of retrieval alone
        "judge": row.outcome != "skipped",
    }
    return all(brought.get(need, True) for need in metric.needs)


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


def _described(name: str, row: Metric) -> form.OwnMetric:
    low, high = (bound if math.isfinite(bound) else None for bound in row.range)
    return form.OwnMetric(
        definition=name, meaning=row.meaning, source=row.source, direction=row.direction, low=low, high=high,
        levels=row.levels, room=row.room, version=row.version,
    )  # fmt: skip
