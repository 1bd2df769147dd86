"""Runs and ticks of two machines whose workspace is in a store (a folder here; tests/cluster has S3)."""

import json
from pathlib import Path

import dagster as dg
import pytest

from rag_eval_pipeline.defs import sensors
from rag_eval_pipeline.defs.partitions import pair_key
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.storage.store import FolderStore
from rag_eval_pipeline.workspace import STORE_VARIABLE, Workspace

PAIR = pair_key("cairnmoor-observatory", "embedded")


@pytest.fixture
def store(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStore:
    """A store with the converted benchmarks."""
    store = FolderStore(tmp_path / "store")
    for file in workspace.root.rglob("*"):
        if file.is_file() and not file.name.endswith(".lock"):
            store.put(file.relative_to(workspace.root).as_posix(), file.read_bytes(), replaces=None)
    monkeypatch.setenv(STORE_VARIABLE, store.url)
    monkeypatch.setenv("RAG_EVAL_LEASE_SECONDS", "3600")  # no renewal, however busy the machine is
    return store


def requested(instance: dg.DagsterInstance, machine: Path) -> set[str]:
    resources = {"workspace": WorkspaceResource(root=str(machine))}
    context = dg.build_sensor_context(instance=instance, resources=resources)
    return {str(request.partition_key) for request in sensors.workspace_sensor(context).run_requests or ()}


def test_a_run_fetches_before_and_puts_after_and_other_machines_see_it(
    store: FolderStore, run, resources, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    resources["workspace"] = WorkspaceResource(root=str(tmp_path / "worker"))
    before = requested(instance, tmp_path / "daemon")

    assert run("evaluate", PAIR).success
    resources["workspace"] = WorkspaceResource(root=str(tmp_path / "another worker"))
    assert run("aggregate").success

    paths = {found.path for found in store.list()}
    (pointer,) = (path for path in paths if "/by_pair/" in path)
    evaluation_id = json.loads(store.get(pointer)[0])["evaluation_id"]  # type: ignore[index]
    assert f"data/evaluation/results/{evaluation_id}.results.json" in paths
    assert "data/reports/index.html" in paths
    assert any(path.startswith("data/reports/pages/") for path in paths)  # drawn from PDFs of the store
    assert before - requested(instance, tmp_path / "daemon") == {str(PAIR)}
    leases = {found.path: json.loads(store.get(found.path)[0]) for found in store.list("leases")}  # type: ignore[index]
    assert {path: (body["serial"], body["term"]) for path, body in leases.items()} == {
        "leases/pair/cairnmoor-observatory/embedded.json": (1, 0.0),  # one lease for all steps, given back
        "leases/reports.json": (1, 0.0),
    }


def test_a_run_whose_pair_is_held_elsewhere_fails_in_one_line(
    store: FolderStore, run, resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag_eval_pipeline.storage import lease

    resources["workspace"] = WorkspaceResource(root=str(tmp_path / "worker"))
    held = lease.Lease(store, "pair/cairnmoor-observatory/embedded", "evaluate", term=60)
    held.acquire()
    monkeypatch.setattr(lease.Lease.acquire, "__defaults__", (0.0,))

    result = run("evaluate", PAIR)

    failure = result.failure_data_for_node("responses")
    assert failure.user_failure_data.description.startswith("pair/cairnmoor-observatory/embedded has been in use for")
    held.release()
