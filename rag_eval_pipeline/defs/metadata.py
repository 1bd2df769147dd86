"""Metadata of materializations: numbers that Dagster plots, tables, images, and links to the report."""

import base64
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import dagster as dg

from rag_eval_pipeline.errors import DocumentError, shortened
from rag_eval_pipeline.workspace import Workspace

DIGITS = 6
TABLE_ROWS = 200  # the UI draws every row at once
MAX_TEXT_CHARS = 2000  # metadata is kept in Dagster's database, and a question or an answer may be of megabytes
MAX_CELL_CHARS = 500
REPORT_URL_VARIABLE = "RAG_EVAL_REPORT_URL"
ROW_COUNT = "dagster/row_count"  # Dagster's own
# Shown on each asset's page, so that people know whom to ask.
OWNERS = [one for part in os.environ.get("RAG_EVAL_OWNERS", "team:rag-evaluation").split(",") if (one := part.strip())]

# Table -> columns of the leaderboard. The UI cuts off a table of more than six narrow columns.
LEADERBOARD_TABLES = {
    "leaderboard": ("questions", "failed", "exact_match", "f1"),
    "answers": ("judged_correct", "abstention_f1"),
    "evidence": ("tolerance_jaccard", "faithfulness", "latency_p50_ms"),
    "retrieval": ("level", "hit@1", "ndcg@10"),
}
LEVELS = {"document": "doc"}
# Every number is a row of the metadata table and a plot, and the page slows down with more than these.
MAX_TREND_LINES = 400
TREND_ORDER = ("exact_match", "f1", "ndcg@10", "judged_correct", "tolerance_jaccard", "abstention_f1", "hit@1")

REASONS = {
    "is_baseline": "this evaluation is the baseline; later ones are compared with it",
    "no_baseline": "no earlier evaluation to compare with",
    "not_published": "no published evaluation",
}
ALL_METRICS = "all"  # the metric of a row with the reason why a pair was not compared
METRICS_NAMED = 3


def labelled(values: Mapping[str, float | None]) -> dict[str, float]:
    """Return metrics by their labels and other numbers by their names, rounded as by `numbers`."""
    return numbers({_label(name): one for name, one in values.items()})


def _label(name: str) -> str:
    """Return what people read for a metric, with the unit of milliseconds; other names as they are."""
    from rag_eval_pipeline.metrics.metric_info import OF_SEGMENT
    from rag_eval_pipeline.metrics.registry import find_metric_info, metric_label

    if find_metric_info(name.partition(OF_SEGMENT)[0]) is None:
        return name
    return f"{metric_label(name)} (ms)" if name.endswith("_ms") else metric_label(name)


def numbers(values: Mapping[str, int | float | None]) -> dict[str, float]:
    """Round to the six digits of results files, and leave out None."""
    return {name: round(float(value), DIGITS) for name, value in values.items() if value is not None}


def table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue | dg.TextMetadataValue:
    """Return the first `TABLE_ROWS` rows as a table whose last row counts the rest."""
    if not rows:
        return dg.MetadataValue.text("none")
    records = [dg.TableRecord({name: _cell(value) for name, value in row.items()}) for row in rows[:TABLE_ROWS]]
    if more := len(rows) - len(records):
        records.append(dg.TableRecord({name: "" if n else f"and {more} more" for n, name in enumerate(rows[0])}))
    return dg.MetadataValue.table(records)


def _cell(value: object) -> int | float | bool | str:
    if isinstance(value, float):
        return round(value, 3)
    return value if isinstance(value, int | bool) else "-" if value is None else shortened(str(value), MAX_CELL_CHARS)


def text(value: str) -> dg.TextMetadataValue:
    """Return a text as it is, up to `MAX_TEXT_CHARS`; the UI shows no Markdown in it."""
    return dg.MetadataValue.text(shortened(value, MAX_TEXT_CHARS))


