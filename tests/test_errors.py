"""An error is one line for people, whatever the input that it quotes."""

import pytest

from rag_eval_pipeline.errors import DocumentError, InputError, ServiceError, counted

HOSTILE = "a\nb\x1b[31m\u202ec\u2028\ud800\x00"
SHOWN = r"a\nb\x1b[31m\u202ec\u2028\ud800\x00"
ERRORS = {
    "input": InputError("code", HOSTILE, HOSTILE, field=HOSTILE, hint=HOSTILE),
    "service": ServiceError("code", HOSTILE, hint=HOSTILE),
    "document": DocumentError("code", HOSTILE),
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_message_shows_what_could_control_a_terminal_as_escapes(error):
    assert SHOWN in str(error)
    assert not set(HOSTILE) & set("\n\x1b\u202e\u2028\ud800\x00") & set(str(error))


def test_message_cuts_what_it_quotes_of_the_input():
    assert len(str(InputError("code", "f.csv", "x", field="n" * 100_000))) < 300
    assert len(str(InputError("code", "f.csv", "n" * 100_000))) < 2_100


def test_message_keeps_the_characters_of_every_script():
    name = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f52c e\u0301"

    assert name in str(InputError("code", "f.csv", "x", field=name))


@pytest.mark.parametrize(
    ("count", "nouns", "expected"),
    [(0, ("question",), "0 questions"), (1, ("question",), "1 question"), (1_200, ("question",), "1,200 questions"),
     (1, ("row has", "rows have"), "1 row has"), (2, ("query", "queries"), "2 queries")],
)  # fmt: skip
def test_count_has_its_noun(count, nouns, expected):
    assert counted(count, *nouns) == expected
