"""Nights that nobody was there for: the real daemon after days without it, after a restart, and after clocks have moved.

What a daemon knows of the past is in its instance, so days pass by moving what it has written down there.
"""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
import pytest
import yaml

from tests.deployment.services import Services

pytestmark = pytest.mark.ui

DAY = timedelta(days=1)
HELD = {"concurrency": {"runs": {"max_concurrent_runs": 0}}}  # runs are asked for, counted, and never begun
PAIRS = [
    f"{benchmark}|{system}"
    for benchmark in ("cairnmoor-observatory", "skarn-railway")
    for system in ("embedded", "embedded-weak")
]


class Daemon:
    """A daemon with its code location, and the books of its instance."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.instance = dg.DagsterInstance.from_config(str(services.home))

    def once(self, ticked: Callable[[], Any]) -> None:
        """Starts it, waits until it has done something, and stops it."""
        self.services.start("daemon")
        self.services.wait("the daemon", ticked)
        assert self.services.stop("daemon") == 0

    @property
    def state(self) -> Any:
        """What it has written down of the schedule `nightly`, None before it has."""
        states = [state for state in self.instance.all_instigator_state() if state.instigator_name == "nightly"]
        return states[0] if states else None

    @property
    def ticks(self) -> list[Any]:
        """The evaluations of `nightly`, newest first."""
        return list(self.instance.get_ticks(self.state.instigator_origin_id, self.state.selector_id))

    def nights(self) -> dict[str, list[str]]:
        """Night -> pairs that were asked for."""
        found: dict[str, list[str]] = {}
        for run in self.instance.get_runs():
            if night := run.tags.get("night"):
                found.setdefault(night, []).append(run.tags["dagster/partition"])
        return {night: sorted(pairs) for night, pairs in found.items()}

    def books(self) -> "Seen":
        """What stands written now."""
        return Seen([datetime.fromtimestamp(tick.timestamp, UTC) for tick in self.ticks], self.nights())

    def move(self, *, begun: datetime, looked: datetime | None = None) -> None:
        """Writes that the schedule was switched on, and last looked at, at other times."""
        data = self.state.instigator_data
        moved = data._replace(
            start_timestamp=begun.timestamp(), last_iteration_timestamp=looked.timestamp() if looked else None
        )
        self.instance.update_instigator_state(self.state.with_data(moved))

    def has_looked_since(self, then: datetime) -> bool:
        """Whether it has written down that it looked at the schedule."""
        looked = self.state.instigator_data.last_iteration_timestamp
        return looked is not None and looked > then.timestamp()


def last_night() -> datetime:
    """The last 02:00 UTC."""
    now = datetime.now(UTC)
    two = now.replace(hour=2, minute=0, second=0, microsecond=0)
    return two if two <= now else two - DAY


class Seen(NamedTuple):
    """The books after a stage: when `nightly` was evaluated for, newest first, and what was asked for by night."""

    ticks: list[datetime]
    nights: dict[str, list[str]]


@pytest.fixture(scope="module")
def seen(_converted: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """One daemon after another on a workspace with two converted benchmarks; what each had done when it ended."""
    folder = tmp_path_factory.mktemp("nights")
    workspace = folder / "workspace"
    shutil.copytree(_converted, workspace, symlinks=True)
    services = Services(folder, workspace)
    settings = services.home / "dagster.yaml"
    settings.write_text(yaml.safe_dump(yaml.safe_load(settings.read_text()) | HELD))
    daemon = Daemon(services)
    three_nights_ago = last_night() - 2 * DAY - timedelta(hours=1)
    seen = {}
    try:
        services.start("code")
        services.wait_healthy("code")
        daemon.once(lambda: daemon.state and daemon.instance.get_dynamic_partitions("systems"))
        seen["first start"] = daemon.books()

        daemon.move(begun=three_nights_ago)
        daemon.once(lambda: daemon.ticks and daemon.ticks[0].status.value == "SUCCESS")
        seen["three days off"] = daemon.books()

        restarted = datetime.now(UTC)
        daemon.move(begun=three_nights_ago)
        daemon.once(lambda: daemon.has_looked_since(restarted))
        seen["restart"] = daemon.books()

        [tick] = daemon.ticks
        forgotten = datetime.now(UTC)
        daemon.instance.purge_ticks(
            daemon.state.instigator_origin_id, daemon.state.selector_id, before=forgotten.timestamp()
        )
        daemon.move(begun=three_nights_ago)
        daemon.once(lambda: daemon.ticks and daemon.ticks[0].status.value != "STARTED")
        seen["forgotten tick"] = daemon.books()

        tomorrow = (last_night() + DAY).timestamp()
        daemon.instance.create_tick(tick.tick_data._replace(timestamp=tomorrow))  # by a clock that was a day ahead
        back = datetime.now(UTC)
        daemon.move(begun=three_nights_ago)
        daemon.once(lambda: daemon.has_looked_since(back))
        seen["clock put back"] = daemon.books()
    finally:
        services.stop_all()
        daemon.instance.dispose()
    return seen


NIGHT = {f"{last_night():%Y-%m-%d}": PAIRS}


def test_a_first_start_asks_for_no_night_before_it(seen: dict[str, Seen]):
    assert seen["first start"] == Seen([], {})


def test_three_missed_nights_are_made_up_for_by_the_last_of_them(seen: dict[str, Seen]):
    assert seen["three days off"] == Seen([last_night()], NIGHT)


def test_a_restart_asks_for_nothing_again(seen: dict[str, Seen]):
    assert seen["restart"] == seen["three days off"]


def test_a_night_that_is_evaluated_twice_is_asked_for_once(seen: dict[str, Seen]):
    assert seen["forgotten tick"] == Seen([last_night()], NIGHT)


def test_a_clock_that_was_ahead_and_is_put_back_asks_for_no_night_again(seen: dict[str, Seen]):
    assert seen["clock put back"] == Seen([last_night() + DAY, last_night()], NIGHT)
