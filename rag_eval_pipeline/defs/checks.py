"""Asset checks: our checks as Dagster records them."""

from collections.abc import Mapping

import dagster as dg

from rag_eval_pipeline.conversion.stamp import Check, CheckFact
from rag_eval_pipeline.defs.metadata import inert, text

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


def check_evaluation(asset: str, check: Check) -> dg.AssetCheckEvaluation:
    """Return a check as a sensor records it."""
    found = check_result(check)
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(asset), check_name=check.name, passed=check.passed, severity=found.severity,
        description=found.description, metadata=found.metadata,
    )  # fmt: skip


# Check -> what is said if it passed, and if it failed, with its numbers.
SENTENCES = {
    "every_pair_is_evaluated": (
        "every pair has up-to-date results (pairs: {expected})",
        "{offenders} of {expected} pairs without up-to-date results",
    ),
    "no_result_is_damaged": ("every results file can be read", "damaged results files: {offenders}"),
    "nothing_has_regressed": (
        "no system regressed (pairs compared: {compared})", "{offenders} of {compared} compared pairs regressed",
    ),
    "quality_thresholds_are_met": ("every threshold is met", "thresholds that are not met: {offenders}"),
    "all_configs_valid": ("every benchmark and system file is valid", "files that are skipped: {offenders}"),
    "no_night_is_late": ("none of {expected} nightly pairs overdue", "{offenders} of {expected} nightly pairs overdue"),
}  # fmt: skip


def check_sentence(check: Check) -> str:
    """Return a sentence such as "Failed: 1 of 8 compared pairs regressed. Which: mine on frames."."""
    counts = [f"{value:g} {name.replace('_', ' ')}" for name, value in check.numbers.items() if _is_number(value)]
    lists = [
        f" {name.replace('_', ' ').capitalize()}: {_joined(value)[:MAX_LIST_CHARS].rstrip('.')}."
        for name, value in check.numbers.items()
        if not _is_number(value) and _joined(value)
    ]
    verdict = "Passed" if check.passed else "Failed"
    if check.name in SENTENCES:
        counts = [SENTENCES[check.name][0 if check.passed else 1].format(**check.numbers)]
    return f"{verdict}{': ' if counts else ''}{', '.join(counts)}.{''.join(lists)}"


def _metadata(value: object) -> dg.FloatMetadataValue | dg.TextMetadataValue:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return dg.MetadataValue.float(float(value))
    return text(_joined(value) or "none")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _joined(value: object) -> str:
    return "; ".join(str(one) for one in value) if isinstance(value, list | tuple) else str(value)
