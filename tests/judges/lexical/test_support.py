"""A claim is supported by words that stand together, unless a number, a name, a negation or a direction differs."""

import pytest

from rag_eval_pipeline.judges.lexical.evidence import Evidence, EvidenceStore
from rag_eval_pipeline.judges.lexical.settings import LexicalSettings
from rag_eval_pipeline.judges.lexical.support import read_claim, support
from rag_eval_pipeline.judges.lexical.words import vocabulary

LAMP = (
    "The Skarn lamp was lit in 1887 by the keeper Ada Thorne. It stood 31.5 metres above the sea and was not lit "
    "in winter. Revenue from tolls rose by 12% to $4.5 million in 1890."
)
CASES = {
    #                              claim                                                    outcome         difference
    "as it stands":               ("The Skarn lamp was lit in 1887 by Ada Thorne.",         "supported",    ""),
    "other forms of the words":   ("Keepers were lighting the Skarn lamps in 1887.",        "supported",    ""),
    "another spelling of numbers": ("Revenue from tolls rose by 12 percent to $4.50 million in 1890.", "supported", ""),
    "words from elsewhere":       ("The harbour bell was sold at an auction.",              "not_found",    ""),
    "another year":               ("The Skarn lamp was lit in 1889 by Ada Thorne.",         "conflicting",  "number 1889"),
    "another number":             ("It stood 33.5 metres above the sea.",                   "conflicting",  "number 33.5"),
    "another name":               ("The Skarn lamp was lit in 1887 by the keeper Ada Hale.", "conflicting", "name Hale"),
    "a negation":                 ("The Skarn lamp was not lit in 1887 by Ada Thorne.",     "conflicting",  "negation"),
    "a negation left out":        ("It stood 31.5 metres above the sea and was lit in winter.", "conflicting", "negation"),
    "the opposite":               ("Revenue from tolls fell by 12% to $4.5 million in 1890.", "conflicting", "opposite of fell"),
    "the same direction":         ("Revenue from tolls grew, rose by 12% to $4.5 million in 1890.", "supported", ""),
    "a number without its unit":  ("It stood 31.5 above the sea.",                          "supported",    ""),
    "what it negates is not said": ("It stood above the sea, 31.5 metres above it.",        "supported",    ""),
    "one is no number":           ("One keeper lit the Skarn lamp in 1887.",                "supported",    ""),
}  # fmt: skip


@pytest.mark.parametrize(("claim", "outcome", "difference"), CASES.values(), ids=CASES)
def test_support(claim, outcome, difference):
    found = judge(claim, LAMP)

    assert (found.outcome, found.reason.split("; ")[0] if difference else "") == (outcome, difference)


@pytest.mark.parametrize(("claim", "outcome", "difference"), CASES.values(), ids=CASES)
def test_a_difference_keeps_the_score_below_what_counts_as_support(claim, outcome, difference):
    score = judge(claim, LAMP).score

    assert score <= 0.4 if difference else (score >= 0.6) == (outcome == "supported")


def test_the_score_is_the_smaller_share():
    # lamp 24, lit 23, keeper 26 of weight in the text, tower 25 not: 73 / 98 = 0.744898.
    found = judge("lamp lit keeper tower", "The lamp was lit by a keeper.")

    assert (found.score, found.outcome) == (0.744898, "not_found")


def test_words_scattered_over_a_text_are_no_support():
    scattered = " ".join(
        f"{word} is here. Nothing else stands at this place." for word in ("Skarn", "lamp", "lit", "keeper")
    )

    found = judge("The Skarn lamp was lit by a keeper.", scattered)

    assert (found.outcome, found.reason.partition(",")[0]) == ("not_found", "recall 1.00")


def test_words_may_come_from_several_texts_and_the_window_from_one():
    first, second = "The Skarn lamp was lit by a keeper.", "Ada Thorne was born at Hov."

    alone = judge("The Skarn lamp was lit by the keeper Ada Thorne.", first)
    together = judge("The Skarn lamp was lit by the keeper Ada Thorne.", second, first)

    assert (alone.outcome, together.outcome) == ("not_found", "supported")


def test_two_adjacent_sentences_are_one_window():
    assert (
        judge("The lamp that Ada Thorne lit was green.", "Ada Thorne came. She lit a green lamp.").outcome
        == "supported"
    )


