"""The Dagster code location: everything in `defs/`."""

import warnings
from pathlib import Path

import dagster as dg

from rag_eval_pipeline.formats.removed_settings import refuse_removed_variables

refuse_removed_variables()

with warnings.catch_warnings():
    # A preview feature, pinned with Dagster: checks that know their partition. Without it the last benchmark's check
    # would stand for all of them.
    warnings.simplefilter("ignore", dg.PreviewWarning)
    defs = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
