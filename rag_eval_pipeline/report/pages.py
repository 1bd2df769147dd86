"""The pages of the report: overview, benchmark, comparison and run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.metrics.verdicts import Verdict
from rag_eval_pipeline.report.charts import (
    Change,
    Line,
    Point,
    changes_chart,
    latency_histogram,
    sparkline,
    trend,
)
from rag_eval_pipeline.report.data import ReportData, comparison_name, recent_alerts
from rag_eval_pipeline.report.metrics import (
    CATEGORY_HEADINGS,
    PAGE,
    MetricView,
    custom_metric_view,
    metric_groups,
    metric_view,
    shown,
)
from rag_eval_pipeline.report.page_images import PageImages
from rag_eval_pipeline.report.question import (
    document_spans,
    question_details,
    question_sheet,
    question_table,
    select_for_images,
)
from rag_eval_pipeline.report.render import SiteFolder, render
from rag_eval_pipeline.report.runs import (
    OUTCOMES,
    Outcome,
    QuestionNight,
    QuestionRow,
    QuestionsFile,
    RunFile,
    RunSources,
    change,
)
from rag_eval_pipeline.report.text import (
    Cell,
    data_script,
    replace_control_chars,
    shortened,
    spreadsheet,
)
from rag_eval_pipeline.reporting.comparison import NOT_CALIBRATED, TASKS, Comparison
from rag_eval_pipeline.reporting.history import ResultsHeader
from rag_eval_pipeline.reporting.leaderboard import COLUMNS

MARGIN = 0.02  # within it a change is small, as the verdicts have it
_ORDER = ("regressed", "improved", "withheld", "inconclusive", "equivalent", "no_verdict")


def strongest(row: Comparison) -> str:
    """Return the first of a comparison's verdicts in the order of what matters."""
    kinds = {found.kind for found in row.verdicts.values()}
    return next((kind for kind in _ORDER if kind in kinds), "none")


def by_weight(verdicts: Mapping[str, Verdict]) -> list[tuple[str, Verdict]]:
    """Return metrics and verdicts, regressions first."""
    return sorted(verdicts.items(), key=lambda item: _ORDER.index(item[1].kind))


def write_comparison(
    site: SiteFolder,
    report: ReportData,
    row: Comparison,
    nights: Mapping[str, QuestionNight],
    questions: Mapping[str, Sequence[QuestionRow]],
) -> None:
    """Write the page of a comparison and its table of questions.

    Args:
        nights: Scores by evaluation.
        questions: Texts by evaluation, of those whose questions have pages.
    """
    nights_of_new = report.nights[row.benchmark, row.new]
    new = next((one for one in nights_of_new[::-1] if one.evaluation_id == row.evaluation_id), nights_of_new[-1])
    provisional = report.provisional(row)
    old_ids = list(provisional.earlier) if provisional else _old_ids(report, row)
    name = comparison_name(row)
    table = _table(new, old_ids, nights, questions)
    if table is not None:
        site.write(f"comparisons/{name}.js", data_script("comparison", table))
    ordered = by_weight(row.verdicts)
    dots = [
        Change(
            metric_view(metric).label,
            found.evidence.estimate / found.evidence.value_range,
            _scaled(found),
            found.kind if found.kind in ("regressed", "improved") else "quietly",
        )
        for metric, found in ordered
        if found.evidence.estimate is not None
    ]
    title = f"Changes of {row.new} against {row.old} with adjusted intervals, in points"
    page = render(
        "comparison.html",
        root="../",
        row=row,
        name=name,
        ordered=ordered,
        chart=changes_chart(dots, title, margin=MARGIN) if dots else None,
        new_run=new.evaluation_id,
        old_runs=[one for one in old_ids if one in questions],
        n_old=len(old_ids),
        provisional=provisional,
        rerun_page=f"runs/{row.rerun}/index.html" if row.rerun in nights else None,
        has_table=table is not None,
        texts={one.query_id: shortened(one.query_text, 160) for one in questions.get(new.evaluation_id, ())},
    )
    site.write(f"comparisons/{name}.html", page)