def test_a_word_in_both_sentences_of_a_window_counts_once():
    text = "A lamp is here. A lamp is there. Rain fell. Wind rose. The keeper slept."

    # lamp 24 and keeper 26 of 50, never together.
    assert judge("lamp keeper", text).score == 0.52


def test_a_word_in_a_later_sentence_is_not_adjacent():
    text = "Ada Thorne came. It rained. She lit a green lamp."

    # lamp 24, ada 23, thorne 26, lit 23, green 25 = 121; the best two sentences hold 72.
    assert judge("The lamp that Ada Thorne lit was green.", text).score == 0.595041


OTHERS = {
    "German nouns are no names":    ("de", "Der Leuchtturm wurde 1887 von der Gemeinde gebaut.", "Die gemeinde baute den leuchtturm 1887, gebaut wurde er aus Stein.", "supported"),
    "German decimals":              ("de", "Er ist 31,5 Meter hoch.",        "Der Turm ist 31,5 Meter hoch.",      "supported"),
    "German negation":              ("de", "Er ist nicht 31,5 Meter hoch.",  "Er ist 31,5 Meter hoch.",            "conflicting"),
    "German opposites":             ("de", "Der Umsatz der Gemeinde sank um 5 %.", "Der Umsatz der Gemeinde stieg um 5 %.", "conflicting"),
    "French":                       ("fr", "Le phare de Skarn date de 1887.", "Le phare de Skarn date de 1887.",   "supported"),
    "French negation":              ("fr", "Le phare ne date pas de 1887.",  "Le phare date de 1887.",             "conflicting"),
    "Chinese":                      ("zh", "灯塔建于1887年。",                 "灯塔建于1887年。",                      "supported"),
    "Chinese numbers":              ("zh", "灯塔建于1889年。",                 "灯塔建于1887年。",                      "conflicting"),
    "Japanese negation":            ("ja", "灯台は高くない。",                   "灯台は高く。",                          "conflicting"),
    "Russian":                      ("ru", "Маяк построен в 1887 году.",     "Маяк был построен в 1887 году.",     "supported"),
}  # fmt: skip


@pytest.mark.parametrize(("language", "claim", "text", "outcome"), OTHERS.values(), ids=OTHERS)
def test_other_languages(language, claim, text, outcome):
    assert judge(claim, text, language=language).outcome == outcome


def test_the_same_number_counts_however_it_is_signed():
    assert judge("The loss was $546 million.", "Net loss: $(546) million. The loss was large.").outcome == "supported"


NEGATED = {
    #                                    claim                                                                  outcome
    "said of something else":           ("The committee reported in 1969 under Maud Ferrier.",                   "supported"),
    "said of what is claimed":          ("The committee proposed to have manned lights by 1990.",                "conflicting"),
}  # fmt: skip


@pytest.mark.parametrize(("claim", "outcome"), NEGATED.values(), ids=NEGATED)
def test_a_negation_counts_for_the_words_next_to_it(claim, outcome):
    text = "The committee, chaired by Maud Ferrier, reported in 1969 and proposed to have no manned light by 1990."

    assert judge(claim, text).outcome == outcome


def test_numbers_of_two_words_are_the_numbers_in_digits():
    text = "He was employed by the railway for thirty-one years, and by Twenty two others."

    assert judge("He was employed by the railway for 31 years.", text).score == 1.0
    assert (
        judge("He was employed by the railway for thirty-one years.", "The railway employed him for 31 years.").score
        == 1.0
    )
    assert judge("22 others employed him.", text).score == 1.0
    assert judge("He was employed by the railway for 32 years.", text).outcome == "conflicting"


def test_a_reference_by_number_is_no_negation():
    assert judge("Skarn signed treaty No. 81.", "Skarn signed the treaty number 81.").reason.startswith("recall")


def test_a_text_is_prepared_once_and_memory_is_bounded():
    store = EvidenceStore(vocabulary("en", decimal_comma=False), characters=40)

    (first,) = store.prepared(["The lamp was lit."])
    (again,) = store.prepared(["The lamp was lit."])
    store.prepared(["The bell was rung twice.", "The ship sank at sea.", "..."])

    assert first is again
    assert len(store) == 1


def judge(claim, *texts, language="en"):
    known = vocabulary(language, decimal_comma=LexicalSettings(language=language).has_decimal_comma)
    return support(
        read_claim(claim, known), [Evidence(text, known) for text in texts], LexicalSettings(language=language)
    )
