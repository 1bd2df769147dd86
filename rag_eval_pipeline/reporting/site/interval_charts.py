"""Values side by side, each with its interval as a line through its dot."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from rag_eval_pipeline.reporting.site.drawing import WIDTH, box, path, svg, text, ticks

_ROW, _LABEL, _VALUE, _AXIS = 25, 118, 48, 22
_CHANGE_ENDS = 0.05  # five points each way, when no interval is wider
CHANGES_WIDTH = 420  # of its drawing; a phone shows it at four fifths


class Dot(NamedTuple):
    """A value with its interval in a row of its own; `css` is its colour."""

    label: str
    value: float | None
    interval: tuple[float, float] | None
    css: str = "s0"


def values_chart(rows: Sequence[Dot], title: str) -> Markup:
    """Shares from 0 to 1, from top to bottom; `title` is spoken."""
    return _chart(rows, title, ticks(0.0, 1.0), width=WIDTH, zero=False)


def changes_chart(rows: Sequence[Dot], title: str, *, margin: float) -> Markup:
    """Changes of shares around zero, in points.

    Args:
        rows: From top to bottom.
        title: Spoken.
        margin: Half-width of the strip in which a change is small, as a share.
    """
    numbers = [x for row in rows if row.value is not None for x in (row.value, *(row.interval or ()))]
    axis = ticks(min([-_CHANGE_ENDS, *numbers]), max([_CHANGE_ENDS, *numbers]))
    return _chart(rows, title, axis, width=CHANGES_WIDTH, zero=True, margin=margin)


def _chart(
    rows: Sequence[Dot], title: str, axis: Sequence[float], *, width: int, zero: bool, margin: float = 0.0
) -> Markup:
    height = _ROW * len(rows) + _AXIS + 4
    floor = height - _AXIS

    def x(number: float) -> float:
        return _LABEL + (width - _LABEL - _VALUE) * (number - axis[0]) / (axis[-1] - axis[0])

    parts = [box("strip", x(-margin), 0, x(margin) - x(-margin), floor)] if margin else []
    for tick in axis:
        parts.append(path("zero" if zero and abs(tick) < 1e-9 else "grid", f"M{x(tick):.1f} 0V{floor}"))
        label = f"{100 * tick:g}".replace("-", "−") if zero else f"{tick:g}"
        parts.append(text(x(tick), height - 6, label, anchor="middle"))
    for number, row in enumerate(rows):
        y = _ROW * number + _ROW / 2
        doubt = " doubted" if row.css == "doubted" else ""
        parts.append(text(0, y + 4, row.label, css=f"label{doubt}"))
        if row.value is None:
            parts.append(text(_LABEL + 4, y + 4, "no value"))
            continue
        if row.interval:
            parts.append(path(f"whisker {row.css}", f"M{x(row.interval[0]):.1f} {y}H{x(row.interval[1]):.1f}"))
        parts.append(f'<circle class="dot {row.css}" cx="{x(row.value):.1f}" cy="{y}" r="4"/>')
        shown = f"{100 * row.value:+.1f}".replace("-", "−") if zero else f"{row.value:.3f}"
        parts.append(text(width, y + 4, shown, css=f"value{doubt}", anchor="end"))
    return svg(parts, width, height, title)
