"""Gold facts by numbers, names and quoted words: what is found, what is not decided, and the scores that follow."""

import json
from collections import Counter

import pytest

from rag_eval_pipeline.formats.dataset import Fact
from rag_eval_pipeline.judges.judge_settings import LexicalSettings
from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.lexical import LexicalJudge
from rag_eval_pipeline.metrics.claims import JudgedFact, fact_scores
from tests.conftest import SHARED

QUESTION = "What is known of the 3 berths of Saltmere Dock?"
YES, PART, NO = "support", "partial_support", "not_support"
FACTS = {
    #                                   fact                                     answer                                   outcome  sentences
    "a number in another unit":        ("It is 31 metres deep",                  "Old. It is 31 m deep [1].",             YES,     [(5, 25)]),
    "a date in figures":               ("It opened on 5 May 1874",               "Opened: 1874-05-05.",                   YES,     [(0, 19)]),
    "another unit":                    ("It is 31 metres deep",                  "It cost 31 pounds.",                    NO,      []),
    "a thousandth of the number":      ("It cost 40,000 pounds",                 "It has 40 berths, for 40 pounds.",      NO,      []),
    "a number with its thousands":     ("It cost 40,000 pounds",                 "It cost 40 thousand pounds.",           YES,     [(0, 27)]),
    "a number that is denied":         ("It is 31 metres deep",                  "It is not 31 metres deep.",             NO,      []),
    "names, one of them":              ("Ines Marlow designed it",               "By Marlow, an engineer.",               PART,    [(0, 23)]),
    "in two sentences":                ("Ines Marlow opened it in 1874",         "In 1874. Rain fell. By Ines Marlow.",   YES,     [(0, 8), (20, 35)]),
    "the opposite in its words":       ("Fees rose in 1874 at Whitby",           "Fees fell in 1874 at Whitby.",          NO,      [(0, 28)]),
    "a refusal":                       ("It is 31 metres deep",                  "I do not know.",                        NO,      []),
    "quoted words":                    ('"Cash refund"',                         "We give cash refunds.",                 YES,     [(0, 21)]),
    "quoted words with a full stop":   ('He said "by Ghost Engine."',            "It is by Ghost Engine, he says.",       YES,     [(0, 31)]),
    "a quoted number is no beginning": ('"31"',                                  "It has 310 berths.",                    NO,      []),
    "neither number nor name":         ("Its walls are of granite",              "Its walls are of granite.",             None,    []),
    "only the question's":             ("Saltmere Dock has 3 berths",            "Saltmere Dock has 3 berths.",           None,    []),
    "a capital that begins a fact":    ("Granite was used",                      "Granite was used.",                     None,    []),
    "an acronym that begins it":       ("NATO owns it",                          "It belongs to NATO.",                   YES,     [(0, 19)]),
}  # fmt: skip


@pytest.mark.parametrize(("fact", "answer", "outcome", "places"), FACTS.values(), ids=FACTS)
def test_fact_is_found_by_its_number_name_or_quoted_words(fact, answer, outcome, places):
    case = Case("1", QUESTION, (), False, answer, facts=(Fact(fact),))

    (found,) = LexicalJudge().judge_case(case).facts

    assert (found.outcome, list(found.places)) == (outcome, places)


def test_supporting_sentences_of_hotpotqa_are_found_in_their_articles_and_in_no_others():
    path = SHARED / "data" / "hotpotqa" / "hotpot_sample.json"
    if not path.exists():
        pytest.skip("the data of ../shared are not here")
    rows = json.loads(path.read_text())
    sentences = [dict(zip(row["context"]["title"], row["context"]["sentences"], strict=True)) for row in rows]
    named = [list(zip(*row["supporting_facts"].values(), strict=True)) for row in rows]
    articles = ["\n".join("".join(own[one]) for one, _ in gold) for own, gold in zip(sentences, named, strict=True)]
    found = {0: Counter(), 7: Counter()}  # by the distance to the question whose articles are the answer
    for number, row in enumerate(rows):
        own = sentences[number]
        facts = tuple(Fact(own[one][place].strip()) for one, place in named[number] if place < len(own[one]))
        for distance, counts in found.items():
            case = Case("1", row["question"], (), False, articles[(number + distance) % len(rows)], facts=facts)
            counts.update(fact.outcome for fact in LexicalJudge().judge_case(case).facts)

    assert found[0] == {YES: 94, None: 3}
    assert (found[7][YES], found[7][None]) == (0, 3)


def test_names_decide_in_english_only():
    case = Case("1", "Wer?", (), False, "Ines Marlow, 1874.", facts=(Fact("Es war Ines Marlow"), Fact("Es war 1874")))

    found = LexicalJudge(LexicalSettings(language="de")).judge_case(case).facts

    assert [fact.outcome for fact in found] == [None, YES]


def test_scores_equal_autonuggetizer_where_all_is_decided():
    # Vital: whole, whole, in part, not; okay: in part.
    facts = [*(JudgedFact(True, support) for support in (1.0, 1.0, 0.5, 0.0)), JudgedFact(False, 0.5)]
    counts = {"decided_facts": 5, "undecided_facts": 0}
    expected = {"strict_vital_score": 2 / 4, "vital_score": 2.5 / 4, "strict_all_score": 2 / 5, "all_score": 3 / 5}
    assert fact_scores(facts) == counts | expected

    undecided = [JudgedFact(True, None), JudgedFact(False, 1.0)]
    assert fact_scores(undecided) == {"decided_facts": 1, "undecided_facts": 1, "strict_all_score": 1, "all_score": 1}
    assert fact_scores([]) == {}
