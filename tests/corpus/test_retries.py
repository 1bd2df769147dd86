"""A failure that may pass is met again, as often as the settings say and after no longer than is bearable."""

import email.utils

import httpx
import pytest

from rag_eval_pipeline.corpus.fetching.retries import RETRY_WAIT_MAX_S, again, attempts, retry_after


async def made(number, failures, *, on=lambda error: 0.0):
    """How many attempts were made, when the first ones fail."""
    count = 0
    try:
        async for attempt in attempts(number, on=on):
            with attempt:
                count += 1
                if count <= failures:
                    raise ConnectionError
    except ConnectionError:
        return count, "given up"
    return count, "done"


ATTEMPTS = {
    #                                    at most, failing   made
    "nothing fails":                     (3, 0,             (1, "done")),
    "the last one succeeds":             (3, 2,             (3, "done")),
    "all that there may be fail":        (3, 9,             (3, "given up")),
    "there may be one":                  (1, 9,             (1, "given up")),
}  # fmt: skip


@pytest.mark.parametrize(("number", "failures", "expected"), ATTEMPTS.values(), ids=ATTEMPTS)
async def test_attempts_end_with_success_or_with_their_number(number, failures, expected):
    assert await made(number, failures) == expected


async def test_a_failure_that_does_not_pass_is_met_once():
    assert await made(3, 1, on=lambda error: False) == (1, "given up")


ASKED = {
    "nothing": (None, True),
    "at once": (0.0, 0.0),
    "a while": (2.5, 2.5),
    "a time that is past": (-3.0, 0.0),
    "a day": (86_400.0, RETRY_WAIT_MAX_S),
}


@pytest.mark.parametrize(("asked_s", "wait"), ASKED.values(), ids=ASKED)
def test_a_server_is_waited_for_as_long_as_it_asks_within_reason(asked_s, wait):
    assert again(asked_s) is wait if wait is True else again(asked_s) == wait


SAID = {"nothing": ({}, None), "seconds": ({"Retry-After": "7"}, 7.0), "neither": ({"Retry-After": "soon"}, None)}


@pytest.mark.parametrize(("headers", "seconds"), SAID.values(), ids=SAID)
def test_seconds_are_read_from_the_answer(headers, seconds):
    assert retry_after(httpx.Response(503, headers=headers)) == seconds


def test_a_date_that_is_past_asks_for_no_wait():
    past = email.utils.formatdate(0, usegmt=True)

    assert retry_after(httpx.Response(503, headers={"Retry-After": past})) == 0.0
