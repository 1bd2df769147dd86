"""Jobs on a workspace and an instance in memory."""

from collections.abc import Iterator

import dagster as dg
import pytest

from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs.partitions import benchmarks, systems
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.workspace import Workspace


@pytest.fixture
def resources(workspace: Workspace) -> dict[str, WorkspaceResource]:
    return {"workspace": WorkspaceResource(root=str(workspace.root))}


@pytest.fixture
def instance(revisions_read_once: None) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def run(workspace, instance, resources):
    """Runs a job; the benchmarks and systems of the workspace have their partitions."""
    instance.add_dynamic_partitions(benchmarks.name, [*workspace.benchmarks(), "broken"])
    instance.add_dynamic_partitions(systems.name, [*workspace.systems(), "nobody"])

    def execute(job, partition=None, config=None, tags=None):
        return defs.resolve_job_def(job).execute_in_process(
            instance=instance, partition_key=partition, run_config=config or {}, tags=tags, resources=resources,
            raise_on_error=False,
        )  # fmt: skip

    return execute
