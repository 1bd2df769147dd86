"""From the order in which a line is drawn to the order in which it is read.

Capitals stand for letters that are read from the right, as in the examples of Unicode's own annex.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.corpus.text.rtl import Cluster, matched_brackets, reading_order

HEBREW = str.maketrans({chr(ord("A") + n): chr(0x05D0 + n) for n in range(20)})
ARABIC = str.maketrans({chr(ord("A") + n): chr(0x0628 + n) for n in range(18)})
FROM_RIGHT, FROM_LEFT = 10.0, 0.1  # letters of the page that are read from the right, for one from the left


def read(drawn: str, script: dict[int, str], page: float) -> str:
    """A line as it is read, each character drawn by itself; `_` is a blank that is said to stand backwards."""
    text = drawn.translate(script)
    line = [Cluster(char.replace("_", " "), number, char == "_") for number, char in enumerate(text)]
    return "".join(drawn[at] for at in reading_order(line, page)).replace("_", " ")


LINES = {
    "a full stop":                         (".FED CBA",          HEBREW, "ABC DEF."),
    "a number, digits from the left":      (".1948 CBA",         HEBREW, "ABC 1948."),
    "a number with separators":            ("1,234.50 CBA",      ARABIC, "ABC 1,234.50"),
    "Arabic digits":                       ("١٨٥٤ CBA",          ARABIC, "ABC ١٨٥٤"),
    "years, one number in Hebrew":         ("1914-1918 CBA",     HEBREW, "ABC 1914-1918"),
    "years, two numbers in Arabic":        ("1918-1914 CBA",     ARABIC, "ABC 1914-1918"),
    "per cent, of the number in Hebrew":   ("12% CBA",           HEBREW, "ABC 12%"),
    "per cent, by itself in Arabic":       ("%12 CBA",           ARABIC, "ABC 12%"),
    "foreign words":                       ("FED ab cd CBA",     HEBREW, "ABC ab cd DEF"),
    "a number behind a foreign word":      ("FED ab 15 CBA",     ARABIC, "ABC ab 15 DEF"),
    "Arabic digits are never foreign":     ("FED ab ١٥ CBA",     ARABIC, "ABC ١٥ ab DEF"),
    "brackets around foreign words":       ("FED )ab 15( CBA",   HEBREW, "ABC (ab 15) DEF"),
    "a blank of the line's direction":     ("cde fg_A",          HEBREW, "A cde fg"),
}  # fmt: skip


@pytest.mark.parametrize(("drawn", "script", "expected"), LINES.values(), ids=LINES)
def test_reading_order_of_a_right_to_left_line(drawn, script, expected):
    assert read(drawn, script, FROM_RIGHT) == expected


EMBEDDED = {
    "words":               ("see FED CBA.",        "see ABC DEF."),
    "a number inside":     ("see ED 12 CBA, too",  "see ABC 12 DE, too"),
    "two phrases":         ("BA or DC",            "AB or CD"),
}  # fmt: skip


@pytest.mark.parametrize(("drawn", "expected"), EMBEDDED.values(), ids=EMBEDDED)
def test_reading_order_of_words_in_a_left_to_right_line(drawn, expected):
    assert read(drawn, HEBREW, FROM_LEFT) == expected


def test_reading_order_of_a_number_drawn_apart():
    drawn = "ab 15 CBA"
    sources = [0, 0, 1, 2, 2, 3, 4, 5, 6]
    line = [Cluster(char, source, False) for char, source in zip(drawn.translate(ARABIC), sources, strict=True)]

    assert "".join(drawn[at] for at in reading_order(line, FROM_RIGHT)) == "ABC 15 ab"


def test_reading_order_follows_a_blank_drawn_with_foreign_words():
    drawn = "ab CBA"
    line = [Cluster(char, min(number, 3), False) for number, char in enumerate(drawn.translate(HEBREW))]
    line[:3] = [cluster._replace(source=0) for cluster in line[:3]]

    assert "".join(drawn[at] for at in reading_order(line, FROM_RIGHT)) == "ab ABC"


TEXTS = st.text(st.sampled_from("ABCabc12١٢.,-+%/()[] _«»"), max_size=30)


@given(TEXTS, st.sampled_from([HEBREW, ARABIC]), st.sampled_from([FROM_RIGHT, 1.0, FROM_LEFT]))
def test_reading_order_is_a_permutation(drawn, script, page):
    line = [Cluster(char, number, char == "_") for number, char in enumerate(drawn.translate(script))]

    assert sorted(reading_order(line, page)) == list(range(len(line)))


@given(st.text(st.sampled_from("abc12., ()"), max_size=30), st.sampled_from([FROM_RIGHT, FROM_LEFT]))
def test_reading_order_of_a_left_to_right_line_is_unchanged(drawn, page):
    assert read(drawn, HEBREW, page) == drawn


BRACKETS = {
    "both turned": ("ab )12(", "ab (12)"),
    "one turned": ("ab (12(", "ab (12)"),
    "two pairs": ("ab )12( (cd(", "ab (12) (cd)"),
    "half a pair, the rest in another line": ("ab 12)", "ab 12)"),
}


@pytest.mark.parametrize(("text", "expected"), BRACKETS.values(), ids=BRACKETS)
def test_matched_brackets(text, expected):
    assert matched_brackets(text) == expected
