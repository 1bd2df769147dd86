"""Badges: an SVG for each pair with its state and its main metric, for a README or a dashboard."""

from html import escape

from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.monitoring.leaderboard import main_metric
from rag_eval_pipeline.monitoring.verdict_records import CONFIRMED, Comparison
from rag_eval_pipeline.site.data import ReportData
from rag_eval_pipeline.site.metric_labels import shown
from rag_eval_pipeline.site.page_writer import SiteFolder

HEIGHT, PADDING, CHARACTER = 20, 8, 6.6  # the width of a character is stretched or shrunk to fit, whatever the font
LABEL = "#3f4753"
# State -> ground; white text has a contrast of 4.5 or more on each.
GROUNDS = {
    "regressed": "#b02318",
    **{f"regressed, {CONFIRMED[standing]}": "#8a5a00" for standing in ("pending", "no_rerun", "provisional")},
    "overdue": "#8a5a00",
    "improved": "#17683b",
    "no significant change": "#2b5c8a",
    "no verdict": "#566174",
    "not compared": "#566174",
}


def write_badges(site: SiteFolder, report: ReportData) -> None:
    """Write `badges/<benchmark>/<system>.svg` for each pair."""
    rows = {(row.benchmark, row.new): row for row in report.comparisons if row.kind == "baseline"}
    for header in report.newest:
        pair = header.benchmark, header.system
        state = "overdue" if pair in report.overdue else badge_state(rows.get(pair))
        same = [row for row in report.newest if row.benchmark == header.benchmark]
        value = _value_text(header, main_metric(same, report.trust), report)
        svg = badge(f"{header.system} on {header.benchmark}", f"{value}, {state}", GROUNDS[state])
        site.write(f"badges/{header.benchmark}/{header.system}.svg", svg.encode())


def badge_state(row: Comparison | None) -> str:
    """Return the state of a pair, a key of `GROUNDS`."""
    if row is None or not row.verdicts:
        return "not compared"
    regressed = [found.confirmation for found in row.verdicts.values() if found.kind == "regressed"]
    if regressed:
        unsure = next((f"regressed, {CONFIRMED[standing]}" for standing in regressed if standing), "regressed")
        return unsure if unsure in GROUNDS and not {"confirmed", "not_needed"} & set(regressed) else "regressed"
    kinds = {found.kind for found in row.verdicts.values()}
    if "improved" in kinds:
        return "improved"
    return "no verdict" if "withheld" in kinds or kinds == {"no_verdict"} else "no significant change"


def _value_text(header: ResultsHeader, name: str, report: ReportData) -> str:
    cell = shown(header, name, report.trust)
    return f"{cell.view.label} {cell.text}"


def badge(label: str, value: str, ground: str) -> str:
    """Draw a label and a value side by side as SVG, with both as its title."""
    widths = [round(CHARACTER * len(text) + 2 * PADDING) for text in (label, value)]
    whole, title = sum(widths), escape(f"{label}: {value}")
    texts = "".join(
        f'<text x="{start + PADDING}" y="14" textLength="{width - 2 * PADDING}" lengthAdjust="spacingAndGlyphs">'
        f"{escape(text)}</text>"
        for text, start, width in ((label, 0, widths[0]), (value, widths[0], widths[1]))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{HEIGHT}" viewBox="0 0 {whole} {HEIGHT}" '
        f'role="img" aria-label="{title}"><title>{title}</title>'
        f'<rect width="{whole}" height="{HEIGHT}" rx="3" fill="{LABEL}"/>'
        f'<path d="M{widths[0]} 0H{whole - 3}a3 3 0 0 1 3 3V{HEIGHT - 3}a3 3 0 0 1 -3 3H{widths[0]}z" fill="{ground}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{texts}</g></svg>\n'
    )
