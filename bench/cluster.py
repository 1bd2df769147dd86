"""Several machines on this one: a demonstration, throughput by the number of workers, and what is lost when parts die.

    .venv-cluster/bin/python bench/cluster.py demo|throughput|kills

Postgres, Redis, Dagster's services and workers in namespaces of their own, with the files of deploy/celery, as
tests/cluster starts them. The mock server answers each question after 200 ms, and each evaluation has four in flight.

- demo: conversions and evaluations on two machines, a line a second; one machine is killed, and the other finishes.
- throughput: four evaluations of 400 questions with 1, 2 and 4 workers of one run each, from the first start to the
  last end.
- kills: an evaluation of 300 questions for each part that dies at its 60th answer; how long it took in the end, and
  which answers were lost, doubled or asked again.

Nothing here is a limit of a test: machines differ. The ratios are what to look at.
"""

import argparse
import contextlib
import importlib.util
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # the mock server belongs to the examples

from examples.mock_server.process import RunningServer, mock_rag_server  # noqa: E402
from tests.cluster.local_cluster import (  # noqa: E402
    LocalCluster,
    cluster_folder,
    end_with_signals,
    made_workspace,
    missing_programs,
)

LATENCY_MS = 200.0
KILLED_AT = 60  # answers
Running = tuple[LocalCluster, RunningServer]
AWAY_S = {"redis": 4.0, "postgres": 8.0}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("part", nargs="?", choices=PARTS, help="all three if it is not given")
    given = arguments.parse_args()
    missing = missing_programs()
    if importlib.util.find_spec("dagster_celery") is None:
        missing.append("dagster-celery (make .venv-cluster/.browser, and start this with .venv-cluster/bin/python)")
    if missing:
        print(f"bench/cluster.py is left out; not installed: {', '.join(missing)}")
        return
    end_with_signals()
    for name in [given.part] if given.part else PARTS:
        PARTS[name]()


@contextlib.contextmanager
def running(machines: list[str], benchmarks: dict[str, int], systems: list[str]) -> Iterator[Running]:
    with cluster_folder() as folder, mock_rag_server(canned=True, latency_ms=LATENCY_MS) as server:
        root = folder / "workspace"
        made_workspace(root, server, benchmarks=benchmarks, systems=systems)
        with LocalCluster(folder, root) as cluster:
            cluster.start_all(machines)
            yield cluster, server


# --- The demonstration


def demo() -> None:
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:4.0f} s  {text}", flush=True)

    say("starting Postgres, Redis, code location, webserver, daemon and the machines m1 and m2")
    with running(["m1", "m2"], {"harbour": 300, "lights": 60, "tides": 60}, ["chat", "other-chat"]) as (cluster, _):
        say(f"all is up; Dagster's UI is at {cluster.url} while this runs")
        watch(cluster, say, cluster.launch("convert", "harbour", "lights", "tides"))
        evaluations = cluster.launch("evaluate", "harbour|chat", "lights|other-chat")
        watch(cluster, say, evaluations, lambda: most_answers(cluster) >= KILLED_AT)
        killed = cluster.machine_of(evaluations[0])
        cluster.kill_machine(killed)
        say(f"KILLED the machine {killed}, in the middle of harbour|chat")
        watch(cluster, say, evaluations)
        for run in cluster.runs():
            where = cluster.machine_of(run["runId"])
            say(f"{run['jobName']:9} {run['tags']['dagster/partition']:18} on {where}: {run['status']}")
        for name, ids in cluster.answers().items():
            say(f"{name}: {len(ids)} answers to {len(set(ids))} questions")


def watch(
    cluster: LocalCluster, say: Callable[[str], None], ids: list[str], until: Callable[[], bool] = lambda: False
) -> None:
    """Print what runs where, once a second, until all runs have succeeded or `until` says so."""
    while not (until() or cluster.succeeded(ids)):
        runs = [run for run in cluster.runs() if run["status"] not in ("SUCCESS", "FAILURE")]
        texts = []
        for run in runs:
            [where, *_] = cluster.machines_of(run["runId"]) or [run["status"].lower()]
            texts.append(f"{run['jobName']} {run['tags']['dagster/partition']} {where}")
        say(f"{', '.join(texts) or 'nothing runs'}; {sum(map(len, cluster.answers().values()))} answers")
        time.sleep(1)


def most_answers(cluster: LocalCluster) -> int:
    return max((len(ids) for ids in cluster.answers().values()), default=0)


# --- Throughput


