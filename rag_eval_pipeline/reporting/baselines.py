"""The pinned runs of each pair: collected by the first nights or pinned by a person, and never changed by themselves.

`data/evaluation/baselines/<benchmark>/<system>.json` names them. A baseline that is there stays until somebody pins
another one, whatever becomes of the system: one that followed a regression would hide it.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import BY_HAND, Baseline, baseline_file
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.runs import Evaluation, load_evaluation
from rag_eval_pipeline.metrics.baselines import BASELINE_RUNS, flip_share
from rag_eval_pipeline.reporting.looks import SHARED_PRINTS
from rag_eval_pipeline.reporting.published import published_evaluations
from rag_eval_pipeline.reporting.scored_runs import ScoredRun, run_of_evaluation
from rag_eval_pipeline.workspace import Workspace

BY_NIGHTS = "the first nights"
FLIPS_OF = "exact_match"  # binary, and the answer's own: a rank may differ without the answer


def needed_runs(evaluation: Evaluation) -> int:
    """How many runs a baseline takes: one of a deterministic system, which gives the same answers again."""
    return 1 if evaluation.record.deterministic else BASELINE_RUNS


def same_prints(one: Evaluation, other: Evaluation) -> bool:
    """Whether two evaluations can stand in one baseline: all fingerprints are equal, the system's among them."""
    return one.record.fingerprints == other.record.fingerprints


def pin(
    workspace: Workspace,
    benchmark: str,
    system: str,
    evaluation_ids: Sequence[str] = (),
    *,
    now: datetime,
    note: str | None = None,
) -> Baseline:
    """Pins a pair's baseline.

    Args:
        workspace: Where.
        benchmark: Of the pair.
        system: Of the pair.
        evaluation_ids: Published evaluations of the pair; the newest that share all fingerprints unless given.
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


def pin_first_nights(workspace: Workspace, benchmark: str, system: str) -> Baseline | None:
    """Pins the first evaluations in a row of a pair that has no baseline, once there are enough of them.

    Only those that the newest can be compared with: nights on an earlier dataset collect nothing.

    Returns:
        The baseline; None while there are too few. One that is there is never replaced.
    """
    if baseline_file(workspace, benchmark, system).exists():
        return None
    group: list[Evaluation] = []
    evaluations = published_evaluations(workspace, benchmark, system)
    for evaluation in (one for one in evaluations if _comparable(one, evaluations[-1])):
        group = [*group, evaluation] if group and same_prints(group[-1], evaluation) else [evaluation]
        if len(group) == needed_runs(evaluation):
            names = tuple(one.record.evaluation_id for one in group)
            baseline = Baseline(evaluations=names, pinned_by=BY_NIGHTS)
            baseline.write(baseline_file(workspace, benchmark, system))
            return baseline
    return None


def missing_runs(workspace: Workspace, pair: Pair) -> int:
    """How many evaluations of a pair as it is today are missing for a baseline."""
    published = published_evaluations(workspace, pair.paths.name, pair.system)
    alike = [one for one in published if one.is_of(pair.fingerprints)]
    return max(0, (1 if pair.system_file.is_deterministic else BASELINE_RUNS) - len(alike))


def flips_of(workspace: Workspace, baseline: Baseline) -> float | None:
    """The share of questions whose exact match differs between two runs of a baseline; None for a single run.

    Raises:
        InputError: A run cannot be read.
    """
    return flip_share_of([run_of_evaluation(load_evaluation(workspace, name)) for name in baseline.evaluations])


def flip_share_of(runs: Sequence[ScoredRun]) -> float | None:
    """The same of runs that are read already."""
    scores = [run.columns[FLIPS_OF].scores for run in runs if FLIPS_OF in run.columns]
    return flip_share(scores) if len({len(run) for run in scores}) == 1 else None


def earlier_runs(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """What the last of some evaluations is compared with while no baseline is pinned.

    Args:
        evaluations: Of one pair, oldest first.

    Returns:
        Up to five that came before it, alike among themselves; none before the first.
    """
    return newest_alike([one for one in evaluations[:-1] if _comparable(one, evaluations[-1])])


def _comparable(one: Evaluation, other: Evaluation) -> bool:
    prints, others = one.record.fingerprints, other.record.fingerprints
    return all(getattr(prints, part) == getattr(others, part) for part in SHARED_PRINTS)


def newest_alike(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """The newest runs that share all fingerprints, oldest first; as many as a baseline takes, or fewer."""
    if not evaluations:
        return []
    alike = [one for one in evaluations if same_prints(one, evaluations[-1])]
    return alike[-needed_runs(evaluations[-1]) :]


def _check(path: Path, chosen: Sequence[Evaluation], benchmark: str, system: str) -> None:
    for one in chosen:
        record = one.record
        if (record.benchmark, record.system) != (benchmark, system):
            found = f"{record.benchmark} x {record.system}"
            raise InputError("other_pair", one.folder, f"an evaluation of {benchmark} x {system}", found=found)
        if record.state != "published":
            raise InputError("not_published", one.folder, "a published evaluation", found=record.state)
        if not same_prints(one, chosen[0]):
            first = chosen[0].record.fingerprints
            parts = (name for name, value in record.fingerprints if value != getattr(first, name))
            raise InputError(
                "different_runs", path, "evaluations of one system on one dataset with the same measures",
                found=f"{chosen[0].record.evaluation_id} and {record.evaluation_id} differ in {', '.join(parts)}",
            )  # fmt: skip
    names = [one.record.evaluation_id for one in chosen]
    if len(set(names)) < len(names):
        raise InputError("repeated_runs", path, "each evaluation once", found=names)
