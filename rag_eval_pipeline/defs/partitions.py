"""Benchmarks, systems, and pairs of them. The folders are the truth; a sensor makes the partitions equal to them."""

from collections.abc import Collection, Iterator

import dagster as dg

benchmarks = dg.DynamicPartitionsDefinition(name="benchmarks")
systems = dg.DynamicPartitionsDefinition(name="systems")
corpus_shard_keys = dg.DynamicPartitionsDefinition(name="corpus_shards")
pairs = dg.MultiPartitionsDefinition({"benchmark": benchmarks, "system": systems})

PARTITION_TAG = "dagster/partition"  # Dagster's own, on every run of one partition


def pair_key(benchmark: str, system: str) -> dg.MultiPartitionKey:
    """Return the partition key of a pair."""
    return dg.MultiPartitionKey({"benchmark": benchmark, "system": system})


def pair_names(context: dg.AssetExecutionContext | dg.OpExecutionContext) -> tuple[str, str]:
    """Return the benchmark and the system of a run's partition."""
    key = context.partition_key
    assert isinstance(key, dg.MultiPartitionKey)
    return key.keys_by_dimension["benchmark"], key.keys_by_dimension["system"]


def partition_changes(
    instance: dg.DagsterInstance, *on_disk: dict[str, str], busy: Collection[str] = ()
) -> Iterator[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]:
    """Yield what makes the partitions equal to the folders of benchmarks and the files of systems, in this order.

    Args:
        busy: Names that are kept without a folder or file: Dagster ends a run whose partition is gone with a traceback.
    """
    for definition, names in zip((benchmarks, systems), on_disk, strict=True):
        known = set(instance.get_dynamic_partitions(definition.name or ""))
        if new := sorted(names.keys() - known):
            yield definition.build_add_request(new)
        if gone := sorted(known - names.keys() - set(busy)):
            yield definition.build_delete_request(gone)


def add_missing_partitions(instance: dg.DagsterInstance, *on_disk: dict[str, str]) -> None:
    """Add the partitions of new folders and files: a request for an unknown one fails the whole tick."""
    for change in partition_changes(instance, *on_disk):
        if isinstance(change, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(change.partitions_def_name, list(change.partition_keys))
