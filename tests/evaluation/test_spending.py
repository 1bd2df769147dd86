"""Accounts of a day: several evaluations share a budget, and a new day begins with nothing."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from rag_eval_pipeline.endpoints.budget import Budget
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.evaluation.spending import Spending, Spent, read_spent, spent_today

EVENING = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now=EVENING):
        self.now = now

    def __call__(self):
        return self.now


def account(tmp_path, evaluation_id="eval_run_20261121_001", clock=None, **budget):
    return Spending(tmp_path, "system-s", evaluation_id, Budget(**budget), clock=clock or Clock())


LIMITS = {
    "requests": ({"requests": 3}, Spent(requests=3), "3 of 3 requests"),
    "tokens": ({"tokens": 100}, Spent(tokens=120), "120 of 100 tokens"),
    "money": ({"usd": 0.5}, Spent(usd=0.5), "0.5 of 0.5 US dollars"),
}


@pytest.mark.parametrize(("budget", "spent", "words"), LIMITS.values(), ids=LIMITS)
def test_a_limit_that_is_reached_is_named(budget, spent, words, tmp_path):
    spending = account(tmp_path, **budget)

    assert spending.reached() is None
    spending.add(spent)

    assert spending.reached() == f"{words} of 2026-11-21"
    with pytest.raises(ServiceError) as error:
        asyncio.run(spending.reserve())
    assert error.value.code == "budget_spent"


def test_no_budget_is_never_reached(tmp_path):
    with account(tmp_path) as spending:
        spending.add(Spent(10**9, 10**12, 1e9))

        assert spending.reached() is None


def test_evaluations_of_one_payer_share_a_budget(tmp_path):
    with account(tmp_path, "eval_run_20261121_001") as first:
        first.add(Spent(requests=2))

    second = account(tmp_path, "eval_run_20261121_002", requests=3)
    second.add(Spent(requests=1))

    assert second.reached() == "3 of 3 requests of 2026-11-21"


def test_a_resumed_evaluation_goes_on_with_its_own_account(tmp_path):
    for _ in range(2):
        with account(tmp_path) as spending:
            spending.add(Spent(1, 10, 0.25))

    assert spent_today(tmp_path, "system-s", EVENING) == Spent(2, 20, 0.5)


def test_midnight_begins_a_new_account(tmp_path):
    clock = Clock()
    with account(tmp_path, clock=clock, requests=2) as spending:
        spending.add(Spent(requests=2))
        assert spending.reached()
        clock.now += timedelta(minutes=2)
        spending.add(Spent(requests=1))

        assert spending.reached() is None

    assert spent_today(tmp_path, "system-s", EVENING).requests == 2
    assert spent_today(tmp_path, "system-s", clock.now).requests == 1


def test_a_damaged_account_counts_as_nothing(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{")

    assert read_spent(path) == Spent()


BUDGETS = {
    #                      budget            what an answer takes  answers that fit
    "requests":            ({"requests": 5}, Spent(requests=1),                    5),
    "requests, by twos":   ({"requests": 5}, Spent(requests=2),                    3),
    "tokens":              ({"tokens": 100}, Spent(requests=1, tokens=30),         4),
    "money":               ({"usd": 2.0},    Spent(requests=1, usd=0.1),          20),
}  # fmt: skip


@pytest.mark.parametrize(("budget", "takes", "fit"), BUDGETS.values(), ids=BUDGETS)
def test_many_at_once_take_no_more_than_one_answer_too_many(budget, takes, fit, tmp_path):
    done, refused = [], []

    async def one(spending):
        try:
            await spending.reserve()
        except ServiceError as error:
            refused.append(error.code)
            return
        await asyncio.sleep(0)  # a server answers later
        done.append(1)
        spending.add(takes)

    async def many():
        with account(tmp_path, **budget) as spending:
            await asyncio.gather(*(one(spending) for _ in range(256)))

    asyncio.run(many())

    assert (len(done), set(refused), len(refused)) == (fit, {"budget_spent"}, 256 - fit)


def test_without_a_budget_everything_is_asked_at_once(tmp_path):
    async def many():
        with account(tmp_path) as spending:
            await asyncio.gather(*(spending.reserve() for _ in range(256)))

    asyncio.run(many())
