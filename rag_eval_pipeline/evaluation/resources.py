"""Memory and processor use of this process and its children, sampled while a block runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

INTERVAL_SECONDS = 1.0  # listing the children reads every process of the machine: some milliseconds each time


@dataclass(slots=True)
class ResourceSamples:
    """One entry a sample.

    Args:
        memory_mb: Resident memory of the process tree, in 10^6 bytes.
        cpu_percent: Of one core; above 100 when several are busy.
    """

    memory_mb: list[float] = field(default_factory=list)
    cpu_percent: list[float] = field(default_factory=list)


@contextmanager
def sampling() -> Iterator[ResourceSamples]:
    """Samples once a second, and once at the end, so that the shortest block has a sample."""
    import psutil

    samples = ResourceSamples()
    process = psutil.Process()
    process.cpu_percent()  # the first call sets the mark from which the next one counts
    known: dict[int, psutil.Process] = {}  # a process counts from the mark that its own object carries
    stop = threading.Event()

    def take() -> None:
        memory, percent = process.memory_info().rss, process.cpu_percent()
        children = {child.pid: known.get(child.pid, child) for child in process.children(recursive=True)}
        for child in children.values():
            try:
                memory += child.memory_info().rss
                percent += child.cpu_percent()  # 0 at the first sight of a child
            except psutil.Error:
                continue  # ended between the listing and the reading
        known.clear()
        known.update(children)
        samples.memory_mb.append(memory / 1e6)
        samples.cpu_percent.append(percent)

    def watch() -> None:
        while not stop.wait(INTERVAL_SECONDS):
            take()

    thread = threading.Thread(target=watch, name="resource-sampling", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()
        take()
