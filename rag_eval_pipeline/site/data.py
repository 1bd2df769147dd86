"""The data of a report: histories, comparisons and alerts, read once, and `report.json` for programs.

Metrics of a judge that is not calibrated raise no issue and lead to no recommendation except to calibrate the judge.
Source of the parts of `report.json`: Citation Accuracy Evaluation 9.2, generate_report.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, NamedTuple

from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.compared_runs import TASKS
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation
from rag_eval_pipeline.evaluation.evaluation_settings import EvaluationSettings
from rag_eval_pipeline.evaluation.expected_pairs import read_registry
from rag_eval_pipeline.judges.labels import labels_path, read_labels
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.metrics.verdict_rules import CHANGES
from rag_eval_pipeline.monitoring.alert_files import Alert, last_published, late_pairs, read_alert_settings, read_alerts
from rag_eval_pipeline.monitoring.baselines import earlier_runs, needed_runs, newest_alike
from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.monitoring.incidents import Incident, incident_of
from rag_eval_pipeline.monitoring.leaderboard import COLUMNS, HEADLINE, Trust
from rag_eval_pipeline.monitoring.night_records import Night
from rag_eval_pipeline.monitoring.regressions import Comparisons, read_comparisons
from rag_eval_pipeline.monitoring.verdict_records import Comparison, Verdict
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings, read_verdict_settings
from rag_eval_pipeline.site.charts import Point
from rag_eval_pipeline.site.display_text import milliseconds, number, points
from rag_eval_pipeline.systems.config import SystemFile, read_system_file
from rag_eval_pipeline.workspace import Workspace

Pair = tuple[str, str]

# A metric of the leaderboard's files -> the metric that is compared instead.
COMPARED_AS = {"citation_jaccard": "tolerance_jaccard"}


class Provisional(NamedTuple):
    """A pair without a baseline: its nights so far, how many a baseline needs, and the evaluations compared with."""

    nights: int
    needed: int
    earlier: tuple[str, ...]

    @property
    def words(self) -> str:
        """`provisional: 4 of 5 nights`."""
        return f"provisional: {self.nights} of {self.needed} nights"

    @property
    def sentence(self) -> str:
        """`3 of the 5 nights needed for a baseline`."""
        return f"{self.nights} of the {self.needed} nights needed for a baseline"


@dataclass(frozen=True)
class ReportData:
    """The state of the workspace that a report shows.

    Args:
        by_pair: Evaluations of each pair, oldest first.
        nights: The same without reruns.
        published: Published evaluations of each pair, oldest first.
        reruns: A rerun's evaluation id -> its night's.
        damaged: A line for each results file that cannot be read.
        marks: Evaluation -> metric -> `regressed` or `improved`.
        verdict_nights: Of each pair since its baseline was pinned.
    """

    workspace: Workspace
    by_pair: Mapping[Pair, Sequence[ResultsHeader]]
    nights: Mapping[Pair, Sequence[ResultsHeader]]
    published: Mapping[Pair, Sequence[Evaluation]]
    reruns: Mapping[str, str]
    damaged: Sequence[str]
    trust: Trust
    comparisons: Sequence[Comparison]
    marks: Mapping[str, Mapping[str, str]] = field(repr=False)
    verdict_nights: Mapping[Pair, Sequence[Night]] = field(repr=False)
    stamps: Mapping[str, Stamp] = field(repr=False)

    @cached_property
    def settings(self) -> VerdictSettings:
        """The settings of verdicts."""
        return read_verdict_settings(self.workspace)

    def labelled(self, evaluation_id: str) -> frozenset[str]:
        """Return the questions that have labels of this report's pages; none if their file is damaged."""
        with suppress(InputError):
            path = labels_path(self.workspace, evaluation_id)
            return frozenset(label.query_id for label in read_labels(path)) if path.exists() else frozenset()
        return frozenset()

    @cached_property
    def newest(self) -> Sequence[ResultsHeader]:
        """The last night of each pair, by benchmark and system."""
        return [self.nights[pair][-1] for pair in sorted(self.nights)]

    @cached_property
    def n_days(self) -> int:
        """Number of days with evaluations."""
        return len({header.timestamp.date() for nights in self.by_pair.values() for header in nights})

    @cached_property
    def benchmarks(self) -> Sequence[str]:
        """Benchmarks with results, sorted."""
        return sorted({benchmark for benchmark, _ in self.by_pair})

    @cached_property
    def systems(self) -> Sequence[str]:
        """Systems with results, sorted; the index is a system's colour on every page."""
        return sorted({system for _, system in self.by_pair})

    def provisional(self, row: Comparison) -> Provisional | None:
        """Return how far the compared pair is on the way to its baseline; None if it has one or is not compared."""
        return self.progress(row) if row.verdicts else None

    def progress(self, row: Comparison) -> Provisional | None:
        """Return how far a pair is on the way to its baseline; None if it has one."""
        evaluations = self.published.get((row.benchmark, row.new))
        if row.kind != "baseline" or not evaluations:
            return None
        try:
            if read_baseline(self.workspace, row.benchmark, row.new) is not None:
                return None
        except InputError:
            return None
        earlier = tuple(one.record.evaluation_id for one in earlier_runs(evaluations))
        return Provisional(len(newest_alike(evaluations)), needed_runs(evaluations[-1]), earlier)

    def compared_with(self, row: Comparison) -> Sequence[str]:
        """Return the evaluations that a pair's newest night is compared with, oldest first."""
        if progress := self.provisional(row):
            return progress.earlier
        try:
            baseline = read_baseline(self.workspace, row.benchmark, row.new)
        except InputError:
            return ()
        return baseline.evaluations if baseline else ()

    @cached_property
    def incidents(self) -> Sequence[Incident]:
        """The flagged changes of each pair against its baseline, regressions first."""
        found = [
            incident_of(
                self.workspace, row.benchmark, row.new, row.verdicts, evaluation_id=row.evaluation_id,
                rerun=row.rerun, baseline=self.compared_with(row),
            )
            for row in self.comparisons
            if row.kind == "baseline"
        ]  # fmt: skip
        return sorted((one for one in found if one is not None), key=lambda one: one.kind != "regressed")

    @cached_property
    def changes(self) -> Mapping[str, Mapping[str, Verdict]]:
        """Evaluation -> metric -> verdict against the baseline."""
        return {
            row.evaluation_id: row.verdicts
            for row in self.comparisons
            if row.kind == "baseline" and row.evaluation_id is not None
        }

    @cached_property
    def not_nightly(self) -> Mapping[str, SystemFile]:
        """Systems that the nightly schedule does not ask, with their files."""
        return {name: file for name, file in self._system_files.items() if not file.is_nightly}

    @cached_property
    def embedded(self) -> frozenset[str]:
        """The systems of this package, which are a baseline without a model."""
        return frozenset(name for name, file in self._system_files.items() if file.kind == "embedded")

    @cached_property
    def _system_files(self) -> Mapping[str, SystemFile]:
        files = {}
        for name in self.systems:
            with suppress(InputError):  # a broken file is reported where systems are asked
                files[name] = read_system_file(self.workspace.system_file(name))
        return files

    @cached_property
    def overdue(self) -> frozenset[Pair]:
        """Pairs that are expected every night and were last published long before the newest night of the report."""
        if not self.by_pair:
            return frozenset()
        newest = max(headers[-1].timestamp for headers in self.by_pair.values())
        expected = last_published(read_registry(self.workspace), self.by_pair)
        late = late_pairs(newest, expected, read_alert_settings(self.workspace).settings)
        return frozenset((pair.benchmark, pair.system) for pair in late)

    @cached_property
    def _series(self) -> Mapping[Pair, Mapping[str, list[Point]]]:
        found: dict[Pair, dict[str, list[Point]]] = {}
        for pair, nights in self.nights.items():
            series: dict[str, list[Point]] = {name: [] for name in dict.fromkeys((*HEADLINE, *COLUMNS))}
            found[pair] = series
            level = nights[-1].retrieval_level if nights else None  # of all points of a line
            for header in nights:  # decoded once, for all metrics
                marks = self.marks.get(header.evaluation_id, {})
                for name, of_metric in series.items():
                    metric = header.metric(name, level=level)
                    of_metric.append(
                        Point(metric.value, metric.confidence_interval, marks.get(COMPARED_AS.get(name, name)))
                    )
        return found

    def points(self, pair: Pair, metric: str) -> list[Point]:
        """Return the nights of a metric of the leaderboard, with changes marked."""
        return self._series[pair][metric]