def _scaled(found: Verdict) -> tuple[float, float] | None:
    limits = found.evidence.adjusted_interval or found.evidence.confidence_interval
    return None if limits is None else (limits[0] / found.evidence.value_range, limits[1] / found.evidence.value_range)


def _old_ids(report: ReportData, row: Comparison) -> list[str]:
    if row.kind == "systems":
        return [report.nights[row.benchmark, row.old][-1].evaluation_id]
    try:
        baseline = read_baseline(report.workspace, row.benchmark, row.new)
    except InputError:
        return []
    return list(baseline.evaluations) if baseline else []


def _table(
    new: ResultsHeader,
    old_ids: Sequence[str],
    nights: Mapping[str, QuestionNight],
    questions: Mapping[str, Sequence[QuestionRow]],
) -> dict[str, Any] | None:
    """Return the questions that both sides were asked, those first whose F1 differs most."""
    rows = questions.get(new.evaluation_id)
    olds = [nights[one] for one in old_ids if one in nights]
    if rows is None or not olds:
        return None
    now = nights[new.evaluation_id].scores

    def is_shared(row: QuestionRow) -> bool:
        sides = (now, *(old.scores for old in olds))
        texts = {found.text if (found := side.get(row.query_id)) else None for side in sides}
        return len(texts) == 1 and None not in texts

    shared = [row for row in rows if is_shared(row)]
    decisive = next((one for one in reversed(old_ids) if one in questions), None)
    answers = {one.query_id: one.generated_answer for one in questions[decisive]} if decisive else {}

    def before(row: QuestionRow, name: str) -> float | None:
        values = [getattr(one.scores[row.query_id], name) for one in olds]
        return None if any(value is None for value in values) else round(sum(values) / len(values), 4)

    def after(row: QuestionRow, name: str) -> float | None:
        value: float | None = getattr(now[row.query_id], name)
        return None if value is None else round(value, 4)

    old_f1, new_f1 = [before(row, "f1") for row in shared], [after(row, "f1") for row in shared]
    changes = [None if a is None or b is None else round(b - a, 4) for a, b in zip(old_f1, new_f1, strict=True)]
    columns = [
        ("id", "Id", "id", [replace_control_chars(row.query_id) for row in shared]),
        ("question", "Question", "text", [shortened(row.query_text, 240) for row in shared]),
        ("old", "Answer before", "text", [shortened(answers.get(row.query_id) or "", 240) for row in shared]),
        ("answer", "Answer now", "text", [shortened(row.generated_answer or "", 240) for row in shared]),
        ("f1_before", "F1 before", "number", old_f1),
        ("f1", "F1 now", "number", new_f1),
        ("change", "Δ F1", "points", changes),
        ("rank", "nDCG", "number", [after(row, "rank") for row in shared]),
    ]
    links = [{"column": "question", "href": f"../runs/{new.evaluation_id}/question.html#"}]
    if decisive:
        links.append({"column": "old", "href": f"../runs/{decisive}/question.html#"})
    else:
        columns = [column for column in columns if column[0] != "old"]
    place = next(n for n, column in enumerate(columns) if column[0] == "change")
    return {
        "caption": "Questions of both sides",
        "columns": [{"name": name, "label": label, "kind": kind} for name, label, kind, _ in columns],
        "values": [values for *_, values in columns],
        "filters": [{"column": "change", "label": "F1"}],
        "links": links,
        "sort": {"column": place, "isDown": True, "isAbsolute": True},
    }


NIGHTS_IN_SPARKLINE = 30
FIRST_SHOWN = "f1"
DECISIVE = ("regressed", "improved", "equivalent")


