"""Reruns: flagged comparisons that are due to be looked at again, and the evaluations that did look again."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import nights_file, read_baseline
from rag_eval_pipeline.evaluation.runs import newest_evaluation
from rag_eval_pipeline.reporting.nightbook import nights_since
from rag_eval_pipeline.reporting.nights import Night, Nights, is_rerun
from rag_eval_pipeline.reporting.published import all_published
from rag_eval_pipeline.reporting.verdict_settings import read_verdict_settings
from rag_eval_pipeline.workspace import Workspace


class DueRerun(NamedTuple):
    """A pair to be evaluated again, and the evaluation that flagged it."""

    benchmark: str
    system: str
    evaluation_id: str


def due_reruns(workspace: Workspace, pairs: Iterable[tuple[str, str]], *, now: datetime) -> list[DueRerun]:
    """The pairs whose last night waits for a rerun that may begin now.

    A pair that somebody has evaluated since is left alone: that evaluation is the rerun, or a night of its own.

    Args:
        workspace: Where.
        pairs: Benchmarks and systems that may be asked without anybody's asking for it.
        now: Aware.
    """
    later = timedelta(hours=read_verdict_settings(workspace).rerun_after_hours)
    due = []
    for benchmark, system in pairs:
        night = _last_night(workspace, benchmark, system)
        if night is None or not night.awaits_rerun or now - night.ended_at < later:
            continue
        newest = newest_evaluation(workspace, benchmark, system)
        if newest is not None and newest.record.evaluation_id == night.evaluation_id:
            due.append(DueRerun(benchmark, system, night.evaluation_id))
    return due


def find_reruns(workspace: Workspace) -> dict[str, str]:
    """A rerun's evaluation id -> the night's that it looked at again, of every pair.

    One that has been published and not compared yet is among them. What cannot be read has none; the comparison says
    what is wrong with it.
    """
    settings = read_verdict_settings(workspace)
    found: dict[str, str] = {}
    for (benchmark, system), evaluations in all_published(workspace).items():
        try:
            baseline = read_baseline(workspace, benchmark, system)
            if baseline is None or not (path := nights_file(workspace, benchmark, system, baseline)).exists():
                continue
            known = Nights.read(path)
        except InputError:
            continue
        found |= {night.rerun: night.evaluation_id for night in known.nights if night.rerun}
        new = [one.record for one in nights_since(evaluations, baseline) if one.record.evaluation_id not in known.seen]
        if new and known.nights and is_rerun(known.nights[-1], new[0].fingerprints, new[0].opened_at, settings):
            found[new[0].evaluation_id] = known.nights[-1].evaluation_id
    return found


def _last_night(workspace: Workspace, benchmark: str, system: str) -> Night | None:
    try:
        baseline = read_baseline(workspace, benchmark, system)
        if baseline is None:
            return None
        path = nights_file(workspace, benchmark, system, baseline)
        nights = Nights.read(path).nights if path.exists() else ()
    except InputError:
        return None  # the comparison says what is wrong with the file
    return nights[-1] if nights else None
