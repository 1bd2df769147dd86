"""The services of compose.yaml start, find each other, keep UTC, catch up on missed nights, and end.

One code server serves two daemons, one after the other. A daemon knows the past from its instance, so days pass by
changing what the instance recorded.
"""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
import psutil
import pytest
import yaml

from tests.conftest import CONVERTED
from tests.deployment.services import LOCATION, Services, retry_of, run_worker

pytestmark = pytest.mark.ui

PAGES = 2000  # minutes of rendering, so that it is still going on when the signal comes
SLOW = """name: slow
title: Many pages
version: 1.0.0
license: Apache-2.0
source: {path: questions.csv}
questions: "SELECT question, 'yes' AS answer, [{document: name}] AS contexts FROM source"
documents: "SELECT name, html FROM source ORDER BY name"
"""
LOCATIONS = """{ workspaceOrError { ... on Workspace { locationEntries { name loadStatus
    locationOrLoadError { __typename } } } } }"""
DAEMONS = "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy required } } } }"
TICKS = """query ($selector: ScheduleSelector!, $cursor: Float) { scheduleOrError(scheduleSelector: $selector) {
    ... on Schedule { futureTicks(cursor: $cursor, limit: 3) { results { timestamp } } } } }"""
RUNS = "{ runsOrError { ... on Runs { results { runId jobName status } } } }"
DAY = timedelta(days=1)
NO_RUNS = {"concurrency": {"runs": {"max_concurrent_runs": 0}}}  # runs are requested and queued, and never started
PAIRS = sorted(f"{benchmark}|{system}" for benchmark in CONVERTED for system in ("embedded", "embedded-weak"))

# Clocks go forward or back in the night between the first and the second of these days.
CHANGES = {
    "european_spring": datetime(2026, 3, 28, tzinfo=UTC),
    "european_autumn": datetime(2026, 10, 24, tzinfo=UTC),
    "american_spring": datetime(2026, 3, 7, tzinfo=UTC),
    "american_autumn": datetime(2026, 10, 31, tzinfo=UTC),
}


def last_night() -> datetime:
    """Return the last 02:00 UTC."""
    now = datetime.now(UTC)
    two = now.replace(hour=2, minute=0, second=0, microsecond=0)
    return two if two <= now else two - DAY


class Nights(NamedTuple):
    """The nights for which `nightly` was evaluated, newest first, and the pairs that were requested by night."""

    ticks: list[datetime]
    requested: dict[str, list[str]]


