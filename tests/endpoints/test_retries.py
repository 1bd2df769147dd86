"""A server's wish for a pause is a number or a date, anything else is no wish; waits are drawn below a ceiling."""

import datetime as dt
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.endpoints.retries import BACKOFF_MAX_S, backoff, retry_after

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
WISHES = {
    "none":               (None,                                None),
    "empty":              ("",                                  None),
    "a number":           ("7",                                 7.0),
    "a fraction":         ("1.5",                               1.5),
    "zero":               ("0",                                 0.0),
    "huge":               ("9" * 30,                            1e30),
    "negative":           ("-5",                                None),
    "Arabic digits":      ("٧",                                 None),
    "words":              ("soon",                              None),
    "infinite":           ("inf",                               None),
    "a date":             ("Fri, 02 Jan 2026 03:04:35 GMT",     30.0),
    "a date without zone": ("Fri, 02 Jan 2026 03:04:35 -0000",  30.0),
    "a date that is past": ("Fri, 02 Jan 2026 03:04:00 GMT",    0.0),
    "no such date":       ("Fri, 99 Jan 2026 03:04:00 GMT",     None),
}  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), WISHES.values(), ids=WISHES)
def test_retry_after(value, expected):
    assert retry_after(value, NOW) == expected


@given(st.text())
def test_any_header_is_a_wait_or_nothing(value):
    wait = retry_after(value, NOW)

    assert wait is None or wait >= 0


@given(attempt=st.integers(1, 50), seed=st.integers())
def test_a_wait_is_drawn_below_a_ceiling_that_doubles(attempt, seed):
    assert 0 <= backoff(attempt, 0.5, random.Random(seed)) <= min(BACKOFF_MAX_S, 0.5 * 2 ** (attempt - 1))


def test_waits_of_equal_seeds_are_equal():
    waits = [
        [backoff(n, 0.5, rng) for n in (1, 2, 3)] for rng in (random.Random(7), random.Random(7), random.Random(8))
    ]

    assert waits[0] == waits[1] != waits[2]
