"""Words are runs of letters and digits; where a script writes no spaces, each character is one."""

import pytest

from rag_eval_pipeline.text.tokens import has_unspaced, tokenize

CASES = {
    "punctuation separates":            ("U.S. dollars, 1,000", ["U", "S", "dollars", "1", "000"]),
    "accents stay with their letter":   ("cafe\u0301 naïve", ["cafe\u0301", "naïve"]),
    "Cyrillic":                         ("Москва это город", ["Москва", "это", "город"]),
    "Devanagari with its vowel signs":  ("ताज महल", ["ताज", "महल"]),
    "Chinese, character by character":  ("巴黎在1887年。", ["巴", "黎", "在", "1887", "年"]),
    "Japanese of all three scripts":    ("東京タワーは", ["東", "京", "タ", "ワ", "ー", "は"]),
    "Thai with its marks":              ("ที่นี่", ["ที่", "นี่"]),
    "Korean writes spaces":             ("서울 타워", ["서울", "타워"]),
    "Latin beside Chinese":             ("iPhone手机", ["iPhone", "手", "机"]),
    "Khmer without its full stop":      ("ក។", ["ក"]),
    "nothing":                          ("... —", []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_tokenize(text, expected):
    assert tokenize(text) == expected


def test_tokenize_keeps_apostrophes_inside_words():
    found = tokenize("The ship’s bell didn't ring; 'twas 東京's.", keep_apostrophes=True)
    assert found == ["The", "ship’s", "bell", "didn't", "ring", "twas", "東", "京", "s"]


def test_unspaced_scripts_are_recognised_inside_other_text():
    assert has_unspaced("Tokyo (東京)")
    assert not has_unspaced("서울 Москва naïve")
