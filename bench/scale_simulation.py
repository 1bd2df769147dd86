"""A night of 10,000 pairs through Dagster's queue: how long it takes, against the best that its machines could do.

    python bench/scale_simulation.py [--pairs 10000] [--seed 1]

Drawn: the number of questions of each benchmark (log-normal, median 200), which of the runs lose their machine, and
when. A pair's time on a worker is the start of a run and its questions at the service's pace, 64 at once, but not
faster than this pipeline asks and scores them; the two costs are those of bench/scale_costs.json.

- Requests: the nightly schedule's runs are made one after the other. A sensor makes at most 50 a tick of 30 s.
- Queue: each interval, the daemon starts the oldest runs whose system is free, one after the other, while fewer than
  `max_concurrent_runs` are going. A started run waits for a free worker, and holds its system meanwhile.
- Deaths: a worker dies at a random moment of a run with the given probability. The run and its system are held until
  that is noticed; the worker is back after a while. The run is retried once, last in the queue, and resumes from its
  journal. A run that dies twice is lost for the night.

The ideal is the longest of: all work divided by all workers, the work of the busiest system, which is asked by one run
at a time, and the longest pair. `binds` is the limit that alone would take longest.
"""

import argparse
import heapq
import json
import random
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

COSTS = Path(__file__).with_name("scale_costs.json")
HOUR_S = 3600.0


class Pair(NamedTuple):
    """A run that is wanted: its system, and the seconds that starting and asking take on a worker."""

    system: int
    start_s: float
    work_s: float


class Setting(NamedTuple):
    """What an operator sets, and what happens to machines."""

    workers: int = 16
    max_concurrent_runs: int = 16
    interval_s: float = 1.0
    request_s: float = 0.3  # to make one run of a schedule's request: 1,200 took six minutes
    requests_a_tick: int | None = None  # of a sensor, None for the schedule
    launch_s: float = 0.05
    death_rate: float = 0.01
    detection_s: float = 30.0
    repair_s: float = 120.0


class Night(NamedTuple):
    """What came of a night: when its last run ended, runs retried and lost, and worker-seconds that deaths cost."""

    makespan_s: float
    retried: int
    lost: int
    wasted_s: float


SENSOR_TICK_S = 30.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pairs", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    print(report(given.pairs, given.seed))


def report(number: int, seed: int) -> str:
    """Return a table of nights with several settings."""
    usual = Setting()
    rows: list[tuple[str, int, Setting]] = [
        ("dagster.yaml as it is", 20, usual._replace(workers=4, max_concurrent_runs=4, interval_s=5.0)),
        ("16 workers", 20, usual),
        ("the same, no deaths", 20, usual._replace(death_rate=0.0)),
        ("the same, dequeued every 5 s", 20, usual._replace(interval_s=5.0)),
        ("the same, deaths noticed after 6 h", 20, usual._replace(detection_s=6 * HOUR_S)),
        ("64 workers, 16 runs at once", 20, usual._replace(workers=64)),
        ("64 workers, 64 runs at once", 20, usual._replace(workers=64, max_concurrent_runs=64)),
        ("the same, 100 systems", 100, usual._replace(workers=64, max_concurrent_runs=64)),
        ("the same, by a sensor", 100, usual._replace(workers=64, max_concurrent_runs=64, requests_a_tick=50)),
        ("256 workers, 100 systems", 100, usual._replace(workers=256, max_concurrent_runs=256)),
    ]
    lines = [f"{'':36}{'systems':>8}{'hours':>7}{'ideal':>7}{'ratio':>7}{'retried':>9}{'lost':>6}  binds"]
    for name, systems, setting in rows:
        pairs = draw_pairs(number, systems, seed)
        night = simulate(pairs, setting, seed)
        best = ideal_s(pairs, setting.workers)
        lines.append(
            f"{name:36}{systems:8}{night.makespan_s / HOUR_S:7.2f}{best / HOUR_S:7.2f}{night.makespan_s / best:7.2f}"
            f"{night.retried:9}{night.lost:6}  {binding(pairs, setting)}"
        )
    return "\n".join(lines)