def overview_page(report: ReportData, data: dict[str, Any]) -> bytes:
    """Render `index.html`; `data` is the content of `report.json`."""
    baselines = [row for row in report.comparisons if row.kind == "baseline"]
    others = [
        (row, comparison_name(row), strongest(row), by_weight(row.verdicts))
        for row in report.comparisons
        if row.kind == "systems"
    ]
    kinds = [found.kind for row in baselines for found in row.verdicts.values()]
    costs = {row.evaluation_id: _cost(row) for row in report.newest}
    return render(
        "overview.html",
        newest=max((row.timestamp for row in report.newest), default=None),
        report=report,
        rows=report.newest,
        news=list(_news(report, baselines)),
        n_regressed=kinds.count("regressed"),
        n_improved=kinds.count("improved"),
        unpinned=[row for row in baselines if row.reason == "no_baseline"],
        decisive=[other for other in others if other[2] in DECISIVE],
        undecided=[other for other in others if other[2] not in DECISIVE],
        provisional=_by_progress(report, baselines),
        first=[row for row in baselines if row.reason == "is_baseline"],
        refused=[row for row in baselines if row.reason not in (None, "no_baseline", "is_baseline")],
        alerts=recent_alerts(report),
        metrics=[metric_view(name) for name in COLUMNS],
        first_shown=FIRST_SHOWN,
        matrices={name: _matrix(report, name) for name in COLUMNS},
        shown={(row.evaluation_id, name): shown(row, name, report.trust) for row in report.newest for name in COLUMNS},
        most_cost=max(costs.values(), default=0.0),
        costs=costs,
        # Comparisons are shown above, under what changed.
        todo=[one for one in data["recommendations"] if not one["page"].startswith("comparisons/")],
    )


def _by_progress(report: ReportData, baselines: Sequence[Comparison]) -> dict[str, list[tuple[Comparison, str]]]:
    found: dict[str, list[tuple[Comparison, str]]] = {}
    for row in baselines:
        if progress := report.provisional(row):
            found.setdefault(progress.words, []).append((row, comparison_name(row)))
    return found


def _news(report: ReportData, baselines: Sequence[Comparison]) -> Iterator[tuple[Any, ...]]:
    """Yield comparison, page, worst verdict, whether it is provisional, and the metrics that changed; worst first."""
    for kind in ("regressed", "improved"):
        for row in baselines:
            if strongest(row) == kind:
                changed = [(m, f) for m, f in by_weight(row.verdicts) if f.kind in ("regressed", "improved")]
                yield row, comparison_name(row), kind, report.provisional(row), changed


def leaderboard_sheet(report: ReportData) -> bytes:
    """Return the leaderboard with intervals as a spreadsheet."""
    header = ["benchmark", "system", "evaluation_id", "timestamp", "queries", "failed", "level"]
    for name in COLUMNS:
        header += [name, f"{name}_low", f"{name}_high", f"{name}_n", f"{name}_doubt"]

    def cells(row: Any) -> list[Cell]:
        line: list[Cell] = [row.benchmark, row.system, row.evaluation_id, row.timestamp.isoformat()]
        line += [row.summary.get("total_queries"), row.summary.get("failed_queries"), row.retrieval_level]
        for name in COLUMNS:
            found = shown(row, name, report.trust)
            limits = found.metric.confidence_interval or (None, None)
            line += [found.metric.value, *limits, found.metric.n_scored, found.doubt]
        return line

    return spreadsheet(header, (cells(row) for row in report.newest))


def _matrix(report: ReportData, name: str) -> dict[str, dict[str, Any]]:
    """Return benchmark -> system -> header, cell, sparkline and mark."""
    matrix: dict[str, dict[str, Any]] = {}
    view = metric_view(name)
    for row in report.newest:
        pair = row.benchmark, row.system
        points = report.points(pair, name)[-NIGHTS_IN_SPARKLINE:]
        title = f"{view.label} of {row.system} on {row.benchmark}, last {len(points)} runs"
        spark = sparkline(points, title, report.systems.index(row.system), is_share=view.is_share)
        mark = points[-1].mark
        matrix.setdefault(row.benchmark, {})[row.system] = (row, shown(row, name, report.trust), spark, mark)
    return matrix


def _cost(row: Any) -> float:
    usage = row.performance_metrics.get("api_usage", {}).get("estimated_cost_usd") or 0.0
    judge = row.performance_metrics.get("judge_usage", {}).get("estimated_cost_usd") or 0.0
    return float(usage + judge)


NIGHTS_DRAWN = 90  # a quarter of a year; older nights are in the list of runs


