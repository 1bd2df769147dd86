"""`report.json`: summary, visualizations, analysis and recommendations, for programs and for the first page.

What a judge that is not calibrated says leads to no issue and to no recommendation but to calibrate it.
Source: Citation Accuracy Evaluation 9.2, generate_report.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rag_eval_pipeline.reporting.comparison import comparison_record
from rag_eval_pipeline.reporting.history import ResultsHeader
from rag_eval_pipeline.reporting.leaderboard import COLUMNS
from rag_eval_pipeline.reporting.site.comparison_pages import comparison_name
from rag_eval_pipeline.reporting.site.meanings import metric_label
from rag_eval_pipeline.reporting.site.morning import Morning
from rag_eval_pipeline.reporting.site.numbers import milliseconds, number, points
from rag_eval_pipeline.reporting.site.told_alerts import told_alerts
from rag_eval_pipeline.reporting.trust import TASKS

MIN_COVERAGE = 0.98  # below it a verdict is withheld
OVER_REFUSAL = 0.2  # a fifth of what could be answered
INVENTED = 0.5  # half of what could not be
FOUND, MISPLACED = 0.8, 0.3  # documents are found, and the citations point elsewhere all the same
SLOWER = 1.5  # times the median of the nights before; a busy machine does not reach it over a whole run
TREND_NIGHTS = 7


class Issue(NamedTuple):
    """Something that a person should look at.

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


def data_part(morning: Morning) -> dict[str, Any]:
    """The four parts, as plain values."""
    issues = [issue for row in morning.newest for issue in _issues(morning, row)]
    return {
        "summary": {
            "evaluations": len(morning.newest),
            "benchmarks": list(morning.benchmarks),
            "systems": list(morning.systems),
            "newest": max((row.timestamp.isoformat() for row in morning.newest), default=None),
            "pairs": [_summary(morning, row) for row in morning.newest],
        },
        "visualizations": list(_visualizations(morning)),
        "analysis": {
            "comparisons": [comparison_record(row) for row in morning.comparisons],
            "trends": [_trend(morning, row) for row in morning.newest],
            "issues": [issue._asdict() for issue in issues],
            "alerts": [one.alert.model_dump(mode="json") for one in told_alerts(morning).shown],
            "unreadable": list(morning.damaged),
        },
        "recommendations": [*_recommendations(morning), *(_advice(issue) for issue in issues)],
    }


def _summary(morning: Morning, row: ResultsHeader) -> dict[str, Any]:
    figures = {}
    for name in COLUMNS:
        metric = row.metric(name)
        figures[name] = {
            "value": metric.value,
            "confidence_interval": metric.confidence_interval,
            "n_scored": metric.n_scored,
            "reason": metric.reason,
            "doubt": morning.trust.doubt(row, name),
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


def _visualizations(morning: Morning) -> Iterator[dict[str, Any]]:
    """The numbers behind each chart over nights, and the page on which it is drawn."""
    for row in morning.newest:
        nights = morning.nights[row.benchmark, row.system]
        for name in COLUMNS:
            series = morning.points((row.benchmark, row.system), name)
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


def _trend(morning: Morning, row: ResultsHeader) -> dict[str, Any]:
    """Tonight against the mean of up to seven nights before; a description, no verdict."""
    before = morning.nights[row.benchmark, row.system][:-1][-TREND_NIGHTS:]
    changes = {}
    for name in COLUMNS:
        now = row.metric(name).value
        then = [value for header in before if (value := header.metric(name).value) is not None]
        changes[name] = now - sum(then) / len(then) if now is not None and then else None
    return {"benchmark": row.benchmark, "system": row.system, "nights_before": len(before), "change": changes}


def _issues(morning: Morning, row: ResultsHeader) -> Iterator[Issue]:
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
        for header in morning.nights[row.benchmark, row.system][:-1][-TREND_NIGHTS:]
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


def _recommendations(morning: Morning) -> Iterator[dict[str, str]]:
    for row in morning.comparisons:
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
        for benchmark in morning.benchmarks
        if any(
            row.metric(name).value is not None and morning.trust.doubt(row, name)
            for row in morning.newest
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