class Nightly:
    """What an instance records of the schedule `nightly`."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance

    @property
    def state(self) -> Any:
        """The state of the schedule; None before a daemon has seen it."""
        states = [state for state in self.instance.all_instigator_state() if state.instigator_name == "nightly"]
        return states[0] if states else None

    @property
    def ticks(self) -> list[Any]:
        """The evaluations, newest first."""
        return list(self.instance.get_ticks(self.state.instigator_origin_id, self.state.selector_id))

    def recorded(self) -> Nights:
        """Return the nights so far."""
        requested: dict[str, list[str]] = {}
        for run in self.instance.get_runs():
            if night := run.tags.get("night"):
                requested.setdefault(night, []).append(run.tags["dagster/partition"])
        ticks = [datetime.fromtimestamp(tick.timestamp, UTC) for tick in self.ticks]
        return Nights(ticks, {night: sorted(pairs) for night, pairs in requested.items()})

    def begin_three_nights_ago(self) -> datetime:
        """Record that the schedule was switched on three nights ago and not evaluated since; return the time."""
        begun = last_night() - 2 * DAY - timedelta(hours=1)
        data = self.state.instigator_data._replace(start_timestamp=begun.timestamp(), last_iteration_timestamp=None)
        self.instance.update_instigator_state(self.state.with_data(data))
        return datetime.now(UTC)

    def was_read_since(self, then: datetime) -> bool:
        """Return whether a daemon has read the schedule since then."""
        read = self.state.instigator_data.last_iteration_timestamp
        return read is not None and read > then.timestamp()


class Seen(NamedTuple):
    """What was seen from the start of the services to their end."""

    unhealthy: dict[str, tuple[int, str]]  # before the start: exit code and standard error
    nights: dict[str, Nights]  # stage -> nights
    locations: list[dict[str, Any]]
    daemons: list[str]
    live: int  # exit code of the daemon's health check
    future: dict[str, list[datetime]]  # change of clocks -> the next nights
    listeners: set[str]
    exit_codes: dict[str, int]
    left: list[int]
    code_log: str
    killed_journal: str
    journal: str
    statuses: dict[str, dg.DagsterRunStatus]
    events: dict[str, list[str]]


@pytest.fixture(scope="module")
def seen(_converted: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Nights without a daemon, then all services, stopped in the middle of a run; an earlier server had lost a run."""
    folder = tmp_path_factory.mktemp("deployment")
    workspace = folder / "workspace"
    shutil.copytree(_converted, workspace, symlinks=True)
    services = Services(folder, workspace)
    settings = (services.home / "dagster.yaml").read_text()
    (services.home / "dagster.yaml").write_text(yaml.safe_dump(yaml.safe_load(settings) | NO_RUNS))
    instance = dg.DagsterInstance.from_config(str(services.home))
    lost = _begin_run(instance, dg.DagsterRunStatus.STARTED)
    waiting = _begin_run(instance, dg.DagsterRunStatus.NOT_STARTED)
    nightly, nights = Nightly(instance), {}
    unhealthy = {name: services.health(name) for name in ("code", "webserver")}
    try:
        services.start("code")
        services.wait_healthy("code")
        not_begun = instance.get_run_by_id(waiting).status  # a daemon ends it once `start_timeout_seconds` are over

        services.start("daemon")
        services.wait("a first start", lambda: nightly.state and instance.get_dynamic_partitions("systems"))
        nights["first start"] = nightly.recorded()
        assert services.stop("daemon") == 0

        nightly.begin_three_nights_ago()
        services.start("daemon")
        services.wait("a night", lambda: nightly.ticks and nightly.ticks[0].status.value == "SUCCESS")
        nights["three days off"] = nightly.recorded()
        assert services.stop("daemon") == 0

        [tick] = nightly.ticks
        state = nightly.state
        now = datetime.now(UTC)
        instance.purge_ticks(state.instigator_origin_id, state.selector_id, before=now.timestamp())
        nightly.begin_three_nights_ago()
        services.start("daemon", TZ="Europe/Berlin")
        services.wait("the night again", lambda: nightly.ticks and nightly.ticks[0].status.value != "STARTED")
        nights["forgotten tick"] = nightly.recorded()
        assert services.stop("daemon") == 0

        ahead = (last_night() + DAY).timestamp()
        instance.create_tick(tick.tick_data._replace(timestamp=ahead))  # by a clock that was a day ahead
        moved = nightly.begin_three_nights_ago()
        for run in instance.get_runs(dg.RunsFilter(job_name="evaluate")):
            instance.delete_run(run.run_id)
        (services.home / "dagster.yaml").write_text(settings)
        services.start("daemon", TZ="Europe/Berlin")
        services.wait("a clock put back", lambda: nightly.was_read_since(moved))
        nights["clock put back"] = nightly.recorded()

        _add_slow_benchmark(workspace)
        services.start("webserver", TZ="America/New_York")
        services.wait_healthy("webserver")
        locations = services.ask(LOCATIONS)["locationEntries"]
        future = {name: _nights_after(services, before) for name, before in CHANGES.items()}
        daemons = services.wait("its daemons", lambda: _daemons(services))
        listeners = _listeners(services)
        live = services.health("daemon")
        journal = workspace / "data" / "datasets" / "slow" / ".steps" / "corpus.journal"
        services.wait("a run that renders", lambda: journal.is_file() and journal.stat().st_size > 0)
        [convert] = [run for run in services.ask(RUNS)["results"] if run["jobName"] == "convert"]
        worker = run_worker(instance, convert["runId"])
        family = [worker, *worker.children(recursive=True)]
        worker.kill()
        services.wait_gone(family)  # its browser and its readers too
        killed_journal = journal.read_text()
        retry = services.wait("its retry", lambda: retry_of(instance, convert["runId"]))
        services.wait("more pages", lambda: len(journal.read_text()) > len(killed_journal))
    finally:
        exit_codes = services.stop_all()
    runs = {"lost": lost, "killed": convert["runId"], "interrupted": retry.run_id}
    seen = Seen(
        unhealthy={name: (check.returncode, check.stderr) for name, check in unhealthy.items()},
        nights=nights, locations=locations, daemons=daemons, live=live.returncode, future=future, listeners=listeners,
        exit_codes=exit_codes, left=services.family(), code_log=services.log("code").read_text(),
        killed_journal=killed_journal, journal=journal.read_text(),
        statuses={
            "waiting": not_begun, **{name: instance.get_run_by_id(run_id).status for name, run_id in runs.items()}
        },
        events={name: [entry.message for entry in instance.all_logs(run_id)] for name, run_id in runs.items()},
    )  # fmt: skip
    instance.dispose()
    return seen


def _begin_run(instance: dg.DagsterInstance, status: dg.DagsterRunStatus) -> str:
    @dg.job
    def anything():
        pass

    return instance.create_run_for_job(anything, status=status).run_id


