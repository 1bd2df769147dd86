"""Labels of single citations give ALCE's scores; citations are relevant, and cite, by their support."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.evaluation.judging import judgement_scores
from rag_eval_pipeline.judges.judgement import Case, CitationLabels, CitedText, Claim, Judgement, Support
from tests.alce_loop import walked

SUPPORTED, NOT_FOUND = Support("supported", 1.0), Support("not_found", 0.0)


def stored(judgement):
    return msgspec.json.decode(msgspec.json.encode(judgement), type=Judgement)


def as_judgement(answer, entailing):
    """A judge's labels of an answer of numbered statements, each citing passages by number."""

    def entails(passages, statement):
        return any(needed <= set(passages) for needed in entailing[statement])

    claims, citations = [], []
    for number, passages in enumerate(answer):
        own = tuple(range(len(citations), len(citations) + len(passages)))
        citations += [
            CitedText(f"{passage}.pdf", "text", place, place + 1) for place, passage in zip(own, passages, strict=True)
        ]
        joint = bool(passages) and entails(passages, number)
        alone = tuple(entails([passage], number) for passage in passages)
        without = tuple(
            entails(passages[:i] + passages[i + 1 :], number) if joint and not is_enough and len(own) > 1 else None
            for i, is_enough in enumerate(alone)
        )
        by_citations = None if not own else SUPPORTED if joint else NOT_FOUND
        claims.append(Claim(number, number + 1, own, by_citations, None, CitationLabels(alone, without)))
    case = Case("0", "?", (), False, "x" * 40, tuple(citations))
    return case, Judgement("0", "completed", claims=tuple(claims), citation_support=(None,) * len(citations))


some_answer = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), max_size=3),
        st.lists(st.frozensets(st.integers(0, 3), min_size=1, max_size=2), max_size=2),
    ),
    min_size=1,
    max_size=4,
)


@given(some_answer)
def test_alce_labels_give_the_official_loops_scores(drawn):
    answer, entailing = [own for own, _ in drawn], [own for _, own in drawn]
    case, judgement = as_judgement(answer, entailing)

    scores = judgement_scores(case, stored(judgement)).scores

    assert (scores["citation_recall"], scores["citation_precision"]) == walked(answer, entailing)


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
