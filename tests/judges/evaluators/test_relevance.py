"""Relevance: the kind that was asked for, the topic, and all of the answer, by words."""

import pytest

from rag_eval_pipeline.judges.evaluators.event import Event

INTENT = {
    #                             question                              answer                    match
    "a year where it was asked":  ("When was the line opened?",         "It opened in 1887.",     1.0),
    "no date where it was asked": ("When was the line opened?",         "By the king.",           0.0),
    "a month":                    ("In which month did it open?",       "In May.",                1.0),
    "a number as a word":         ("How many stations are there?",      "There are seven.",       1.0),
    "no number":                  ("How many stations are there?",      "A lot of stations.",     0.0),
    "a name":                     ("who built the line?",               "ada, then Bo.",          1.0),
    "no name":                    ("Who built the line?",               "workers from the coast", 0.0),
    "yes":                        ("Is the line open?",                 "Yes, since May.",        1.0),
    "neither yes nor no":         ("Is the line open?",                 "Trains run.",            0.0),
    "a choice is no yes or no":   ("Is it red or blue?",                "Red; it shines.",        1.0),
    "something of its own":       ("What is the line made of?",         "Granite.",               1.0),
    "the question again":         ("What is the line made of?",         "The line is made.",      0.0),
    "a refusal":                  ("What is the line made of?",         "I don't know.",          0.0),
}  # fmt: skip


@pytest.mark.parametrize(("question", "answer", "match"), INTENT.values(), ids=INTENT)
async def test_intent(question, answer, match, evaluated):
    assert (await evaluated("relevance", Event("e", question, answer))).query_intent_match == match


async def test_a_refusal_of_an_impossible_question_is_right(evaluated):
    found = await evaluated("relevance", Event("e", "Who built it?", "I don't know.", is_impossible=True))

    assert (found.query_intent_match, found.information_completeness, found.confidence) == (1.0, 1.0, 1.0)


async def test_the_topic_is_what_question_gold_and_evidence_speak_of(evaluated):
    answer = "Granite bananas."  # words of seven letters each weigh the same: one of two is known
    alone = await evaluated("relevance", Event("e", "What is it made of?", answer))
    known = await evaluated("relevance", Event("e", "What is it made of?", answer, contexts=("Of granite.",)))

    assert (alone.topic_alignment, known.topic_alignment) == (0.0, 0.5)


async def test_completeness_is_that_of_the_gold_answer_that_is_covered_best(evaluated):
    event = Event("e", "What is it made of?", "Of granite.", accepted=("granite marbles", "stones"))

    # granite weighs 27, marbles 27: half of the first gold answer, nothing of the second.
    assert (await evaluated("relevance", event)).information_completeness == 0.5


async def test_the_score_is_the_mean_and_the_confidence_what_it_rests_on(evaluated):
    found = await evaluated(
        "relevance", Event("e", "When did it open?", "In 1887.", accepted=("1887",), contexts=("x",))
    )

    assert found.score == (1.0 + 1.0 + 1.0) / 3
    assert found.confidence == 1.0
    assert (await evaluated("relevance", Event("e", "What of it?", "Nothing much."))).confidence == 0.0


async def test_other_languages_have_their_own_words(evaluated):
    event = Event("e", "Woraus ist es?", "Aus den Steinen.", accepted=("Stein",))

    assert (await evaluated("relevance", event, language="de")).information_completeness == 1.0
