"""Asset checks: our checks as Dagster records them, and those that run hourly because no asset would report them."""

from collections.abc import Mapping

import dagster as dg

from rag_eval_pipeline import clock
from rag_eval_pipeline.conversion.stamp import Check, CheckFact
from rag_eval_pipeline.defs.execution import as_dagster_failure
from rag_eval_pipeline.defs.metadata import inert, text
from rag_eval_pipeline.defs.resources import WorkspaceResource

MAX_LIST_CHARS = 300


def check_specs(
    asset: str, checks: Mapping[str, CheckFact], partitions: dg.PartitionsDefinition[str] | None = None
) -> list[dg.AssetCheckSpec]:
    """Return the specs of an asset's checks."""
    return [
        dg.AssetCheckSpec(
            name, asset=asset, blocking=fact.may_block, description=fact.description, partitions_def=partitions
        )
        for name, fact in checks.items()
    ]


def check_result(check: Check) -> dg.AssetCheckResult:
    """Return a check as Dagster records it; a failed one that does not block is a warning."""
    return dg.AssetCheckResult(
        check_name=check.name,
        passed=check.passed,
        severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
        description=inert(check_sentence(check)),
        metadata={name: _metadata(value) for name, value in check.numbers.items()},
    )


# Check -> what is said if it passed, and if it failed, with its numbers.
SENTENCES = {
    "every_pair_is_evaluated": (
        "all {expected} pairs have up-to-date results", "{offenders} of {expected} pairs without up-to-date results",
    ),
    "no_result_is_damaged": ("every results file can be read", "damaged results files: {offenders}"),
    "nothing_has_regressed": (
        "no system regressed (pairs compared: {compared})", "{offenders} of {compared} compared pairs regressed",
    ),
    "quality_thresholds_are_met": ("every threshold is met", "thresholds that are not met: {offenders}"),
    "all_configs_valid": ("every benchmark and system file is valid", "files that are skipped: {invalid}"),
    "no_night_is_late": ("{expected} nightly pairs, none overdue", "{late} of {expected} nightly pairs overdue"),
}  # fmt: skip


def check_sentence(check: Check) -> str:
    """Return a sentence such as "Failed: 1 of 8 compared pairs regressed. Which: mine on frames."."""
    counts = [f"{value:g} {_words(name)}" for name, value in check.numbers.items() if _is_number(value)]
    lists = [
        f" {_words(name).capitalize()}: {_joined(value)[:MAX_LIST_CHARS].rstrip('.')}."
        for name, value in check.numbers.items()
        if not _is_number(value) and _joined(value)
    ]
    verdict = "Passed" if check.passed else "Failed"
    if check.name in SENTENCES:
        counts = [SENTENCES[check.name][0 if check.passed else 1].format(**check.numbers)]
    return f"{verdict}{': ' if counts else ''}{', '.join(counts)}.{''.join(lists)}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _metadata(value: object) -> dg.FloatMetadataValue | dg.TextMetadataValue:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return dg.MetadataValue.float(float(value))
    return text(_joined(value) or "none")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _joined(value: object) -> str:
    return "; ".join(str(one) for one in value) if isinstance(value, list | tuple) else str(value)


@dg.asset_check(
    asset="leaderboard",
    description="Every benchmark and system in the folders has a valid name and a readable file, and so have alerts.",
)
def all_configs_valid(context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource) -> dg.AssetCheckResult:
    """Name the benchmark folders and files that the pipeline skips, and why."""
    from rag_eval_pipeline.evaluation.expected_pairs import read_registry
    from rag_eval_pipeline.monitoring.states import config_faults

    root = workspace.workspace
    with as_dagster_failure(context):
        invalid = config_faults(root, read_registry(root))
    numbers = {"invalid": len(invalid), "which": invalid}
    return check_result(Check(name="all_configs_valid", passed=not invalid, blocking=False, numbers=numbers))


@dg.asset_check(
    asset="leaderboard",
    description="Every nightly pair was published within late_after_hours (alerts.config.yaml), also one that cannot "
    "be evaluated because its benchmark is not converted or its system's file is invalid.",
)
def no_night_is_late(context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource) -> dg.AssetCheckResult:
    """Name the pairs that nothing was published of for too long, and send one alert for those that are newly late."""
    from rag_eval_pipeline.evaluation.expected_pairs import read_registry
    from rag_eval_pipeline.monitoring.alert_files import last_published, late_pairs, read_alert_settings
    from rag_eval_pipeline.monitoring.alerts import send_late_alerts
    from rag_eval_pipeline.monitoring.history import read_history

    root, now = workspace.workspace, clock.now()
    with as_dagster_failure(context):
        published = last_published(read_registry(root), read_history(root).by_pair)
        late = [pair.sentence for pair in late_pairs(now, published, read_alert_settings(root).settings)]
        sent = send_late_alerts(root, published, now=now)
    for line in [*(alert.subject for alert in sent.new), *sent.faults]:
        context.log.warning(line)
    numbers = {"expected": len(published), "late": len(late), "which": late}
    return check_result(Check(name="no_night_is_late", passed=not late, blocking=False, numbers=numbers))
