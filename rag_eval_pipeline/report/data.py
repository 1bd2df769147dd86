"""The data of a report: histories, comparisons and alerts, read once, and `report.json` for programs.

Figures of a judge that is not calibrated raise no issue and lead to no recommendation except to calibrate the judge.
Source of the parts of `report.json`: Citation Accuracy Evaluation 9.2, generate_report.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, NamedTuple

from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.runs import Evaluation
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.report.charts import Point
from rag_eval_pipeline.report.text import milliseconds, number, points
from rag_eval_pipeline.reporting.alerts import SUFFIX, Alert, alerts_folder
from rag_eval_pipeline.reporting.baselines import all_published, earlier_runs, needed_runs, newest_alike
from rag_eval_pipeline.reporting.comparison import TASKS, Comparison
from rag_eval_pipeline.reporting.comparison_files import comparison_record
from rag_eval_pipeline.reporting.history import ResultsHeader, read_history
from rag_eval_pipeline.reporting.leaderboard import COLUMNS, Trust
from rag_eval_pipeline.reporting.regressions import Comparisons, read_comparisons
from rag_eval_pipeline.workspace import Workspace


class Provisional(NamedTuple):
    """How far a pair is on the way to its baseline.

    Args:
        nights: Evaluations alike so far, the newest among them.
        needed: How many a baseline takes.
        earlier: Ids of those that the newest is compared with.
    """

    nights: int
    needed: int
    earlier: tuple[str, ...]

    @property
    def words(self) -> str:
        """`provisional: 4 of 5 nights`."""
        return f"provisional: {self.nights} of {self.needed} nights"


def provisional_of(evaluations: Sequence[Evaluation]) -> Provisional | None:
    """Of a pair without baseline.

    Args:
        evaluations: Published ones of the pair, oldest first; None is returned for none.
    """
    if not evaluations:
        return None
    alike = len(newest_alike(evaluations))
    earlier = tuple(one.record.evaluation_id for one in earlier_runs(evaluations))
    return Provisional(alike, needed_runs(evaluations[-1]), earlier)


Pair = tuple[str, str]

# A verdict's metric -> the figure in whose trend it is marked, where they have different names.
_FIGURES = {"tolerance_jaccard": "citation_jaccard"}


@dataclass(frozen=True)
class ReportData:
    """The state of the workspace that a report shows.

    Args:
        workspace: Whose.
        by_pair: (benchmark, system) -> its evaluations, oldest first.
        nights: The same without reruns.
        reruns: A rerun's evaluation id -> the night's that it looked at again.
        damaged: A line for each results file that cannot be read.
        trust: Of judges.
        comparisons: Of the newest evaluations.
        marks: Evaluation -> figure -> `regressed` or `improved`.
        stamps: Benchmark -> its conversion, where there is one.
    """

    workspace: Workspace
    by_pair: Mapping[Pair, Sequence[ResultsHeader]]
    nights: Mapping[Pair, Sequence[ResultsHeader]]
    reruns: Mapping[str, str]
    damaged: Sequence[str]
    trust: Trust
    comparisons: Sequence[Comparison]
    marks: Mapping[str, Mapping[str, str]] = field(repr=False)
    stamps: Mapping[str, Stamp] = field(repr=False)

    @cached_property
    def newest(self) -> Sequence[ResultsHeader]:
        """The last night of each pair, by benchmark and system."""
        return [self.nights[pair][-1] for pair in sorted(self.nights)]

    @cached_property
    def n_days(self) -> int:
        """Days on which anything was evaluated: a rerun belongs to its night."""
        return len({header.timestamp.date() for nights in self.by_pair.values() for header in nights})

    @cached_property
    def published(self) -> Mapping[Pair, Sequence[Evaluation]]:
        """Evaluations whose scores are still there, by pair; read when first asked for."""
        return all_published(self.workspace)

    def provisional(self, row: Comparison) -> Provisional | None:
        """How far the pair of a comparison is on the way to its baseline; None for one that has its baseline."""
        if row.kind != "baseline" or not row.verdicts:
            return None
        try:
            if read_baseline(self.workspace, row.benchmark, row.new) is not None:
                return None
        except InputError:
            return None
        return provisional_of(self.published.get((row.benchmark, row.new), ()))

    @cached_property
    def benchmarks(self) -> Sequence[str]:
        """Benchmarks with results, sorted."""
        return sorted({benchmark for benchmark, _ in self.by_pair})

    @cached_property
    def systems(self) -> Sequence[str]:
        """Systems with results, sorted; the place is a system's colour on every page."""
        return sorted({system for _, system in self.by_pair})

    @cached_property
    def _series(self) -> Mapping[Pair, Mapping[str, list[Point]]]:
        """Return every metric's nights; each header is decoded once."""
        found: dict[Pair, dict[str, list[Point]]] = {}
        for pair, nights in self.nights.items():
            series = found[pair] = {name: [] for name in COLUMNS}
            for header in nights:
                marks = self.marks.get(header.evaluation_id, {})
                for name, nights_points in series.items():
                    metric = header.metric(name)
                    nights_points.append(Point(metric.value, metric.confidence_interval, marks.get(name)))
        return found

    def points(self, pair: Pair, figure: str) -> list[Point]:
        """The nights of a figure of the leaderboard, with what regressed or improved marked."""
        return self._series[pair][figure]


