"""The Dagster code location: everything in `defs/`."""

import os
import warnings
from pathlib import Path

import dagster as dg

from rag_eval_pipeline.formats.removed_settings import refuse_removed_variables

OWNERS_VARIABLE = "RAG_EVAL_OWNERS"  # shown on each asset's page, so that people know whom to ask
DEFAULT_OWNERS = "team:rag-evaluation"

refuse_removed_variables()
owners = [owner for part in os.environ.get(OWNERS_VARIABLE, DEFAULT_OWNERS).split(",") if (owner := part.strip())]

with warnings.catch_warnings():
    # Preview features, pinned with Dagster: checks that know their partition (without them the last benchmark's check
    # would stand for all of them), and mapping the specs of loaded assets.
    warnings.simplefilter("ignore", dg.PreviewWarning)
    defs = dg.load_from_defs_folder(path_within_project=Path(__file__).parent).map_asset_specs(
        func=lambda spec: spec.replace_attributes(owners=owners)
    )
