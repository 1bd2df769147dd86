"""Checks of the leaderboard on what is not in it: left out of the folders, or late.

They are evaluated with it, and by sensors in between: what has gone missing starts no run that could say so.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.stamp import Check
from rag_eval_pipeline.conversion.step_checks import CheckFact
from rag_eval_pipeline.workspace import NAME, SYSTEM_SUFFIX, Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.evaluation.registry import Registry

LEFT_OUT, LATE = "nothing_is_left_out", "no_night_is_late"
LEADERBOARD_CHECKS = {
    LEFT_OUT: CheckFact(False, "Every benchmark and system in the folders has a lawful name and a readable file."),
    LATE: CheckFact(False, "Every nightly pair was published within late_after_hours (alerts.config.yaml)."),
}  # fmt: skip


def leaderboard_checks(workspace: Workspace, now: datetime) -> list[Check]:
    """The checks of `LEADERBOARD_CHECKS`."""
    from rag_eval_pipeline.evaluation.registry import read_registry

    return [left_out_check(left_out(workspace, read_registry(workspace))), late_check(workspace, now)]


def left_out(workspace: Workspace, registry: "Registry") -> list[str]:
    """What lies in the folders and takes no part, a line each, by its place in the workspace."""
    faults = [fault.removeprefix(f"{workspace.root}/") for fault in registry.faults]
    return [*faults, *unlawful_names(workspace)]


def left_out_check(faults: Sequence[str]) -> Check:
    """The check on what `left_out` found."""
    numbers = {"left_out": len(faults), "which": list(faults)}
    return Check(name=LEFT_OUT, passed=not faults, blocking=False, numbers=numbers)


def late_check(workspace: Workspace, now: datetime) -> Check:
    """Which pairs are late; they are told elsewhere."""
    from rag_eval_pipeline.reporting.alert_settings import read_alert_settings
    from rag_eval_pipeline.reporting.lateness import last_published, late_pairs

    published = last_published(workspace)
    late = [one.sentence for one in late_pairs(now, published, read_alert_settings(workspace))]
    numbers = {"expected": len(published), "late": len(late), "which": late}
    return Check(name=LATE, passed=not late, blocking=False, numbers=numbers)


def unlawful_names(workspace: Workspace) -> list[str]:
    """A line on each folder with a benchmark.yaml and each system file whose name the registry passes over."""
    folders = workspace.sources.glob("*/benchmark.yaml")
    files = (workspace.config / "systems").glob("*.y*ml")
    named = [(path.parent, path.parent.name, "") for path in folders]
    named += [(path, path.name.removesuffix(SYSTEM_SUFFIX), SYSTEM_SUFFIX) for path in files]
    return [
        f"{path.relative_to(workspace.root)}: expected a name matching ^{NAME.pattern}{suffix}$ [bad_name]. Rename it."
        for path, name, suffix in sorted(named)
        if not NAME.fullmatch(name) or not path.name.endswith(suffix)
    ]
