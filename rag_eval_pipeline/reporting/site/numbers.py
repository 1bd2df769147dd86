"""Numbers as pages write them: a dash where there is none, a true minus, and one number of digits a column."""

from collections.abc import Iterable

DASH = "–"
_CENTS = 2
_SMALL_MONEY = 4  # digits where a column has no whole dollar: a question costs less than a cent


def number(value: float | None, digits: int = 3) -> str:
    """To three digits; a dash where there is none."""
    return DASH if value is None else f"{value:,.{digits}f}".replace("-", "−")


def milliseconds(value: float | None) -> str:
    """`0.42 ms`, `12 ms`, `1.34 s`."""
    if value is None:
        return DASH
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.2f} ms" if value < 10 else f"{value:.0f} ms"


def dollars(value: float | None, digits: int | None = None) -> str:
    """`$0.0012`, `$1.34`; a dash where nothing is known.

    Args:
        value: US dollars.
        digits: Of a column; by default four below a cent, else two.
    """
    if value is None:
        return DASH
    if digits is None:
        digits = _SMALL_MONEY if 0 < value < 0.01 else _CENTS
    return f"${value:,.{digits}f}"


def money_digits(values: Iterable[float | None]) -> int:
    """Digits after the point for a column of dollars."""
    return _CENTS if max((value for value in values if value), default=1.0) >= 1 else _SMALL_MONEY


def latency_digits(values: Iterable[float | None]) -> int:
    """Digits after the point for a column of milliseconds."""
    return 1 if max((value for value in values if value), default=0.0) < 100 else 0


def count(value: float | None) -> str:
    """`12,345`."""
    return DASH if value is None else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """`97.5 %`; whole ones without a point."""
    return DASH if share is None else f"{round(100 * share, 1):g} %"


def points(change: float | None) -> str:
    """A change of a share in points with its sign, a true minus."""
    return DASH if change is None else f"{round(100 * change, 1) + 0.0:+.1f}".replace("-", "−")


def p_value(value: float | None) -> str:
    """To three digits, and `<0.001` below them; a dash where there is none."""
    return "<0.001" if value is not None and value < 0.001 else number(value)
