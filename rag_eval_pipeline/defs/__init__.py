"""Dagster, thin: partitions, assets with their checks, sensors and schedules; the work is done in the other rooms."""

import warnings

import dagster as dg

# Checks that know their partition are a preview feature; without it the last benchmark's check would stand for all of
# them.
warnings.filterwarnings("ignore", category=dg.PreviewWarning)
