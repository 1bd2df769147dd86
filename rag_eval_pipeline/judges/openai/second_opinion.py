"""Where a model and a judge that only compares words differ too far to be both right.

The words' judge cannot be talked to. It is often unsure and knows no paraphrase, so only its plain words count: its
sure verdicts, claims whose words are nowhere in the text, and claims that stand there almost word for word.
"""

from rag_eval_pipeline.judges.judgement import Case, Correctness, Judgement, Support

NOWHERE = 0.3  # share of a claim's words; below, no paraphrase can say the same
VERBATIM = 0.95


def judges_disagree(case: Case, model: Judgement, second: Judgement) -> bool:
    """Whether one of two judgements of an answer must be wrong."""
    if second.status != "completed":
        return False
    if _differ_on_answer(case, model.correctness, second.correctness):
        return True
    known = {(claim.start, claim.end): claim for claim in second.claims}
    for claim in model.claims:
        other = known.get((claim.start, claim.end))
        if other is not None and (
            _differ_on_claim(claim.by_citations, other.by_citations)
            or _differ_on_claim(claim.by_contexts, other.by_contexts)
        ):
            return True
    return False


def _differ_on_answer(case: Case, model: Correctness | None, second: Correctness | None) -> bool:
    if model is None or second is None or "unsure" in (model.verdict, second.verdict):
        return False
    right = {"correct", "refused"} if case.is_impossible else {"correct"}
    return (model.verdict in right) != (second.verdict in right)


def _differ_on_claim(model: Support | None, second: Support | None) -> bool:
    if model is None or second is None:
        return False
    if model.outcome == "supported":
        return second.outcome != "supported" and second.score < NOWHERE
    return second.outcome == "supported" and second.score >= VERBATIM
