"""Benchmarks, systems, and pairs of them. The folders are the truth; a sensor makes the partitions equal to them."""

import dagster as dg

benchmarks = dg.DynamicPartitionsDefinition(name="benchmarks")
systems = dg.DynamicPartitionsDefinition(name="systems")
pairs = dg.MultiPartitionsDefinition({"benchmark": benchmarks, "system": systems})


def pair_key(benchmark: str, system: str) -> dg.MultiPartitionKey:
    """The partition key of a pair."""
    return dg.MultiPartitionKey({"benchmark": benchmark, "system": system})