def read_report_data(workspace: Workspace, comparisons: Comparisons | None = None) -> ReportData:
    """Read the workspace without writing.

    Args:
        comparisons: As `regressions.json` has them; read when left out.
    """
    comparisons = comparisons or read_comparisons(workspace)
    history = comparisons.history
    compared: list[tuple[str | None, Mapping[str, Verdict]]] = []
    compared += [(night.evaluation_id, night.metrics) for pair in comparisons.nights for night in pair.nights]
    compared += [(row.evaluation_id, row.verdicts) for row in comparisons.rows if row.kind == "baseline"]
    marks: dict[str, dict[str, str]] = {}
    for evaluation_id, verdicts in compared:
        for name, found in verdicts.items():
            if evaluation_id is not None and found.kind in CHANGES:
                bare = name.removeprefix("page/")
                marks.setdefault(evaluation_id, {})[bare] = found.kind
    verdict_nights = {(pair.benchmark, pair.system): pair.nights for pair in comparisons.nights}
    stamps = {}
    for name in {benchmark for benchmark, _ in history.by_pair}:
        try:
            stamps[name] = Stamp.read(workspace.benchmark(name).stamp)
        except InputError:
            continue  # converted before and edited since: its results are still the newest there are
    return ReportData(
        workspace, history.by_pair, history.nights, history.published, history.reruns, history.damaged,
        Trust.of(workspace), comparisons.rows, marks, verdict_nights, stamps,
    )  # fmt: skip


