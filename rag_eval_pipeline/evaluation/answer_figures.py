"""What a results file says of answers: exact match, F1, abstention, and the claims that the judge counts."""

from rag_eval_pipeline.evaluation.means import Means, metric_of
from rag_eval_pipeline.evaluation.parts import Parts
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.metrics.abstention import AskedQuestion, abstention_rates, count_abstentions


def answer_metrics(parts: Parts, means: Means) -> form.AnswerQualityMetrics:
    """The figures of answers.

    Args:
        parts: Of the evaluation.
        means: With the groups `answers`, `answerable` and `unanswerable`.
    """
    return form.AnswerQualityMetrics(
        exact_match=means.one("answers", "exact_match"),
        f1=means.one("answers", "f1"),
        answerable_exact_match=means.one("answerable", "exact_match"),
        answerable_f1=means.one("answerable", "f1"),
        unanswerable_exact_match=means.one("unanswerable", "exact_match"),
        abstention=_abstention(parts),
        factual_consistency=parts.shares.consistency(),
        hallucination_rate=parts.shares.hallucination(against="citations"),
        hallucination_rate_retrieved=parts.shares.hallucination(against="retrieved"),
    )


def _abstention(parts: Parts) -> form.Abstention:
    asked = [
        AskedQuestion(query.is_impossible, bool(row.scores["abstained"]) if row.outcome == "scored" else None)
        for query, row in zip(parts.queries, parts.answer_scores, strict=True)
        if row.outcome != "skipped"
    ]
    names = [parts.clusters[row.query_id] for row in parts.answer_scores if row.outcome != "skipped"]
    counts = count_abstentions(asked)
    rates = {name: metric_of(rate) for name, rate in abstention_rates(asked, names).items()}
    return form.Abstention(
        answerable_answered=counts.answerable_answered,
        answerable_abstained=counts.answerable_abstained,
        answerable_failed=counts.answerable_failed,
        unanswerable_answered=counts.unanswerable_answered,
        unanswerable_abstained=counts.unanswerable_abstained,
        unanswerable_failed=counts.unanswerable_failed,
        **rates,
    )
