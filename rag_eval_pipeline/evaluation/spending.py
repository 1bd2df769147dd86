"""What asking and judging used, a day and an evaluation a file: budgets of a day are checked against their sum.

Each file has one writer, so several evaluations of one system share a budget without sharing a file. Room for an answer
is reserved before it is asked for, so that what is under way does not overrun the budget.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from rag_eval_pipeline.endpoints.budget import Budget
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.storage.atomic import atomic_write

FLUSH_SECONDS = 2.0  # what a killed run has not booked; a flush waits for the disk
ROUNDING = 1e-9  # US dollars, of sums of prices


class Spent(msgspec.Struct, frozen=True):
    """Requests, tokens and estimated US dollars."""

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0

    def plus(self, other: "Spent") -> "Spent":
        """The sum of both."""
        return Spent(self.requests + other.requests, self.tokens + other.tokens, self.usd + other.usd)

    def at_least(self, other: "Spent") -> "Spent":
        """The larger of both, each number for itself."""
        return Spent(max(self.requests, other.requests), max(self.tokens, other.tokens), max(self.usd, other.usd))

    def times(self, count: int) -> "Spent":
        """So many times as much."""
        return Spent(self.requests * count, self.tokens * count, self.usd * count)


class Spending:
    """The account of one evaluation with one payer, a context manager.

    Args:
        folder: Of all accounts.
        payer: Whose budget it is, such as `system-blueprint` or `judge-openai`.
        evaluation_id: Of the evaluation that spends.
        budget: What one UTC day may cost.
        clock: Gives the time, aware.
    """

    def __init__(
        self, folder: Path, payer: str, evaluation_id: str, budget: Budget, *, clock: Callable[[], datetime]
    ) -> None:
        self._folder = folder
        self._payer = payer
        self._file_name = f"{evaluation_id}.json"
        self._budget = budget
        self._clock = clock
        self._unwritten = False
        self._flushed_at = time.monotonic()
        self._own = Spent()
        self._others = Spent()
        self._under_way = 0
        self._dearest: Spent | None = None  # of the answers booked so far
        self._booked = asyncio.Event()
        self._begin_day()

    async def reserve(self) -> None:
        """Waits until there is room for one more answer, which `add` books when it has come.

        An answer is expected to take what the dearest one so far has taken; the first is waited for before a second
        begins, where a budget is set. The last answer of a day may take more than is left.

        Raises:
            ServiceError: `budget_spent` when there is nothing left today and nothing under way any more.
        """
        while self._under_way and not self._has_room():
            self._booked.clear()
            await self._booked.wait()
        if reached := self.reached():
            raise ServiceError(
                "budget_spent", f"{self._payer.replace('-', ' ', 1)} has used {reached}",
                hint="What was answered is kept; run it again tomorrow, or raise `budget`.",
            )  # fmt: skip
        self._under_way += 1

    def add(self, spent: Spent) -> None:
        """Books what one answer took, in place of what was reserved for it."""
        self._under_way = max(0, self._under_way - 1)
        if spent.requests:  # what a cache knew took nothing
            self._dearest = spent if self._dearest is None else self._dearest.at_least(spent)
        self._booked.set()
        if self._clock().astimezone(UTC).date() != self._day:
            self.flush()
            self._begin_day()
        self._own = self._own.plus(spent)
        self._unwritten = True
        if time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def reached(self) -> str | None:
        """The limit of today's budget that is used up, in words; None while there is some left."""
        limits = self._limits(self._others.plus(self._own))
        found = next((f"{used:g} of {limit:g} {name}" for name, used, limit in limits if used >= limit), None)
        return None if found is None else f"{found} of {self._day}"

    def _has_room(self) -> bool:
        """Whether one more answer fits beside those under way."""
        if self._dearest is None:
            return not self._limits(Spent())
        expected = self._others.plus(self._own).plus(self._dearest.times(self._under_way + 1))
        return all(used <= limit + ROUNDING for _, used, limit in self._limits(expected))

    def _limits(self, used: Spent) -> list[tuple[str, float, float]]:
        """Unit, what is used of it, and its limit; of units without a limit nothing."""
        limits = (
            ("requests", used.requests, self._budget.requests),
            ("tokens", used.tokens, self._budget.tokens),
            ("US dollars", used.usd, self._budget.usd),
        )
        return [(name, amount, limit) for name, amount, limit in limits if limit is not None]

    def flush(self) -> None:
        """Writes the account, and reads what other evaluations have spent meanwhile."""
        if self._unwritten:
            atomic_write(self._path, msgspec.json.encode(self._own) + b"\n")
            self._unwritten = False
        self._others = self._sum_of_others()
        self._flushed_at = time.monotonic()

    def __enter__(self) -> "Spending":
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    @property
    def _path(self) -> Path:
        return self._folder / self._day.isoformat() / self._payer / self._file_name

    def _begin_day(self) -> None:
        self._day = self._clock().astimezone(UTC).date()
        self._own = read_spent(self._path)
        self._others = self._sum_of_others()

    def _sum_of_others(self) -> Spent:
        total = Spent()
        for path in self._path.parent.glob("*.json"):
            if path.name != self._file_name:
                total = total.plus(read_spent(path))
        return total


def spent_today(folder: Path, payer: str, now: datetime) -> Spent:
    """What a payer has used in the UTC day of a moment."""
    total = Spent()
    for path in (folder / now.astimezone(UTC).date().isoformat() / payer).glob("*.json"):
        total = total.plus(read_spent(path))
    return total


def read_spent(path: Path) -> Spent:
    """One account; nothing where there is no file or a damaged one, which cost no more than it can say."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Spent)
    except (FileNotFoundError, msgspec.MsgspecError):
        return Spent()
