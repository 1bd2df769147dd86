"""A conversion: six steps in order, each one asset; `rag-eval convert` runs them all.

A step reads what the steps before it wrote, refuses it when it was made from another source, writes its own files
atomically, and leaves a record. A run holds the benchmark's lock from its first step to its last, so two conversions,
or a conversion and an evaluation, never mix.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.conversion import corpus_steps, dataset_steps
from rag_eval_pipeline.conversion.digests import source_digest
from rag_eval_pipeline.conversion.spec import read_spec
from rag_eval_pipeline.conversion.stamp import Conversion, Progress, Recheck, StepReport, Tell, write_record
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.source_spec import shown_path
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.storage.memory import give_memory_back
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

STEPS: dict[str, Callable[[Conversion], StepReport]] = {
    "questions": corpus_steps.questions,
    "corpus": corpus_steps.corpus,
    "corpus_text": corpus_steps.corpus_text,
    "train_json": dataset_steps.train_json,
    "evaluation_dataset": dataset_steps.evaluation_dataset,
    "ground_truth": dataset_steps.ground_truth,
}


class RunPart(NamedTuple):
    """A step as one of several of a run.

    Args:
        run_id: Of the run.
        steps: All steps of the run, this one among them.
    """

    run_id: str
    steps: frozenset[str]


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
    tell: Tell | None = None,
    recheck: Recheck = "no",
) -> StepReport:
    """One step of a benchmark's conversion.

    Args:
        workspace: Where.
        benchmark: What.
        step: Its name in `STEPS`.
        part: Of which run; its lock is kept until all its steps are done or one fails. A run whose steps are done by
            several processes gives it back after each.
        progress: What to call with done and total.
        tell: What to call with a line on each document that is made.
        recheck: Whether the pages on the web are looked at again, and whether what they say now is accepted.

    Raises:
        InputError: A fault of the spec, of a source file, or an earlier step that is missing, stale or failed.
        ServiceError: `locked`, or a browser that could not be used.
    """
    if part is None:
        with _locked(workspace, benchmark, step) as paths:
            return _run(workspace, paths, step, progress, tell, recheck=recheck)
    paths = workspace.benchmark(benchmark)
    held = _held.pop(paths.lock, None)
    if held is None or held.run_id != part.run_id:
        if held is not None:
            held.lock.close()  # of an earlier run of this process, which was ended between two steps
        with contextlib.ExitStack() as stack:
            stack.enter_context(_locked(workspace, benchmark, f"run {part.run_id[:8]}"))
            held = _Held(part.run_id, set(part.steps), stack.pop_all())
    with held.lock as lock:
        report = _run(workspace, paths, step, progress, tell, recheck=recheck)
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
    """All steps of a conversion; stops after a step whose blocking check failed.

    Args:
        workspace: Where.
        benchmark: What.
        progress: Given the name of a step, what to call with done and total.
        done: Called after each step, also after one whose check failed.
        replace: Whether a dataset version that was published may get other content.
        recheck: Whether the pages on the web are looked at again, and whether what they say now is accepted.

    Raises:
        InputError: As `run_step`, or `check_failed` with what was found.
    """
    reports = []
    with _locked(workspace, benchmark, "a conversion") as paths:
        for step in STEPS:
            report = _run(workspace, paths, step, progress(step), replace=replace, recheck=recheck)
            reports.append(report)
            done(report)
            for check in report.record.checks:
                if check.blocking and not check.passed:
                    expected = f"the check {check.name} of {step} to pass"
                    raise InputError("check_failed", shown_path(paths, "benchmark.yaml"), expected, found=check.numbers)
    return reports


@contextlib.contextmanager
def _locked(workspace: Workspace, benchmark: str, what: str) -> Iterator[BenchmarkPaths]:
    """The benchmark for this process alone; a whole conversion is not mixed with the steps of another."""
    paths = workspace.benchmark(benchmark)
    if not paths.spec.exists():
        raise InputError("missing_spec", shown_path(paths, "benchmark.yaml"), "a folder with this file")
    with locked(paths.lock, holder=f"{what} of {benchmark}, process {os.getpid()}", exclusive=True):
        yield paths


def _run(
    workspace: Workspace,
    paths: BenchmarkPaths,
    step: str,
    progress: Progress | None,
    tell: Tell | None = None,
    *,
    replace: bool = False,
    recheck: Recheck = "no",
) -> StepReport:
    give_memory_back()
    conversion = Conversion(workspace, paths, read_spec(paths), source_digest(paths), progress, tell, replace, recheck)
    report = STEPS[step](conversion)
    write_record(paths, report.record)
    return report
