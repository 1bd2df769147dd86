"""Length: words are counted without citations, and the score has no jump."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.length import LengthOptions, length_score

RANGE = {"min_words": 10, "max_words": 40}
BEST = RANGE | {"optimal_words": 20}

SCORES = {
    #                                    words  options  score
    "inside":                           (10,    RANGE,   1.0),
    "half of the least":                (5,     RANGE,   5 / 10),
    "twice the most":                   (80,    RANGE,   40 / 80),
    "nothing":                          (0,     RANGE,   0.0),
    "the best":                         (20,    BEST,    1.0),
    "between the best and the most":    (30,    BEST,    1 - 0.5 * 10 / 20),
    "between the least and the best":   (15,    BEST,    1 - 0.5 * 5 / 10),
    "at the least":                     (10,    BEST,    0.5),
    "below the least":                  (5,     BEST,    0.5 * 5 / 10),
    "above the most":                   (80,    BEST,    0.5 * 40 / 80),
}  # fmt: skip


@pytest.mark.parametrize(("count", "options", "score"), SCORES.values(), ids=SCORES)
def test_scores(count, options, score):
    assert length_score(count, LengthOptions(**options)) == score


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 50))
def test_the_score_rises_to_the_best_and_falls_behind_it(low, to_best, to_high):
    best = low + to_best
    options = LengthOptions(min_words=low, optimal_words=best, max_words=best + to_high)
    scores = [length_score(count, options) for count in range(best + to_high + 60)]

    assert scores[: best + 1] == sorted(scores[: best + 1])
    assert scores[best:] == sorted(scores[best:], reverse=True)
    assert (scores[0], scores[best]) == (0.0, 1.0)


COUNTED = {
    #                                       text                                              characters words sentences
    "citations count for nothing":         ("It opened in 1887 [a b.pdf:1:0-9]. It is long.", 30,        7,    2),
    "a number and a compound are words":   ("3.5 m of well-known e-mail",                     26,        5,    1),
    "Thai characters carry their marks":   ("ที่นี่",                                          6,         2,    1),
    "words without spaces are characters": ("東京です。",                                       5,         4,    1),
}  # fmt: skip


@pytest.mark.parametrize(("text", "characters", "words", "sentences"), COUNTED.values(), ids=COUNTED)
async def test_counts(text, characters, words, sentences, evaluated):
    found = await evaluated("length", Event("e", "?", text))

    assert (found.character_count, found.word_count, found.sentence_count) == (characters, words, sentences)
    assert found.confidence == 1.0


VERDICTS = {3: "appropriate", 2: "too_short", 6: "too_long"}


@pytest.mark.parametrize(("count", "verdict"), VERDICTS.items())
async def test_verdicts(count, verdict, evaluated):
    found = await evaluated("length", Event("e", "?", "word " * count), min_words=3, max_words=5)

    assert found.length_appropriateness == verdict
    assert found.expected_length_range.min_words == 3
