"""Run the steps of a conversion: all of them for `rag-eval convert`, or one by one for Dagster's assets.

A run holds the benchmark's lock from its first step to its last, so two conversions, or a conversion and an evaluation,
never mix.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.conversion import shards
from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.shard_plan import ShardsMissing, shards_in_progress
from rag_eval_pipeline.conversion.stamp import (
    Conversion,
    LogLine,
    Progress,
    Recheck,
    StepReport,
    refusal_file,
    source_digest,
)
from rag_eval_pipeline.conversion.steps import STEPS
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.sources.source_spec import shown_path
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.storage.parquet_files import limit_allocators
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace


class RunPart(NamedTuple):
    """A step as one of several of a run."""

    run_id: str
    steps: frozenset[str]  # all of the run


@dataclass(slots=True)
class _Held:
    """A lock that a run of this process holds."""

    run_id: str
    to_do: set[str]
    lock: contextlib.ExitStack


_held: dict[Path, _Held] = {}


def run_step(
    workspace: Workspace,
    benchmark: str,
    step: str,
    *,
    part: RunPart | None = None,
    progress: Progress | None = None,
    log: LogLine | None = None,
    recheck: Recheck = "no",
) -> StepReport:
    """Run one step of a benchmark's conversion.

    Args:
        part: The run that it belongs to; the run keeps the benchmark's lock until all its steps are done or one fails.
            A run whose steps are done by several processes releases it after each.

    Raises:
        InputError: A fault of the spec, of a source file, or an earlier step that is missing, stale or failed.
        ServiceError: `locked`, or a browser that could not be used.
    """
    if part is None:
        with _locked(workspace, benchmark, step) as paths:
            return _run(workspace, paths, step, progress, log, recheck=recheck)
    paths = workspace.benchmark(benchmark)
    held = _held.pop(paths.lock, None)
    if held is None or held.run_id != part.run_id:
        if held is not None:
            held.lock.close()  # of an earlier run of this process, which was ended between two steps
        with contextlib.ExitStack() as stack:
            stack.enter_context(_locked(workspace, benchmark, f"run {part.run_id[:8]}"))
            held = _Held(part.run_id, set(part.steps), stack.pop_all())
    with held.lock as lock:
        report = _run(workspace, paths, step, progress, log, recheck=recheck)
        held.to_do.discard(step)
        if held.to_do and not report.record.failed:
            held.lock = lock.pop_all()
            _held[paths.lock] = held
        return report


def convert(
    workspace: Workspace,
    benchmark: str,
    *,
    progress: Callable[[str], Progress | None] = lambda step: None,
    done: Callable[[StepReport], None] = lambda report: None,
    replace: bool = False,
    recheck: Recheck = "no",
) -> list[StepReport]:
    """Run all steps of a conversion; stop after a step whose blocking check failed.

    Args:
        progress: Returns, for the name of a step, what to call with done and total.
        done: Called after each step, also after one whose check failed.

    Raises:
        InputError: As `run_step`, or `check_failed` with what was found.
    """
    reports = []
    with _locked(workspace, benchmark, "a conversion") as paths:
        for step in STEPS:
            report = _run(workspace, paths, step, progress(step), replace=replace, recheck=recheck, all_shards=True)
            reports.append(report)
            done(report)
            for check in report.record.checks:
                if check.blocking and not check.passed:
                    expected = f"the check {check.name} of {step} to pass"
                    raise InputError("check_failed", shown_path(paths, "benchmark.yaml"), expected, found=check.numbers)
    return reports


@contextlib.contextmanager
def _locked(workspace: Workspace, benchmark: str, what: str) -> Iterator[BenchmarkPaths]:
    """Lock the benchmark, so that a whole conversion is not mixed with the steps of another."""
    paths = workspace.existing_benchmark(benchmark)
    holder = f"{what} of {benchmark}, process {os.getpid()}"
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(paths.lock, holder=holder, exclusive=True))
        except ServiceError as error:
            raise shards_in_progress(paths) or error from None
        yield paths


def _run(
    workspace: Workspace,
    paths: BenchmarkPaths,
    step: str,
    progress: Progress | None,
    log: LogLine | None = None,
    *,
    replace: bool = False,
    recheck: Recheck = "no",
    all_shards: bool = False,
) -> StepReport:
    limit_allocators()
    options = (progress, log, replace, recheck)
    try:
        conversion = Conversion(workspace, paths, read_spec(paths), source_digest(paths), *options)
        report = _report(conversion, step, all_shards=all_shards)
    except InputError as error:
        if not isinstance(error, ShardsMissing):
            with contextlib.suppress(OSError):  # the refusal itself matters more than its note on a full disk
                atomic_write(refusal_file(paths), str(error).encode())  # for whoever evaluates it tonight
        raise
    refusal_file(paths).unlink(missing_ok=True)
    report.record.write(paths.steps / f"{step}.json")
    return report


def _report(conversion: Conversion, step: str, *, all_shards: bool) -> StepReport:
    try:
        return STEPS[step](conversion)
    except ShardsMissing as error:
        if not all_shards:
            raise
        shards.make_shards(conversion, error.plan, error.missing)
        return STEPS[step](conversion)