def inert(value: str) -> str:
    """Return one paragraph of Markdown without links, images and HTML, for a text in which others had a say.

    The UI shows descriptions of check results as Markdown, and a viewer's browser would request the images in it.
    """
    # Entities, because a text may end in the backslash that undoes another one.
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", " ".join(value.split()).replace("](", "]&#40;"))


def svg_image(svg: str, title: str) -> dg.MarkdownMetadataValue:
    """Return an SVG as a data URI, since Dagster strips raw SVG."""
    return _image(svg.encode(), "image/svg+xml", title)


def png_image(draw: Callable[[], bytes], title: str) -> dg.MarkdownMetadataValue | dg.TextMetadataValue:
    """Return a PNG as a data URI, or the reason why it could not be drawn: no product depends on it."""
    try:
        return _image(draw(), "image/png", title)
    except (DocumentError, OSError) as error:
        return text(f"not drawn: {error}")


def _image(data: bytes, media_type: str, title: str) -> dg.MarkdownMetadataValue:
    return dg.MetadataValue.md(f"![{title}](data:{media_type};base64,{base64.b64encode(data).decode()})")


def report_link(workspace: Workspace, page: str = "index.html") -> dg.UrlMetadataValue | dg.PathMetadataValue:
    """Return the address of a page of the report, or its path if the report has no address.

    The address is `report_url` of alerts.config.yaml, else that of the server that `make up` runs beside the UI.
    """
    from rag_eval_pipeline.monitoring.alert_files import read_alert_settings

    base = read_alert_settings(workspace).settings.report_url or os.environ.get(REPORT_URL_VARIABLE)
    if not base:
        return dg.MetadataValue.path(workspace.reports / page)
    return dg.MetadataValue.url(f"{base.rstrip('/')}/{quote(page)}")


def leaderboard_table(cells: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return the leaderboard's rows with some of its columns; one that it lacks is "-"."""
    return [
        {"benchmark": row["benchmark"], "system": row["system"]}
        | {_label(column): LEVELS.get(value := row.get(column, "-"), value) for column in columns}
        for row in cells
    ]


def trend_lines(values: Mapping[str, float | None], *, n_pairs: int) -> dict[str, float | None]:
    """Return the values that are plotted over nights: whole metrics of `n_pairs` lines, up to `MAX_TREND_LINES`."""
    metrics = list(dict.fromkeys([*TREND_ORDER, *(name.partition("/")[0] for name in values)]))
    plotted = metrics[: MAX_TREND_LINES // max(1, n_pairs)]
    found = {}
    for name, value in values.items():
        metric, slash, pair = name.partition("/")
        if metric in plotted:
            found[f"{_label(metric)}{slash}{pair}"] = value
    return found


def verdict_table(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the verdicts, changes first; metrics of one comparison that share a sentence share a row."""
    from rag_eval_pipeline.metrics.verdict_rules import CHANGES

    metrics: dict[tuple[bool, str, str], list[str]] = {}
    for cell in cells:
        if cell["metric"] != ALL_METRICS:
            is_change = cell["verdict"] in CHANGES
            key = (not is_change, _comparison(cell), cell["sentence"] or cell["verdict"])
            metrics.setdefault(key, []).append(_label(cell["metric"]))
    rows = sorted(metrics.items(), key=lambda row: row[0][0])
    return [{"who": comparison, "verdict": _prefixed(names, text)} for (_, comparison, text), names in rows]


def _prefixed(names: Sequence[str], sentence: str) -> str:
    if len(names) == 1 and sentence.startswith(names[0]):
        return sentence
    more = len(names) - METRICS_NAMED
    return f"{', '.join(names[:METRICS_NAMED])}{f' and {more} more' if more > 0 else ''}: {sentence}"


def not_compared_table(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the pairs without any verdict, and why."""
    return [
        {"who": _comparison(cell), "why": REASONS.get(reason := str(cell["verdict"]), reason.replace("_", " "))}
        for cell in cells
        if cell["metric"] == ALL_METRICS
    ]


def _comparison(cell: Mapping[str, Any]) -> str:
    return f"{cell['benchmark']}: {cell.get('comparison') or cell['system']}"
