"""Daily budgets: what asking and judging used, and what an evaluation would use.

Usage is stored in one file per day, account and evaluation, each with one writer; a budget is checked against the sum
of a day. Room for an answer is reserved before it is asked for, so that requests under way do not overrun the budget.
Where there is a budget, each answer is written at once and the other files are read before each question: evaluations
on several machines overrun it together by at most the requests that the others have under way.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, id_order, load_evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.evaluation_start import Which, questions_to_ask
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.judges.judgement import JudgeUsage
from rag_eval_pipeline.storage.atomic_files import atomic_write, replace_file
from rag_eval_pipeline.systems.base import Usage as AnswerUsage
from rag_eval_pipeline.web.server_settings import Budget
from rag_eval_pipeline.workspace import Workspace

FLUSH_SECONDS = 2.0  # a killed run loses at most this much usage; each flush waits for the disk
ROUNDING = 1e-9  # US dollars, of sums of prices
RECORDS_READ = 200  # of the most recent evaluations: more than a night's pairs


class Usage(msgspec.Struct, frozen=True):
    """Requests, tokens and estimated US dollars."""

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0

    @classmethod
    def of(cls, reported: AnswerUsage | JudgeUsage) -> Self:
        """Return what an answer or a judgement reports."""
        return cls(reported.requests, reported.total_tokens, reported.estimated_cost_usd)

    def plus(self, other: "Usage", times: int = 1) -> "Usage":
        """Return the sum of this and a multiple of another."""
        return Usage(
            self.requests + times * other.requests, self.tokens + times * other.tokens, self.usd + times * other.usd
        )


class UsageLedger:
    """The usage of one evaluation on one account, and the budget of the account; a context manager.

    Args:
        folder: Of all accounts.
        account: Such as `system-blueprint` or `judge-openai`.
    """

    def __init__(
        self, folder: Path, account: str, evaluation_id: str, budget: Budget, *, clock: Callable[[], datetime]
    ) -> None:
        self._folder = folder
        self._account = account
        self._file_name = f"{evaluation_id}.json"
        self._budget = budget
        self._clock = clock
        self._is_limited = bool(limited(Usage(), budget))
        self._read: dict[str, tuple[tuple[int, int, int], Usage]] = {}  # file -> inode, time, size; usage
        self._unwritten = False
        self._flushed_at = time.monotonic()
        self._own = Usage()
        self._others = Usage()
        self._under_way = 0
        self._most_expensive: Usage | None = None  # number by number, of the answers booked so far
        self._booked = asyncio.Event()
        self._begin_day()

    async def reserve(self) -> None:
        """Wait until the budget has room for one more answer as expensive as the most expensive one so far.

        With a budget, the first answer is awaited before a second question is asked. The last answer of a day may cost
        more than is left.

        Raises:
            ServiceError: `budget_spent` when nothing is left today and nothing is under way.
        """
        self._read_others()
        while self._under_way and not self._has_room():
            self._booked.clear()
            await self._booked.wait()
            self._read_others()
        if reached := self.reached():
            raise ServiceError(
                "budget_spent", f"{self._account.replace('-', ' ', 1)} has used {reached}",
                hint="Answers so far are kept; run it again tomorrow, or raise `budget`.",
            )  # fmt: skip
        self._under_way += 1

    def book(self, usage: AnswerUsage | JudgeUsage) -> None:
        """Book what one answer used, in place of what was reserved for it."""
        spent = Usage.of(usage)
        self._under_way = max(0, self._under_way - 1)
        if spent.requests:  # an answer from a cache used nothing
            known = self._most_expensive or spent
            self._most_expensive = Usage(
                max(known.requests, spent.requests), max(known.tokens, spent.tokens), max(known.usd, spent.usd)
            )
        self._booked.set()
        if self._clock().astimezone(UTC).date() != self._day:
            self.flush()
            self._begin_day()
        self._own = self._own.plus(spent)
        self._unwritten = True
        if time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()
        elif self._is_limited:
            replace_file(self._path, self._encoded())

    def reached(self) -> str | None:
        """Return which limit of today's budget is used up, in words; None while none is."""
        for name, used, limit in limited(self._others.plus(self._own), self._budget):
            if used >= limit:
                return f"{used:g} of {limit:g} {'US dollars' if name == 'usd' else name} of {self._day}"
        return None

    def _has_room(self) -> bool:
        if self._most_expensive is None:
            return not limited(Usage(), self._budget)
        expected = self._others.plus(self._own).plus(self._most_expensive, self._under_way + 1)
        return all(used <= limit + ROUNDING for _, used, limit in limited(expected, self._budget))

    def flush(self) -> None:
        """Write the usage, and wait for the disk."""
        if self._unwritten:
            atomic_write(self._path, self._encoded())
            self._unwritten = False
        self._flushed_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    @property
    def _path(self) -> Path:
        return self._folder / self._day.isoformat() / self._account / self._file_name

    def _begin_day(self) -> None:
        self._day = self._clock().astimezone(UTC).date()
        self._own = read_spent(self._path)
        self._read = {}
        self._read_others()

    def _encoded(self) -> bytes:
        return msgspec.json.encode(self._own) + b"\n"

    def _read_others(self) -> None:
        """Sum what other evaluations have used; files that did not change are not read again."""
        if not self._is_limited:
            return
        self._others = Usage()
        for path in self._path.parent.glob("*.json"):
            if path.name == self._file_name:
                continue
            with contextlib.suppress(FileNotFoundError):  # cleaned up meanwhile
                status = path.stat()
                version = (status.st_ino, status.st_mtime_ns, status.st_size)
                if path.name not in self._read or self._read[path.name][0] != version:
                    self._read[path.name] = (version, read_spent(path))
                self._others = self._others.plus(self._read[path.name][1])


