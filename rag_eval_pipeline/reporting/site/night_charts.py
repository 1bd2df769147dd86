"""Figures over nights: as a chart with intervals, and as a line of a table's height."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from rag_eval_pipeline.reporting.site.drawing import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    SERIES,
    TOP,
    WIDTH,
    Scale,
    nothing,
    path,
    shape,
    svg,
    text,
    ticks,
)

_SPARK_WIDTH, _SPARK_HEIGHT = 84, 22
_SPARK_SPREAD = 0.02  # of a share: noise of half a point is no mountain range
_NIGHTS_WITH_SIGNS = 12  # with more of them, the signs would cover the lines
_MARKED = ("regressed", "improved")


class Point(NamedTuple):
    """A night's figure: value and interval where there are any, and `regressed`, `improved` or nothing."""

    value: float | None
    interval: tuple[float, float] | None = None
    mark: str | None = None


class Line(NamedTuple):
    """A series of nights; `points` has one for each label of the chart."""

    name: str
    points: Sequence[Point]


def trend(lines: Sequence[Line], labels: Sequence[str], title: str, *, is_share: bool = True) -> Markup:
    """A line a series over nights with its interval as a band, and what regressed or improved marked.

    Args:
        lines: One or more; the place of one is its colour, also of one without values.
        labels: Of the nights, oldest first.
        title: What is drawn; spoken, not written.
        is_share: Values are in [0, 1].
    """
    known = [point for line in lines for point in line.points if point.value is not None]
    numbers: list[float] = [x for p in known for x in (p.value, *(p.interval or ())) if x is not None]
    if not numbers:
        return nothing(title)
    axis = ticks(min(numbers), max(numbers))
    if is_share:
        axis = [tick for tick in axis if -1e-9 <= tick <= 1 + 1e-9]
        if len(axis) < 2:
            axis = ticks(max(0.0, min(numbers) - 0.05), min(1.0, max(numbers) + 0.05))
    low, high = min(axis[0], *numbers), max(axis[-1], *numbers)

    def x(place: float) -> float:
        return LEFT + 8 + (WIDTH - LEFT - RIGHT - 16) * (place / (len(labels) - 1) if len(labels) > 1 else 0.5)

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


def sparkline(points: Sequence[Point], title: str, number: int = 0, *, is_share: bool = True) -> Markup:
    """A figure's nights as a line without axes; nothing for fewer than two nights.

    Args:
        points: Oldest first.
        title: Spoken.
        number: Of the series, for its colour.
        is_share: Values are in [0, 1].
    """
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
        if mark in _MARKED or place == known[-1][0]:
            css, radius = (mark, 3.0) if mark in _MARKED else (f"dot s{number % SERIES}", 2.2)
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
        if point.mark in _MARKED:
            parts.append(_mark(point.mark, x(place), y(value)))
    return parts


def _mark(kind: str, x: float, y: float) -> str:
    """A ring around the point and an arrow that says which way."""
    arrow = f"M{x:.1f} {y + 17:.1f}l-4.5 -7h9z" if kind == "regressed" else f"M{x:.1f} {y - 17:.1f}l-4.5 7h9z"
    return f'<g class="{kind}"><circle cx="{x:.1f}" cy="{y:.1f}" r="6.5"/><path d="{arrow}"/></g>'