def _add_slow_benchmark(workspace: Path) -> None:
    incoming = workspace / "incoming"
    incoming.mkdir()
    (incoming / "benchmark.yaml").write_text(SLOW)
    rows = [f"Is this page {n}?,page-{n},<p>This is page {n}.</p>" for n in range(PAGES)]
    (incoming / "questions.csv").write_text("\n".join(["question,name,html", *rows]))
    incoming.rename(workspace / "data" / "sources" / "slow")


def _listeners(services: Services) -> set[str]:
    found = set()
    for pid in services.family():
        for connection in psutil.Process(pid).net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                found.add(connection.laddr.ip.removeprefix("::ffff:"))  # gRPC's sockets speak both versions of IP
    return found


def _daemons(services: Services) -> list[str] | None:
    """Return the daemons that this instance needs, once all of them are alive."""
    found = [daemon for daemon in services.ask(DAEMONS)["daemonHealth"]["allDaemonStatuses"] if daemon["required"]]
    return [daemon["daemonType"] for daemon in found] if all(daemon["healthy"] for daemon in found) else None


def _nights_after(services: Services, before: datetime) -> list[datetime]:
    selector = {**LOCATION, "scheduleName": "nightly"}
    ticks = services.ask(TICKS, selector=selector, cursor=before.timestamp())["futureTicks"]["results"]
    return [datetime.fromtimestamp(tick["timestamp"], UTC) for tick in ticks]


@pytest.mark.parametrize("service", ["code", "webserver"])
def test_health_check_of_a_service_that_is_not_running_is_one_line(seen: Seen, service: str):
    code, error = seen.unhealthy[service]

    assert code == 1
    assert error.startswith(f"{service}: ")
    assert error.count("\n") == 1


NIGHT = {f"{last_night():%Y-%m-%d}": PAIRS}


@pytest.mark.fault(62, 63)
@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("first start", Nights([], {})),  # nothing before it
        ("three days off", Nights([last_night()], NIGHT)),  # only the last of the missed nights
        ("forgotten tick", Nights([last_night()], NIGHT)),  # evaluated twice, requested once
        ("clock put back", Nights([last_night() + DAY, last_night()], {})),  # the runs of before were deleted
    ],
)
@pytest.mark.fault(62)
def test_daemon_requests_each_night_once(stage: str, expected: Nights, seen: Seen):
    assert seen.nights[stage] == expected


def test_webserver_loads_the_code_from_its_server(seen: Seen):
    [location] = seen.locations

    assert location["name"] == "rag_eval_pipeline"
    assert location["locationOrLoadError"]["__typename"] == "RepositoryLocation"


def test_daemons_are_alive(seen: Seen):
    assert {"SENSOR", "SCHEDULER", "QUEUED_RUN_COORDINATOR", "MONITORING", "EVENT_LOG_CONSUMER"} <= set(seen.daemons)
    assert seen.live == 0


def test_services_listen_on_their_own_addresses_only(seen: Seen):
    assert seen.listeners == {"127.0.0.1"}


@pytest.mark.fault(63)
@pytest.mark.parametrize("change", CHANGES)
def test_nightly_is_at_two_utc_where_clocks_change(seen: Seen, change: str):
    before = CHANGES[change]

    assert seen.future[change] == [before + timedelta(days=n, hours=2) for n in range(3)]


def test_services_end_on_sigterm(seen: Seen):
    assert seen.exit_codes == {"code": 0, "webserver": 0, "daemon": 0}
    assert seen.left == []


@pytest.mark.fault(56, 57)
def test_run_whose_process_is_killed_fails_and_is_retried_where_it_ended(seen: Seen):
    assert seen.statuses["killed"] == dg.DagsterRunStatus.FAILURE
    assert "was terminated by signal 9 (SIGKILL)" in "\n".join(seen.events["killed"])
    assert seen.journal.startswith(seen.killed_journal)


@pytest.mark.fault(70)
def test_run_is_interrupted_and_not_killed_so_that_it_resumes_at_the_next_start(seen: Seen):
    assert seen.statuses["interrupted"] == dg.DagsterRunStatus.FAILURE
    assert "DagsterExecutionInterruptedError" in seen.code_log
    assert seen.journal.count("\n") > seen.killed_journal.count("\n")


@pytest.mark.fault(58)
def test_run_that_an_earlier_server_lost_is_failed_and_one_that_has_not_begun_is_left_alone(seen: Seen):
    assert seen.statuses["lost"] == dg.DagsterRunStatus.FAILURE
    assert "The code server that this run was a part of has ended." in seen.events["lost"]
    assert seen.statuses["waiting"] == dg.DagsterRunStatus.NOT_STARTED
