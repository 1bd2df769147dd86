"""Incidents: all changes of one pair on one night as one thing to look at, and declines that add up over nights.

`metrics.declines` has the test of declines, which is computed from what each night recorded, so that evaluations may be
removed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Literal, NamedTuple

from rag_eval_pipeline.metrics.declines import Bets, Watched, watch
from rag_eval_pipeline.metrics.registry import PAGE_PREFIX, metric_label
from rag_eval_pipeline.metrics.verdict_rules import CHANGES, QUIET_NIGHTS
from rag_eval_pipeline.metrics.verdicts import Evidence
from rag_eval_pipeline.monitoring.causes import Cause, find_cause, mean_text
from rag_eval_pipeline.monitoring.leaderboard import HEADLINE
from rag_eval_pipeline.monitoring.night_records import Night
from rag_eval_pipeline.monitoring.nightly import alerts_due
from rag_eval_pipeline.monitoring.verdict_records import (
    Comparison,
    Decline,
    Verdict,
    format_p,
    format_points,
    leading,
    needed_text,
    withheld_text,
)
from rag_eval_pipeline.workspace import Workspace

Direction = Literal["regressed", "changed", "improved"]


@dataclass(frozen=True, slots=True)
class Incident:
    """The flagged changes of a pair.

    Args:
        kind: `regressed` if any metric is, else `changed` if any is.
        changes: Flagged metrics with their verdicts, those of `kind` first, in the order of `HEADLINE`.
        cause: Of a regression; None if its files are gone.
        evaluation_id: The night's.
        rerun: The evaluation that ran it again.
    """

    benchmark: str
    system: str
    kind: Direction
    changes: tuple[tuple[str, Verdict], ...]
    cause: Cause | None
    evaluation_id: str | None
    rerun: str | None

    @property
    def lead(self) -> tuple[str, Verdict]:
        """The metric that is named first, with its verdict."""
        return self.changes[0]

    @property
    def standing(self) -> str:
        """How far the lead metric's change is confirmed."""
        return self.lead[1].standing

    @property
    def headline_text(self) -> str:
        """`Exact match 69 → 28`."""
        return means_text(*self.lead)

    @property
    def headline(self) -> str:
        """`mine on frames regressed: Exact match 69 → 28`."""
        return f"{self.system} on {self.benchmark} {self.kind}: {self.headline_text}"

    @property
    def p_text(self) -> str:
        """`p = 0.008`, of the lead metric."""
        return p_text(self.lead[1])

    @property
    def together(self) -> list[str]:
        """The other metrics that changed, flagged or not."""
        return [*(means_text(*change) for change in self.changes[1:]), *self.unsure]

    @property
    def unsure(self) -> list[str]:
        """Metrics that moved with it without a verdict."""
        names = {name for name, _ in self.changes}
        return [move.text for move in (self.cause.moves if self.cause else ()) if move.metric not in names]


def incident_of(
    workspace: Workspace,
    benchmark: str,
    system: str,
    verdicts: Mapping[str, Verdict],
    *,
    evaluation_id: str | None,
    rerun: str | None,
    baseline: Sequence[str],
    shown: int = 3,
    others: Mapping[str, Verdict] | None = None,
) -> Incident | None:
    """Return the flagged changes of a pair as one incident; None if nothing changed.

    Args:
        baseline: The evaluations that the night was compared with, oldest first.
        shown: How many of the worst questions it names.
        others: Verdicts of all metrics, if `verdicts` are only some of them.
    """
    flagged = leading([name for name, found in verdicts.items() if found.kind in CHANGES])
    if not flagged:
        return None
    kind = strongest_change(verdicts[name].kind for name in flagged)
    ordered = sorted(headline_order(flagged), key=lambda name: verdicts[name].kind != kind)
    cause = None
    if evaluation_id:
        cause = find_cause(workspace, evaluation_id, baseline, others or verdicts, shown=shown)
    changes = tuple((name, verdicts[name]) for name in ordered)
    return Incident(benchmark, system, kind, changes, cause, evaluation_id, rerun)


class Step(NamedTuple):
    """A night on which metrics changed that had not changed before."""

    night: Night
    metrics: tuple[str, ...]


@dataclass(slots=True)
class Course:
    """An incident over nights.

    Args:
        kind: `regressed` if it began with a regression; later improvements join it all the same.
        steps: The night on which it opened, and those on which more metrics joined.
        resolved: The night after which it is over; None while it is not.
        is_closed: It is over, or a regression followed an improvement.
    """

    kind: Direction
    steps: list[Step]
    resolved: Night | None = None
    is_closed: bool = False

    @property
    def opened(self) -> Night:
        """The night of the alert."""
        return self.steps[0].night

    @property
    def metrics(self) -> list[str]:
        """Every metric in it, as `headline_order` has them."""
        return headline_order(dict.fromkeys(name for step in self.steps for name in step.metrics))


