"""Each rule decides what it is for, in order, and says which it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.lexical.judge import LexicalJudge
from rag_eval_pipeline.judges.lexical.settings import LexicalSettings

RULES = {
    #                                gold                        answer                                       verdict      reason
    "a refusal":                    ("Ada",                      "I don't know.",                             "refused",   "refusal (no_know)"),
    "an empty answer":              ("Ada",                      " [1]",                                      "refused",   "refusal (empty)"),
    "an ambiguous refusal":         ("None",                     "The text gives no information on it.",      "unsure",    "refusal"),
    "yes for yes":                  ("Yes",                      "Yes, it did.",                              "correct",   "yes/no"),
    "no for yes":                   ("Yes, it rose.",            "No, it fell.",                              "incorrect", "yes/no"),
    "yes with its number":          ("Yes, it rose by 5%",       "Yes, by 5 percent.",                        "correct",   "yes/no"),
    "yes with another number":      ("Yes, it rose by 5%",       "Yes, by 7 percent.",                        "unsure",    "yes/no"),
    "neither yes nor no":           ("Yes, the harbour keepers", "The harbour keepers did.",                  "correct",   "recall"),
    "no changes are not a no":      ("No changes were made",     "Yes, no changes were made.",                "correct",   "all of the gold"),
    "a brief number":               ("$1,577.00",                "It was $1.577 billion.",                    "correct",   "number"),
    "another brief number":         ("$1,577.00",                "It was $1.677 billion.",                    "incorrect", "number"),
    "a sign":                       ("$(546)",                   "A gain of $546.",                           "unsure",    "number"),
    "one is a number when alone":   ("one",                      "There was 1 child.",                        "correct",   "number"),
    "all numbers and the words":    ("Tolls rose by 12% to $4.5 million", "Tolls rose 12% to $4.5 million.",  "correct",   "numbers and words"),
    "half of the numbers":          ("Tolls rose by 12% to $4.5 million", "Tolls rose 12% to $9.5 million.",  "unsure",    "numbers and words"),
    "no number and no words":       ("Tolls rose by 12% to $4.5 million", "The weather was fair.",            "incorrect", "numbers and words"),
    "in a row":                     ("the harbour keepers",      "It was THE HARBOUR   keepers' work.",       "correct",   "all of the gold"),
    "function words in a row":      ("The Who",                  "It was the Who.",                           "correct",   "all of the gold"),
    "a misspelt name":              ("Ada Szczepanska",          "It was Ada Szczepansca.",                   "unsure",    "spelling"),
    "another name":                 ("Ada Thorne",               "Bob Hale.",                                 "incorrect", "recall"),
    "half of a name":               ("Ada Thorne",               "Ada Hale.",                                 "unsure",    "recall"),
    "the words of a sentence":      ("The lamp was lit by the keepers of the harbour", "Harbour keepers lit the lamp.", "correct", "recall"),
    "none of the words":            ("The lamp was lit by the keepers of the harbour", "The city sold a tower.",        "incorrect", "recall"),
    "half of the words":            ("The lamp was lit by the keepers of the harbour", "The lamp was lit by Ada.",      "unsure",    "recall"),
    "citations are no words":       ("Ada Thorne",               "Ada [a.pdf:1:0-4] Thorne.",                 "correct",   "all of the gold"),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "answer", "verdict", "reason"), RULES.values(), ids=RULES)
def test_rules(gold, answer, verdict, reason):
    found = judge([gold], answer)

    assert (found.verdict, found.reason.startswith(reason)) == (verdict, True)
    assert 0 <= found.score <= 1


OTHERS = {
    #                             language gold             answer                         verdict
    "German yes and no":        ("de", "Ja",              "Nein, das war er nicht.",      "incorrect"),
    "French":                   ("fr", "Oui",             "Oui, en 1887.",                "correct"),
    "Spanish":                  ("es", "Sí",              "No, en 1887.",                 "incorrect"),
    "Italian":                  ("it", "No",              "No, nel 1887.",                "correct"),
    "Portuguese":               ("pt", "Não",             "Sim, em 1887.",                "incorrect"),
    "Dutch":                    ("nl", "Nee",             "Nee, in 1887.",                "correct"),
    "Russian":                  ("ru", "Да",              "Нет, в 1887.",                 "incorrect"),
    "Polish":                   ("pl", "Tak",             "Tak, w 1887.",                 "correct"),
    "Turkish":                  ("tr", "Evet",            "Hayır, 1887'de.",              "incorrect"),
    "Chinese":                  ("zh", "是",              "不是，在1887年。",               "incorrect"),
    "Japanese":                 ("ja", "はい",             "いいえ、違います。",              "incorrect"),
    "Korean":                   ("ko", "네",              "네, 1887년입니다.",             "correct"),
    "Arabic":                   ("ar", "نعم",             "لا، في 1887.",                 "incorrect"),
    "Hindi":                    ("hi", "हाँ",              "नहीं, 1887 में।",                "incorrect"),
    "the gold answer itself":   ("de", "Der Leuchtturm",  "der Leuchtturm!",              "correct"),
    "with a decimal comma":     ("de", "1.577,5 Meter",   "1577,5 Meter",                 "correct"),
    "a refusal":                ("de", "Ada",             "Ich weiß es nicht.",           "refused"),
}  # fmt: skip


@pytest.mark.parametrize(("language", "gold", "answer", "verdict"), OTHERS.values(), ids=OTHERS)
def test_other_languages(language, gold, answer, verdict):
    assert judge([gold], answer, language=language).verdict == verdict


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("Ada Thorne", "Das war Ada Thorne."),
        ("1,5 Mio. Euro", "1.500.000 Euro"),
        ("Das Haus", "Die Häuser"),
        ("Der Turm", "Die Glocke"),
    ],
)
def test_other_languages_are_not_judged_beyond_that(gold, answer):
    found = LexicalJudge(LexicalSettings(language="de")).judge_case(Case("1", "Wer?", (gold,), False, answer))

    assert (found.status, found.correctness, found.flags) == ("completed", None, ("language_not_supported",))


def test_a_gold_answer_that_says_nothing_is_no_matter_of_language():
    found = LexicalJudge(LexicalSettings(language="de")).judge_case(Case("1", "Wer?", ("...",), False, "Ada."))

    assert (found.correctness, found.flags) == (None, ())


@pytest.mark.parametrize(
    ("answer", "leaning"), [("Tolls rose 12% to $9.5 million.", True), ("Harbour tolls rose by millions.", False)]
)
def test_the_score_of_an_unsure_verdict_says_where_the_rules_lean(answer, leaning):
    found = judge(["Harbour tolls rose by 12% to $4.5 million"], answer)

    assert (found.verdict, found.score >= 0.5, f"rather {'right' if leaning else 'wrong'}" in found.reason) == (
        "unsure",
        leaning,
        True,
    )


def test_the_best_of_the_accepted_answers_counts():
    assert judge(["Bob Hale", "Ada Thorne", ""], "Ada Thorne.").verdict == "correct"


def test_a_year_of_the_question_is_not_asked_for():
    question = "What were the tolls of the harbour in 1890?"

    assert judge(["tolls of the harbour of Skarn in 1890"], "In Skarn.", question=question).reason.startswith("recall")
    assert judge(["3 May 1890"], "On 3 May.", question=question).verdict == "correct"


def test_words_of_the_question_count_a_quarter():
    found = judge(["the green lamp behind that great harbour"], "The harbour.", question="Which harbour?")

    # harbour 27; green 25, lamp 24, behind 26 and great 25 count four times as much: 27 / (27 + 400) = 0.063232.
    assert found.score == 0.063232


@pytest.mark.parametrize(("band", "verdict"), [(0.0, "incorrect"), (0.15, "unsure")])
def test_the_band_says_how_much_is_unsure(band, verdict):
    assert judge(["Ada Thorne"], "Ada Hale.", unsure_band=band).verdict == verdict


@pytest.mark.parametrize(
    ("answer", "verdict", "score"),
    [("I don't know.", "correct", 1.0), ("", "correct", 1.0), ("Ada.", "incorrect", 0.0)],
)
def test_an_impossible_question_is_rightly_refused(answer, verdict, score):
    found = judge([], answer, is_impossible=True)

    assert (found.verdict, found.score, found.reason) == (verdict, score, "impossible")


@pytest.mark.parametrize("accepted", [[], [""], ["..."]])
def test_nothing_is_said_where_no_answer_is_known(accepted):
    assert judge(accepted, "Ada.") is None


@given(st.text(), st.text(), st.text())
def test_any_text_has_a_verdict(question, gold, answer):
    found = judge([gold], answer, question=question)

    assert found is None or 0 <= found.score <= 1


@given(
    st.text(st.characters(categories=["Lu", "Ll", "Nd", "Zs"]), min_size=1).filter(
        lambda text: any(map(str.isalpha, text))
    )
)
def test_the_gold_answer_itself_is_never_wrong(text):
    assert judge([text], text).verdict in {"correct", "refused", "unsure"}


JUDGES = {}


def judge(accepted, answer, *, question="Who?", is_impossible=False, **settings):
    key = tuple(settings.items())
    if key not in JUDGES:
        JUDGES[key] = LexicalJudge(LexicalSettings(**settings))
    return JUDGES[key].judge_case(Case("q1", question, tuple(accepted), is_impossible, answer)).correctness


def test_a_number_that_begins_with_no_is_no_none():
    case = Case("1", "Which engine was first?", ("No. 12",), False, "The documents do not answer this question.")

    assert LexicalJudge().judge_case(case).correctness.verdict == "refused"
