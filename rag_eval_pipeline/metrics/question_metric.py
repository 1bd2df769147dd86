"""Metrics of one's own: a row of the registry and a function of one answered question, which evaluations apply.

    from rag_eval_pipeline.metrics.question_metric import AnsweredQuestion, QuestionMetric
    from rag_eval_pipeline.metrics.registry import Metric

    def score(question: AnsweredQuestion) -> float | None:
        return min(1.0, 20 / max(1, len(question.text.split())))

    BREVITY = QuestionMetric(
        Metric("brevity", "One up to 20 words, then less.", "own", ("answer",), ("question",), room="answers"), score
    )

An evaluation takes it up by `own_metrics: [my_package.my_module:BREVITY]`. Whatever is wrong with such a function costs
the score of that question and metric, and nothing else.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.span_columns import Citation

SHOWN_CHARS = 200  # of what an exception says


class Passage(NamedTuple):
    """A retrieved passage.

    Args:
        document: File name in the corpus.
        page: 1-based; None where the system does not say.
        text: The passage.
        score: The system's own; None where it does not say.
    """

    document: str
    page: int | None
    text: str
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredQuestion:
    """All that a metric gets to see of a question and its answer.

    Args:
        query_id: Of the question.
        question: Its text.
        accepted_answers: Empty for an impossible question.
        is_impossible: The corpus has no answer.
        relevant_documents: File names.
        gold_citations: Where the gold texts stand, in document offsets.
        metadata: Of the question, as the dataset has it.
        answer: As the system gave it, with citation marks.
        text: The same without them; "" for an abstention.
        is_abstention: The system declined.
        citations: Places that the answer cites.
        passages: Retrieved, best first.
        latency_ms: From asking to the whole answer; None where it was not measured.
        total_tokens: 0 where the system does not say.
        scores: Of the built-in measures of the metric's room, by name.
    """

    query_id: str
    question: str
    accepted_answers: Sequence[str]
    is_impossible: bool
    relevant_documents: Sequence[str]
    gold_citations: Sequence[Citation]
    metadata: Mapping[str, Any]
    answer: str
    text: str
    is_abstention: bool
    citations: Sequence[Citation]
    passages: Sequence[Passage]
    latency_ms: float | None
    total_tokens: int
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class QuestionMetric:
    """A metric that scores one question at a time.

    Args:
        metric: Its row. `needs` decides which questions it is asked for: accepted_answers, relevant, gold_spans, answer
            and judge leave out those without. `room` decides beside which scores it stands: retrieval, contexts,
            citations, answers, or claims, where it sees the judge's.
        score: Its score in the range of the row; None where it does not apply to the question.
    """

    metric: Metric
    score: Callable[[AnsweredQuestion], float | None]


def score_question(definition: QuestionMetric, question: AnsweredQuestion) -> float | None:
    """The score of one question, as it may stand in results.

    Raises:
        InputError: `metric_raised`, `bad_metric_score` for what is no number of the metric's range; each names the
            metric and the question.
    """
    row = definition.metric
    place = f"metric {row.name}, question {question.query_id}"
    try:
        score: Any = definition.score(question)
    except Exception as error:  # whatever people's code raises
        found = f"{type(error).__name__}: {error}".splitlines()[0][:SHOWN_CHARS]
        raise InputError("metric_raised", place, "a score", found=found) from error
    if score is None:
        return None
    is_number = isinstance(score, Real) and math.isfinite(score)
    if not is_number or not row.range.low <= float(score) <= row.range.high:
        raise InputError("bad_metric_score", place, f"a number from {row.range}, or None", found=score)
    return float(score)
