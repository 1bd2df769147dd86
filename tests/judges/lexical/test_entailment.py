"""What entails what, by words: the gold answer and the answer are read with the question, a passage by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.judgement import Case, CitationLabels, CitedText
from rag_eval_pipeline.judges.label_scores import label_scores
from rag_eval_pipeline.judges.lexical.evidence import Evidence
from rag_eval_pipeline.judges.lexical.judge import LexicalJudge
from rag_eval_pipeline.judges.lexical.settings import LexicalSettings
from rag_eval_pipeline.judges.lexical.support import read_claim, support, supports
from rag_eval_pipeline.judges.lexical.words import vocabulary

WHEN = "When did the Hartigan Refractor see first light?"
WHICH = "Which is longer, the Nile or the Amazon?"


def judged(question, accepted, answer, contexts=(), citations=()):
    case = Case("q", question, accepted, False, answer, citations, contexts)
    return case, LexicalJudge().judge_case(case)


COMPARED = {
    #                                     question  accepted                   answer                                         correct  covered
    "only what was asked for":           (WHEN,     ("9 November 1891",),      "First light was on 9 November 1891.",         [True],  [True]),
    "another day":                       (WHEN,     ("9 November 1891",),      "First light was on 3 November 1891.",         [False], [False]),
    "a choice of the question's words":  (WHICH,    ("the Nile",),             "The Amazon.",                                 [False], [False]),
    "the other of them":                 (WHICH,    ("the Nile",),             "The Nile.",                                   [True],  [True]),
    "one claim of two":                  (WHEN,     ("9 November 1891. Professor Wolny looked at Saturn.",), "It was 9 November 1891.", [True], [True, False]),
    "more than the gold answer says":    (WHEN,     ("9 November 1891",),      "It was 9 November 1891. Dr Hale wept with joy.", [True, False], [True]),
    "a refusal":                         (WHEN,     ("9 November 1891",),      "I don't know.",                               [],      [False]),
    "the accepted answer it says":       (WHEN,     ("in autumn 1891", "9 November 1891"), "It was 9 November 1891.",         [True],  [True]),
}  # fmt: skip


@pytest.mark.parametrize(("question", "accepted", "answer", "correct", "covered"), COMPARED.values(), ids=COMPARED)
def test_answer_and_gold_answer(question, accepted, answer, correct, covered):
    found = judged(question, accepted, answer)[1].entailment

    assert (list(found.correct), list(found.covered)) == (correct, covered)


def test_of_several_accepted_answers_the_one_that_is_said_is_compared():
    found = judged(WHEN, ("in autumn 1891", "9 November 1891"), "It was 9 November 1891.")[1].entailment

    assert (found.gold, found.gold_claims) == ("9 November 1891", ("9 November 1891",))


def test_of_two_that_are_said_wholly_the_longer_one_is_compared():
    accepted = ("1891", "It was on 9 November 1891.", "9 November")

    found = judged(WHEN, accepted, "It was on 9 November 1891.")[1].entailment

    assert (found.gold, found.correct) == ("It was on 9 November 1891.", (True,))


NOTHING = {"impossible": (), "a bare yes": ("Yes",), "only marks": ("…",)}


@pytest.mark.parametrize("accepted", NOTHING.values(), ids=NOTHING)
def test_without_a_gold_answer_that_claims_anything_there_are_no_labels(accepted):
    assert judged("Was it lit?", accepted, "It was lit.")[1].entailment is None


def test_every_passage_is_asked_by_itself():
    contexts = ("The lamp was lit in 1887.", " \n", "Ada Thorne lit the lamp. It rained.", "Nothing of it.")
    answer = "The lamp was lit in 1887. Ada Thorne lit the lamp."

    _, judgement = judged("What happened?", ("The lamp was lit in 1887.",), answer, contexts)

    found = judgement.entailment
    assert found.grounded == ((True, False, False, False), (False, False, True, False))
    assert found.retrieved == ((True, False, False, False),)


def test_ragchecker_figures_of_an_answer_by_hand():
    contexts = ("The lamp was lit in 1887.", "Bob Hale sold the harbour bell in 1901.")
    answer = "The lamp was lit in 1887. Bob Hale sold the harbour bell in 1901. The tower stood 90 metres high."
    gold = ("The lamp was lit in 1887 by nobody else than Ada Thorne. The lamp was lit in 1887.",)

    scores = label_scores(*judged("What happened?", gold, answer, contexts))

    # Claims: right and retrieved; wrong, of the useless second passage; wrong and nowhere. Of the gold answer's two
    # claims the second is said and retrieved.
    assert {name.removeprefix("ragchecker/"): score for name, score in scores.items() if "/" in name} == {
        "precision": 1 / 3, "recall": 1 / 2, "f1": 2 / 5,
        "claim_recall": 1 / 2, "context_precision": 1 / 2, "context_utilization": 1.0,
        "noise_sensitivity_in_relevant": 0.0, "noise_sensitivity_in_irrelevant": 1 / 3,
        "hallucination": 1 / 3, "self_knowledge": 0.0, "faithfulness": 2 / 3,
    }  # fmt: skip


def cited(answer, *texts):
    """Each text as the citation `[n]` of an answer."""
    places = [answer.index(f"[{n}]") for n in range(1, len(texts) + 1)]
    return tuple(CitedText("a.pdf", text, place, place + 3) for text, place in zip(texts, places, strict=True))


WHOLE, FIRST, SECOND, OTHER = (
    "The lamp was lit by Ada Thorne.", "The lamp was lit by Ada.", "Thorne kept a diary.", "It rained.",
)  # fmt: skip
CLAIM = "The lamp was lit by Ada Thorne [1][2]."
LABELS = {
    #                        texts               alone           without        recall precision
    "each is enough":       ((WHOLE, WHOLE + " "), (True, True),   (None, None),   1.0,   1.0),
    "one too many":         ((WHOLE, OTHER),     (True, False),  (None, True),   1.0,   0.5),
    "only together":        ((FIRST, SECOND),    (False, False), (False, False), 1.0,   1.0),
    "neither":              ((OTHER, OTHER),     (False, False), (None, None),   0.0,   0.0),
    "one that is not there": ((WHOLE, None),     (True, False),  (None, True),   0.0,   0.0),
}  # fmt: skip


@pytest.mark.parametrize(("texts", "alone", "without", "recall", "precision"), LABELS.values(), ids=LABELS)
def test_which_citations_a_claim_needs(texts, alone, without, recall, precision):
    case, judgement = judged("Who?", (), CLAIM, citations=cited(CLAIM, *texts))

    (claim,) = judgement.claims
    assert claim.labels == CitationLabels(alone, without)
    scores = label_scores(case, judgement)
    assert (scores["citation_recall"], scores["citation_precision"]) == (recall, precision)


def test_a_claim_without_citations_is_an_unsupported_statement():
    answer = "The lamp was lit by Ada Thorne [1]. It rained."

    scores = label_scores(*judged("Who?", (), answer, citations=cited(answer, WHOLE)))

    assert (scores["citation_recall"], scores["citation_precision"], scores["citation_relevance"]) == (0.5, 1.0, 1.0)


def test_citations_beside_the_answer_support_its_claims_and_have_no_marks_to_count():
    answer = "The lamp was lit by Ada Thorne. It rained cats."
    beside = tuple(CitedText("a.pdf", text, len(answer), len(answer)) for text in (WHOLE, OTHER))

    case, judgement = judged("Who?", (), answer, citations=beside)

    assert [claim.by_citations.outcome for claim in judgement.claims] == ["supported", "not_found"]
    # The best that a citation does for any claim.
    assert [one.outcome for one in judgement.citation_support] == ["supported", "not_found"]
    assert [claim.labels for claim in judgement.claims] == [None, None]
    assert label_scores(case, judgement) == {"citation_relevance": 0.5}


WORDS = st.lists(
    st.sampled_from(["lamp", "lit", "1887", "Ada Thorne", "not", "tower", "31 metres", "rose"]), max_size=6
)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
def test_the_quick_answer_is_the_long_one(claim, texts):
    known, settings = vocabulary("en", decimal_comma=False), LexicalSettings()
    evidence = [Evidence(f"Of it: {' '.join(words)}.", known) for words in texts]
    words = read_claim(" ".join(claim), known)

    assert supports(words, evidence, settings) == (support(words, evidence, settings).outcome == "supported")
