"""What the runs of a pair are compared with, and how each of them compares."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rag_eval_pipeline.evaluation.compared_runs import TASKS, are_alike
from rag_eval_pipeline.judges.trust_card import is_other_model
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.metrics.verdict_rules import CHANGES
from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.monitoring.incidents import Incident, change_text, headline_order
from rag_eval_pipeline.monitoring.verdict_records import (
    IN_SENTENCES,
    Comparison,
    Verdict,
    leading,
    limits_text,
    segment_text,
    shown_interval,
    tested_text,
)
from rag_eval_pipeline.site.data import Pair, Provisional, ReportData, comparison_name
from rag_eval_pipeline.site.display_text import milliseconds, points
from rag_eval_pipeline.site.metric_labels import shown
from rag_eval_pipeline.site.question_nights import QuestionNight, changes

ORDER = (*CHANGES, "withheld", "inconclusive", "equivalent", "no_verdict")


def strongest(verdicts: Mapping[str, Verdict]) -> str:
    """Return the first kind of the verdicts in the order of what matters; `none` without verdicts."""
    kinds = {found.kind for found in verdicts.values()}
    return next((kind for kind in ORDER if kind in kinds), "none")


def by_weight(verdicts: Mapping[str, Verdict], names: Iterable[str] | None = None) -> list[tuple[str, Verdict]]:
    """Return metrics and verdicts, regressions first and what cannot fall last, each kind in the order of `names`."""
    found = ((name, verdicts[name]) for name in names or verdicts)
    return sorted(found, key=lambda item: (item[1].is_at_floor, ORDER.index(item[1].kind)))


def verdict_note(found: Verdict) -> str:
    """Return what a row of numbers does not say: how far a change is confirmed, why there is no verdict; or nothing."""
    if found.is_at_floor:
        return f"cannot fall below 0{IN_SENTENCES if found.metric == 'exact_match' else ''}"
    if found.is_advisory:
        return "advisory: not tested"
    parts = [found.reason, found.standing]
    if found.kind in CHANGES and found.segment:
        parts.append(segment_text(found).partition("; ")[2])
    if found.kind in ("inconclusive", "no_verdict") and not found.confirmation and not found.is_certain:
        change, least = "drops" if found.higher_is_better else "rises", found.smallest_drop
        parts.append(f"no {change} detectable" if least is None else f"detects {change} of {100 * least:.1f} at best")
    return "; ".join(filter(None, parts))


def interval_text(found: Verdict) -> str:
    """Return a change's interval with its name; nothing for a deterministic system, whose changes are certain."""
    name, interval = shown_interval(found)
    return "" if interval is None or found.is_certain else f"{name} {limits_text(interval)}"


def result_text(name: str, found: Verdict) -> str:
    """Return a verdict in a line: the means with their change and p, else why there is none."""
    if found.reason or found.is_at_floor or found.estimate is None:
        return f"{metric_label(name)}: {verdict_note(found) or 'no score on both sides'}"
    return change_text(name, found)


class PairBaseline(NamedTuple):
    """The runs that a pair's newer runs are compared with, oldest first.

    Args:
        runs: Those with results; the last one's answers stand for all.
        row: The comparison of the newest night; None if there is none.
        provisional: None if a baseline is pinned.
    """

    runs: tuple[ResultsHeader, ...]
    row: Comparison | None = None
    provisional: Provisional | None = None

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the runs."""
        return frozenset(run.evaluation_id for run in self.runs)

    def precedes(self, header: ResultsHeader) -> bool:
        """Return whether a run is compared with the baseline: it is newer than all of its runs."""
        return bool(self.runs) and header.evaluation_id not in self.ids and header.timestamp > self.runs[-1].timestamp


def baseline_ids(report: ReportData, row: Comparison) -> list[str]:
    """Return the evaluations that a comparison's newer side is compared with."""
    if row.kind == "systems":
        return [report.nights[row.benchmark, row.old][-1].evaluation_id]
    if row.kind == "evaluations":
        return [row.old]
    return list(report.compared_with(row))


def pair_baseline(report: ReportData, pair: Pair) -> PairBaseline:
    """Return the baseline of a pair; without runs if it has none."""
    row = next((one for one in report.comparisons if (one.kind, one.benchmark, one.new) == ("baseline", *pair)), None)
    if row is None:
        return PairBaseline(())
    wanted = set(baseline_ids(report, row))
    runs = sorted(
        (header for header in report.by_pair[pair] if header.evaluation_id in wanted), key=lambda one: one.timestamp
    )
    return PairBaseline(tuple(runs), row, report.provisional(row))


