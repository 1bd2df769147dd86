"""A question's answer against gold, its claims and citation marks, and its outcome."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.evaluation.conversations import Message
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.judges.judge_settings import LexicalSettings
from rag_eval_pipeline.judges.judgement import Claim, FactVerdict, Judgement
from rag_eval_pipeline.site.marked_pages import DocumentTexts
from rag_eval_pipeline.site.outcomes import Given, OutcomeRule
from rag_eval_pipeline.site.question_page import (
    annotate_answer,
    answer_diff,
    changed_words,
    nearest_gold_answer,
    question_details,
)
from rag_eval_pipeline.site.run_data import QuestionRow
from rag_eval_pipeline.systems.base import Citation, RagAnswer

DIFFERENCES = {
    #                                   gold            given              stretches
    "the same":                        ("Ada Lovelace", "Ada Lovelace",    [("same", "Ada Lovelace")]),
    "case and full stops do not count": ("Ada Lovelace", "ada lovelace.",   [("same", "ada lovelace.")]),
    "a word more":                     ("Ada",          "Ada Lovelace",    [("same", "Ada "), ("extra", "Lovelace")]),
    "a word less":                     ("Ada Lovelace", "Ada",             [("same", "Ada"), ("missing", "Lovelace")]),
    "another word":                    ("in 1887",      "in 1888",         [("same", "in "), ("missing", "1887"), ("extra", "1888")]),
    "an article that only one has":    ("mine",         "the mine",        [("extra", "the "), ("same", "mine")]),
    "no answer":                       ("Ada",          "",                [("missing", "Ada")]),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "given_text", "segments"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_answer_diff(gold, given_text, segments):
    assert answer_diff(gold, given_text) == segments


@given(st.lists(st.sampled_from(["a", "b", "the", "x."])), st.lists(st.sampled_from(["a", "b", "x"])))
def test_answer_diff_without_what_is_missing_is_the_answer(gold, words):
    text = " ".join(words)

    assert "".join(s.text for s in answer_diff(" ".join(gold), text) if s.part != "missing").strip() == text


def test_answer_diff_of_a_long_answer_is_empty():
    assert answer_diff("word " * 401, "word") == []


def test_nearest_gold_answer():
    assert (
        nearest_gold_answer(["June 9, 1888", "9 June 1888"], "on 9 June 1888") == "June 9, 1888"
    )  # the same words: the first
    assert nearest_gold_answer(["a mine", "a harbour"], "the harbour") == "a harbour"
    assert nearest_gold_answer([], "x") is None


PLACES = st.tuples(st.integers(-2, 30), st.integers(-2, 30))


def test_annotate_answer_has_claims_and_citation_marks():
    #         0         1         2
    #         0123456789012345678901234
    answer = "It rose. [a.pdf:1:0-9] It fell."
    claims = [Claim(0, 22, (0,), None, None), Claim(23, 31, (), None, None)]
    citation = Citation("a.pdf", 0, 9, 1, 9, 22)

    assert annotate_answer(answer, claims, [citation], [(23, 25)]) == [
        ("It rose. ", 1, (), False),
        ("[a.pdf:1:0-9]", 1, (1,), False),
        (" ", 0, (), False),
        ("It", 2, (), True),
        (" fell.", 2, (), False),
    ]


CHANGED = {
    #                               before                      now                          lost      new
    "the same":                    ("It rose.",                 "It rose.",                  [],       []),
    "another word":                ("It rose in May",           "It rose in June",           [(11, 14)], [(11, 15)]),
    "more words":                  ("It rose",                  "It rose and fell",          [],       [(8, 16)]),
    "nothing before":              ("",                         "It rose",                   [],       [(0, 7)]),
    "a citation is no word":       ("It rose [a.pdf:1:0-9].",   "It rose [b.pdf:2:5-9].",    [],       []),
}  # fmt: skip


@pytest.mark.parametrize(("before", "now", "lost", "new"), CHANGED.values(), ids=CHANGED)
def test_changed_words(before, now, lost, new):
    assert changed_words(before, now) == (lost, new)


@given(st.text(max_size=25), st.lists(PLACES, max_size=4), st.lists(PLACES, max_size=4))
def test_annotate_answer_loses_nothing_whatever_the_offsets(answer, claims, marks):
    segments = annotate_answer(
        answer,
        [Claim(start, end, (), None, None) for start, end in claims],
        [Citation("a", 0, 1, 1, start, end) for start, end in marks],
    )

    assert sum(len(part.text) for part in segments) == len(answer)


def test_question_page_has_the_conversation_and_what_the_system_wrote():
    row = QuestionRow("0", "Who?", "ok", "She.", False, {})
    answer = RagAnswer(
        "0", "ok", "She.", False, (), (), 1.0, raw="<think>He?</think>She.", raw_sha256="ab", model="m-1"
    )

    said = [
        Message("user", "Is there a chef?"),
        Message("assistant", "Yes."),
        Message("assistant", "One.", is_own=True),
    ]

    details = question_details(
        row, answer, GOLD, None, outcome="right", texts=DocumentTexts([], {}), pictures=[], history=said
    )

    assert details.history == [("user", "Is there a chef?"), ("assistant (gold)", "Yes."), ("assistant (own)", "One.")]
    assert (details.answer[0].text, details.raw) == ("She.", "<think>He?</think>She.")
    stored = {"status": "ok", "abstained": False, "latency_ms": 1.0, "model": "m-1", "raw_sha256": "ab"}
    assert details.record == {**stored, "usage": details.record["usage"]}


def test_question_page_has_the_facts_and_the_sentences_that_state_them():
    facts = [{"text": "The chef is Marta"}, {"text": "She is 40", "importance": "okay"}, {"text": "She is kind"}]
    query = GOLD.model_copy(update={"metadata": {"facts": facts, "hops": 0, "turn": 0}})
    found = (FactVerdict("support", "Marta", ((0, 11),)), FactVerdict("not_support", "missing 40"), FactVerdict(None))
    answer = RagAnswer("0", "ok", "It's Marta. She cooks.", False, (), (), 1.0)
    row, judged = QuestionRow("0", "Who?", "ok", answer.answer, False, {}), Judgement("0", "completed", facts=found)

    details = question_details(row, answer, query, judged, outcome="right", texts=DocumentTexts([], {}), pictures=[])

    shown = [(fact.is_vital, fact.outcome, fact.reason, fact.sentences) for fact in details.judged_facts]
    assert details.facts == [("turn", "0")]  # no documents, no hops
    vital = [(True, "support", "Marta", ["It's Marta."]), (True, "undecided", "", [])]
    assert shown == [vital[0], (False, "not_support", "missing 40", []), vital[1]]


TRUSTED, BY_WORDS, UNKNOWN = OutcomeRule(True), OutcomeRule(False, LexicalSettings()), OutcomeRule(False)
GOLD = EvaluationQuery(
    query_id="0", query_text="Who is the chef?", relevant_documents=(), ground_truth_answer="Marta Lind"
)
NO_ANSWER = GOLD.model_copy(update={"ground_truth_answer": None, "metadata": {"is_impossible": True}})
SENTENCE, OTHERS = "The chef is Marta Lind.", "The chef is not Marta Lind but Bo Sund."
OUTCOMES = {
    #                                     rule      answer        status     EM    F1    judged abstained query   word
    "equal to gold":                     (UNKNOWN,  "Marta Lind", "ok",      1.0,  1.0,  0.0,   False, GOLD,      "right"),
    "accepted by a trusted judge":       (TRUSTED,  SENTENCE,     "ok",      0.0,  0.5,  1.0,   False, GOLD,      "right"),
    "rejected by a trusted judge":       (TRUSTED,  SENTENCE,     "ok",      0.0,  0.5,  0.0,   False, GOLD,      "partly"),
    "a judge nobody has checked":        (UNKNOWN,  SENTENCE,     "ok",      0.0,  0.5,  1.0,   False, GOLD,      "partly"),
    "contains gold, by words":           (BY_WORDS, SENTENCE,     "ok",      0.0,  0.5,  0.0,   False, GOLD,      "right"),
    "denies gold, by words":             (BY_WORDS, OTHERS,       "ok",      0.0,  0.4,  1.0,   False, GOLD,      "partly"),
    "none of gold's words":              (BY_WORDS, "Bo Sund",    "ok",      0.0,  0.0,  0.0,   False, GOLD,      "wrong"),
    "abstained where it should":         (TRUSTED,  "No idea.",   "ok",      1.0,  1.0,  1.0,   True,  NO_ANSWER, "rightly"),
    "abstained where there is an answer": (TRUSTED, "No idea.",   "ok",      0.0,  0.0,  0.0,   True,  GOLD,      "refused"),
    "answered what has no answer":       (TRUSTED,  SENTENCE,     "ok",      0.0,  0.0,  0.0,   False, NO_ANSWER, "invented"),
    "the dataset is gone":               (BY_WORDS, SENTENCE,     "ok",      0.0,  0.5,  0.0,   False, None,      "partly"),
    "no answer arrived":                 (TRUSTED,  None,         "timeout", None, None, None,  False, GOLD,      "failed"),
    "a recording of retrieval alone":    (TRUSTED,  None,         "ok",      None, None, None,  False, GOLD,      "unscored"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "answer", "status", "exact", "f1", "judged", "abstained", "query", "word"), OUTCOMES.values(), ids=OUTCOMES
)
def test_question_outcome(rule, answer, status, exact, f1, judged, abstained, query, word):
    assert rule.outcome(Given(answer, status, exact, f1, judged, abstained), query) == word


@pytest.mark.parametrize(
    ("rule", "vital", "abstained", "word"),
    [
        (TRUSTED, 1.0, False, "right"), (TRUSTED, 0.5, False, "partly"), (TRUSTED, 0.0, False, "wrong"),
        (TRUSTED, 0.0, True, "refused"), (TRUSTED, None, False, "unscored"), (UNKNOWN, 1.0, False, "unscored"),
    ],
)  # fmt: skip
def test_outcome_of_a_gold_answer_in_facts(rule, vital, abstained, word):
    assert rule.outcome(Given(SENTENCE, "ok", None, None, None, abstained, vital), GOLD) == word