def throughput() -> None:
    systems = [f"chat{n}" for n in range(4)]
    seconds: dict[int, float] = {}
    with running(["m1"], {"load": 400}, systems) as (cluster, _):
        cluster.wait_done(cluster.launch("convert", "load"))
        for workers in (1, 2, 4):
            for number in range(1, workers + 1):
                if f"m{number}" not in cluster.processes:
                    cluster.start_machine(f"m{number}")
                    cluster.wait_machine(f"m{number}")
            runs = cluster.wait_done(cluster.launch("evaluate", *(f"load|{system}" for system in systems)))
            runs = sorted((run for run in runs if run["jobName"] == "evaluate"), key=lambda run: run["startTime"])[-4:]
            seconds[workers] = max(run["endTime"] for run in runs) - runs[0]["startTime"]
            mean = sum(run["endTime"] - run["startTime"] for run in runs) / len(runs)
            print(
                f"{workers} workers: {seconds[workers]:6.1f} s, {seconds[1] / seconds[workers]:.2f} times one worker, "
                f"a run {mean:.1f} s, processor load {psutil.getloadavg()[0]:.1f}",
                flush=True,
            )


# --- What dies


def kills() -> None:
    print(f"{'what':34} {'done after':>10} {'lost':>5} {'doubled':>8} {'asked again':>12}  runs")
    with running(["m1", "m2"], {"load": 300}, ["chat"]) as (cluster, server):
        cluster.wait_done(cluster.launch("convert", "load"))
        for name, act in KILLS.items():
            before = set(cluster.answers())
            server.reset()
            [run] = cluster.launch("evaluate", "load|chat")
            cluster.wait("answers", lambda before=before: len(newest(cluster, before)) >= KILLED_AT)
            began = time.monotonic()
            act(cluster, run)
            cluster.wait_done([run])
            took = time.monotonic() - began
            ids = newest(cluster, before)
            statuses = Counter(
                one["status"] for one in cluster.runs() if run in (one["runId"], one["tags"].get("dagster/root_run_id"))
            )
            print(
                f"{name:34} {took:8.0f} s {300 - len(set(ids)):5} {len(ids) - len(set(ids)):8} "
                f"{server.counts(by_question=False)['questions'] - 300:12}  {dict(statuses)}",
                flush=True,
            )
            for machine in {"m1", "m2"} - cluster.processes.keys():
                cluster.start_machine(machine)
                cluster.wait_machine(machine)


def newest(cluster: LocalCluster, before: set[str]) -> list[str]:
    """Return the questions of all evaluations that were not there before."""
    return [query for name, ids in cluster.answers().items() if name not in before for query in ids]


def kill_child(cluster: LocalCluster, run: str) -> None:
    below = psutil.Process(cluster.processes[cluster.machine_of(run)].pid).children(recursive=True)
    workers = {process.pid: process for process in below if "celery" in process_command(process)}
    [child, *_] = [process for process in workers.values() if process.ppid() in workers and is_forked(process)]
    child.kill()


def is_forked(process: psutil.Process) -> bool:
    """Whether a process has its parent's command, as a child of Celery's pool does."""
    return process_command(process) == process_command(process.parent())


def process_command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def kill_machine(cluster: LocalCluster, run: str) -> None:
    cluster.kill_machine(cluster.machine_of(run))


def kill_redis(cluster: LocalCluster, run: str) -> None:
    cluster.kill_service("redis")
    time.sleep(AWAY_S["redis"])
    cluster.start_redis()


def empty_redis(cluster: LocalCluster, run: str) -> None:
    assert cluster.redis("flushall") == "OK"


def stop_postgres(cluster: LocalCluster, run: str) -> None:
    cluster.kill_service("postgres")
    time.sleep(AWAY_S["postgres"])
    cluster.start_postgres()
    cluster.wait("the webserver", lambda: answers_again(cluster))


def answers_again(cluster: LocalCluster) -> bool:
    """Whether the webserver has noticed that its pooled connections are gone, which costs it a request."""
    with contextlib.suppress(AssertionError, httpx.HTTPError):
        return bool(cluster.runs())
    return False


KILLS: dict[str, Callable[[LocalCluster, str], None]] = {
    "nothing": lambda cluster, run: None,
    "worker's child, SIGKILL": kill_child,
    "machine, SIGKILL": kill_machine,
    "Redis, SIGKILL, back after 4 s": kill_redis,
    "Redis, emptied": empty_redis,
    "Postgres, SIGQUIT, back after 8 s": stop_postgres,
}
PARTS = {"demo": demo, "throughput": throughput, "kills": kills}

if __name__ == "__main__":
    main()
