"""Published evaluations of each pair, and the baseline that is pinned from them.

A baseline stays until somebody pins another one: one that moved by itself after a regression would hide it.
"""

import hashlib
import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import BY_HAND, Baseline, baseline_file
from rag_eval_pipeline.evaluation.compared_runs import (
    COMPARED,
    ScoredRun,
    different_part,
    run_of_evaluation,
    with_levels,
)
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, load_evaluation, published_evaluations
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.formats.dataset import open_dataset
from rag_eval_pipeline.metrics.run_labels import RUNS_MIN
from rag_eval_pipeline.metrics.verdict_rules import BASELINE_RUNS, FAILURE_RATE
from rag_eval_pipeline.metrics.verdicts import flip_share
from rag_eval_pipeline.workspace import Workspace

BY_NIGHTS = "the first nights"
FLIPPING = "exact_match"  # the measure whose run-to-run changes are counted: binary, and of the answer itself

logger = logging.getLogger(__name__)


def results_mark(workspace: Workspace) -> str | None:
    """Return a text that changes with the results files, the baselines and the trust cards; None without results."""
    results = list(workspace.results.glob("eval_run_*.results.json"))
    others = (path for folder in (workspace.baselines, workspace.trust_cards) for path in folder.rglob("*.json"))
    # Not the newest time: a file that is written after the clock was set back may be older than another one.
    times = sorted((path.name, path.stat().st_mtime_ns) for path in (*results, *others))
    return f"{len(times)}-{hashlib.sha256(repr(times).encode()).hexdigest()[:16]}" if results else None


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
        evaluation_ids: Published evaluations of the pair; by default the newest that share all fingerprints and have
            enough answers.
        now: Aware; nights that begin later are compared with it.

    Raises:
        InputError: `no_evaluations`, `other_pair`, `not_published`, `different_runs`, `repeated_runs`; `clock_behind`
            when an evaluation began after `now`: it would be a night after the baseline.
    """
    path = baseline_file(workspace, benchmark, system)
    published = published_evaluations(workspace, benchmark, system)
    if published and published[-1].record.opened_at > now:
        raise InputError(
            "clock_behind", published[-1].folder, "no evaluation that began after now",
            found=str(published[-1].record.opened_at), hint="Nothing was pinned; set the clock.",
        )  # fmt: skip
    if evaluation_ids:
        chosen = [load_evaluation(workspace, name) for name in evaluation_ids]
    else:
        chosen = newest_alike(published)
    if not chosen:
        raise InputError(
            "no_evaluations", path, f"a published evaluation of {benchmark} x {system} with enough answers",
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


def pin_first_nights(
    workspace: Workspace, benchmark: str, system: str, evaluations: Sequence[Evaluation]
) -> Baseline | None:
    """Pin the first evaluations in a row of a pair without a baseline, once there are enough of them.

    Only evaluations that the newest can be compared with count.

    Args:
        evaluations: The published ones of the pair, oldest first.

    Returns:
        The new baseline; None while there are too few evaluations, or if there is one already.
    """
    path = baseline_file(workspace, benchmark, system)
    if path.exists():
        return None
    group: list[Evaluation] = []
    for evaluation in (one for one in evaluations if one.is_covered and _is_comparable(one, evaluations[-1])):
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
    alike = [one for one in published if one.is_covered and one.has_fingerprints(pair.fingerprints)]
    return max(0, (1 if pair.system_file.is_deterministic else BASELINE_RUNS) - len(alike))


def earlier_runs(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return what the last of a pair's evaluations is compared with while no baseline is pinned.

    These are up to five that came before it and share all fingerprints.
    """
    return newest_alike([one for one in evaluations[:-1] if _is_comparable(one, evaluations[-1])])


def newest_alike(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the newest runs that share all fingerprints, oldest first; at most as many as a baseline takes.

    Runs in which too few questions were answered do not count.
    """
    if not evaluations:
        return []
    prints = evaluations[-1].record.fingerprints
    alike = [one for one in evaluations if one.is_covered and one.record.fingerprints == prints]
    return alike[-needed_runs(evaluations[-1]) :]


def _is_comparable(one: Evaluation, other: Evaluation) -> bool:
    return different_part(one.record.fingerprints, other.record.fingerprints) is None


def baseline_flip_share(workspace: Workspace, baseline: Baseline) -> float | None:
    """Return `flip_share_of` the runs of a baseline."""
    return flip_share_of(_runs(workspace, baseline))


def baseline_warnings(workspace: Workspace, baseline: Baseline) -> list[str]:
    """Return a line for each reason why nights that are compared with a baseline may get no verdict."""
    runs = _runs(workspace, baseline)
    record = load_evaluation(workspace, baseline.evaluations[-1]).record
    queries = open_dataset(workspace.eval_json(record.dataset_id, record.dataset_version)).queries
    found = []
    counts = [(run, run.columns[FAILURE_RATE].scores.count(1.0)) for run in runs]
    if failed := [f"{count} of {len(run.query_ids)} in {run.evaluation_id}" for run, count in counts if count]:
        found.append(
            f"questions failed in the pinned runs ({', '.join(failed)}): a question counts in the nights only with "
            f"{RUNS_MIN} scored runs or more"
        )
    measures = with_levels("retrieval_scores", COMPARED["retrieval_scores"])
    without = [run.evaluation_id for run in runs if run.columns.keys().isdisjoint(measures)]
    if without and any(query.relevant_documents for query in queries):
        which = "the pinned runs" if len(without) == len(runs) else ", ".join(without)
        found.append(f"no retrieval scores in {which}: later nights get no verdict on retrieval")
    return found


def _runs(workspace: Workspace, baseline: Baseline) -> list[ScoredRun]:
    return [run_of_evaluation(load_evaluation(workspace, name)) for name in baseline.evaluations]


def flip_share_of(runs: Sequence[ScoredRun]) -> float | None:
    """Return the share of questions whose exact match differs between two runs; None for a single run."""
    scores = [run.columns[FLIPPING].scores for run in runs if FLIPPING in run.columns]
    return flip_share(scores) if len({len(run) for run in scores}) == 1 else None
