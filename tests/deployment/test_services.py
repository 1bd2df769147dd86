"""The services of compose.yaml start as it says, find each other, keep UTC, and end so that runs can go on."""

import shutil
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import dagster as dg
import psutil
import pytest

from tests.conftest import REPOSITORY
from tests.deployment.services import Services

pytestmark = pytest.mark.ui

PAGES = 2000  # minutes of rendering: it is still going on when the signal comes
SLOW = """name: slow
title: Many pages
version: 1.0.0
license: Apache-2.0
released: 2025-01-01
source: {path: questions.csv}
questions: "SELECT question, 'yes' AS answer, [{document: name}] AS contexts FROM source"
documents: "SELECT name, html FROM source ORDER BY name"
"""
LOCATION = {"repositoryName": "__repository__", "repositoryLocationName": "rag_eval_pipeline"}
LOCATIONS = """{ workspaceOrError { ... on Workspace { locationEntries { name loadStatus
    locationOrLoadError { __typename } } } } }"""
DAEMONS = "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy required } } } }"
TICKS = """query ($selector: ScheduleSelector!, $cursor: Float) { scheduleOrError(scheduleSelector: $selector) {
    ... on Schedule { futureTicks(cursor: $cursor, limit: 3) { results { timestamp } } } } }"""
RUNS = "{ runsOrError { ... on Runs { results { runId jobName status } } } }"

# Clocks go forward or back in the night between the first and the second of these days.
CHANGES = {
    "european_spring": datetime(2026, 3, 28, tzinfo=UTC),
    "european_autumn": datetime(2026, 10, 24, tzinfo=UTC),
    "american_spring": datetime(2026, 3, 7, tzinfo=UTC),
    "american_autumn": datetime(2026, 10, 31, tzinfo=UTC),
}


class Life(NamedTuple):
    """What was seen from the services' start to their end."""

    unhealthy: dict[str, tuple[int, str]]  # before the start: exit code and what was said
    locations: list[dict[str, Any]]
    daemons: list[str]
    live: int  # exit code of the daemon's health check
    nights: dict[str, list[datetime]]
    listeners: set[str]
    exit_codes: dict[str, int]
    left: list[int]
    code_log: str
    journal: str
    statuses: dict[str, dg.DagsterRunStatus]
    events: dict[str, list[str]]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """One start and one stop, in the middle of a run, with a run in the books that an earlier server had lost."""
    folder = tmp_path_factory.mktemp("deployment")
    workspace = folder / "workspace"
    shutil.copytree(REPOSITORY / "data" / "config", workspace / "data" / "config")
    slow = workspace / "data" / "sources" / "slow"
    slow.mkdir(parents=True)
    (slow / "benchmark.yaml").write_text(SLOW)
    rows = [f"Is this page {n}?,page-{n},<p>This is page {n}.</p>" for n in range(PAGES)]
    (slow / "questions.csv").write_text("\n".join(["question,name,html", *rows]))
    services = Services(folder, workspace)
    lost = _begin_run(services, dg.DagsterRunStatus.STARTED)
    waiting = _begin_run(services, dg.DagsterRunStatus.NOT_STARTED)
    checks = {name: services.health(name) for name in ("code", "webserver")}
    try:
        services.start("code")
        services.wait_healthy("code")
        services.start("daemon", TZ="Europe/Berlin")
        services.start("webserver", TZ="America/New_York")
        services.wait_healthy("webserver")
        locations = services.ask(LOCATIONS)["locationEntries"]
        nights = {name: _nights(services, before) for name, before in CHANGES.items()}
        listeners = _listeners(services)
        daemons = services.wait("its daemons", lambda: _daemons(services))
        live = services.health("daemon")
        journal = workspace / "data" / "datasets" / "slow" / ".steps" / "corpus.journal"
        services.wait("a run that renders", lambda: journal.is_file() and journal.stat().st_size > 0)
        [convert] = [run for run in services.ask(RUNS)["results"] if run["jobName"] == "convert"]
    finally:
        exit_codes = services.stop_all()
    runs = {"lost": lost, "waiting": waiting, "convert": convert["runId"]}
    with _instance(services) as instance:
        statuses = {name: instance.get_run_by_id(run_id).status for name, run_id in runs.items()}
        events = {name: [entry.message for entry in instance.all_logs(run_id)] for name, run_id in runs.items()}
    return Life(
        unhealthy={name: (check.returncode, check.stderr) for name, check in checks.items()},
        locations=locations, daemons=daemons, live=live.returncode, nights=nights, listeners=listeners, exit_codes=exit_codes,
        left=services.family(), code_log=services.log("code").read_text(), journal=journal.read_text(),
        statuses=statuses, events=events,
    )  # fmt: skip


