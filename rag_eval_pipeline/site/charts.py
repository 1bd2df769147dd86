"""The report's charts as SVG: colours come from the style sheet; each has a title for screen readers."""

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from rag_eval_pipeline.metrics.verdict_rules import CHANGES
from rag_eval_pipeline.site.display_text import milliseconds, points

WIDTH, HEIGHT = 380, 210
LEFT, RIGHT, TOP, BOTTOM = 40, 14, 12, 26
TICKS = 4  # of an axis, about
SERIES = 6  # colours of the style sheet; a seventh series has the first colour again

Scale = Callable[[float], float]


def ticks(low: float, high: float) -> list[float]:
    """Return round numbers at equal steps (1, 2, 2.5 or 5 times a power of ten) that enclose both limits."""
    if not high > low:
        low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
    rough = (high - low) / TICKS
    power = math.pow(10, math.floor(math.log10(rough)))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(n * step, 10) for n in range(first, last + 1)]


def text(x: float, y: float, content: str, css: str = "tick", anchor: str = "start") -> str:
    """Draw text, escaped."""
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def path(css: str, way: str) -> str:
    """Draw a path."""
    return f'<path class="{css}" d="{way}"/>'


def box(css: str, x: float, y: float, width: float, height: float) -> str:
    """Draw a rectangle."""
    return f'<rect class="{css}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def shape(number: int, x: float, y: float) -> str:
    """Draw the marker of a series: circle, square, triangle, and again."""
    css = f"dot s{number % SERIES}"
    if number % 3 == 0:
        return f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>'
    if number % 3 == 1:
        return box(css, x - 3, y - 3, 6, 6)
    return path(css, f"M{x:.1f} {y - 4:.1f}l4 7h-8z")


def legend_mark(number: int) -> Markup:
    """Return the marker of a series for a legend."""
    size = 'width="12" height="12" viewBox="0 0 12 12"'
    return Markup(f'<svg class="key" {size} aria-hidden="true">{shape(number, 6, 6)}</svg>')


def svg(parts: Sequence[str], width: float, height: float, title: str, css: str = "chart") -> Markup:
    """Return a whole chart; `parts` are markup."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return Markup(f'<svg class="{css}" {size} role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>')


_EVIDENCE_HEIGHT = 64
_SPARK_WIDTH, _SPARK_HEIGHT = 84, 22
_SPARK_SPREAD = 0.02  # of a share: noise of half a point is no mountain range
_NIGHTS_WITH_SIGNS = 12  # with more of them, the signs would cover the lines


class Point(NamedTuple):
    """A night's value and interval, and `regressed`, `changed`, `improved` or None."""

    value: float | None
    interval: tuple[float, float] | None = None
    mark: str | None = None


class Line(NamedTuple):
    """A series of nights; `points` has one for each label of the chart."""

    name: str
    points: Sequence[Point]


