"""Two teams' workspaces with one Postgres server and one Redis: each run is executed where its workspace is."""

from pathlib import Path

from examples.mock_server.process import mock_rag_server
from tests.cluster.local_cluster import LocalCluster, made_workspace


def test_runs_of_two_workspaces_go_to_their_own_workers_and_a_shared_database_is_refused(folder: Path):
    with mock_rag_server(canned=True) as server:
        one, two = folder / "one", folder / "two"
        for team in (one, two):
            made_workspace(team / "workspace", server, benchmarks=dict.fromkeys("abc", 5), systems=["chat"])
        with (
            LocalCluster(one, one / "workspace") as first,
            LocalCluster(two, two / "workspace", beside=first) as second,
        ):
            first.start_all(["m1"])
            second.start_all(["m2"])
            # Both workers wait. Redis gives each task of a queue to the one that has waited longest.
            first.wait_done(first.launch("convert", *"abc"))
            second.wait_done(second.launch("convert", "a"))
            second.wait_done(second.launch("evaluate", "a|chat"))
            converted = [len(list((team / "workspace" / "data" / "datasets").iterdir())) for team in (one, two)]
            statuses = [run["status"] for cluster in (first, second) for run in cluster.runs()]

            second.environment["DAGSTER_POSTGRES_URL"] = first.environment["DAGSTER_POSTGRES_URL"]
            second.kill_machine("code")
            second.start("code")
            refused = second.processes["code"].wait(60), second.log("code").read_text()

    assert converted == [3, 1]
    assert statuses == ["SUCCESS"] * 5
    assert refused[0] == 2
    assert f"expected a Dagster instance of {two / 'workspace'} or a new one" in refused[1]
