"""Answers in other languages score by MLQA's rules, and ROUGE-L is rouge-score's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.answer_overlap import normalise_answer_in, rouge_l, score_answer_in
from rag_eval_pipeline.metrics.answers import score_answer

# The last two of each are what MLQA's evaluation script gives.
MLQA = {
    "Chinese, a character too many":  ("zh", "1887年，在巴黎。", "1887年巴黎", 0.0, 0.888888888888889),
    "Chinese punctuation is dropped": ("zh", "巴黎", "巴黎。", 1.0, 1.0),
    "Chinese beside Latin":           ("zh", "iPhone 12 手机", "iPhone手机", 0.0, 0.8571428571428571),
    "German, an adjective's ending":  ("de", "Der große Turm", "ein großer Turm", 0.0, 0.5),
    "a German article":               ("de", "das Haus!", "Haus", 1.0, 1.0),
    "Spanish articles":               ("es", "«La casa» de los Ríos", "casa de Ríos", 1.0, 1.0),
    "Vietnamese":                     ("vi", "cái nhà của tôi", "nhà tôi", 1.0, 1.0),
    "the Arabic article":             ("ar", "البيت الكبير", "بيت كبير", 1.0, 1.0),
    "Hindi's full stop":              ("hi", "ताज महल।", "ताज महल", 1.0, 1.0),
}  # fmt: skip


@pytest.mark.parametrize(("language", "answer", "gold", "exact", "f1"), MLQA.values(), ids=MLQA)
def test_answers_score_as_mlqa_scores_them(language, answer, gold, exact, f1):
    assert score_answer_in(answer, [gold], language) == (exact, f1)


OTHERS = {
    # 3 of 4 and 3 of 3 characters: F1 = 6/7.
    "Japanese":              ("ja", "東京都だ", ["東京都"], 6 / 7),
    "Thai, by its letters":  ("th", "ปารีส", ["ปารีส"], 1.0),
    "Korean, by its words":  ("ko", "서울 타워", ["서울"], 2 / 3),
    "no language, no articles": (None, "the tower", ["tower"], 2 / 3),
    "a region is no other language": ("de-CH", "das Haus", ["Haus"], 1.0),
    "an abstention where one was due": ("zh", "", [], 1.0),
    "an answer where there is none":   ("zh", "巴黎", [], 0.0),
}  # fmt: skip


@pytest.mark.parametrize(("language", "answer", "accepted", "f1"), OTHERS.values(), ids=OTHERS)
def test_other_languages(language, answer, accepted, f1):
    assert score_answer_in(answer, accepted, language).f1 == pytest.approx(f1)


texts = st.text("ab Te,.-'", max_size=12)


@given(texts, st.lists(texts, max_size=2))
def test_english_is_squads(answer, accepted):
    assert score_answer_in(answer, accepted, "en") == score_answer(answer, accepted)


@given(st.text(max_size=30), st.sampled_from(["zh", "th", None]))
def test_normalising_twice_changes_nothing(text, language):
    once = normalise_answer_in(text, language)

    assert normalise_answer_in(once, language) == once


# Printed by rouge-score 0.1.2, rougeL without stemmer.
ROUGE = {
    "another order": ("The quick brown fox jumps over the lazy dog.", "A quick brown dog outran the lazy fox!", 0.47058823529411764),
    "a clause moved": ("It opened in 1887, under Ada Thorne.", "Ada Thorne opened it in 1887", 0.4615384615384615),
    "a hyphen separates": ("10th century", "in the 10th-century", 0.6666666666666666),
    "nothing shared": ("yes", "no", 0.0),
    "equal": ("Rollo", "Rollo", 1.0),
    "an underscore separates": ("a_b c", "a b c", 1.0),
    "full stops and commas separate": ("U.S. $1,000.50", "1,000 U.S. dollars", 0.4000000000000001),
    "a repetition": ("the the the", "the", 0.5),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "gold", "expected"), ROUGE.values(), ids=ROUGE)
def test_rouge_l_is_rouge_scores(answer, gold, expected):
    assert rouge_l(answer, [gold]) == expected


def test_rouge_l_takes_the_best_accepted_answer():
    assert rouge_l("in the 10th century", ["911", "the 10th century"]) == 6 / 7
    assert rouge_l("", ["Rollo"]) == 0.0
    assert rouge_l("巴黎", ["巴黎。"]) == 1.0


def test_rouge_l_of_an_impossible_question_is_absent():
    assert rouge_l("Rollo", []) is None
    assert rouge_l("Rollo", ["..."]) is None


@given(texts, texts)
def test_rouge_l_is_symmetric_and_a_share(answer, gold):
    score = rouge_l(answer, [gold])

    assert score is None or 0.0 <= score <= 1.0
    if score is not None and rouge_l(gold, [answer]) is not None:
        assert score == rouge_l(gold, [answer])
