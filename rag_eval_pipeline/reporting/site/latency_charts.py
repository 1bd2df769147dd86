"""How many questions took how long."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from rag_eval_pipeline.reporting.site.drawing import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    box,
    nothing,
    path,
    svg,
    text,
)
from rag_eval_pipeline.reporting.site.numbers import milliseconds

_BINS = 28
_SHORTEST_MS = 1e-3  # what is measured as nothing has a place on a logarithmic axis too
_DECADES_MIN = 0.3  # a factor of two: equal latencies are no spread


def latency_histogram(values: Sequence[float], marks: Sequence[tuple[str, float]], title: str) -> Markup:
    """Questions by latency in bins of equal ratio.

    Args:
        values: Milliseconds, one a question.
        marks: Name and milliseconds of what is marked, such as p95.
        title: Spoken.
    """
    logs = [math.log10(max(value, _SHORTEST_MS)) for value in values]
    if not logs:
        return nothing(title)
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