def draw_pairs(number: int, systems: int, seed: int) -> list[Pair]:
    """Return the pairs of a night, all systems of a benchmark next to each other, as the schedule requests them."""
    costs = json.loads(COSTS.read_text())
    draw = random.Random(seed)
    latencies = [draw.uniform(0.5, 4.0) for _ in range(systems)]
    pairs = []
    for _ in range(-(-number // systems)):
        questions = min(400_000, round(draw.lognormvariate(5.3, 1.0)))
        for system, latency_s in enumerate(latencies):
            pace_s = max(latency_s / 64, costs["question_cpu_s"])
            pairs.append(Pair(system, costs["evaluate_start_s"], latency_s + questions * pace_s))
    return pairs[:number]


def ideal_s(pairs: Sequence[Pair], workers: int) -> float:
    """Return the seconds that no setting can beat with these workers and one run of a system at a time."""
    longest = max(pair.start_s + pair.work_s for pair in pairs)
    return max(_total(pairs) / workers, _chain(pairs), longest)


def binding(pairs: Sequence[Pair], setting: Setting) -> str:
    """Return which limit alone would take longest, with its hours."""
    alone = {
        "workers": _total(pairs) / setting.workers,
        "max_concurrent_runs": _total(pairs) / setting.max_concurrent_runs,
        "one run a system": _chain(pairs),
        "requests": list(_request_times(len(pairs), setting))[-1],
        "launching": len(pairs) * setting.launch_s,
    }
    if setting.workers <= setting.max_concurrent_runs:
        del alone["max_concurrent_runs"]
    name = max(alone, key=lambda one: alone[one])
    return f"{name} ({alone[name] / HOUR_S:.2f} h)"


def _total(pairs: Iterable[Pair]) -> float:
    return sum(pair.start_s + pair.work_s for pair in pairs)


def _chain(pairs: Iterable[Pair]) -> float:
    chains: dict[int, float] = {}
    for pair in pairs:
        chains[pair.system] = chains.get(pair.system, 0.0) + pair.start_s + pair.work_s
    return max(chains.values())


def _request_times(number: int, setting: Setting) -> Iterable[float]:
    for at in range(number):
        if setting.requests_a_tick is None:
            yield at * setting.request_s
        else:
            tick, place = divmod(at, setting.requests_a_tick)
            yield tick * max(SENSOR_TICK_S, setting.requests_a_tick * setting.request_s) + place * setting.request_s


def simulate(pairs: Sequence[Pair], setting: Setting, seed: int) -> Night:
    """Run a night, event by event.

    An event is (time, number, kind, run): a run is requested, has launched, has ended, was noticed to be dead; a worker
    is free again; the daemon looks at the queue. The number keeps the order of equal times.
    """
    draw = random.Random(seed)
    events: list[tuple[float, int, str, int]] = []
    counter = iter(range(10**9))

    def happens(time: float, kind: str, run: int = -1) -> None:
        heapq.heappush(events, (time, next(counter), kind, run))

    for run, time in enumerate(_request_times(len(pairs), setting)):
        happens(time, "requested", run)
    happens(0.0, "dequeue")
    waiting: dict[int, deque[int]] = {}  # runs of a system in the queue
    heads: list[tuple[int, int]] = []  # (place in the queue, run) of each free system's oldest run
    place: dict[int, int] = {}
    busy: set[int] = set()
    left = [pair.work_s for pair in pairs]
    tries = [0] * len(pairs)
    launched: deque[int] = deque()  # started runs that wait for a worker
    free, going, unfinished = setting.workers, 0, len(pairs)
    end, retried, lost, wasted = 0.0, 0, 0, 0.0

    def offer(system: int) -> None:
        if system not in busy and waiting.get(system):
            heapq.heappush(heads, (place[waiting[system][0]], waiting[system][0]))
            busy.add(system)  # offered: it is not offered twice

    def release(run: int) -> None:
        nonlocal going
        going -= 1
        busy.discard(pairs[run].system)
        offer(pairs[run].system)

    while events and unfinished:
        now, _, kind, run = heapq.heappop(events)
        if kind == "requested":
            place[run] = next(counter)
            waiting.setdefault(pairs[run].system, deque()).append(run)
            offer(pairs[run].system)
        elif kind == "dequeue":
            time = now
            while heads and going < setting.max_concurrent_runs:
                _, chosen = heapq.heappop(heads)
                waiting[pairs[chosen].system].popleft()
                going, time = going + 1, time + setting.launch_s
                happens(time, "launched", chosen)
            happens(max(now + setting.interval_s, time), "dequeue")
        elif kind == "launched":
            launched.append(run)
        elif kind == "worker":
            free += 1
        elif kind == "ended":
            free, unfinished, end = free + 1, unfinished - 1, now
            release(run)
        elif kind == "noticed":
            release(run)
            if tries[run] > 1:
                lost, unfinished, end = lost + 1, unfinished - 1, now
            else:
                retried += 1
                happens(now, "requested", run)
        while launched and free:
            chosen, free = launched.popleft(), free - 1
            tries[chosen] += 1
            needed = pairs[chosen].start_s + left[chosen]
            if draw.random() < setting.death_rate:
                lived = draw.random() * needed
                left[chosen] -= max(0.0, lived - pairs[chosen].start_s)
                wasted += min(lived, pairs[chosen].start_s) + setting.repair_s
                happens(now + lived + setting.detection_s, "noticed", chosen)
                happens(now + lived + setting.repair_s, "worker")
            else:
                happens(now + needed, "ended", chosen)
    return Night(end, retried, lost, wasted)


if __name__ == "__main__":
    main()
