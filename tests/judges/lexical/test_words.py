"""Words are compared without what carries no meaning: case, accents, endings, separators."""

import re

import pytest

from rag_eval_pipeline.judges.lexical.words import content, tokens, vocabulary
from rag_eval_pipeline.text.normalise import unify

TOKENS = {
    "letters and numbers":      ("B2B costs $1,577.50, 5%", ["B2B", "costs", "1577", "50", "5", "percent"]),
    "an apostrophe":            ("Ada's o'clock",           ["Ada's", "o'clock"]),
    "an acronym with dots":     ("the U.S. army",           ["the", "US", "army"]),
    "Chinese by character":     ("灯塔 tower",               ["灯", "塔", "tower"]),
    "Thai keeps its signs":     ("ที่",                       ["ที่"]),
    "Hindi by word":            ("हिन्दी भाषा",                 ["हिन्दी", "भाषा"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TOKENS.values(), ids=TOKENS)
def test_tokens(text, expected):
    assert tokens(text) == expected


CONTENT = {
    "function words go":            ("en", "The lamp of the tower",         ["lamp", "tower"]),
    "unless nothing is left":       ("en", "The Who",                       ["the", "who"]),
    "an acronym is no pronoun":     ("en", "the US and us",                 ["us"]),
    "stems":                        ("en", "keepers lighting lights",       ["keeper", "light"]),
    "a possessive":                 ("en", "Ada's lamp",                    ["ada", "lamp"]),
    "a number word":                ("en", "eleven countries",              ["11", "countri"]),
    "thousands":                    ("en", "1,577",                         ["1577"]),
    "thousands, decimal comma":     ("de", "1.577",                         ["1577"]),
    "German stems":                 ("de", "die Häuser des Königs",         ["haus", "konig"]),
    "French elision":               ("fr", "l'église",                      ["eglis"]),
}  # fmt: skip


@pytest.mark.parametrize(("language", "text", "expected"), CONTENT.values(), ids=CONTENT)
def test_content_words(language, text, expected):
    known = vocabulary(language, decimal_comma=language != "en")

    assert list(content(known.words(unify(text)))) == expected


def test_every_language_has_its_stop_words_folded():
    from rag_eval_pipeline.judges.lexical.languages import LANGUAGES
    from rag_eval_pipeline.judges.lexical.stop_words import STOP_WORDS

    assert STOP_WORDS.keys() == LANGUAGES.keys()
    assert not [
        word
        for code in ("de", "fr", "es", "it", "pt", "nl", "pl")
        for word in STOP_WORDS[code]
        if re.search(r"[A-Zäöüéèñã]", word)
    ]
