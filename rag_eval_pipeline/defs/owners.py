"""Who answers for the assets: shown on each asset's page, so that people know whom to ask."""

import os
from collections.abc import Sequence

import dagster as dg

VARIABLE = "RAG_EVAL_OWNERS"
DEFAULT = "team:rag-evaluation"


def owners() -> list[str]:
    """Teams (`team:name`) and mail addresses that RAG_EVAL_OWNERS names, separated by commas."""
    return [one for part in os.environ.get(VARIABLE, DEFAULT).split(",") if (one := part.strip())]


def owned(assets: Sequence[dg.AssetsDefinition]) -> list[dg.AssetsDefinition]:
    """The assets with their owners."""
    own = owners()
    return list(dg.map_asset_specs(lambda spec: spec.replace_attributes(owners=own), assets))
