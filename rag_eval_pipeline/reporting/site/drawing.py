"""Parts of the site's charts, as SVG whose colours are the style sheet's: they follow light, dark and print.

Every chart has a title that a screen reader speaks; series differ by shape too, not by colour alone.
"""

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

WIDTH, HEIGHT = 380, 210
LEFT, RIGHT, TOP, BOTTOM = 40, 14, 12, 26
SERIES = 6  # colours of the style sheet; a seventh series has the first colour again

Scale = Callable[[float], float]


def ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Round numbers at equal steps (1, 2, 2.5 or 5 times a power of ten) that enclose both limits."""
    if not high > low:
        low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
    rough = (high - low) / wanted
    power = math.pow(10, math.floor(math.log10(rough)))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(n * step, 10) for n in range(first, last + 1)]


def text(x: float, y: float, content: str, css: str = "tick", anchor: str = "start") -> str:
    """Words; whatever they are, they are no markup."""
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def path(css: str, way: str) -> str:
    """A line along a way."""
    return f'<path class="{css}" d="{way}"/>'


def box(css: str, x: float, y: float, width: float, height: float) -> str:
    """A rectangle."""
    return f'<rect class="{css}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def shape(number: int, x: float, y: float) -> str:
    """The sign of a series: circle, square, triangle, and again."""
    css = f"dot s{number % SERIES}"
    if number % 3 == 0:
        return f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>'
    if number % 3 == 1:
        return box(css, x - 3, y - 3, 6, 6)
    return path(css, f"M{x:.1f} {y - 4:.1f}l4 7h-8z")


def legend_mark(number: int) -> Markup:
    """The sign of a series, to stand before its name."""
    size = 'width="12" height="12" viewBox="0 0 12 12"'
    return Markup(f'<svg class="key" {size} aria-hidden="true">{shape(number, 6, 6)}</svg>')


def svg(parts: Sequence[str], width: float, height: float, title: str, css: str = "chart") -> Markup:
    """The whole chart; `parts` are markup."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return Markup(f'<svg class="{css}" {size} role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>')


def nothing(title: str) -> Markup:
    """What stands where there is nothing to draw."""
    return Markup('<p class="nothing">{}: nothing to draw.</p>').format(title)