def trend(lines: Sequence[Line], labels: Sequence[str], title: str, *, is_share: bool = True) -> Markup:
    """Draw a line for each series over nights, with intervals as bands and changes marked.

    Args:
        lines: The index of one is its colour, also of one without values.
        labels: Of the nights, oldest first.
    """
    known = [point for line in lines for point in line.points if point.value is not None]
    numbers: list[float] = [x for p in known for x in (p.value, *(p.interval or ())) if x is not None]
    if not numbers:
        return Markup('<p class="nothing">{}: nothing to draw.</p>').format(title)
    axis = ticks(min(numbers), max(numbers))
    if is_share:
        axis = [tick for tick in axis if -1e-9 <= tick <= 1 + 1e-9]
        if len(axis) < 2:
            axis = ticks(max(0.0, min(numbers) - 0.05), min(1.0, max(numbers) + 0.05))
    low, high = min(axis[0], *numbers), max(axis[-1], *numbers)

    def x(place: float) -> float:
        return _place(place, len(labels))

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / ((high - low) or 1)

    parts = []
    for tick in axis:
        parts.append(path("grid", f"M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"))
        parts.append(text(LEFT - 6, y(tick) + 3.5, f"{tick:g}", anchor="end"))
    last = len(labels) - 1
    for place in sorted({0, len(labels) // 2, last} if last > 1 else {0, last}):
        anchor = "middle" if 0 < place < last or not last else "start" if place == 0 else "end"
        parts.append(text(x(place), HEIGHT - 8, labels[place], anchor=anchor))
    for number, line in enumerate(lines):
        parts += _line(line, number, x, y, with_signs=len(labels) <= _NIGHTS_WITH_SIGNS)
    return svg(parts, WIDTH, HEIGHT, title)


def evidence_chart(lines: Sequence[Line], n_nights: int, alert_at: float, title: str) -> Markup:
    """Draw the evidence of a decline below the trend of the same nights, on a logarithmic axis.

    Args:
        lines: Values are evidence; below 1 it is drawn as 1.
        alert_at: The evidence that alerts, drawn as a line.
    """
    top = math.log10(max([alert_at, *(p.value or 0.0 for line in lines for p in line.points)]))

    def y(value: float) -> float:
        return _EVIDENCE_HEIGHT - 4 - (_EVIDENCE_HEIGHT - 18) * math.log10(max(1.0, value)) / top

    limit = y(alert_at)
    parts = [path("grid", f"M{LEFT} {y(1):.1f}H{WIDTH - RIGHT}"), path("alarm", f"M{LEFT} {limit:.1f}H{WIDTH - RIGHT}")]
    parts += [text(LEFT - 6, y(1) + 3.5, "1", anchor="end"), text(LEFT, limit - 4, f"alert at 1 : {alert_at:,.0f}")]
    for number, line in enumerate(lines):
        known = [(_place(n, n_nights), p.value) for n, p in enumerate(line.points) if p.value is not None]
        way = " ".join(f"{x:.1f},{y(value):.1f}" for x, value in known)
        parts += [f'<polyline class="line s{number % SERIES}" points="{way}"/>'] if len(known) > 1 else []
    return svg(parts, WIDTH, _EVIDENCE_HEIGHT, title)


def _place(night: float, n_nights: int) -> float:
    """Return the x of a night in a trend."""
    return LEFT + 8 + (WIDTH - LEFT - RIGHT - 16) * (night / (n_nights - 1) if n_nights > 1 else 0.5)


def sparkline(points: Sequence[Point], title: str, number: int = 0, *, is_share: bool = True) -> Markup:
    """Draw nights, oldest first, as a line without axes; nothing for fewer than two nights."""
    known = [(place, p.value, p.mark) for place, p in enumerate(points) if p.value is not None]
    if len(known) < 2:
        return Markup("")
    values = [value for _, value, _ in known]
    middle = (min(values) + max(values)) / 2
    spread = max(max(values) - min(values), _SPARK_SPREAD if is_share else 0.2 * abs(middle), 1e-9)

    def x(place: int) -> float:
        return 4 + (_SPARK_WIDTH - 8) * place / (len(points) - 1)

    def y(value: float) -> float:
        return _SPARK_HEIGHT / 2 - (_SPARK_HEIGHT - 8) * (value - middle) / spread

    way = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value, _ in known)
    parts = [f'<polyline class="line s{number % SERIES}" points="{way}"/>']
    for place, value, mark in known:
        if mark in CHANGES or place == known[-1][0]:
            css, radius = (mark, 3.0) if mark in CHANGES else (f"dot s{number % SERIES}", 2.2)
            parts.append(f'<circle class="{css}" cx="{x(place):.1f}" cy="{y(value):.1f}" r="{radius:g}"/>')
    return svg(parts, _SPARK_WIDTH, _SPARK_HEIGHT, title, css="spark")


def _line(line: Line, number: int, x: Scale, y: Scale, *, with_signs: bool) -> list[str]:
    css = f"s{number % SERIES}"
    known = [(place, p.value, p) for place, p in enumerate(line.points) if p.value is not None]
    banded = [(place, p.interval) for place, _, p in known if p.interval]
    parts = []
    if len(banded) > 1:
        upper = " ".join(f"{x(place):.1f},{y(limits[1]):.1f}" for place, limits in banded)
        lower = " ".join(f"{x(place):.1f},{y(limits[0]):.1f}" for place, limits in reversed(banded))
        parts.append(f'<polygon class="band {css}" points="{upper} {lower}"/>')
    elif banded:
        place, limits = banded[0]
        parts.append(path(f"whisker {css}", f"M{x(place):.1f} {y(limits[0]):.1f}V{y(limits[1]):.1f}"))
    if len(known) > 1:
        way = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value, _ in known)
        parts.append(f'<polyline class="line {css}" points="{way}"/>')
    for place, value, point in known:
        if with_signs or place == known[-1][0]:
            parts.append(shape(number, x(place), y(value)))
        if point.mark in CHANGES:
            parts.append(_mark(point.mark, x(place), y(value)))
    return parts


def _mark(kind: str, x: float, y: float) -> str:
    arrow = f"M{x:.1f} {y - 17:.1f}l-4.5 7h9z" if kind == "improved" else f"M{x:.1f} {y + 17:.1f}l-4.5 -7h9z"
    return f'<g class="{kind}"><circle cx="{x:.1f}" cy="{y:.1f}" r="6.5"/><path d="{arrow}"/></g>'