def read_report_data(workspace: Workspace, comparisons: Comparisons | None = None) -> ReportData:
    """Read the workspace; nothing is written.

    Args:
        workspace: Which.
        comparisons: Of the workspace as it is now; made when left out.
    """
    history = read_history(workspace)
    if comparisons is None:
        comparisons = read_comparisons(workspace)
    marks: dict[str, dict[str, str]] = {}
    for nights in comparisons.nights:
        for night in nights.nights:
            kinds = {name: found.kind for name, found in night.metrics.items()}
            _mark(marks, night.evaluation_id, kinds)
    for row in comparisons.rows:
        if row.kind == "baseline":
            kinds = {name: found.kind for name, found in row.verdicts.items()}
            _mark(marks, row.evaluation_id, kinds)
    stamps = {}
    for name in {benchmark for benchmark, _ in history.by_pair}:
        try:
            stamps[name] = Stamp.read(workspace.benchmark(name).stamp)
        except InputError:
            continue  # converted before and edited since: its results are still the newest there are
    return ReportData(
        workspace, history.by_pair, history.nights, history.reruns, history.damaged, Trust.of(workspace),
        comparisons.rows, marks, stamps,
    )  # fmt: skip


def comparison_name(row: Comparison) -> str:
    """The file of a comparison's page, without its folder."""
    return f"{row.benchmark}.{row.new}.against.{row.old}"


def leaderboard_metric(metric: str) -> str:
    """The figure on the leaderboard that a compared metric is."""
    return _FIGURES.get(metric.removeprefix("page/"), metric.removeprefix("page/"))


def _mark(marks: dict[str, dict[str, str]], evaluation_id: str | None, kinds: Mapping[str, str]) -> None:
    """Keeps what changed of a night."""
    if evaluation_id is None:
        return
    found = {leaderboard_metric(name): kind for name, kind in kinds.items() if kind in ("regressed", "improved")}
    if found:
        marks.setdefault(evaluation_id, {}).update(found)


ALERT_NIGHTS = 14  # before the newest evaluation; older alerts stay in their folder
ALERTS_SHOWN = 20


class RecentAlert(NamedTuple):
    """An alert on the first page.

    Args:
        alert: The alert that was sent.
        page: Of the comparison as it is now, else of the benchmark; None where neither is there.
        run: Page of the run in which it was seen; None where the report has none.
        standing: `still regressed`, `no longer regressed`; empty where nothing can be said.
    """

    alert: Alert
    page: str | None
    run: str | None
    status: str


class RecentAlerts(NamedTuple):
    """Alerts for the first page.

    Args:
        shown: Newest first.
        n_older: Readable ones that are not shown.
        damaged: A line for each file that cannot be read.
    """

    shown: Sequence[RecentAlert]
    n_older: int
    damaged: Sequence[str]


