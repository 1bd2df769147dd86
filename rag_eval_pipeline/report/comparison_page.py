"""The page of a comparison, with its chart and its table of questions."""

from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.metrics.verdicts import Verdict
from rag_eval_pipeline.report.charts import Change, changes_chart
from rag_eval_pipeline.report.data import ReportData, comparison_name
from rag_eval_pipeline.report.metrics import metric_view
from rag_eval_pipeline.report.render import SiteFolder, render
from rag_eval_pipeline.report.runs import QuestionNight, QuestionRow
from rag_eval_pipeline.report.text import data_script, replace_control_chars, shortened
from rag_eval_pipeline.reporting.comparison import Comparison
from rag_eval_pipeline.reporting.history import ResultsHeader

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
