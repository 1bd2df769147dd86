"""What a judge's labels come to for one answer: ALCE's citation figures, RAGChecker's, and relevance of citations.

The names are the registry's. A figure that an answer cannot have is absent, as is all of it where the judge gave no
labels: judgements of an older release have none.
"""

from rag_eval_pipeline.judges.judgement import Case, Claim, Judgement
from rag_eval_pipeline.metrics.alce import CitedStatement, alce_scores
from rag_eval_pipeline.metrics.citation_quality import citation_relevance
from rag_eval_pipeline.metrics.claim_labels import labels_of, ragchecker_scores

RAGCHECKER = "ragchecker/"  # before RAGChecker's own names, of which three are other measures' too


def label_scores(case: Case, judgement: Judgement) -> dict[str, float]:
    """The scores of one answer.

    Args:
        case: What was judged.
        judgement: A completed one.
    """
    scores = _alce(case, judgement)
    # A wrong figure beside the right passage is a relevant citation, though no correct one.
    relevance = citation_relevance([s is not None and s.outcome != "not_found" for s in judgement.citation_support])
    if relevance is not None:
        scores["citation_relevance"] = relevance
    found = judgement.entailment
    if found is not None:
        labels = labels_of(found.correct, found.covered, found.grounded, found.retrieved)
        scores |= {RAGCHECKER + name: score for name, score in ragchecker_scores(labels).items()}
    return scores


def _alce(case: Case, judgement: Judgement) -> dict[str, float]:
    statements = [_statement(case, claim) for claim in judgement.claims]
    known = [statement for statement in statements if statement is not None]
    found = alce_scores(known) if len(known) == len(statements) else None
    if found is None:
        return {}
    return {"citation_recall": found.citation_recall, "citation_precision": found.citation_precision}


def _statement(case: Case, claim: Claim) -> CitedStatement | None:
    labels = claim.labels
    if labels is None:
        return None
    return CitedStatement(
        joint=claim.by_citations is not None and claim.by_citations.outcome == "supported",
        alone=labels.alone,
        without=labels.without,
        in_range=all(case.citations[number].text is not None for number in claim.citations),
    )