class Earlier(NamedTuple):
    """What a run's questions are compared with: its baseline, else the night before.

    Args:
        label: `the baseline` or `the night before`.
        nights: Oldest first; at least one.
    """

    label: str
    nights: Sequence[QuestionNight]

    @property
    def reference(self) -> QuestionNight:
        """The night whose answers stand for all."""
        return self.nights[-1]

    def changes(self, now: QuestionNight, measure: str = "f1") -> dict[str, float]:
        """Return how much each question's score changed."""
        return changes(now, self.nights, measure)


class Banner(NamedTuple):
    """How a run compares with its baseline, in words.

    Args:
        kind: `regressed`, `improved`, ..., `baseline` or `rerun`.
        changes: The metrics that changed, those that are shown first.
        note: How the changes were tested.
        more: Number of further metrics that changed.
        page: Of the comparison; None if it has none.
        runs: What else it names: words and evaluation.
    """

    kind: str
    heading: str
    changes: tuple[tuple[str, Verdict], ...] = ()
    note: str = ""
    more: int = 0
    page: str | None = None
    runs: tuple[tuple[str, str], ...] = ()
    provisional: str | None = None
    cause: str | None = None


CHANGES_SHOWN = 6
_HEADINGS = {
    "regressed": "Regressed against its baseline",
    "improved": "Improved against its baseline",
    "changed": "Changed against its baseline",
    "equivalent": "No change against its baseline",
    "inconclusive": "No significant change against its baseline",
    "withheld": "No verdict: questions without a score could overturn it",
    "no_verdict": "No verdict: too few questions",
}


def run_banner(report: ReportData, header: ResultsHeader, baseline: PairBaseline) -> Banner | None:
    """Return how a run compares; None if it was compared with nothing."""
    name = header.evaluation_id
    if name in baseline.ids and not baseline.provisional:
        others = len(baseline.ids)
        heading = f"One of the {others} runs of the baseline" if others > 1 else "The run of the baseline"
        return Banner("baseline", heading)
    first = report.reruns.get(name)
    nights = report.verdict_nights.get((header.benchmark, header.system), ())
    night, row = next((one for one in nights if one.evaluation_id == (first or name)), None), baseline.row
    is_newest = row is not None and row.evaluation_id == (first or name)
    if night is not None:
        verdicts = night.metrics
        rerun = night.rerun
    elif is_newest and row is not None:
        verdicts, rerun = dict(row.verdicts), row.rerun
    else:
        return None
    if not verdicts:
        return None
    kind = strongest(verdicts)
    page = f"comparisons/{comparison_name(row)}.html" if row is not None and is_newest and row.verdicts else None
    flagged = [name for name in headline_order(verdicts) if verdicts[name].kind in CHANGES]
    changed = by_weight(verdicts, leading(flagged))
    note = tested_text(changed[0][1]) if changed else ""
    progress = baseline.provisional.words if baseline.provisional and is_newest else None
    if first:
        heading = "Rerun of a night that " + (kind if kind in CHANGES else "showed no significant change")
        return Banner("rerun", heading, tuple(changed[:1]), note, 0, page, (("First seen in", first),), progress)
    runs = (("Run again in", rerun),) if rerun else ()
    listed = tuple(changed[:CHANGES_SHOWN])
    incident = pair_incident(report, (header.benchmark, header.system)) if is_newest else None
    cause = incident.cause.sentence if incident and incident.cause else None
    return Banner(kind, _HEADINGS[kind], listed, note, len(changed) - len(listed), page, runs, progress, cause)


def pair_incident(report: ReportData, pair: Pair) -> Incident | None:
    """Return what changed in the newest night of a pair; None if nothing did."""
    return next((one for one in report.incidents if (one.benchmark, one.system) == pair), None)


class TileChange(NamedTuple):
    """A metric's change against the mean of the baseline: text, and `better`, `worse` or empty."""

    text: str
    way: str


def tile_changes(
    report: ReportData, header: ResultsHeader, baseline: PairBaseline, metrics: Iterable[str]
) -> dict[str, TileChange]:
    """Return each metric's change against the baseline; coloured only where the verdict is sure of it."""
    if not baseline.precedes(header):
        return {}
    marks = report.marks.get(report.reruns.get(header.evaluation_id, header.evaluation_id), {})
    alike = [run for run in baseline.runs if are_alike(run.fingerprints, header.fingerprints)]
    found = {}
    level = header.retrieval_level
    for name in metrics:
        runs = [run for run in alike if name not in TASKS or not is_other_model(header.judge_models, run.judge_models)]
        now, old = header.metric(name).value, [run.metric(name, level=level).value for run in runs]
        known = [value for value in old if value is not None]
        if now is None or not known:
            continue
        change = now - sum(known) / len(known)
        unit = shown(header, name, report.trust).view.unit
        slower = "+" if change > 0 else "−"
        text = f"{slower}{milliseconds(abs(change))}" if unit == "ms" else points(change)
        way = {"regressed": "worse", "improved": "better"}.get(marks.get(name, ""), "")
        found[name] = TileChange(text, way)
    return found
