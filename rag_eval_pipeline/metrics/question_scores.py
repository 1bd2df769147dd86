"""The scores of one question by the names of `question_measures`, for whoever keeps a table of them.

Each function gives what a question has; a score that it cannot have is absent.
"""

from collections.abc import Mapping, Sequence

from rag_eval_pipeline.metrics.answer_overlap import rouge_l, score_answer_in
from rag_eval_pipeline.metrics.answers import score_answer
from rag_eval_pipeline.metrics.context_precision import context_overlap, context_precision, useful_by_span
from rag_eval_pipeline.metrics.hotpot import HotpotScore, cited_facts, hotpot_answer, joint_score
from rag_eval_pipeline.metrics.overall import overall_of_answer
from rag_eval_pipeline.metrics.span_columns import Citation, columns_of, file_numbers
from rag_eval_pipeline.metrics.span_matching import TOLERANCE_CHARS, score_columns
from rag_eval_pipeline.metrics.span_tokens import Tokens, with_tokens


def citation_scores(
    gold: Sequence[Sequence[Citation]],
    predicted: Sequence[Sequence[Citation]],
    *,
    tolerance: int = TOLERANCE_CHARS,
    texts: Mapping[str, Tokens] | None = None,
) -> list[dict[str, float]]:
    """Span, character, word and supporting-fact scores of many questions at once, which is a hundred times faster.

    Args:
        gold: The gold citations of each question; one without any has no place here.
        predicted: What each answer cites, in the same order.
        tolerance: How far an end may be off, in characters.
        texts: Tokens by file name, for the scores of words.
    """
    files = file_numbers(gold, predicted)
    wanted, given = columns_of(gold, files), columns_of(predicted, files)
    scores = score_columns(wanted, given, len(gold), tolerance=tolerance)
    if texts is not None:
        scores = with_tokens(scores, wanted, given, files, texts)
    facts = (cited_facts(cited, expected) for cited, expected in zip(predicted, gold, strict=True))
    return [row | _named("facts", own) for row, own in zip(scores.rows(), facts, strict=True)]


def answer_scores(answer: str, accepted: Sequence[str], *, language: str | None = None) -> dict[str, float]:
    """Scores of an answer's words.

    Args:
        answer: Without its citations; "" for an abstention.
        accepted: Accepted answers; empty for an impossible question, which has exact match and F1 alone.
        language: ISO 639-1 of the dataset; None leaves out the scores by its rules.
    """
    squad = score_answer(answer, accepted)
    scores = {"exact_match": squad.exact_match, "f1": squad.f1}
    if not accepted:
        return scores
    if language is not None:
        own = score_answer_in(answer, accepted, language)
        scores |= {"exact_match_in": own.exact_match, "f1_in": own.f1}
    hotpot = best_hotpot(answer, accepted)
    scores |= {"hotpot_em": hotpot.em, "hotpot_f1": hotpot.f1}
    rouge = rouge_l(answer, accepted)
    return scores if rouge is None else scores | {"rouge_l": rouge}


def joint_scores(
    answer: str, accepted: Sequence[str], cited: Sequence[Citation], gold: Sequence[Citation]
) -> dict[str, float]:
    """Answer and supporting facts together; nothing without accepted answers or gold spans."""
    if not accepted or not gold:
        return {}
    joint = joint_score(best_hotpot(answer, accepted), cited_facts(cited, gold))
    return {"joint_em": joint.em, "joint_f1": joint.f1}


def best_hotpot(answer: str, accepted: Sequence[str]) -> HotpotScore:
    """The best of the accepted answers; the official scorer knows one."""
    return max((hotpot_answer(answer, gold) for gold in accepted), key=lambda score: (score.em, score.f1))


def context_scores(passages: Sequence[Citation], gold: Sequence[Citation]) -> dict[str, float]:
    """What was retrieved against the gold spans; nothing without gold spans.

    Args:
        passages: Best rank first; all with their places in the documents.
        gold: Gold citations.
    """
    if not gold:
        return {}
    shared = context_overlap(passages, gold)
    found = {
        "context_precision": context_precision(useful_by_span(passages, gold)),
        "context_char_recall": shared.recall,
        "context_char_precision": shared.precision,
        "context_char_iou": shared.jaccard,
    }
    return {name: value for name, value in found.items() if value is not None}


def overall_scores(scores: Mapping[str, float]) -> dict[str, float]:
    """The overall citation score and its coverage, from the scores of all rooms together; nothing without a part."""
    overall = overall_of_answer(scores)
    if overall.value is None:
        return {}
    return {"overall_citation_accuracy": overall.value, "overall_coverage": overall.coverage}


def _named(prefix: str, score: HotpotScore) -> dict[str, float]:
    return {f"{prefix}_{name}": value for name, value in score._asdict().items()}