def comparison_name(row: Comparison) -> str:
    """Return the file of a comparison's page, without its folder."""
    return f"{row.benchmark}.{row.new}.against.{row.old}"


ALERT_NIGHTS = 14  # before the newest evaluation; older alerts stay in their folder
ALERTS_SHOWN = 20


class RecentAlert(NamedTuple):
    """An alert on the first page.

    Args:
        page: Of the comparison as it is now, else of the benchmark; None if there is neither.
        run: Page of the run in which it was seen; None if the report has none.
        status: `still regressed`, `no longer regressed`; empty if nothing is known.
    """

    alert: Alert
    page: str | None
    run: str | None
    status: str


class RecentAlerts(NamedTuple):
    """Alerts of the last nights, newest first, and a line for each file that cannot be read."""

    shown: Sequence[RecentAlert]
    damaged: Sequence[str]


def recent_alerts(report: ReportData) -> RecentAlerts:
    """Read the alerts of the last nights."""
    alerts, damaged = read_alerts(report.workspace)
    nights = [row.timestamp for row in report.newest] or [alert.night for alert in alerts]
    recent = [alert for alert in alerts if alert.night >= max(nights) - timedelta(days=ALERT_NIGHTS)]
    return RecentAlerts([_recent_alert(report, alert) for alert in recent[: -ALERTS_SHOWN - 1 : -1]], damaged)


def _recent_alert(report: ReportData, alert: Alert) -> RecentAlert:
    wanted = "baseline", alert.benchmark, alert.system
    rows = [row for row in report.comparisons if (row.kind, row.benchmark, row.new) == wanted and row.verdicts]
    page, status = None, ""
    if rows:
        page = f"comparisons/{comparison_name(rows[0])}.html"
        verdicts = rows[0].verdicts
        if alert.changes and alert.kind != "declined":
            kinds = {verdicts[change.metric].kind for change in alert.changes if change.metric in verdicts}
            status = f"still {alert.kind}" if alert.kind in kinds else f"no longer {alert.kind}"
    elif alert.benchmark in report.benchmarks:
        page = f"benchmarks/{alert.benchmark}.html"
    pair = alert.benchmark or "", alert.system or ""
    runs = {header.evaluation_id for header in report.by_pair.get(pair, ())}
    run = f"runs/{alert.evaluation_id}/index.html" if alert.evaluation_id in runs else None
    return RecentAlert(alert, page, run, status)


