"""Each rule decides what it is for, in order, and names itself in the reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.judge_settings import LexicalSettings
from rag_eval_pipeline.judges.judgement import Case, CitedText, Judge
from rag_eval_pipeline.judges.lexical import LexicalJudge

RULES = {
    #                                gold                        answer                                       verdict      reason
    "a refusal":                    ("Ada",                      "I don't know.",                             "refused",   "refusal (no_know)"),
    "a refusal that is the gold":   ("Unknown",                  "unknown.",                                  "correct",   "the gold answer itself"),
    "an empty answer":              ("Ada",                      " [1]",                                      "refused",   "refusal (empty)"),
    "an ambiguous refusal":         ("None",                     "The text gives no information on it.",      "unsure",    "refusal"),
    "yes for yes":                  ("Yes",                      "Yes, it did.",                              "correct",   "yes/no"),
    "yes with another number":      ("Yes, it rose by 5%",       "Yes, by 7 percent.",                        "unsure",    "yes/no"),
    "now is not a no":              ("Yes",                      "Now, it rose.",                             "unsure",    "the answer begins with neither"),
    "no roof is not a no":          ("No",                       "It had no roof.",                           "unsure",    "the answer begins with neither"),
    "true for yes":                 ("yes",                      "True",                                      "correct",   "yes/no: yes"),
    "yes for true":                 ("true",                     "Yes, it is deep.",                          "correct",   "yes/no: yes"),
    "no for false":                 ("FALSE",                    "No.",                                       "correct",   "yes/no: no"),
    "correct for yes":              ("Yes",                      "Correct.",                                  "correct",   "yes/no: yes"),
    "not correct for yes":          ("Yes",                      "That is not correct.",                      "incorrect", "yes/no: no for yes"),
    "the correct answer is no yes": ("yes",                      "The correct answer is 42.",                 "unsure",    "the answer begins with neither"),
    "no changes are not a no":      ("No changes were made",     "Yes, no changes were made.",                "correct",   "all of the gold"),
    "a brief number":               ("$1,577.00",                "It was $1.577 billion.",                    "correct",   "number"),
    "a sign":                       ("$(546)",                   "A gain of $546.",                           "unsure",    "number: 0 of 1 numbers, sign differs of $(546);"),
    "one is a number when alone":   ("one",                      "There was 1 child.",                        "correct",   "number"),
    "all numbers and the words":    ("Tolls rose by 12% to $4.5 million", "Tolls rose 12% to $4.5 million.",  "correct",   "numbers and words"),
    "none for zero":                ("0",                        "There are no ships.",                       "unsure",    "none for 0; rather right"),
    "zero for none":                ("none",                     "zero",                                      "unsure",    "none for 0; rather right"),
    "a telephone number":           ("+44 20 7946 0958",         "Call +442079460958.",                       "correct",   "the code, in other groups"),
    "groups that the gold lacks":   ("8005550199",               "Call 800-555-0199.",                        "correct",   "the code, in other groups"),
    "another section":              ("Section 4.2",              "Section 7.9.",                              "incorrect", "number: 0 of 1 numbers, missing 4.2"),
    "another code":                 ("800-555-0199",             "8005550198",                                "incorrect", "number: 0 of 3 numbers"),
    "a longer code":                ("800-555-0199",             "18005550199",                               "incorrect", "number: 0 of 3 numbers"),
    "a number with decimals":       ("123456",                   "1234.56",                                   "incorrect", "number: 0 of 1 numbers"),
    "another date":                 ("1-12-2024",                "11-2-2024",                                 "incorrect", "number: 0 of 1 numbers"),
    "a bound is no code":           ("15001",                    "at least 15001",                            "unsure",    "number: 0 of 1 numbers, bound"),
    "half of the numbers":          ("Tolls rose by 12% to $4.5 million", "Tolls rose 12% to $9.5 million.",  "unsure",    "numbers and words: 1 of 2 numbers, missing $4.5 million,"),
    "one end of a range":           ("1887-1901",                "It was in 1887.",                           "unsure",    "number: 1 of 2 numbers"),
    "a misspelt name":              ("Ada Szczepanska",          "It was Ada Szczepansca.",                   "unsure",    "spelling"),
    "the words of a sentence":      ("The lamp was lit by the keepers of the harbour", "Harbour keepers lit the lamp.", "correct", "recall"),
    "half of the words":            ("The lamp was lit by the keepers of the harbour", "The lamp was lit by Ada.",      "unsure",    "recall"),
    "citations are no words":       ("Ada Thorne",               "Ada [a.pdf:1:0-4] Thorne.",                 "correct",   "all of the gold"),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "answer", "verdict", "reason"), RULES.values(), ids=RULES)
def test_lexical_rules(gold, answer, verdict, reason):
    found = judge([gold], answer)

    assert (found.verdict, found.reason.startswith(reason)) == (verdict, True)
    assert 0 <= found.score <= 1


OTHERS = {
    #                             language gold             answer                         verdict
    "German yes and no":        ("de", "Ja",              "Nein, das war er nicht.",      "incorrect"),
    "Portuguese":               ("pt", "Não",             "Sim, em 1887.",                "incorrect"),
    "Chinese":                  ("zh", "是",              "不是，在1887年。",               "incorrect"),
    "Japanese":                 ("ja", "はい",             "いいえ、違います。",              "incorrect"),
    "Arabic":                   ("ar", "نعم",             "لا، في 1887.",                 "incorrect"),
    "Hindi":                    ("hi", "हाँ",              "नहीं, 1887 में।",                "incorrect"),
    "the gold answer itself":   ("de", "Der Leuchtturm",  "der Leuchtturm!",              "correct"),
    "with a decimal comma":     ("de", "1.577,5 Meter",   "1577,5 Meter",                 "correct"),
    "a refusal":                ("de", "Ada",             "Ich weiß es nicht.",           "refused"),
}  # fmt: skip


@pytest.mark.parametrize(("language", "gold", "answer", "verdict"), OTHERS.values(), ids=OTHERS)
def test_lexical_judge_in_other_languages(language, gold, answer, verdict):
    assert judge([gold], answer, language=language).verdict == verdict


@pytest.mark.parametrize(
    ("gold", "flags"), [("Ada Thorne", ("language_not_supported",)), ("...", ())], ids=["a name", "without words"]
)
def test_lexical_judge_leaves_other_languages_undecided(gold, flags):
    found = LexicalJudge(LexicalSettings(language="de")).judge_case(Case("1", "Wer?", (gold,), False, f"Es ist {gold}"))

    assert (found.status, found.correctness, found.flags) == ("completed", None, flags)


@pytest.mark.parametrize(
    ("answer", "is_right"), [("Tolls rose 12% to $9.5 million.", True), ("Harbour tolls rose by millions.", False)]
)
def test_lexical_unsure_score_shows_where_the_rules_lean(answer, is_right):
    found = judge(["Harbour tolls rose by 12% to $4.5 million"], answer)

    assert (found.verdict, found.score >= 0.5) == ("unsure", is_right)
    assert f"rather {'right' if is_right else 'wrong'}" in found.reason


DETAILS = {
    #                                             gold answers                            answer           question, settings                                      verdict      reason
    "the best of the accepted answers":         (["Bob Hale", "Ada Thorne", ""],         "Ada Thorne.",   {},                                                     "correct",   "all of the gold"),
    "a year of the question is not asked for":  (["3 May 1890"],                         "On 3 May.",     {"question": "What were the tolls in 1890?"},           "correct",   ""),
    "a year that the question lacks is":       (["1887"],                               "It was 1901.",  {"question": "What were the tolls in 1890?"},           "incorrect", "number"),
    "nor compared as a number":                 (["tolls of the harbour of Skarn in 1890"], "In Skarn.",  {"question": "What were the tolls of the harbour in 1890?"}, "unsure", "recall"),
    "No. 12 is not a no":                       (["No. 12"],                             "The documents do not answer this question.", {},                        "refused",   "refusal"),
}  # fmt: skip


@pytest.mark.parametrize(("accepted", "answer", "more", "verdict", "reason"), DETAILS.values(), ids=DETAILS)
def test_lexical_rules_in_detail(accepted, answer, more, verdict, reason):
    found = judge(accepted, answer, **more)

    assert (found.verdict, found.reason.startswith(reason)) == (verdict, True)


def test_lexical_words_of_the_question_count_a_quarter():
    found = judge(["the green lamp behind that great harbour"], "The harbour.", question="Which harbour?")

    # harbour 27; green 25, lamp 24, behind 26 and great 25 count four times as much: 27 / (27 + 400) = 0.063232.
    assert found.score == 0.063232


@pytest.mark.parametrize(
    ("answer", "verdict", "score"),
    [("I don't know.", "correct", 1.0), ("", "correct", 1.0), ("Ada.", "incorrect", 0.0)],
)
def test_lexical_impossible_question_is_rightly_refused(answer, verdict, score):
    found = judge([], answer, is_impossible=True)

    assert (found.verdict, found.score, found.reason) == (verdict, score, "impossible")


def test_lexical_judge_decides_nothing_without_a_gold_answer():
    assert judge([], "Ada.") is judge(["..."], "Ada.") is None


@given(
    st.text(st.characters(categories=["Lu", "Ll", "Nd", "Zs"]), min_size=1).filter(
        lambda text: any(map(str.isalpha, text))
    )
)
def test_lexical_gold_answer_itself_is_never_wrong(text):
    assert judge([text], text).verdict in {"correct", "refused", "unsure"}


JUDGES = {}


def judge(accepted, answer, *, question="Who?", is_impossible=False, **settings):
    key = tuple(settings.items())
    if key not in JUDGES:
        JUDGES[key] = LexicalJudge(LexicalSettings(**settings))
    return JUDGES[key].judge_case(Case("q1", question, tuple(accepted), is_impossible, answer)).correctness


# --- whole judgements ---

ANSWER = "The lamp was lit in 1887 [1]. It stood 33 metres high. [2][3] Is it still there? It was sold [4]."


def cited(answer=ANSWER):
    marks = [answer.index(f"[{n}]") for n in range(1, 5) if f"[{n}]" in answer]
    citations = tuple(CitedText("a.pdf", "The lamp was lit in 1887.", start, start + 3) for start in marks)
    return Case("q1", "When was the lamp lit?", ("1887",), False, answer, citations, ("It was sold.",))


async def test_lexical_judgement_has_correctness_and_claims_and_no_support():
    judge: Judge = LexicalJudge()

    found = await judge.judge(cited())

    assert (found.query_id, found.status, found.correctness.verdict) == ("q1", "completed", "correct")
    assert [claim.citations for claim in found.claims] == [(0,), (1, 2), (3,)]
    assert not judge.judges_support
    assert {(claim.by_citations, claim.by_contexts, claim.labels) for claim in found.claims} == {(None, None, None)}
    assert found.citation_support == (None,) * 4


def test_lexical_refusal_has_no_claims():
    found = LexicalJudge().judge_case(cited("The documents do not answer this question [1]."))

    assert (found.correctness.verdict, found.claims, found.citation_support) == ("refused", (), (None,))


@pytest.mark.parametrize("changed", [{"language": "de"}, {"unsure_band": 0.2}, {"decimal_comma": True}])
def test_lexical_settings_change_the_fingerprint(changed):
    assert LexicalJudge(LexicalSettings(**changed)).fingerprint != LexicalJudge().fingerprint
    assert LexicalJudge().fingerprint == LexicalJudge(LexicalSettings()).fingerprint
    assert LexicalJudge().fingerprint.startswith("lexical/9-")


HOSTILE = {
    "brackets": "[", "ends of citations": ":1:2-3]", "excerpts": '| excerpt: "', "digits and commas": "1,",
    "number words": "two and ", "conclusions": ", so ", "refusals": "i cannot ", "bars": "| ", "one word": "a", "marks": "a\u0301",
    "surrogates": "\ud800", "links": "[a](b",
}  # fmt: skip


def test_lexical_judge_survives_thirty_thousand_hostile_characters():
    judge = LexicalJudge()
    for what, unit in HOSTILE.items():
        text = (unit * (30_000 // len(unit) + 1))[:30_000]

        found = judge.judge_case(
            Case("q1", text[:2000], (text[:200],), False, text, (CitedText("a.pdf", text, 0, 5),), (text,))
        )

        assert found.status == "completed", what


@given(
    answer=st.text(),
    language=st.sampled_from(["en", "de", "fr", "ru", "zh", "ja", "ar", "hi"]),
    mark=st.tuples(st.integers(-2, 20), st.integers(-2, 20)),
)
def test_lexical_judge_judges_any_text_in_any_language(answer, language, mark):
    case = Case("q1", answer, (answer[:20],), False, answer, (CitedText("a", answer, *mark),))

    found = LexicalJudge(LexicalSettings(language=language)).judge_case(case)

    assert (found.status, len(found.citation_support)) == ("completed", 1)


NOT_SURE = {
    #                              gold                      answer                                           what differs
    "a denial":                  ("He was guilty",          "He was not guilty.",                            "one of the two denies guilty"),
    "a denial in the gold":      ("not guilty",             "guilty",                                        "one of the two denies guilty"),
    "must not":                  ("must not enter",         "You must enter.",                               "one of the two denies enter"),
    "never":                     ("signed the treaty",      "He never signed the treaty.",                   "one of the two denies"),
    "a denied name":             ("Bo Sund",                "It was Ada Lund, not Bo Sund.",                 "one of the two denies bo, sund"),
    "a name but another":        ("Peter Grey",             "The keeper was not Peter Grey but Ann Smith.",  "one of the two denies peter, grey"),
    "rather than":               ("York",                   "It was Leeds rather than York.",                "one of the two denies york"),
    "a denied year":             ("1800",                   "It was not lit in 1800 but in 1950.",           "denial differs of 1800"),
    "every year":                ("1800",                   ", ".join(map(str, range(1700, 1950))),          "list differs of 1800"),
    "either name":               ("Grey",                   "Mr Smith or Mr Grey.",                          "beside or"),
    "up or down":                ("It increased by 5%",     "It decreased by 5%.",                           "decreased is the opposite of increased"),
    "a direction":               ("the north gate of Skarn", "the south gate of Skarn",                      ""),
    "left or right":             ("on the left bank of the river Skarn", "on the right bank of the river Skarn", "right is the opposite of left"),
    "a comparator":              ("x > 3",                  "x < 3",                                         "bound differs of 3"),
    "a score":                   ("3-1",                    "They won 1-3.",                                 "1-3 is 3-1 the other way round"),
    "a score in a sentence":     ("Skarn won 3-1",          "Skarn won 1:3",                                 "1:3 is 3-1 the other way round"),
    "a version":                 ("Python 3.10",            "Python 3.1",                                    "last digit differs of 3.10"),
    "a patch of a version":      ("Python 3.11",            "3.11.4",                                        "last digit differs of 3.11"),
    "a count that is one off":   ("112",                    "113",                                           "rounding differs of 112; rather wrong"),
    "one percent of a price":    ("$2.50",                  "$2.53",                                         "rounding differs of $2.50; rather right"),
    "none in other words":       ("nobody",                 "no keeper",                                     "none in other words"),
    "a unit":                    ("7.1 hours",              "A period of 7.1 days.",                         "unit differs of 7.1 hours"),
    "a model":                   ("GPT-4",                  "It uses GPT-4o.",                               "gpt 4o is not gpt 4; rather wrong"),
    "a model without its letter": ("GPT-4o",                "It uses GPT-4.",                                "gpt 4 is not gpt 4o"),
    "a longer name":             ("A320",                   "an A320neo",                                    "a320neo is not a320"),
    "a formula":                 ("CO2",                    "It is carbon dioxide.",                         "co2 is a formula; rather wrong"),
    "a formula for words":       ("carbon dioxide",         "CO2",                                           "co2 is a formula"),
    "initials":                  ("World Health Organization", "the WHO",                                    "who may be initials; rather right"),
    "what initials stand for":   ("WHO",                    "The World Health Organization did.",            "who may be initials"),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "answer", "reason"), NOT_SURE.values(), ids=NOT_SURE)
def test_lexical_judge_is_not_sure_of_the_opposite_in_the_same_words(gold, answer, reason):
    found = judge([gold], answer)

    assert (found.verdict, reason in found.reason) == ("unsure", True)


SURE = {
    "said instead of the denied": ("Ada Lund",             "It was Ada Lund, not Bo Sund.",                 {}),
    "both deny":                  ("No changes were made", "There were no changes made.",                   {}),
    "a bound that is asked for":  ("2.5 metres",           "Boarding stops above 2.5 m.",                   {"question": "Above what height?"}),
    "a score both ways":          ("3-1",                  "They won 3-1, as after the 1-3 of May.",        {}),
    "a price without its zero":   ("$3.10",                "$3.1",                                          {}),
    "a section":                  ("4.10",                 "See 4.10.",                                     {"question": "Which section?"}),
    "a figure of a table":        ("$4.50 million",        "$4.5 million",                                  {"question": "Which figure does the table of section 3 give?"}),
    "nobody":                     ("no one",               "Nobody.",                                       {}),
    "a fraction in words":        ("25 %",                 "A quarter of the crew.",                        {}),
    "a plural":                  ("Boeing 747",            "Two Boeing 747s.",                              {}),
    "a unit without a blank":    ("voltage 12 V",          "voltage: 12V",                                  {}),
    "Fahrenheit":                ("25 °C",                 "It is 77 degrees Fahrenheit.",                  {}),
    "a dozen":                   ("12 keepers",            "A dozen keepers.",                              {}),
    "subscripts":                 ("CO2 emissions",        "The CO₂ emissions.",                            {}),
    "zero hours":                 ("0 h 17",               "17 minutes later",                              {}),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "answer", "more"), SURE.values(), ids=SURE)
def test_lexical_judge_is_sure_of(gold, answer, more):
    assert judge([gold], answer, **more).verdict == "correct"


def test_lexical_letters_with_signs_are_words_of_their_own():
    names = ("C", "C++", "C#", "A", "A+", "A-")

    right = [(one, other) for one in names for other in names if judge([one], f"It is {other}.").verdict == "correct"]

    assert right == [(name, name) for name in names]


WORDS = {
    #                            gold                     answer                       verdict
    "number words":             ("thirty-one houses",     "31 houses",                 "correct"),
    "counting words":           ("twelve keepers",        "12 keepers",                "correct"),
    "an abbreviation":          ("the U.S. Navy",         "It was the US Navy.",       "correct"),
    "plurals and tenses":       ("keeper lighting lamps", "keepers lighted the lamp",  "correct"),
    "British spelling":         ("the colour of harbours", "The color of harbors",      "correct"),
    "American spelling":        ("center",                "the centre",                "correct"),
    "-ise and -ize":            ("organizations",         "organisation",              "correct"),
    "words alike":              ("four",                  "for",                       "incorrect"),
    "a possessive":             ("the harbour's keeper",  "harbour keeper",            "correct"),
    "another formula":          ("CO2",                   "N2O",                       "incorrect"),
    "other initials":           ("World Health Organization", "UNICEF",                "incorrect"),
    "another name":             ("the keeper's daughter", "KDE",                       "incorrect"),
    "a name like a stop word":  ("the WHO",               "It was the IMF.",           "incorrect"),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "answer", "verdict"), WORDS.values(), ids=WORDS)
def test_lexical_spellings_of_words(gold, answer, verdict):
    assert judge([gold], answer).verdict == verdict
