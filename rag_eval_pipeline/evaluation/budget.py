"""Daily budgets: what asking and judging used, and what an evaluation would use.

Usage is stored in one file per day, account and evaluation; a budget is checked against the sum of a day. Each file has
one writer, so several evaluations share a budget without sharing a file. Room for an answer is reserved before it is
asked for, so that requests under way do not overrun the budget.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import msgspec

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.runs import Evaluation, Which, load_evaluation, newest_evaluation, questions_to_ask
from rag_eval_pipeline.evaluation.storage import iter_responses
from rag_eval_pipeline.storage.files import atomic_write
from rag_eval_pipeline.web.settings import Budget
from rag_eval_pipeline.workspace import Workspace

FLUSH_SECONDS = 2.0  # a killed run loses at most this much usage; each flush waits for the disk
ROUNDING = 1e-9  # US dollars, of sums of prices
BY_PAIR = "by_pair"
# How many of the most recent records are read when a pair's newest evaluation is unfinished: more than a night's pairs.
# Ids begin with their day, so the last names are the newest.
RECORDS_READ = 200


class Usage(msgspec.Struct, frozen=True):
    """Requests, tokens and estimated US dollars."""

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0

    @classmethod
    def of(cls, reported: "ReportedUsage") -> Self:
        """Return what an answer or a judgement reports."""
        return cls(reported.requests, reported.total_tokens, reported.estimated_cost_usd)

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of both."""
        return Usage(self.requests + other.requests, self.tokens + other.tokens, self.usd + other.usd)

    def at_least(self, other: "Usage") -> "Usage":
        """Return the larger of both, number by number."""
        return Usage(max(self.requests, other.requests), max(self.tokens, other.tokens), max(self.usd, other.usd))

    def times(self, count: int) -> "Usage":
        """Return a multiple."""
        return Usage(self.requests * count, self.tokens * count, self.usd * count)


class ReportedUsage(Protocol):
    """The usage of an answer or of a judgement."""

    @property
    def requests(self) -> int: ...  # noqa: D102
    @property
    def total_tokens(self) -> int: ...  # noqa: D102
    @property
    def estimated_cost_usd(self) -> float: ...  # noqa: D102


class UsageLedger:
    """The usage of one evaluation on one account, and the budget of the account; a context manager.

    Args:
        folder: Of all accounts.
        account: Whose budget it is, such as `system-blueprint` or `judge-openai`.
        evaluation_id: Of the evaluation that uses it.
    """

    def __init__(
        self, folder: Path, account: str, evaluation_id: str, budget: Budget, *, clock: Callable[[], datetime]
    ) -> None:
        self._folder = folder
        self._account = account
        self._file_name = f"{evaluation_id}.json"
        self._budget = budget
        self._clock = clock
        self._unwritten = False
        self._flushed_at = time.monotonic()
        self._own = Usage()
        self._others = Usage()
        self._under_way = 0
        self._most_expensive: Usage | None = None  # of the answers booked so far
        self._booked = asyncio.Event()
        self._begin_day()

    async def reserve(self) -> None:
        """Wait until there is room for one more answer; `book` books it when it has arrived.

        An answer is expected to cost as much as the most expensive one so far. With a budget, the first answer is
        awaited before a second question is asked. The last answer of a day may cost more than is left.

        Raises:
            ServiceError: `budget_spent` when nothing is left today and nothing is under way.
        """
        while self._under_way and not self._has_room():
            self._booked.clear()
            await self._booked.wait()
        if reached := self.reached():
            raise ServiceError(
                "budget_spent", f"{self._account.replace('-', ' ', 1)} has used {reached}",
                hint="What was answered is kept; run it again tomorrow, or raise `budget`.",
            )  # fmt: skip
        self._under_way += 1

    def book(self, usage: ReportedUsage) -> None:
        """Book what one answer used, in place of what was reserved for it."""
        self.add(Usage.of(usage))

    def add(self, spent: Usage) -> None:
        """Book an amount; see `book`."""
        self._under_way = max(0, self._under_way - 1)
        if spent.requests:  # an answer from a cache used nothing
            self._most_expensive = spent if self._most_expensive is None else self._most_expensive.at_least(spent)
        self._booked.set()
        if self._clock().astimezone(UTC).date() != self._day:
            self.flush()
            self._begin_day()
        self._own = self._own.plus(spent)
        self._unwritten = True
        if time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def reached(self) -> str | None:
        """Return which limit of today's budget is used up, in words; None while none is."""
        limits = self._limits(self._others.plus(self._own))
        found = next((f"{used:g} of {limit:g} {name}" for name, used, limit in limits if used >= limit), None)
        return None if found is None else f"{found} of {self._day}"

    def _has_room(self) -> bool:
        """Return whether one more answer fits beside those under way."""
        if self._most_expensive is None:
            return not self._limits(Usage())
        expected = self._others.plus(self._own).plus(self._most_expensive.times(self._under_way + 1))
        return all(used <= limit + ROUNDING for _, used, limit in self._limits(expected))

    def _limits(self, used: Usage) -> list[tuple[str, float, float]]:
        """Return unit, used amount and limit of each unit that has a limit."""
        limits = (
            ("requests", used.requests, self._budget.requests),
            ("tokens", used.tokens, self._budget.tokens),
            ("US dollars", used.usd, self._budget.usd),
        )
        return [(name, amount, limit) for name, amount, limit in limits if limit is not None]

    def flush(self) -> None:
        """Write the usage, and read what other evaluations have used meanwhile."""
        if self._unwritten:
            atomic_write(self._path, msgspec.json.encode(self._own) + b"\n")
            self._unwritten = False
        self._others = _sum(self._path.parent, but=self._path.name)
        self._flushed_at = time.monotonic()

    def __enter__(self) -> "UsageLedger":
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    @property
    def _path(self) -> Path:
        return self._folder / self._day.isoformat() / self._account / self._file_name

    def _begin_day(self) -> None:
        self._day = self._clock().astimezone(UTC).date()
        self._own = read_spent(self._path)
        self._others = _sum(self._path.parent, but=self._path.name)


