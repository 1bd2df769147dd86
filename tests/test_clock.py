"""RAG_EVAL_NOW sets the date of everything that is evaluated, and is named when it is no time."""

from datetime import UTC, datetime

import pytest

from rag_eval_pipeline import clock
from rag_eval_pipeline.errors import InputError

SET = {
    "UTC": ("2026-11-15T02:00:00Z", datetime(2026, 11, 15, 2, tzinfo=UTC)),
    "another zone": ("2026-11-15T02:00+01:00", datetime(2026, 11, 15, 1, tzinfo=UTC)),
}


@pytest.mark.parametrize(("text", "time"), SET.values(), ids=SET)
def test_clock_is_that_of_the_variable(text, time, monkeypatch):
    monkeypatch.setenv(clock.NOW_VARIABLE, text)

    assert (clock.now(), clock.is_set()) == (time, True)


@pytest.mark.parametrize(
    "text", ["yesterday", "2026-11-15T02:00:00", "0001-01-01T00:00:00+05:00"], ids=["no time", "no zone", "no year"]
)
def test_clock_refuses_what_is_no_time(text, monkeypatch):
    monkeypatch.setenv(clock.NOW_VARIABLE, text)

    with pytest.raises(InputError) as error:
        clock.now()

    assert (error.value.code, error.value.file) == ("bad_time", "$RAG_EVAL_NOW")


def test_clock_is_the_machine_s_without_it(monkeypatch):
    monkeypatch.delenv(clock.NOW_VARIABLE, raising=False)
    before = datetime.now(UTC)

    assert before <= clock.now() <= datetime.now(UTC)
