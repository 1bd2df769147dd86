"""Declines over many nights: what the nights of a pair add up to, and the alerts that are due.

`metrics.watch` has the test. It is computed from what each night recorded, so that evaluations may be removed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from rag_eval_pipeline.metrics.watch import Bets, Watched, watch
from rag_eval_pipeline.monitoring.incidents import headline_order
from rag_eval_pipeline.monitoring.night_records import Night
from rag_eval_pipeline.monitoring.verdict_records import Decline


def follow_declines(history: Sequence[Night]) -> dict[str, list[Watched]]:
    """Return the evidence on each metric after each night since the baseline was pinned."""
    names = headline_order(dict.fromkeys(name for night in history if night.watch for name in night.watch.bets))
    return {name: watch([_bets(night, name, is_last=night is history[-1]) for night in history]) for name in names}


def _bets(night: Night, name: str, *, is_last: bool) -> Bets | None:
    """Return what a night adds; None if the metric was not compared, is withheld, or waits for a rerun that decides."""
    if night.watch is None or name not in night.watch.bets:
        return None
    found = night.metrics[name]
    if found.kind == "withheld" or (is_last and found.confirmation == "pending"):
        return None
    return Bets(*night.watch.bets[name], night.watch.alert_at, is_changed=found.state in ("regressed", "changed"))


def declines(history: Sequence[Night]) -> list[Decline]:
    """Return the evidence on each metric after the last night, the strongest first."""
    found = [decline_of(history, name, states[-1]) for name, states in follow_declines(history).items()]
    return sorted(found, key=lambda one: -one.evidence)


def decline_of(history: Sequence[Night], name: str, state: Watched) -> Decline:
    """Return the evidence on a metric after the last of some nights."""
    since = history[state.since :] if state.since is not None else ()
    changes = [night.metrics[name].estimate or 0.0 for night in since if name in night.metrics]
    return Decline(
        metric=name,
        evidence=state.evidence,
        alert_at=next(night.watch.alert_at for night in reversed(history) if night.watch),
        since=f"{since[0].opened_at:%Y-%m-%d}" if since else None,
        first=since[0].evaluation_id if since else None,
        change=fmean(changes) if changes else None,
    )


@dataclass(slots=True)
class DeclineAlert:
    """The night on which evidence reached what alerts, the metrics that did, and when three quiet nights had passed."""

    night: Night
    declines: list[Decline]
    resolved_at: datetime | None = None


def decline_alerts(history: Sequence[Night]) -> list[DeclineAlert]:
    """Return a pair's alerts, oldest first.

    While a decline of any metric is known, alerted or confirmed by reruns, no other metric alerts.
    """
    found: list[DeclineAlert] = []
    followed = follow_declines(history)
    was_known = False
    for number, night in enumerate(history):
        states = {name: of_metric[number] for name, of_metric in followed.items()}
        alerting = [decline_of(history[: number + 1], name, one) for name, one in states.items() if one.is_alert]
        is_known = any(one.is_known for one in states.values())
        if alerting and not was_known:
            found.append(DeclineAlert(night, alerting))
        elif was_known and not is_known and found and found[-1].resolved_at is None:
            found[-1].resolved_at = night.opened_at
        was_known = is_known
    return found
