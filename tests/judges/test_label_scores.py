"""Labels of single citations give ALCE's scores; citations are relevant, and cite, by their support."""

import msgspec
import pytest

from rag_eval_pipeline.evaluation.judging import judgement_scores
from rag_eval_pipeline.judges.judgement import Case, CitationLabels, CitedText, Claim, Judgement, Support

SUPPORTED, NOT_FOUND = Support("supported", 1.0), Support("not_found", 0.0)


def stored(judgement):
    return msgspec.json.decode(msgspec.json.encode(judgement), type=Judgement)


def test_alce_scores_are_those_of_the_labels():
    cited = tuple(CitedText("a.pdf", text, n, n + 1) for n, text in enumerate(("text", "text", None)))
    claims = (
        # The first citation is enough, so the second is not needed.
        Claim(0, 1, (0, 1), SUPPORTED, None, CitationLabels((True, False), (None, True))),
        Claim(1, 2, (2,), None, None, CitationLabels((False,), (None,))),  # of a place that does not exist
    )
    judgement = Judgement("0", "completed", claims=claims, citation_support=(None,) * 3)

    scores = judgement_scores(Case("0", "?", (), False, "xxxx", cited), stored(judgement)).scores

    assert (scores["citation_recall"], scores["citation_precision"]) == (1 / 2, 1 / 2)


RELEVANT = {
    #                      outcomes                                   relevance
    "a wrong detail":     (("conflicting",),                          1.0),
    "of something else":  (("not_found", "supported"),                1 / 2),
    "not there":          ((None, "supported", "conflicting"),        2 / 3),
}  # fmt: skip


@pytest.mark.parametrize(("outcomes", "relevance"), RELEVANT.values(), ids=RELEVANT)
def test_citation_is_relevant_for_or_against_its_claim(outcomes, relevance):
    support = tuple(outcome and Support(outcome, 0.4) for outcome in outcomes)
    cited = tuple(CitedText("a.pdf", "text", n, n + 1) for n in range(len(outcomes)))

    row = judgement_scores(Case("0", "?", (), False, "xxxx", cited), Judgement("0", "completed", citation_support=support))  # fmt: skip

    assert row.scores.get("citation_relevance") == relevance


def test_citation_without_a_mark_cites_the_claims_that_it_supports():
    beside = (CitedText("a.pdf", "text", 4, 4),)
    claims = (Claim(0, 1, (0,), SUPPORTED, None), Claim(1, 2, (0,), NOT_FOUND, None))

    scores = judgement_scores(Case("0", "?", (), False, "xxxx", beside), Judgement("0", "completed", claims=claims, citation_support=(SUPPORTED,))).scores  # fmt: skip

    assert (scores["cited_claims"], scores["citation_completeness"]) == (1.0, 0.5)
    assert (scores["factual_consistency"], scores["citation_correctness"]) == (0.5, 1.0)
    assert "citation_recall" not in scores