def spent_today(folder: Path, account: str, now: datetime) -> Usage:
    """Return what an account has used on the UTC day of `now`."""
    return _sum(folder / now.astimezone(UTC).date().isoformat() / account)


def _sum(folder: Path, *, but: str = "") -> Usage:
    total = Usage()
    for path in folder.glob("*.json"):
        if path.name != but:
            total = total.plus(read_spent(path))
    return total


def read_spent(path: Path) -> Usage:
    """Read one file of usage; a missing or damaged file counts as no usage."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Usage)
    except (FileNotFoundError, msgspec.MsgspecError):
        return Usage()


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an evaluation will use.

    Args:
        to_ask: Of those, not answered yet and not to be copied from an earlier night.
        requests: HTTP requests; one a question where nothing was measured.
        tokens: None where nothing was measured.
        usd: By the prices of the system's file; None where nothing was measured.
        basis: The evaluation whose answers these means are of; None without one.
        judge_requests: Of the judge: more where answers have many claims, fewer where its cache has judged them.
    """

    questions: int
    to_ask: int
    requests: float
    tokens: float | None
    usd: float | None
    basis: str | None
    spent: Usage
    budget: Budget
    judge_requests: int = 0

    @property
    def exceeds(self) -> tuple[str, ...]:
        """Return the limits of today's budget that the evaluation would exceed."""
        asked = (
            ("requests", self.spent.requests, self.requests, self.budget.requests),
            ("tokens", self.spent.tokens, self.tokens, self.budget.tokens),
            ("usd", self.spent.usd, self.usd, self.budget.usd),
        )
        return tuple(name for name, used, more, limit in asked if limit is not None and used + (more or 0) > limit)


def estimate(workspace: Workspace, pair: Pair, *, now: datetime, which: Which = "missing") -> Estimate:
    """Estimate the pair's next evaluation; nothing is sent or written."""
    to_ask = len(questions_to_ask(workspace, pair, which=which))
    measured = newest_usage(workspace, pair)
    tokens = usd = None
    requests = 1.0
    if measured is not None:
        n, used = measured.answers, measured.used
        requests, tokens, usd = used.requests / n, to_ask * used.tokens / n, to_ask * used.usd / n
    return Estimate(
        questions=len(pair.queries),
        to_ask=to_ask,
        requests=to_ask * requests,
        tokens=tokens,
        usd=usd,
        basis=None if measured is None else measured.evaluation_id,
        spent=spent_today(workspace.spending, f"system-{pair.system}", now),
        budget=pair.system_file.budget,
        judge_requests=len(pair.queries) * pair.settings.judge.calls_per_answer,
    )


class MeasuredUsage(NamedTuple):
    """An evaluation, the number of its answers (one or more), and what all of them used."""

    evaluation_id: str
    answers: int
    used: Usage


def newest_usage(workspace: Workspace, pair: Pair) -> MeasuredUsage | None:
    """Return the usage of the system's newest answered evaluation, on this benchmark if possible; None without any."""
    for evaluation in _evaluations(workspace, pair):
        total, n = Usage(), 0
        try:
            for answer in iter_responses(evaluation.responses):
                total = total.plus(Usage.of(answer.usage))
                n += 1
        except InputError:
            continue
        if n:
            return MeasuredUsage(evaluation.record.evaluation_id, n, total)
    return None


def _evaluations(workspace: Workspace, pair: Pair) -> Iterator[Evaluation]:
    """Yield answered evaluations of the system, the best basis first; records are read one at a time.

    The order: the pair's newest; if that is unfinished, the one before it; the newest on each other benchmark.
    """
    elsewhere = []
    for benchmark in sorted(path.name for path in (workspace.runs / BY_PAIR).glob("*")):
        newest = newest_evaluation(workspace, benchmark, pair.system)
        if newest is None or newest.record.state == "open":
            continue
        if benchmark == pair.paths.name:
            yield newest
        else:
            elsewhere.append(newest)
    yield from _last_of_pair(workspace, pair)
    yield from sorted(elsewhere, key=lambda one: one.record.opened_at, reverse=True)


def _last_of_pair(workspace: Workspace, pair: Pair) -> Iterator[Evaluation]:
    """Yield the pair's evaluations among the most recent of all, newest first."""
    names = sorted((path.name for path in workspace.runs.glob("eval_run_*")), reverse=True)
    for name in names[:RECORDS_READ]:
        try:
            evaluation = load_evaluation(workspace, name)
        except InputError:
            continue
        record = evaluation.record
        if (record.benchmark, record.system, record.state == "open") == (pair.paths.name, pair.system, False):
            yield evaluation