def write_benchmark(site: SiteFolder, report: ReportData, benchmark: str) -> None:
    """Write the page of a benchmark."""
    pairs = [(benchmark, system) for system in report.systems if (benchmark, system) in report.by_pair]
    rows = [report.nights[pair][-1] for pair in pairs]
    metrics = [metric_view(name) for name in COLUMNS if any(row.metric(name).value is not None for row in rows)]
    page = render(
        "benchmark.html",
        root="../",
        benchmark=benchmark,
        rows=rows,
        places=[report.systems.index(row.system) for row in rows],
        metrics=metrics,
        shown={(row.system, view.name): shown(row, view.name, report.trust) for row in rows for view in metrics},
        trends=[(view, _trend(report, benchmark, view)) for view in metrics],
        n_nights=len({header.timestamp.date() for pair in pairs for header in report.nights[pair]}),
        n_runs=max(len(report.nights[pair]) for pair in pairs),
        comparisons=[
            (row, comparison_name(row), strongest(row), by_weight(row.verdicts), report.provisional(row))
            for row in report.comparisons
            if row.benchmark == benchmark
        ],
        stamp=report.stamps.get(benchmark),
        runs=sorted(
            (header for pair in pairs for header in report.by_pair[pair]),
            key=lambda header: (header.timestamp, header.evaluation_id),
            reverse=True,
        ),
        marks=report.marks,
        reruns=report.reruns,
    )
    site.write(f"benchmarks/{benchmark}.html", page)


def _trend(report: ReportData, benchmark: str, view: MetricView) -> Any:
    """Draw a line for each system over the days on which any was evaluated."""
    nights = {}
    for system in report.systems:
        pair = benchmark, system
        if pair in report.by_pair:
            nights[system] = zip(report.nights[pair], report.points(pair, view.name), strict=True)
    # Of several nights on one day, the n-th of each system share a place.
    places: set[tuple[str, int]] = set()
    placed: dict[str, dict[tuple[str, int], Point]] = {}
    for system, own in nights.items():
        seen: dict[str, int] = {}
        for header, point in own:
            day = f"{header.timestamp:%Y-%m-%d}"
            seen[day] = seen.get(day, 0) + 1
            placed.setdefault(system, {})[day, seen[day]] = point
            places.add((day, seen[day]))
    labels = sorted(places)[-NIGHTS_DRAWN:]
    lines = [
        Line(system, [placed.get(system, {}).get(label, Point(None)) for label in labels]) for system in report.systems
    ]
    title = f"{view.label} over {len({day for day, _ in labels})} nights"
    return trend(lines, [day[5:] for day, _ in labels], title, is_share=view.is_share)


TILES = ("f1", "exact_match", "ndcg@10", "abstention_f1", "citation_jaccard", "judged_correct", "latency_p50_ms")
VALUE_LENGTH = 400  # code points of a setting
QUESTIONS_A_FILE = 40  # some 300 kB: one file is read in the time of a click


def write_run(
    site: SiteFolder,
    report: ReportData,
    run: RunSources,
    *,
    night: QuestionNight,
    before: QuestionNight | None,
    pictures: PageImages | None,
) -> None:
    """Write the pages of a run with its questions.

    Args:
        night: Its scores.
        before: The night before; None for the first.
        pictures: None if the corpus is not what the run saw, or the run is not the newest.
    """
    folder = f"runs/{run.header.evaluation_id}"
    rows = run.file.query_results
    queries = run.dataset.queries
    outcomes = [
        row.outcome(is_impossible=q.is_impossible if (q := queries.get(row.query_id)) else None) for row in rows
    ]
    changes = [change(night.scores.get(row.query_id), before, row.query_id) for row in rows]
    site.write(f"{folder}/data/questions.js", data_script("questions", question_table(run, outcomes, changes)))
    site.write(f"{folder}/questions.csv", spreadsheet(*question_sheet(run, outcomes, changes)))
    pictured = select_for_images(outcomes, changes) if pictures else set()
    for first in range(0, len(rows), QUESTIONS_A_FILE):
        details = []
        for place in range(first, min(first + QUESTIONS_A_FILE, len(rows))):
            row = rows[place]
            answer, query = run.answers[row.query_id], queries.get(row.query_id)
            drawn = pictures.of(document_spans(answer, query)) if pictures and place in pictured else []
            details.append(
                question_details(
                    row, answer, query, run.judgements.get(row.query_id), texts=run.dataset.texts, pictures=drawn
                )
            )
        name = f"details-{first // QUESTIONS_A_FILE:03d}"
        site.write(f"{folder}/data/{name}.js", data_script(name, details))
    if pictures:
        site.keep(sorted(pictures.used))
        pictures.used.clear()
    # Claims and verdicts of a judge that is not calibrated are shown in grey.
    is_doubted = run.judgements and any(report.trust.doubt(run.header, name) for name in TASKS)
    title = f"{run.header.benchmark} × {run.header.system}"
    names = {name for row in rows for name in row.individual_metrics}
    judged = [n for n in sorted(names) if n in run.header.judge_metrics or metric_view(n).category == "claims"]
    doubt = NOT_CALIBRATED if is_doubted else ""
    values = {"run": run.header, "title": title, "chunk": QUESTIONS_A_FILE, "doubt": doubt, "judged": judged}
    site.write(f"{folder}/question.html", render("question.html", root="../../", **values))
    latencies = [row.latency_ms for row in rows if row.status == "ok" and row.latency_ms is not None]
    write_run_page(site, report, run.header, run=run, latencies=latencies, outcomes=outcomes)


