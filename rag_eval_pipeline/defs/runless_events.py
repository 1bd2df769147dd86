"""What was made without Dagster, by `rag-eval` or before the instance was there: reported to it as materialized.

Otherwise these partitions would be shown as missing, and a backfill of what is missing would ask every question again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import dagster as dg

from rag_eval_pipeline.defs.conversion import ROWS
from rag_eval_pipeline.defs.evaluation import METRICS
from rag_eval_pipeline.defs.metadata import ROW_COUNT, labelled, numbers, report_link
from rag_eval_pipeline.defs.partitions import pair_key
from rag_eval_pipeline.workspace import Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.evaluation.expected_pairs import Registry
    from rag_eval_pipeline.monitoring.history import ResultsHeader

MAX_PER_TICK = 100  # partitions; Dagster stores six events of each, and ends a sensor that takes 60 s
DATA_VERSION = "dagster/data_version"  # Dagster's own


class Made(NamedTuple):
    """A partition whose files are there."""

    written: int  # when the last of them was, in nanoseconds since 1970
    partition: str
    last: str  # the asset that is made last
    events: Callable[[], Iterable[dg.AssetMaterialization]]  # in the order in which the assets are made


def unreported(
    instance: dg.DagsterInstance, made: Iterable[Made], *, since: int, busy: Collection[str]
) -> tuple[list[dg.AssetMaterialization], int]:
    """Return the materializations of what was written after those that Dagster has, and until when all are reported.

    Args:
        since: What the last call returned, 0 at first.
        busy: Partitions with an unfinished run, which reports itself what it makes.
    """
    made = sorted(one for one in made if one.written > since)
    known = {last: instance.get_materialized_partitions(dg.AssetKey(last)) for last in {one.last for one in made}}
    new = [
        one
        for one in made
        if one.partition not in busy
        and not (one.partition in known[one.last] and _last_reported(instance, one) >= one.written)
    ]
    waiting = [one.written for one in made if one.partition in busy]
    waiting += [one.written for one in new[MAX_PER_TICK:]]
    until = min(waiting) - 1 if waiting else max((one.written for one in made), default=since)
    return [event for one in new[:MAX_PER_TICK] for event in one.events()], until


def _last_reported(instance: dg.DagsterInstance, made: Made) -> int:
    wanted = dg.AssetRecordsFilter(dg.AssetKey(made.last), asset_partitions=[made.partition])
    records = instance.fetch_materializations(wanted, limit=1).records
    return int(records[0].timestamp * 1e9) if records else 0


def made_conversions(workspace: Workspace, registry: "Registry") -> Iterator[Made]:
    """Yield the benchmarks that are converted."""
    for name, written in registry.stamped.items():
        yield Made(written, name, "ground_truth", partial(_conversion, workspace, registry, name))


def _conversion(workspace: Workspace, registry: "Registry", name: str) -> Iterator[dg.AssetMaterialization]:
    from rag_eval_pipeline.conversion.stamp import StepRecord

    stamp = registry.stamps[name]
    versions = {"evaluation_dataset": stamp.dataset_fingerprint, "ground_truth": stamp.fingerprint}
    for step, rows in ROWS.items():
        path = workspace.benchmark(name).steps / f"{step}.json"
        counts = StepRecord.read(path).counts if path.exists() else {rows: 0}
        yield _event(step, name, {**numbers(counts), ROW_COUNT: counts[rows]}, versions.get(step))


def made_evaluations(workspace: Workspace, registry: "Registry", *, since: int) -> Iterator[Made]:
    """Yield the pairs whose newest results were written later than a time."""
    from rag_eval_pipeline.monitoring.history import read_history

    written = {path.name: path.stat().st_mtime_ns for path in workspace.results.glob("eval_run_*.results.json")}
    if max(written.values(), default=0) <= since:
        return
    for (benchmark, system), headers in read_history(workspace).by_pair.items():
        at = written.get(workspace.results_file(headers[-1].evaluation_id).name, 0)
        if benchmark in registry.stamps and system in registry.systems:
            events = partial(_evaluation, workspace, headers[-1])
            yield Made(at, pair_key(benchmark, system), "evaluation_results", events)


def _evaluation(workspace: Workspace, header: "ResultsHeader") -> Iterator[dg.AssetMaterialization]:
    from rag_eval_pipeline.evaluation.evaluation_folders import PARTS
    from rag_eval_pipeline.monitoring.summary_lines import results_headline

    name = header.evaluation_id
    of_results = {
        "headline": dg.MetadataValue.md(results_headline(workspace, name)),
        "report": report_link(workspace, f"runs/{name}/index.html"),
        "path": dg.MetadataValue.path(workspace.results_file(name)),
    }
    for asset in PARTS:
        level = "document" if asset == "retrieval_scores" else None  # results have that of the system
        means = labelled({metric: header.metric(metric, level=level).value for metric in METRICS.get(asset, ())})
        further = of_results if asset == "evaluation_results" else {}
        metadata = {**further, **means, "evaluation_id": name, ROW_COUNT: header.questions}
        yield _event(asset, pair_key(header.benchmark, header.system), metadata, name)


def _event(asset: str, partition: str, metadata: Mapping[str, Any], version: str | None) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(asset, None, metadata, partition, {DATA_VERSION: version} if version else {})
