"""When people are told: on a change of state, and again only after three quiet nights.

A metric's history is one state a night since its baseline was pinned. A regression that stays is told once; what is
told is a confirmed change, never a first look.
"""

from collections.abc import Sequence
from typing import Literal

from rag_eval_pipeline.metrics.verdicts import Verdict

State = Literal["unflagged", "unconfirmed", "regressed", "improved", "unknown"]

QUIET_NIGHTS = 3  # unflagged nights in a row after which the same change is news again


def night_state(verdict: Verdict) -> State:
    """A night's state.

    Returns:
        `regressed` or `improved` when a rerun confirmed it or a deterministic system needs none; `unconfirmed` when it
        was flagged and is pending, not confirmed, or provisional; `unknown` when the verdict was withheld or there are
        too few questions; else `unflagged`.
    """
    if verdict.kind in ("withheld", "no_verdict"):
        return "unknown"
    if verdict.confirmation is None:
        return "unflagged"
    if verdict.kind in ("regressed", "improved") and verdict.confirmation in ("confirmed", "not_needed"):
        return "regressed" if verdict.kind == "regressed" else "improved"
    return "unconfirmed"


def alerts(history: Sequence[State]) -> list[bool]:
    """Whether each night alerts.

    A confirmed change alerts unless the last alert said the same and fewer than three unflagged nights in a row have
    passed since. A night of which nothing is known neither counts as unflagged nor breaks the row.

    Args:
        history: One metric's states, oldest first, from the first night after its baseline was pinned.
    """
    told: State | None = None
    quiet = 0
    found = []
    for state in history:
        if state == "unflagged":
            quiet += 1
        elif state != "unknown":
            quiet = 0
        if quiet >= QUIET_NIGHTS:
            told = None
        is_alert = state in ("regressed", "improved") and state != told
        if is_alert:
            told = state
        found.append(is_alert)
    return found


def is_alert(history: Sequence[State]) -> bool:
    """Whether the last night of a history alerts; False for no history."""
    return bool(history) and alerts(history)[-1]
