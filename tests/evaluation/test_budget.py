"""Daily budgets are shared by evaluations and hold under concurrency; estimates use the newest measured answers."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.evaluation.budget import (
    RECORDS_READ,
    MeasuredUsage,
    Usage,
    UsageLedger,
    newest_usage,
    read_spent,
    spent_today,
)
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.judges.judgement import JudgeUsage
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.systems.base import Usage as AnswerUsage
from rag_eval_pipeline.web.server_settings import Budget
from rag_eval_pipeline.workspace import Workspace
from tests.forked_workers import call_at_once
from tests.monitoring.made_runs import made_evaluation

EVENING = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now=EVENING):
        self.now = now

    def __call__(self):
        return self.now


def account(tmp_path, evaluation_id="eval_run_20261121_001", clock=None, **budget):
    return UsageLedger(tmp_path, "system-s", evaluation_id, Budget(**budget), clock=clock or Clock())


LIMITS = {
    "requests": ({"requests": 3}, JudgeUsage(requests=3), "3 of 3 requests"),
    "tokens": ({"tokens": 100}, JudgeUsage(requests=1, total_tokens=120), "120 of 100 tokens"),
    "money": ({"usd": 0.5}, JudgeUsage(requests=1, estimated_cost_usd=0.5), "0.5 of 0.5 US dollars"),
}


@pytest.mark.parametrize(("budget", "spent", "words"), LIMITS.values(), ids=LIMITS)
def test_budget_names_the_limit_reached(budget, spent, words, tmp_path):
    spending = account(tmp_path, **budget)

    assert spending.reached() is None
    spending.book(spent)

    assert spending.reached() == f"{words} of 2026-11-21"
    with pytest.raises(ServiceError) as error:
        asyncio.run(spending.reserve())
    assert error.value.code == "budget_spent"


def test_ledger_continues_and_is_shared_by_evaluations_of_one_account(tmp_path):
    for _ in range(2):
        with account(tmp_path) as spending:
            spending.book(JudgeUsage(1, 0, 10, 0.25))

    assert spent_today(tmp_path, "system-s", EVENING) == Usage(2, 20, 0.5)
    other = account(tmp_path, "eval_run_20261121_002", requests=3)
    other.book(JudgeUsage(requests=1))
    assert other.reached() == "3 of 3 requests of 2026-11-21"


def test_ledger_starts_a_new_account_at_midnight(tmp_path):
    clock = Clock()
    with account(tmp_path, clock=clock, requests=2) as spending:
        spending.book(JudgeUsage(requests=2))
        assert spending.reached()
        clock.now += timedelta(minutes=2)
        spending.book(JudgeUsage(requests=1))

        assert spending.reached() is None

    assert spent_today(tmp_path, "system-s", EVENING).requests == 2
    assert spent_today(tmp_path, "system-s", clock.now).requests == 1


BUDGETS = {
    #                      budget            what an answer takes                                 answers that fit
    "requests, by twos":   ({"requests": 5}, JudgeUsage(requests=2),                              3),
    "tokens":              ({"tokens": 100}, JudgeUsage(requests=1, total_tokens=30),             4),
    "money":               ({"usd": 2.0},    JudgeUsage(requests=1, estimated_cost_usd=0.1),     20),
    "no limit":            ({},              JudgeUsage(10**9, 0, 10**12, 1e9),                 256),
}  # fmt: skip


@pytest.mark.parametrize(("budget", "takes", "fit"), BUDGETS.values(), ids=BUDGETS)
def test_budget_overruns_by_at_most_one_answer(budget, takes, fit, tmp_path):
    done, refused = [], []

    async def one(spending):
        try:
            await spending.reserve()
        except ServiceError as error:
            refused.append(error.code)
            return
        await asyncio.sleep(0)  # a server answers later
        done.append(1)
        spending.book(takes)

    async def many():
        with account(tmp_path, **budget) as spending:
            await asyncio.gather(*(one(spending) for _ in range(256)))

    asyncio.run(many())

    assert (len(done), refused) == (fit, ["budget_spent"] * (256 - fit))


async def spend_400(ledger):
    async def one():
        try:
            await ledger.reserve()
        except ServiceError:
            return
        await asyncio.sleep(0)
        ledger.book(JudgeUsage(requests=1))

    for _ in range(0, 400, 4):  # four in flight
        await asyncio.gather(*(one() for _ in range(4)))


def test_two_processes_overrun_their_budget_by_at_most_what_the_other_has_under_way(tmp_path):
    def spend(name):
        with UsageLedger(tmp_path, "system-s", name, Budget(requests=200), clock=lambda: EVENING) as ledger:
            asyncio.run(spend_400(ledger))

    call_at_once(spend, [["eval_run_20261121_001"], ["eval_run_20261121_002"]])

    assert 200 <= spent_today(tmp_path, "system-s", EVENING).requests <= 204


PAIR = SimpleNamespace(paths=SimpleNamespace(name="b"), system="s")


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


def answered(workspace, day, tokens, *, benchmark="b", system="s", state="published"):
    """An evaluation with one answer that took so many tokens."""
    name = made_evaluation(workspace, day, system=system, state=state)
    evaluation = load_evaluation(workspace, name)
    usage = AnswerUsage(tokens, 0.0, 2, tokens, 0)
    answer = RagAnswer(
        query_id="0", status="ok", answer="a", abstained=False, contexts=(), citations=(), latency_ms=1.0, usage=usage
    )  # fmt: skip
    evaluation.write_answers([answer])
    evaluation.save(benchmark=benchmark)
    return name


def test_estimate_uses_the_newest_evaluation_of_the_pair(workspace):
    assert newest_usage(workspace, PAIR) is None
    answered(workspace, 1, 100)
    newest = answered(workspace, 2, 300)
    assert newest_usage(workspace, PAIR) == MeasuredUsage(newest, 1, Usage(2, 300, 0.0))

    answered(workspace, 3, 500, state="open")
    assert newest_usage(workspace, PAIR).evaluation_id == newest


def test_estimate_uses_another_benchmark_only_without_the_pair(workspace):
    other = answered(workspace, 9, 100, benchmark="c")
    answered(workspace, 9, 100, system="t")
    assert newest_usage(workspace, PAIR).evaluation_id == other

    own = answered(workspace, 1, 200)
    assert newest_usage(workspace, PAIR).evaluation_id == own


def test_estimate_reads_a_bounded_number_of_records(workspace, monkeypatch):
    newest = answered(workspace, 500, 100)
    record = (workspace.runs / newest / "evaluation.json").read_text()
    for number in range(RECORDS_READ + 10):
        folder = workspace.runs / f"eval_run_20990101_{number:03d}"
        folder.mkdir()
        (folder / "evaluation.json").write_text(record.replace(newest, folder.name).replace('"b"', '"elsewhere"'))
    assert newest_usage(workspace, PAIR).evaluation_id == newest

    load_evaluation(workspace, newest).save(state="open")

    assert newest_usage(workspace, PAIR) is None
    (workspace.spending / "x").mkdir(parents=True)
    for damaged in (b"{", b'{"requests": "\xff"}'):
        (workspace.spending / "x" / "damaged.json").write_bytes(damaged)
        assert read_spent(workspace.spending / "x" / "damaged.json") == Usage()