_ROW, _LABEL, _VALUE, _AXIS = 29, 124, 48, 22
_LABEL_CHARS = 20  # of a line of a label
_CHANGE_ENDS = 0.05  # five points each way, when no interval is wider
CHANGES_WIDTH = 420  # of its drawing; a phone shows it at four fifths


class Change(NamedTuple):
    """A change of a share and its interval; `css` is its colour."""

    label: str
    value: float
    interval: tuple[float, float] | None
    css: str


def changes_chart(rows: Sequence[Change], title: str, *, margin: float) -> Markup:
    """Draw changes of shares around zero, in points; within `margin`, a share, a change is small."""
    numbers = [x for row in rows for x in (row.value, *(row.interval or ()))]
    axis = ticks(min([-_CHANGE_ENDS, -margin, *numbers]), max([_CHANGE_ENDS, margin, *numbers]))
    height = _ROW * len(rows) + _AXIS + 4
    floor = height - _AXIS

    def x(number: float) -> float:
        return _LABEL + (CHANGES_WIDTH - _LABEL - _VALUE) * (number - axis[0]) / (axis[-1] - axis[0])

    parts = [box("strip", x(-margin), 0, x(margin) - x(-margin), floor)]
    for tick in axis:
        parts.append(path("zero" if abs(tick) < 1e-9 else "grid", f"M{x(tick):.1f} 0V{floor}"))
        parts.append(text(x(tick), height - 6, f"{100 * tick:g}".replace("-", "−"), anchor="middle"))
    for number, row in enumerate(rows):
        y = _ROW * number + _ROW / 2
        words = textwrap.wrap(row.label, _LABEL_CHARS, max_lines=2, placeholder=" …")
        for line, part in enumerate(words):
            parts.append(text(0, y + 4 + 13 * (line - (len(words) - 1) / 2), part, css="label"))
        if row.interval:
            parts.append(path(f"whisker {row.css}", f"M{x(row.interval[0]):.1f} {y}H{x(row.interval[1]):.1f}"))
        parts.append(f'<circle class="dot {row.css}" cx="{x(row.value):.1f}" cy="{y}" r="4"/>')
        parts.append(text(CHANGES_WIDTH, y + 4, points(row.value), css="value", anchor="end"))
    return svg(parts, CHANGES_WIDTH, height, title)


_BINS = 28
_SHORTEST_MS = 1e-3  # what is measured as nothing has a place on a logarithmic axis too
_DECADES_MIN = 0.3  # a factor of two: equal latencies are no spread


def latency_histogram(values: Sequence[float], marks: Sequence[tuple[str, float]], title: str) -> Markup:
    """Draw the number of questions by latency, in bins of equal ratio.

    Args:
        values: Milliseconds, one a question; at least one.
        marks: Name and milliseconds of what is marked, such as p95.
    """
    logs = [math.log10(max(value, _SHORTEST_MS)) for value in values]
    low, high = min(logs), max(logs)
    if high - low < _DECADES_MIN:
        low, high = (low + high - _DECADES_MIN) / 2, (low + high + _DECADES_MIN) / 2
    counts = [0] * _BINS
    for value in logs:
        counts[min(_BINS - 1, int((value - low) / (high - low) * _BINS))] += 1
    inside, top, floor, tallest = WIDTH - LEFT - RIGHT, TOP + 30, HEIGHT - BOTTOM, max(counts)
    parts = []
    for tick in sorted({0, math.ceil(tallest / 2), tallest}):
        y = floor - (floor - top) * tick / tallest
        parts.append(path("grid", f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}"))
        parts.append(text(LEFT - 6, y + 3.5, str(tick), anchor="end"))
    step = inside / _BINS
    for place, count in enumerate(counts):
        if count:
            tall = (floor - top) * count / tallest
            parts.append(box("bar s0", LEFT + place * step + 0.5, floor - tall, step - 1, tall))
    for place, (name, value) in enumerate(marks):
        share = (math.log10(max(value, _SHORTEST_MS)) - low) / (high - low)
        x = LEFT + inside * min(max(share, 0.0), 1.0)
        y = TOP + 12 * (place % 3)  # three names at three heights: they are often close to each other
        is_right = share > 0.8
        parts.append(path("limit", f"M{x:.1f} {y - 6}V{floor}"))
        parts.append(text(x - 3 if is_right else x + 3, y, name, anchor="end" if is_right else "start"))
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        label = milliseconds(math.pow(10, low + share * (high - low)))
        parts.append(text(LEFT + inside * share, HEIGHT - 8, label, anchor=anchor))
    return svg(parts, WIDTH, HEIGHT, title)