def _instance(services: Services) -> dg.DagsterInstance:
    return dg.DagsterInstance.from_config(str(services.home))


def _begin_run(services: Services, status: dg.DagsterRunStatus) -> str:
    @dg.job
    def anything():
        pass

    with _instance(services) as instance:
        return instance.create_run_for_job(anything, status=status).run_id


def _listeners(services: Services) -> set[str]:
    found = set()
    for pid in services.family():
        for connection in psutil.Process(pid).net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                found.add(connection.laddr.ip.removeprefix("::ffff:"))  # gRPC's sockets speak both versions of IP
    return found


def _daemons(services: Services) -> list[str] | None:
    """The daemons that this instance needs, once all of them are alive."""
    found = [daemon for daemon in services.ask(DAEMONS)["daemonHealth"]["allDaemonStatuses"] if daemon["required"]]
    return [daemon["daemonType"] for daemon in found] if all(daemon["healthy"] for daemon in found) else None


def _nights(services: Services, before: datetime) -> list[datetime]:
    selector = {**LOCATION, "scheduleName": "nightly"}
    ticks = services.ask(TICKS, selector=selector, cursor=before.timestamp())["futureTicks"]["results"]
    return [datetime.fromtimestamp(tick["timestamp"], UTC) for tick in ticks]


@pytest.mark.parametrize("service", ["code", "webserver"])
def test_the_health_check_of_a_service_that_is_not_there_says_so_on_one_line(life: Life, service: str):
    code, said = life.unhealthy[service]

    assert code == 1
    assert said.startswith(f"{service}: ")
    assert said.count("\n") == 1


def test_the_webserver_loads_the_code_from_its_server(life: Life):
    [location] = life.locations

    assert location["name"] == "rag_eval_pipeline"
    assert location["locationOrLoadError"]["__typename"] == "RepositoryLocation"


def test_every_daemon_is_alive(life: Life):
    assert {"SENSOR", "SCHEDULER", "QUEUED_RUN_COORDINATOR", "MONITORING", "EVENT_LOG_CONSUMER"} <= set(life.daemons)
    assert life.live == 0


def test_nothing_listens_but_on_the_addresses_that_it_was_given(life: Life):
    assert life.listeners == {"127.0.0.1"}


@pytest.mark.parametrize("change", CHANGES)
def test_the_night_is_at_two_utc_where_clocks_change(life: Life, change: str):
    before = CHANGES[change]

    assert life.nights[change] == [before + timedelta(days=n, hours=2) for n in range(3)]


def test_all_services_end_when_told(life: Life):
    assert life.exit_codes == {"code": 0, "webserver": 0, "daemon": 0}
    assert life.left == []


def test_a_run_is_interrupted_and_not_killed_so_that_it_goes_on_at_the_next_start(life: Life):
    assert life.statuses["convert"] == dg.DagsterRunStatus.FAILURE
    assert "DagsterExecutionInterruptedError" in life.code_log
    assert life.journal.count("\n") > 0


def test_a_run_that_an_earlier_server_lost_is_told_to_have_failed(life: Life):
    assert life.statuses["lost"] == dg.DagsterRunStatus.FAILURE
    assert "The code server that this run was a part of has ended." in life.events["lost"]


def test_a_run_that_has_not_begun_is_left_alone(life: Life):
    assert life.statuses["waiting"] == dg.DagsterRunStatus.NOT_STARTED