OVER_REFUSAL = 0.2  # a fifth of what could be answered
INVENTED = 0.5  # half of what could not be
FOUND, MISPLACED = 0.8, 0.3  # documents are found, and the citations point elsewhere all the same
SLOWER = 1.5  # times the median of the nights before; a busy machine does not reach it over a whole run
TREND_NIGHTS = 7


def data_part(report: ReportData) -> dict[str, Any]:
    """Return the content of `report.json`."""
    issues = [issue for row in report.newest for issue in _issues(report, row)]
    return {
        "summary": {
            "evaluations": len(report.newest),
            "benchmarks": list(report.benchmarks),
            "systems": list(report.systems),
            "newest": max((row.timestamp.isoformat() for row in report.newest), default=None),
            "pairs": [_summary(report, row) for row in report.newest],
        },
        "visualizations": list(_visualizations(report)),
        "analysis": {
            "comparisons": [row.model_dump() for row in report.comparisons],
            "trends": [_trend(report, row) for row in report.newest],
            "issues": issues,
            "alerts": [one.alert.model_dump(mode="json") for one in recent_alerts(report).shown],
            "unreadable": list(report.damaged),
        },
        "recommendations": [*_recommendations(report), *(_advice(issue) for issue in issues)],
    }


def _summary(report: ReportData, row: ResultsHeader) -> dict[str, Any]:
    metrics = {}
    for name in COLUMNS:
        metric = row.metric(name)
        metrics[name] = {
            "value": metric.value,
            "confidence_interval": metric.confidence_interval,
            "n_scored": metric.n_scored,
            "reason": metric.reason,
            "doubt": report.trust.doubt(row, name),
        }
    return {
        "benchmark": row.benchmark,
        "system": row.system,
        "evaluation_id": row.evaluation_id,
        "timestamp": row.timestamp.isoformat(),
        "queries": row.summary.get("total_queries"),
        "failed": row.summary.get("failed_queries"),
        "metrics": metrics,
        "cost": row.performance_metrics.get("api_usage", {}),
        "page": f"runs/{row.evaluation_id}/index.html",
    }


def _visualizations(report: ReportData) -> Iterator[dict[str, Any]]:
    for row in report.newest:
        nights = report.nights[row.benchmark, row.system]
        for name in COLUMNS:
            series = report.points((row.benchmark, row.system), name)
            if any(point.value is not None for point in series):
                yield {
                    "kind": "trend",
                    "title": f"{name} of {row.system} on {row.benchmark}",
                    "page": f"benchmarks/{row.benchmark}.html",
                    "nights": [header.evaluation_id for header in nights],
                    "values": [point.value for point in series],
                    "intervals": [point.interval for point in series],
                    "marks": [point.mark for point in series],
                }


def _trend(report: ReportData, row: ResultsHeader) -> dict[str, Any]:
    """Compare the last night with the mean of up to seven nights before; a description, no verdict."""
    changes: dict[str, float | None] = {}
    for name in COLUMNS:
        now, before = row.metric(name).value, _values_before(report, row, name)
        changes[name] = now - sum(before) / len(before) if now is not None and before else None
    n_before = min(len(report.nights[row.benchmark, row.system]) - 1, TREND_NIGHTS)
    return {"benchmark": row.benchmark, "system": row.system, "nights_before": n_before, "change": changes}


def _values_before(report: ReportData, row: ResultsHeader, metric: str) -> list[float]:
    points = report.points((row.benchmark, row.system), metric)[:-1][-TREND_NIGHTS:]
    return [point.value for point in points if point.value is not None]