def write_run_page(
    site: SiteFolder,
    report: ReportData,
    header: Any,
    *,
    run: RunSources | None = None,
    latencies: Sequence[float] = (),
    outcomes: Sequence[Outcome] = (),
) -> None:
    """Write the page of a run's metrics; without `run`, of an older one whose questions are not in the report."""
    nights = [
        one
        for one in report.by_pair[header.benchmark, header.system]
        if one.evaluation_id not in report.reruns or one.evaluation_id == header.evaluation_id
    ]
    place = next(n for n, other in enumerate(nights) if other.evaluation_id == header.evaluation_id)
    stats = header.performance_metrics.get("latency_stats", {})
    marks = [(name, stats[name]) for name in ("p50", "p95", "p99") if stats.get(name) is not None]
    values = {
        "run": header,
        "sources": run,
        "previous": nights[place - 1] if place else None,
        "rerun_of": report.reruns.get(header.evaluation_id),
        "groups": metric_groups(header, run.file if run else RunFile(), report.trust),
        "abstention": header.answer_quality_metrics.get("abstention", {}),
        "stats": stats,
        "latency_limits": header.performance_metrics.get("latency_intervals", {}),
        "usage": header.performance_metrics.get("api_usage", {}),
        "judge_usage": header.performance_metrics.get("judge_usage", {}),
        "reused_from": header.performance_metrics.get("reused_from"),
        "latency_chart": latency_histogram(latencies, marks, "Latency of the answered questions")
        if latencies
        else None,
        "outcomes": [(name, label, outcomes.count(name)) for name, label in OUTCOMES.items() if name in outcomes],
        "tiles": [shown(header, name, report.trust) for name in TILES],
        "configuration": _configuration(run) if run else [],
    }
    site.write(f"runs/{header.evaluation_id}/index.html", render("run.html", root="../../", **values))


def _configuration(run: RunSources) -> list[tuple[str, str]]:
    stated = {name: value for name, value in run.file.configuration.items() if value is not None}
    texts = {name: v if isinstance(v, str) else msgspec.json.encode(v).decode() for name, v in stated.items()}
    return [(name, shortened(text, VALUE_LENGTH)) for name, text in texts.items()]


def metric_meanings(files: Iterable[QuestionsFile]) -> dict[str, tuple[str, str, str]]:
    """Return label, meaning with direction, and heading of each metric of the questions that are shown."""
    found = {}
    for file in files:
        for name in {name: None for row in file.query_results for name in row.individual_metrics}:
            custom = file.own_metrics.get(name)
            view = custom_metric_view(name, custom) if custom else metric_view(name)
            heading = "Retrieval, by page" if name.startswith(PAGE) else CATEGORY_HEADINGS[view.category]
            way = f"{view.way.capitalize()}." if view.way else ""
            label, meaning = map(replace_control_chars, (view.label, f"{view.meaning} {way}".strip()))
            found[replace_control_chars(name)] = label, meaning, heading
    return found
