"""Nights that are late: pairs of the nightly schedule of which nothing has been published for too long.

A pair that was never evaluated counts from its conversion, so that a new benchmark is not late at once. What is late is
told once: until the pair's next evaluation its state does not change.
"""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rag_eval_pipeline.evaluation.registry import Registry, read_registry
from rag_eval_pipeline.reporting.alert_settings import AlertSettings, read_alert_settings
from rag_eval_pipeline.reporting.alerts import LATE, Alert, LatePair, Told, read_late_alerts, tell
from rag_eval_pipeline.reporting.history import read_history
from rag_eval_pipeline.workspace import Workspace

NANOSECONDS = 1_000_000_000


class LastPublished(NamedTuple):
    """A pair that is to be evaluated every night, and its newest publication.

    Args:
        benchmark: Of the pair.
        system: Of the pair.
        at: When it was published, aware; of a pair without one, when its benchmark was converted.
        evaluation_id: None for a pair without one.
    """

    benchmark: str
    system: str
    at: datetime
    evaluation_id: str | None


def late_pairs(now: datetime, published: Iterable[LastPublished], settings: AlertSettings) -> list[LatePair]:
    """The pairs that are late, by benchmark and system.

    Args:
        now: Aware. When the clock was set back and a publication lies after it, nothing is late.
        published: The newest publication of each pair that is to be evaluated every night.
        settings: `late_after_hours`; None makes nothing late.
    """
    if settings.late_after_hours is None:
        return []
    limit = timedelta(hours=settings.late_after_hours)
    return [
        LatePair(benchmark=one.benchmark, system=one.system, since=one.at, evaluation_id=one.evaluation_id)
        for one in sorted(published, key=lambda one: one[:2])
        if now - one.at > limit
    ]


def last_published(workspace: Workspace, registry: Registry | None = None) -> list[LastPublished]:
    """The newest publication of each pair that the nightly schedule evaluates.

    Args:
        workspace: Where.
        registry: The folders, when they are read already.
    """
    registry = registry or read_registry(workspace)
    newest = {pair: evaluations[-1] for pair, evaluations in read_history(workspace).by_pair.items()}
    found = []
    for benchmark, system in registry.automatic_pairs():
        header = newest.get((benchmark, system))
        converted = datetime.fromtimestamp(registry.stamped[benchmark] / NANOSECONDS, UTC)
        at = converted if header is None else header.timestamp
        found.append(LastPublished(benchmark, system, at, header.evaluation_id if header else None))
    return found


def tell_late(workspace: Workspace, *, now: datetime, registry: Registry | None = None) -> Told:
    """Tells of the pairs that have become late since the last look: one alert for all of them.

    Args:
        workspace: Where.
        now: Aware.
        registry: As for `last_published`.
    """
    late = late_pairs(now, last_published(workspace, registry), read_alert_settings(workspace))
    told = {(one.benchmark, one.system, one.since) for alert in read_late_alerts(workspace) for one in alert.late}
    new = [one for one in late if (one.benchmark, one.system, one.since) not in told]
    return tell(workspace, [_alert(new, now)] if new else [], now)


def _alert(late: Sequence[LatePair], now: datetime) -> Alert:
    names = "\n".join(f"{one.benchmark}|{one.system}|{one.since.isoformat()}" for one in late)
    first = min(one.since for one in late)
    what = f"{late[0].system} on {late[0].benchmark}" if len(late) == 1 else f"{len(late)} pairs"
    return Alert(
        alert_id=f"{LATE}{first.astimezone(UTC):%Y%m%d}_{hashlib.sha256(names.encode()).hexdigest()[:12]}",
        kind="late",
        subject=f"A night is late: nothing was published of {what}",
        night=first,
        created_at=now,
        late=tuple(late),
    )
