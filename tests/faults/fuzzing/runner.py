"""Runs a parser on many inputs in a child process with limits, and keeps those on which something else happens than may.

`make fuzz` runs every parser in turn with new numbers until the time is over; a number is an input, and can be repeated:

    python -m tests.faults.fuzzing.runner --parsers csv --first 1234 --count 1
"""

import argparse
import contextlib
import json
import os
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

from tests.faults.fuzzing.mutations import mutated

REPOSITORY = Path(__file__).resolve().parents[3]
CPU_S = 5.0  # of one input, children included; for `make fuzz`, as a busy machine counts more
MEMORY_BYTES = 1 << 30  # of one input, beyond what the process has at its start
KILLED_AFTER_CPU_S = 20
KILLED_AFTER_S = 300  # for one that waits without computing
AT_ONCE = 300


class Failure(NamedTuple):
    """An input on which something else happened than may."""

    parser: str
    number: int
    what: str  # the last line is the error's

    @property
    def command(self) -> str:
        """What repeats it."""
        return f"python -m tests.faults.fuzzing.runner --parsers {self.parser} --first {self.number} --count 1"


class Fuzzer:
    """A child process that tries inputs, replaced when one of them has killed it.

    Args:
        cpu_s: What an input may use; one that uses ten times as much as it should ends the child in any case.
    """

    def __init__(self, cpu_s: float = KILLED_AFTER_CPU_S) -> None:
        self._cpu_s = cpu_s
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.communicate()  # the end of its input is its end

    def run(self, parser: str, first: int, count: int) -> tuple[list[Failure], Counter[str]]:
        """Try some inputs; return those that failed, and how often each outcome occurred."""
        failures: list[Failure] = []
        outcomes: Counter[str] = Counter()
        number = first
        while number < first + count:
            child = self._running()
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(json.dumps([parser, number, first + count - number, self._cpu_s]) + "\n")
            child.stdin.flush()
            begun = False
            for line in child.stdout:
                begun = True
                found = json.loads(line)
                if "done" in found:
                    outcomes.update(found["done"])
                    number = first + count
                    break
                number = found["number"]
                if "failed" in found:
                    failures.append(Failure(parser, number, found["failed"]))
            else:
                if not begun:
                    raise RuntimeError(f"the process ended before its first input, exit code {child.wait()}")
                failures.append(Failure(parser, number, f"the process was ended, exit code {child.wait()}"))
                self.close()
                number += 1
        return failures, outcomes

    def _running(self) -> "subprocess.Popen[str]":
        if self._child is None:
            command = [sys.executable, "-m", "tests.faults.fuzzing.runner", "--child"]
            self._child = subprocess.Popen(
                command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                # Arrow's default memory pool reserves address space by the gigabyte.
                env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
            )  # fmt: skip
        return self._child


# --- the child


def serve() -> None:
    """Try what standard input names; for each number a line before it is tried, so that the last one has ended us."""
    from rag_eval_pipeline.storage import process

    process._run, process.set_limits = _run_here, lambda **_: None  # before others import them

    import scipy.optimize
    import scipy.sparse.csgraph  # noqa: F401  # libraries that cannot be mapped once the memory is limited

    from tests.faults.fuzzing.checks import check
    from tests.faults.fuzzing.parsers import PARSERS

    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints
    seeds: dict[str, Sequence[bytes]] = {}
    for request in requests:
        name, first, count, cpu_s = json.loads(request)
        parser = PARSERS[name]
        if name not in seeds:
            seeds[name] = parser.seeds()
            with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
                for seed in seeds[name]:  # which imports what is imported late
                    with contextlib.suppress(Exception):
                        parser.read(seed, Path(folder))
        outcomes: Counter[str] = Counter()
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            for number in range(first, first + count):
                print(json.dumps({"number": number}), file=answers, flush=True)
                data = mutated(seeds[name], number, name)
                started = _cpu_s()
                mapped = _limit_next(started)
                try:
                    outcomes[check(parser, data, Path(folder))] += 1
                    used = _cpu_s() - started
                    assert used < cpu_s, f"{used:.1f} s of processor time"
                    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
                    assert peak < MEMORY_BYTES + mapped, f"{peak >> 20:,} MB in a child"
                except Exception as error:
                    shown = "".join(traceback.format_exception(error, limit=-8))
                    print(json.dumps({"number": number, "failed": shown}), file=answers, flush=True)
                    outcomes["failed"] += 1
        signal.alarm(0)
        print(json.dumps({"done": outcomes}), file=answers, flush=True)


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _limit_next(started: float) -> int:
    """Limit what the next input may use beyond what libraries keep of the earlier ones; return the bytes of that."""
    signal.alarm(KILLED_AFTER_S)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(started) + KILLED_AFTER_CPU_S, hard))
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_BYTES, hard))
    return mapped


