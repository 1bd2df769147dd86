"""Published evaluations of each pair, and the baseline that is pinned from them.

`data/evaluation/baselines/<benchmark>/<system>.json` names the pinned runs: the first nights, or those a person pinned.
A baseline stays until somebody pins another one: one that moved by itself after a regression would hide it.
"""

import logging
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import BY_HAND, Baseline, baseline_file
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.runs import Evaluation, EvaluationRecord, load_evaluation
from rag_eval_pipeline.metrics.verdicts import BASELINE_RUNS, flip_share
from rag_eval_pipeline.reporting.comparison import SHARED_FINGERPRINTS, ScoredRun, run_of_evaluation
from rag_eval_pipeline.workspace import Workspace

BY_NIGHTS = "the first nights"
FLIPPING = "exact_match"  # the measure whose run-to-run changes are counted: binary, and of the answer itself

logger = logging.getLogger(__name__)

_State = tuple[int, int, int]  # a file's time, size and inode
# Folder of runs -> name of an evaluation -> its record as it was last read. Thirty pairs would otherwise read the
# records of all others thirty times.
_RECORDS: dict[Path, dict[str, tuple[_State, EvaluationRecord]]] = {}


def published_evaluations(workspace: Workspace, benchmark: str, system: str) -> list[Evaluation]:
    """Return the published evaluations of one pair, oldest first; equal times in the order of their ids."""
    return _published(workspace, (benchmark, system)).get((benchmark, system), [])


def all_published(workspace: Workspace) -> dict[tuple[str, str], list[Evaluation]]:
    """Return the published evaluations of every (benchmark, system), oldest first.

    A record that cannot be read costs its own evaluation, and the log names it.
    """
    return _published(workspace, None)


def results_mark(workspace: Workspace) -> str | None:
    """Return a text that changes whenever a results file is added, removed or changed; None if there is none."""
    try:
        with os.scandir(workspace.results) as entries:
            times = [
                entry.stat().st_mtime_ns
                for entry in entries
                if entry.name.startswith("eval_run_") and entry.name.endswith(".results.json")
            ]
    except FileNotFoundError:
        return None
    return f"{len(times)}-{max(times)}" if times else None


def _published(workspace: Workspace, wanted: tuple[str, str] | None) -> dict[tuple[str, str], list[Evaluation]]:
    runs = workspace.runs
    names = sorted(os.listdir(runs)) if runs.is_dir() else []
    known = _RECORDS.setdefault(runs, {})
    for gone in known.keys() - set(names):
        known.pop(gone, None)
    found: dict[tuple[str, str], list[Evaluation]] = {}
    for name in names:
        record = _record(known, runs, name, wanted)
        if record is not None and record.state == "published" and record.evaluation_id == name:
            found.setdefault((record.benchmark, record.system), []).append(Evaluation(runs / name, record))
    for evaluations in found.values():
        evaluations.sort(key=lambda one: (one.record.opened_at, one.record.evaluation_id))
    return found


def _record(
    known: dict[str, tuple[_State, EvaluationRecord]], runs: Path, name: str, wanted: tuple[str, str] | None
) -> EvaluationRecord | None:
    """Return the record of a folder; None if it has none or is of another pair than the wanted one."""
    before = known.get(name)
    # An evaluation's pair never changes: those of other pairs need no disk access.
    if before is not None and wanted is not None and (before[1].benchmark, before[1].system) != wanted:
        return None
    path = runs / name / "evaluation.json"
    try:
        stat = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None  # `by_pair`, or a folder without a record
    state = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    if before is None or before[0] != state:
        known.pop(name, None)
        try:
            before = known[name] = state, EvaluationRecord.read(path)
        except InputError as error:
            logger.warning("An evaluation is left out: %s", error)
            return None
    return before[1]


def needed_runs(evaluation: Evaluation) -> int:
    """Return how many runs a baseline takes: one of a deterministic system, which gives the same answers again."""
    return 1 if evaluation.record.deterministic else BASELINE_RUNS