def recent_alerts(report: ReportData) -> RecentAlerts:
    """Return the alerts of the last nights."""
    alerts, damaged = _read(report.workspace)
    last = max([row.timestamp for row in report.newest] or [alert.night for alert in alerts], default=None)
    recent = [alert for alert in alerts if last is not None and alert.night >= last - timedelta(days=ALERT_NIGHTS)]
    recent = recent[-ALERTS_SHOWN:]
    shown = [_shown(report, alert) for alert in reversed(recent)]
    return RecentAlerts(shown, len(alerts) - len(shown), damaged)


def _read(workspace: Workspace) -> tuple[list[Alert], list[str]]:
    """Read the alerts, oldest first; a damaged one is left out and named."""
    alerts, damaged = [], []
    for path in sorted(alerts_folder(workspace).glob(f"*{SUFFIX}")):
        try:
            alerts.append(Alert.read(path))
        except InputError as error:
            damaged.append(str(error))
    return sorted(alerts, key=lambda alert: (alert.night, alert.alert_id)), damaged


def _shown(report: ReportData, alert: Alert) -> RecentAlert:
    row = _comparison(report, alert)
    page = None
    if row is not None and row.verdicts:
        page = f"comparisons/{comparison_name(row)}.html"
    elif alert.benchmark in report.benchmarks:
        page = f"benchmarks/{alert.benchmark}.html"
    pair = alert.benchmark or "", alert.system or ""
    runs = {header.evaluation_id for header in report.by_pair.get(pair, ())}
    run = f"runs/{alert.evaluation_id}/index.html" if alert.evaluation_id in runs else None
    return RecentAlert(alert, page, run, _status(row, alert))


def _comparison(report: ReportData, alert: Alert) -> Comparison | None:
    wanted = "baseline", alert.benchmark, alert.system
    return next((row for row in report.comparisons if (row.kind, row.benchmark, row.new) == wanted), None)


def _status(row: Comparison | None, alert: Alert) -> str:
    if row is None or not row.verdicts or not alert.changes:
        return ""
    kinds = {row.verdicts[change.metric].kind for change in alert.changes if change.metric in row.verdicts}
    return f"still {alert.kind}" if alert.kind in kinds else f"no longer {alert.kind}"


MIN_COVERAGE = 0.98  # below it a verdict is withheld
OVER_REFUSAL = 0.2  # a fifth of what could be answered
INVENTED = 0.5  # half of what could not be
FOUND, MISPLACED = 0.8, 0.3  # documents are found, and the citations point elsewhere all the same
SLOWER = 1.5  # times the median of the nights before; a busy machine does not reach it over a whole run
TREND_NIGHTS = 7


class Issue(NamedTuple):
    """A finding that a person should check.

    Args:
        kind: One cause, one word.
        benchmark: Where.
        system: Of which system.
        finding: What was measured, a sentence.
        remedy: What to do.
        page: Of the site.
    """

    kind: str
    benchmark: str
    system: str
    finding: str
    remedy: str
    page: str


def data_part(report: ReportData) -> dict[str, Any]:
    """The four parts, as plain values."""
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
            "comparisons": [comparison_record(row) for row in report.comparisons],
            "trends": [_trend(report, row) for row in report.newest],
            "issues": [issue._asdict() for issue in issues],
            "alerts": [one.alert.model_dump(mode="json") for one in recent_alerts(report).shown],
            "unreadable": list(report.damaged),
        },
        "recommendations": [*_recommendations(report), *(_advice(issue) for issue in issues)],
    }


def _summary(report: ReportData, row: ResultsHeader) -> dict[str, Any]:
    figures = {}
    for name in COLUMNS:
        metric = row.metric(name)
        figures[name] = {
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
        "metrics": figures,
        "cost": row.performance_metrics.get("api_usage", {}),
        "page": f"runs/{row.evaluation_id}/index.html",
    }


def _visualizations(report: ReportData) -> Iterator[dict[str, Any]]:
    """The numbers behind each chart over nights, and the page on which it is drawn."""
    for row in report.newest:
        nights = report.nights[row.benchmark, row.system]
        for name in COLUMNS:
            series = report.points((row.benchmark, row.system), name)
            if all(point.value is None for point in series):
                continue
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
    before = report.nights[row.benchmark, row.system][:-1][-TREND_NIGHTS:]
    changes = {}
    for name in COLUMNS:
        now = row.metric(name).value
        then = [value for header in before if (value := header.metric(name).value) is not None]
        changes[name] = now - sum(then) / len(then) if now is not None and then else None
    return {"benchmark": row.benchmark, "system": row.system, "nights_before": len(before), "change": changes}