def _run_here(
    command: Sequence[str], *, cwd: Path, stdin: BinaryIO | int, **_: object
) -> "subprocess.CompletedProcess[bytes]":
    """Do what `subprocess.run` does for a command of `module_command`, in this process: fifty times as fast.

    The child's own limits are left out, because this process has narrower ones.
    """
    _, _, _, module, *arguments = command
    kept = os.getcwd(), sys.argv
    given = os.open(os.devnull, os.O_RDONLY) if isinstance(stdin, int) else os.dup(stdin.fileno())
    os.dup2(given, 0)
    os.close(given)
    code, message = 0, ""
    try:
        os.chdir(cwd)
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except Exception as error:
        code, message = 1, "".join(traceback.format_exception_only(error))
    finally:
        os.chdir(kept[0])
        sys.argv = kept[1]
    return subprocess.CompletedProcess(command, code, stderr=message.encode("utf-8", "replace"))


# --- by hand


def main() -> int:
    """Fuzz until the time is over; return 1 if an input failed."""
    from tests.faults.fuzzing.parsers import PARSERS

    parse = argparse.ArgumentParser(description="Mutated inputs for every parser: typed errors only.")
    parse.add_argument(
        "--parsers", nargs="+", choices=PARSERS, default=list(PARSERS), metavar="NAME", help=", ".join(PARSERS)
    )
    first = int(time.time()) * 1_000  # after all numbers of an earlier run, and those of the suite, which begin at 0
    parse.add_argument("--first", type=int, default=first, help="the first number; by default one never tried before")
    parse.add_argument("--count", type=int, help="of inputs of each parser; by default until the time is over")
    parse.add_argument("--hours", type=float, default=1.0)
    parse.add_argument("--keep", type=Path, default=Path(".fuzz"), help="the folder for inputs that failed")
    asked = parse.parse_args()
    ends = time.monotonic() + 3600 * asked.hours
    totals: dict[str, Counter[str]] = {name: Counter() for name in asked.parsers}
    failures: list[Failure] = []
    first = asked.first
    with Fuzzer(CPU_S) as fuzzer, contextlib.suppress(KeyboardInterrupt):
        while time.monotonic() < ends and (asked.count is None or first < asked.first + asked.count):
            count = AT_ONCE if asked.count is None else min(AT_ONCE, asked.first + asked.count - first)
            for name in asked.parsers:
                failed, outcomes = fuzzer.run(name, first, count)
                totals[name] += outcomes
                for one in failed:
                    _keep(one, asked.keep)
                failures += failed
            first += count
    for name, outcomes in totals.items():
        codes = ", ".join(f"{code} {count:,}" for code, count in outcomes.most_common(8))
        print(f"{name}: {outcomes.total():,} inputs: {codes}")
    print(f"{len(failures)} failed{f', kept in {asked.keep}' if failures else ''}; the next number is {first}")
    return int(bool(failures))


def _keep(failure: Failure, folder: Path) -> None:
    from tests.faults.fuzzing.parsers import PARSERS

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{failure.parser}-{failure.number}"
    path.write_bytes(mutated(PARSERS[failure.parser].seeds(), failure.number, failure.parser))
    path.with_suffix(".txt").write_text(f"{failure.command}\n\n{failure.what}")
    print(f"{path}: {failure.what.strip().splitlines()[-1][:300]}\n  {failure.command}", flush=True)


if __name__ == "__main__":
    serve() if "--child" in sys.argv else sys.exit(main())
