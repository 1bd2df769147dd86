"""Dagster definitions: assets with their checks, partitions, sensors and schedules; the work is done elsewhere."""