def limited(used: Usage, budget: Budget) -> list[tuple[str, float, float]]:
    """Return name, used amount and limit of each unit that has a limit."""
    amounts = (("requests", used.requests), ("tokens", used.tokens), ("usd", used.usd))
    return [(name, amount, limit) for name, amount in amounts if (limit := getattr(budget, name)) is not None]


def spent_today(folder: Path, account: str, now: datetime) -> Usage:
    """Return what an account has used on the UTC day of `now`."""
    total = Usage()
    for path in (folder / now.astimezone(UTC).date().isoformat() / account).glob("*.json"):
        total = total.plus(read_spent(path))
    return total


def read_spent(path: Path) -> Usage:
    """Read one file of usage; a missing or damaged file counts as no usage."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Usage)
    except (FileNotFoundError, ValueError, RecursionError):
        return Usage()


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an evaluation will use.

    Args:
        requests: One a question where nothing was measured; tokens and US dollars are then None.
        basis: The evaluation whose answers these means are of; None without one.
        judge_requests: More where answers have many claims or need labels, fewer where the judge's cache has replies.
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
        spent = limited(self.spent, self.budget)
        return tuple(name for name, used, limit in spent if used + (getattr(self, name) or 0) > limit)


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
    from rag_eval_pipeline.evaluation.score_tables import iter_responses  # its functions on columns load slowly

    for evaluation in _answered_evaluations(workspace, pair):
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


def _answered_evaluations(workspace: Workspace, pair: Pair) -> Iterator[Evaluation]:
    """Yield the pair's newest evaluation, its other recent ones, and recent ones on other benchmarks, newest first."""
    newest = newest_evaluation(workspace, pair.paths.name, pair.system)
    if newest is not None and newest.record.state != "open":
        yield newest
    elsewhere = []
    names = sorted((path.name for path in workspace.runs.glob("eval_run_*")), key=id_order, reverse=True)
    for name in names[:RECORDS_READ]:
        try:
            evaluation = load_evaluation(workspace, name)
        except InputError:
            continue
        record = evaluation.record
        if record.system != pair.system or record.state == "open":
            continue
        if record.benchmark == pair.paths.name:
            yield evaluation
        else:
            elsewhere.append(evaluation)
    yield from elsewhere