def courses(history: Sequence[Night]) -> list[Course]:
    """Return the incidents of a pair since its baseline was pinned, oldest first; the last one may be open.

    An incident is over after as many nights in a row without one of its changes as let the same change alert again.
    """
    due = alerts_due(history)
    found: list[Course] = []
    quiet = 0
    for night in history:
        metrics = tuple(headline_order(due.get(night.evaluation_id, ())))
        kind = strongest_change(night.metrics[name].state for name in metrics)
        current = found[-1] if found and not found[-1].is_closed else None
        if metrics and (current is None or (kind != "improved" and current.kind == "improved")):
            if current is not None:
                current.is_closed = True
            found.append(Course(kind, [Step(night, metrics)]))
            quiet = 0
        elif current is not None:
            if metrics:
                current.steps.append(Step(night, metrics))
            states = {night.state(name) for name in current.metrics} - {"unknown"}
            quiet = 0 if states & {current.kind, "unconfirmed"} else quiet + 1 if states else quiet
            if quiet >= QUIET_NIGHTS:
                current.resolved, current.is_closed = night, True
    return found


def strongest_change(kinds: Iterable[str]) -> Direction:
    """Return the first of `CHANGES` among kinds or states of verdicts; `improved` if there is none."""
    given = set(kinds)
    return next((kind for kind in CHANGES if kind in given), "improved")


def headline_order(names: Iterable[str]) -> list[str]:
    """Return metrics in the order of `HEADLINE`, the others after them."""
    places = {name: place for place, name in enumerate(HEADLINE)}
    return sorted(names, key=lambda name: places.get(name.removeprefix(PAGE_PREFIX), len(places)))


def verdict_order(verdicts: Mapping[str, Verdict]) -> list[str]:
    """Return metrics in the order of `HEADLINE`, those that cannot fall last."""
    return sorted(headline_order(verdicts), key=lambda name: verdicts[name].is_at_floor)


def means_text(name: str, found: Verdict) -> str:
    """Return such as `Exact match 69 → 28`, in hundredths."""
    before, after = (mean_text(mean) for mean in (found.baseline_mean, found.current_mean))
    return f"{metric_label(name)} {before} → {after}"


def points_text(evidence: Evidence) -> str:
    """Return such as `−41.5 points`."""
    return f"{format_points(evidence.estimate)} points"


def p_text(evidence: Evidence) -> str:
    """Return such as `p = 0.008`, as `format_p` has it; empty without a p."""
    return "" if evidence.p_corrected is None else format_p(evidence.p_corrected, evidence.level)


def change_text(name: str, found: Verdict) -> str:
    """Return such as `Exact match 69 → 28 (−41.5 points, p = 0.008, confirmed by a rerun)`."""
    parts = [part for part in (points_text(found), p_text(found), found.standing) if part]
    return f"{means_text(name, found)} ({', '.join(parts)})"


def nothing_sure(rows: Sequence[Comparison]) -> list[tuple[Comparison, str, Verdict]]:
    """Return comparisons without a flagged change, with their first metric of `HEADLINE` and its verdict."""
    found = []
    for row in rows:
        if row.verdicts and not any(one.kind in CHANGES for one in row.verdicts.values()):
            lead = verdict_order(row.verdicts)[0]
            found.append((row, lead, row.verdicts[lead]))
    return found


def comparison_headline(row: Comparison) -> tuple[str, str]:
    """Return a comparison's verdict in a word, and the change that it is about with its p and the p that is needed."""
    kinds: set[str] = {found.kind for found in row.verdicts.values()}
    if kinds <= {"no_verdict", "withheld"}:
        return "no verdict", max(row.verdicts.values(), key=lambda found: found.n).reason or ""
    withheld = withheld_text(row.verdicts.values())
    if withheld and not kinds & set(CHANGES):
        return "no verdict", withheld.removeprefix("no verdict ")
    quiet = "unchanged" if kinds == {"equivalent"} else "inconclusive"
    word = strongest_change(kinds) if kinds & set(CHANGES) else quiet
    ordered = headline_order(leading([name for name, found in row.verdicts.items() if found.kind == word])) or sorted(
        verdict_order(row.verdicts), key=lambda name: _p_corrected(row.verdicts[name])
    )
    lead, *others = ordered
    if word == "inconclusive":  # the change that is nearest to one
        lead = min(ordered, key=lambda name: _p_corrected(row.verdicts[name]))
    p_value = p_text(row.verdicts[lead])
    sure = [points_text(row.verdicts[lead]), *([p_value, needed_text(row.verdicts[lead])] if p_value else [])]
    more = ", ".join(means_text(name, row.verdicts[name]) for name in others) if word != quiet else ""
    also = f"; also {more}" if more else ""
    return word, f"{means_text(lead, row.verdicts[lead])} ({', '.join(sure)}){also}"


def _p_corrected(found: Verdict) -> float:
    return 1.0 if found.p_corrected is None else found.p_corrected


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
