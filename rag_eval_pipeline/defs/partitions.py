"""Benchmarks, systems, and pairs of them. The folders are the truth; a sensor makes the partitions equal to them."""

from collections.abc import Iterator

import dagster as dg

benchmarks = dg.DynamicPartitionsDefinition(name="benchmarks")
systems = dg.DynamicPartitionsDefinition(name="systems")
pairs = dg.MultiPartitionsDefinition({"benchmark": benchmarks, "system": systems})

PARTITION_TAG = "dagster/partition"  # Dagster's own, on every run of one partition


def pair_key(benchmark: str, system: str) -> dg.MultiPartitionKey:
    """The partition key of a pair."""
    return dg.MultiPartitionKey({"benchmark": benchmark, "system": system})


def partition_changes(
    instance: dg.DagsterInstance, *on_disk: dict[str, str]
) -> Iterator[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]:
    """What makes the partitions equal to the folders of benchmarks and the files of systems, in this order."""
    for definition, names in zip((benchmarks, systems), on_disk, strict=True):
        known = set(instance.get_dynamic_partitions(definition.name or ""))
        if new := sorted(names.keys() - known):
            yield definition.build_add_request(new)
        if gone := sorted(known - names.keys()):
            yield definition.build_delete_request(gone)


def know_partitions(instance: dg.DagsterInstance, *on_disk: dict[str, str]) -> None:
    """Adds the partitions of folders and files that came while no sensor looked.

    A request for an unknown partition fails the whole tick, of every pair, and a tick that failed is not tried again.
    """
    for change in partition_changes(instance, *on_disk):
        if isinstance(change, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(change.partitions_def_name, list(change.partition_keys))