def pin(
    workspace: Workspace,
    benchmark: str,
    system: str,
    evaluation_ids: Sequence[str] = (),
    *,
    now: datetime,
    note: str | None = None,
) -> Baseline:
    """Pin a pair's baseline.

    Args:
        evaluation_ids: Published evaluations of the pair; by default the newest that share all fingerprints.
        now: Aware; nights that begin later are compared with it.
        note: Why.

    Raises:
        InputError: `no_evaluations`, `other_pair`, `not_published`, `different_runs`, `repeated_runs`.
    """
    path = baseline_file(workspace, benchmark, system)
    if evaluation_ids:
        chosen = [load_evaluation(workspace, name) for name in evaluation_ids]
    else:
        chosen = newest_alike(published_evaluations(workspace, benchmark, system))
    if not chosen:
        raise InputError(
            "no_evaluations", path, f"a published evaluation of {benchmark} x {system}",
            hint=f"Evaluate it first: rag-eval evaluate {benchmark} --system {system}",
        )  # fmt: skip
    _check(path, chosen, benchmark, system)
    baseline = Baseline(
        evaluations=tuple(one.record.evaluation_id for one in chosen), pinned_at=now, pinned_by=BY_HAND, note=note
    )
    baseline.write(path)
    return baseline


def _check(path: Path, chosen: Sequence[Evaluation], benchmark: str, system: str) -> None:
    for one in chosen:
        record = one.record
        if (record.benchmark, record.system) != (benchmark, system):
            found = f"{record.benchmark} x {record.system}"
            raise InputError("other_pair", one.folder, f"an evaluation of {benchmark} x {system}", found=found)
        if record.state != "published":
            raise InputError("not_published", one.folder, "a published evaluation", found=record.state)
        if record.fingerprints != chosen[0].record.fingerprints:
            first = chosen[0].record.fingerprints
            parts = (name for name, value in record.fingerprints if value != getattr(first, name))
            raise InputError(
                "different_runs", path, "evaluations of one system on one dataset with the same measures",
                found=f"{chosen[0].record.evaluation_id} and {record.evaluation_id} differ in {', '.join(parts)}",
            )  # fmt: skip
    names = [one.record.evaluation_id for one in chosen]
    if len(set(names)) < len(names):
        raise InputError("repeated_runs", path, "each evaluation once", found=names)


def pin_first_nights(workspace: Workspace, benchmark: str, system: str) -> Baseline | None:
    """Pin the first evaluations in a row of a pair without a baseline, once there are enough of them.

    Only evaluations that the newest can be compared with count. A baseline that exists is never replaced.

    Returns:
        The new baseline; None while there are too few evaluations, or if there is one already.
    """
    path = baseline_file(workspace, benchmark, system)
    if path.exists():
        return None
    group: list[Evaluation] = []
    evaluations = published_evaluations(workspace, benchmark, system)
    for evaluation in (one for one in evaluations if _is_comparable(one, evaluations[-1])):
        is_alike = bool(group) and group[-1].record.fingerprints == evaluation.record.fingerprints
        group = [*group, evaluation] if is_alike else [evaluation]
        if len(group) == needed_runs(evaluation):
            baseline = Baseline(evaluations=tuple(one.record.evaluation_id for one in group), pinned_by=BY_NIGHTS)
            baseline.write(path)
            return baseline
    return None


def missing_runs(workspace: Workspace, pair: Pair) -> int:
    """Return how many more evaluations of a pair in its present state a baseline needs."""
    published = published_evaluations(workspace, pair.paths.name, pair.system)
    alike = [one for one in published if one.has_fingerprints(pair.fingerprints)]
    return max(0, (1 if pair.system_file.is_deterministic else BASELINE_RUNS) - len(alike))


def earlier_runs(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return what the last of a pair's evaluations is compared with while no baseline is pinned.

    Args:
        evaluations: Oldest first.

    Returns:
        Up to five that came before it and share all fingerprints; none for the first.
    """
    return newest_alike([one for one in evaluations[:-1] if _is_comparable(one, evaluations[-1])])


def newest_alike(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the newest runs that share all fingerprints, oldest first; at most as many as a baseline takes."""
    if not evaluations:
        return []
    alike = [one for one in evaluations if one.record.fingerprints == evaluations[-1].record.fingerprints]
    return alike[-needed_runs(evaluations[-1]) :]


def _is_comparable(one: Evaluation, other: Evaluation) -> bool:
    prints, others = one.record.fingerprints, other.record.fingerprints
    return all(getattr(prints, part) == getattr(others, part) for part in SHARED_FINGERPRINTS)


def baseline_flip_share(workspace: Workspace, baseline: Baseline) -> float | None:
    """Return the share of questions whose exact match differs between two runs of a baseline; None for a single run."""
    return flip_share_of([run_of_evaluation(load_evaluation(workspace, name)) for name in baseline.evaluations])


def flip_share_of(runs: Sequence[ScoredRun]) -> float | None:
    """Return the same of runs that are loaded."""
    scores = [run.columns[FLIPPING].scores for run in runs if FLIPPING in run.columns]
    return flip_share(scores) if len({len(run) for run in scores}) == 1 else None