def _issues(report: ReportData, row: ResultsHeader) -> Iterator[dict[str, str]]:
    def issue(kind: str, finding: str, remedy: str) -> dict[str, str]:
        page = f"runs/{row.evaluation_id}/index.html"
        where = {"benchmark": row.benchmark, "system": row.system}
        return {"kind": kind, **where, "finding": finding, "remedy": remedy, "page": page}

    total, failed = row.summary.get("total_queries") or 0, row.summary.get("failed_queries") or 0
    evaluations = report.published.get((row.benchmark, row.system), ())
    settings = [one.record.settings for one in evaluations if one.record.evaluation_id == row.evaluation_id]
    needed = (settings[0] if settings else EvaluationSettings()).min_coverage
    if total and failed / total > 1 - needed:
        finding = f"{failed:.0f} of {total:.0f} questions failed; {100 * needed:g} % must be answered to be pinned."
        yield issue("failures", finding, "Look at the errors of the failed questions, then evaluate again.")
    abstention = row.answer_quality_metrics.get("abstention", {})
    refused = (abstention.get("over_refusal_rate") or {}).get("value")
    if refused is not None and refused > OVER_REFUSAL:
        finding = f"The system abstains on {100 * refused:.0f} % of the answerable questions."
        yield issue("over_refusal", finding, "Loosen its rule for abstaining, or retrieve more.")
    invented, right = abstention.get("unanswerable_answered") or 0, abstention.get("unanswerable_abstained") or 0
    if invented and invented / (invented + right) > INVENTED:
        finding = f"It answered {invented} of {invented + right} questions that the documents do not answer."
        yield issue("invented", finding, "Prompt it to abstain when the retrieved text lacks the answer.")
    found, cited = row.metric("hit@5").value, row.metric("citation_jaccard").value
    if found is not None and cited is not None and found >= FOUND and cited <= MISPLACED:
        finding = f"Documents are found (hit@5 {number(found)}), but citations overlap gold by {number(cited)} only."
        yield issue("misplaced_citations", finding, "Look at how it chooses cited spans; retrieval is not the cause.")
    now, before = row.metric("latency_p50_ms").value, sorted(_values_before(report, row, "latency_p50_ms"))
    if now is not None and before and not row.performance_metrics.get("reused_from"):
        usual = before[len(before) // 2]
        if usual > 0 and now > SLOWER * usual:
            finding = f"The median latency is {milliseconds(now)}; it was {milliseconds(usual)} in the nights before."
            yield issue("slower", finding, "Look at the server's load and at the stages of the slowest questions.")


def _advice(issue: Mapping[str, str]) -> dict[str, str]:
    return {
        "text": f"{issue['finding']} {issue['remedy']}",
        "where": f"{issue['benchmark']} × {issue['system']}",
        "page": issue["page"],
    }


def _recommendations(report: ReportData) -> Iterator[dict[str, str]]:
    for row in report.comparisons:
        if row.kind == "baseline" and row.regressed:
            evidence = {name: row.verdicts[name] for name in row.regressed}
            changes = ", ".join(f"{metric_label(name)} {points(one.estimate)}" for name, one in evidence.items())
            yield {
                "text": f"{changes} points against the baseline. Look at the questions that changed most.",
                "where": f"{row.benchmark} × {row.new}",
                "page": f"comparisons/{comparison_name(row)}.html",
            }
    doubted: dict[str, dict[str, None]] = {}  # benchmark -> metrics
    for header in report.newest:
        for name in TASKS:
            if header.metric(name).value is not None and report.trust.doubt(header, name):
                doubted.setdefault(header.benchmark, {})[metric_label(name)] = None
    for names in sorted({tuple(sorted(metrics)) for metrics in doubted.values()}):
        benchmarks = [one for one, metrics in doubted.items() if tuple(sorted(metrics)) == names]
        yield {
            "text": f"The judge's metrics ({', '.join(names)}) decide nothing on {', '.join(benchmarks)} until its "
            "verdicts are compared with people's: label some answers and run rag-eval calibrate.",
            "where": "The judge",
            "page": f"benchmarks/{benchmarks[0]}.html",
        }