def _issues(report: ReportData, row: ResultsHeader) -> Iterator[Issue]:
    page = f"runs/{row.evaluation_id}/index.html"

    def issue(kind: str, finding: str, remedy: str) -> Issue:
        return Issue(kind, row.benchmark, row.system, finding, remedy, page)

    total, failed = row.summary.get("total_queries") or 0, row.summary.get("failed_queries") or 0
    if total and failed / total > 1 - MIN_COVERAGE:
        finding = f"{failed:.0f} of {total:.0f} questions failed; below {100 * MIN_COVERAGE:g} % verdicts are withheld."
        yield issue("failures", finding, "Look at the errors of the failed questions, then evaluate again.")
    abstention = row.answer_quality_metrics.get("abstention", {})
    refused = (abstention.get("over_refusal_rate") or {}).get("value")
    if refused is not None and refused > OVER_REFUSAL:
        finding = f"The system abstains on {100 * refused:.0f} % of the answerable questions."
        yield issue("over_refusal", finding, "Loosen its rule for abstaining, or retrieve more.")
    invented, right = abstention.get("unanswerable_answered") or 0, abstention.get("unanswerable_abstained") or 0
    if invented and invented / (invented + right) > INVENTED:
        finding = f"It answers {invented} of {invented + right} questions that the documents do not answer."
        yield issue("invented", finding, "Ask it to abstain where nothing retrieved holds the answer.")
    found, cited = row.metric("hit@5").value, row.metric("citation_jaccard").value
    if found is not None and cited is not None and found >= FOUND and cited <= MISPLACED:
        finding = f"Documents are found (hit@5 {number(found)}), but citations overlap gold by {number(cited)} only."
        yield issue("misplaced_citations", finding, "Look at how it chooses cited spans; retrieval is not the cause.")
    before = [
        value
        for header in report.nights[row.benchmark, row.system][:-1][-TREND_NIGHTS:]
        if (value := header.metric("latency_p50_ms").value) is not None
    ]
    now = row.metric("latency_p50_ms").value
    reused = row.performance_metrics.get("reused_from")
    if now is not None and before and not reused:
        usual = sorted(before)[len(before) // 2]
        if usual > 0 and now > SLOWER * usual:
            finding = f"The median latency is {milliseconds(now)}; it was {milliseconds(usual)} in the nights before."
            yield issue("slower", finding, "Look at the server's load and at the stages of the slowest questions.")


def _advice(issue: Issue) -> dict[str, str]:
    return {
        "text": f"{issue.finding} {issue.remedy}",
        "where": f"{issue.benchmark} × {issue.system}",
        "page": issue.page,
    }


def _recommendations(report: ReportData) -> Iterator[dict[str, str]]:
    for row in report.comparisons:
        regressed = [name for name, found in row.verdicts.items() if found.kind == "regressed"]
        if row.kind != "baseline" or not regressed:
            continue
        changes = ", ".join(
            f"{metric_label(name)} {points(row.verdicts[name].evidence.estimate)}" for name in regressed
        )
        yield {
            "text": f"{changes} points against the baseline. Look at the questions that changed most.",
            "where": f"{row.benchmark} × {row.new}",
            "page": f"comparisons/{comparison_name(row)}.html",
        }
    doubted = [
        benchmark
        for benchmark in report.benchmarks
        if any(
            row.metric(name).value is not None and report.trust.doubt(row, name)
            for row in report.newest
            for name in TASKS
            if row.benchmark == benchmark
        )
    ]
    if doubted:
        yield {
            "text": f"The judge's figures decide nothing on {', '.join(doubted)} until its verdicts are compared with "
            "people's: label some answers and run rag-eval calibrate.",
            "where": "The judge",
            "page": f"benchmarks/{doubted[0]}.html",
        }
