"""Reports what `rag-eval` did without Dagster to its instance, so that the UI agrees with the files.

A partition that stayed Missing would be asked again by a backfill of what is missing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from rag_eval_pipeline.defs.partitions import benchmarks, pair_key, systems
from rag_eval_pipeline.defs.shell import numbers


def report_materializations(
    home: Path,
    assets: Sequence[str],
    *,
    benchmark: str | None = None,
    system: str | None = None,
    metadata: Mapping[str, Any],
) -> None:
    """Reports assets as materialized to the instance of a folder; it gets the partition if it lacks it.

    Args:
        home: The instance's DAGSTER_HOME.
        assets: Keys, each after those that it is made from.
        benchmark: Of the partition; None for assets without any.
        system: Of the partition of a pair.
        metadata: Numbers and texts that every event carries.
    """
    partition = None if benchmark is None else benchmark if system is None else pair_key(benchmark, system)
    figures = numbers({name: value for name, value in metadata.items() if not isinstance(value, str)})
    texts = {name: value for name, value in metadata.items() if isinstance(value, str)}
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for definition, name in ((benchmarks, benchmark), (systems, system)):
            if name is not None:
                instance.add_dynamic_partitions(definition.name or "", [name])
        for asset in assets:
            event = dg.AssetMaterialization(asset, partition=partition, metadata={**texts, **figures})
            instance.report_runless_asset_event(event)
