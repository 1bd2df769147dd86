"""Charts as SVG text: no script, no font, no network, so that a report can be mailed and Dagster can show them."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from rag_eval_pipeline.formats.results import Metric

WIDTH, LABEL, ROW, GAP, TOP = 760, 250, 18, 10, 36
COLOURS = ("#2f6f9f", "#d08a34", "#5d8a4a", "#8a5d9f", "#9f4a4a", "#4a8a8a")


class Bar(NamedTuple):
    """One bar: a share in [0, 1] with its interval, in a group."""

    group: str
    name: str
    value: float | None
    interval: tuple[float, float] | None


def bars(rows: Sequence[Bar], title: str) -> str:
    """Horizontal bars from 0 to 1 in groups, in the order given; a bar without value says "no value"."""
    names = list(dict.fromkeys(row.name for row in rows))
    parts = [
        _text(0, 14, title, weight="bold"),
        *(_text(_x(t / 4) - 6, 30, f"{t / 4:g}", colour="#777") for t in range(5)),
    ]
    y = TOP
    group: str | None = None
    for row in rows:
        if row.group != group:
            y += GAP if group is not None else 0
            group = row.group
            if group:
                parts.append(_text(0, y + 13, group, weight="bold"))
                y += ROW
        parts += _bar(row, y, COLOURS[names.index(row.name) % len(COLOURS) if group else 0])
        y += ROW
    style = "font-family:system-ui,sans-serif;font-size:12px"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 8}" viewBox="0 0 {WIDTH} {y + 8}" '
        f'style="{style}">{_grid(y)}{"".join(parts)}</svg>'
    )


def metric_bars(metrics: Mapping[str, Metric], title: str) -> str:
    """A bar a metric, with its interval."""
    rows = [Bar("", name, metric.value, metric.confidence_interval) for name, metric in metrics.items()]
    return bars(rows, title)


def _bar(row: Bar, y: int, colour: str) -> list[str]:
    label = _text(14, y + 13, row.name)
    if row.value is None:
        return [label, _text(LABEL, y + 13, "no value", colour="#777")]
    length = _x(row.value) - LABEL
    parts = [label, f'<rect x="{LABEL}" y="{y + 2}" width="{length:.1f}" height="{ROW - 5}" fill="{colour}"/>']
    if row.interval is not None:
        low, high = (_x(limit) for limit in row.interval)
        middle = y + ROW / 2 - 0.5
        parts.append(f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke="#222" stroke-width="1.5"/>')
    end = max(_x(row.value), _x(row.interval[1]) if row.interval else 0.0)
    parts.append(_text(end + 6, y + 13, f"{row.value:.3f}"))
    return parts


def _grid(height: int) -> str:
    lines = (f'<path d="M{_x(tick / 4):.1f} {TOP}V{height}" stroke="#ddd"/>' for tick in range(5))
    return "".join(lines)


def _x(value: float) -> float:
    return LABEL + (WIDTH - LABEL - 60) * value


def _text(x: float, y: float, text: str, *, weight: str = "normal", colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y}" font-weight="{weight}" fill="{colour}">{escape(text)}</text>'
