"""Headlines: what came out, in a few lines of Markdown, for the pages of Dagster and other summaries."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.compared_runs import are_alike
from rag_eval_pipeline.metrics.registry import metric_label, scored_share
from rag_eval_pipeline.metrics.verdict_rules import CHANGES
from rag_eval_pipeline.monitoring.history import ResultsHeader, read_header
from rag_eval_pipeline.monitoring.incidents import headline_order, means_text, p_text, points_text
from rag_eval_pipeline.monitoring.leaderboard import HEADLINE, Leaderboard, Trust, main_metric, ranked
from rag_eval_pipeline.monitoring.verdict_records import Comparison, format_points, withheld_text
from rag_eval_pipeline.storage.json_files import read_bytes
from rag_eval_pipeline.workspace import Workspace

METRICS_NAMED = 4
PAIRS_NAMED = 10


def results_headline(workspace: Workspace, evaluation_id: str) -> str:
    """Return the first metrics of an evaluation, and how far each is from the mean of the baseline's runs.

    It is no verdict, which needs the test of the aggregation.
    """
    header = _header(workspace, evaluation_id)
    if header is None:
        return "The results cannot be read."
    trust = Trust.of(workspace)
    pinned = list(_baseline(workspace, header))
    baseline = [one for one in pinned if are_alike(one.fingerprints, header.fingerprints)]
    asked, failed = (int(header.summary.get(name) or 0) for name in ("total_queries", "failed_queries"))
    lines = [f"**{header.system} on {header.benchmark}**: {counted(asked, 'question')}, {failed} failed"]
    known = [name for name in HEADLINE if header.metric(name).value is not None and not trust.doubt(header, name)]
    level = header.retrieval_level
    for name in [name for name in known if not name.endswith("_ms")][:METRICS_NAMED]:
        value, limits = header.metric(name).value, header.metric(name).confidence_interval
        interval = f", 95 % {limits[0]:.2f} to {limits[1]:.2f}" if limits else ""
        before = [score for one in baseline if (score := one.metric(name, level=level).value) is not None]
        delta = f", {format_points((value or 0.0) - sum(before) / len(before))} points" if before else ""
        share = scored_share(header.metric(name).n_scored, header.questions)
        lines.append(f"- {metric_label(name)} **{value:.3f}**{share}{delta}{interval}")
    if not pinned:
        lines.append("\nNo baseline is pinned yet.")
    elif not baseline:
        lines.append("\nNot compared: its baseline is of another dataset, corpus, judge or version of the metrics.")
    elif evaluation_id in {one.evaluation_id for one in baseline}:
        lines.append("\nThis evaluation is part of the baseline.")
    else:
        lines.append("\nPoints are from its baseline; `regressions` has the verdict.")
    return "\n".join(lines)


def _header(workspace: Workspace, evaluation_id: str) -> ResultsHeader | None:
    path = workspace.results_file(evaluation_id)
    try:
        return read_header(path, read_bytes(path))
    except InputError:
        return None


def _baseline(workspace: Workspace, header: ResultsHeader) -> Iterator[ResultsHeader]:
    try:
        baseline = read_baseline(workspace, header.benchmark, header.system)
    except InputError:
        return
    for name in baseline.evaluations if baseline else ():
        if (found := _header(workspace, name)) is not None:
            yield found


def comparisons_headline(rows: Sequence[Comparison]) -> str:
    """Return how many pairs regressed and improved against their baselines, with a line for each of them."""
    against = [row for row in rows if row.kind == "baseline"]
    compared = [row for row in against if row.verdicts]
    by_kind = {kind: [row for row in compared if _has(row, kind)] for kind in CHANGES}
    if not compared:
        return f"**No pair was compared with its baseline** ({counted(len(against), 'pair')})."
    # The lines are short, because Dagster cuts them where its widest table ends.
    parts = [f"{len(found)} {kind}" for kind, found in by_kind.items() if found]
    withheld = [row for row in compared if withheld_text(row.verdicts.values())]
    if withheld:  # questions failed or lost their scores: that is no quiet night
        parts.append(f"{len(withheld)} with verdicts withheld")
    parts = parts or ["no significant change"]
    lines = [f"**{counted(len(compared), 'pair')} compared: {', '.join(parts)}**"]
    for kind, found in by_kind.items():
        for row in found[:PAIRS_NAMED]:
            names = headline_order(name for name, one in row.verdicts.items() if one.kind == kind)
            lead = row.verdicts[names[0]]
            details = [points_text(lead), p_text(lead), lead.standing]
            lines += [f"- {row.new} on {row.benchmark} {kind}", f"    - {means_text(names[0], lead)}"]
            lines += [f"    - {', '.join(part for part in details if part)}"]
            lines += [f"    - and {counted(len(names) - 1, 'further metric')}"] if len(names) > 1 else []
    declining = [row for row in against if row.declines and row.declines[0].is_notable]
    lines += [f"- {row.new} on {row.benchmark}\n    - {row.declines[0].sentence}" for row in declining[:PAIRS_NAMED]]
    return "\n".join(lines)


def _has(row: Comparison, kind: str) -> bool:
    return any(found.kind == kind for found in row.verdicts.values())


def leaderboard_headline(board: Leaderboard) -> str:
    """Return the best systems of each benchmark, more than one if they are equal, with their main metric."""
    if not board.rows:
        return "**No benchmark has results of a system.**"
    lines = ["**Best systems**"]
    for benchmark, group in groupby(ranked(board.rows, board.trust), key=lambda one: one.row.benchmark):
        rows = [one.row for one in group]
        name = main_metric(rows, board.trust)
        metric = rows[0].metric(name)
        best = ", ".join(row.system for row in rows if row.metric(name).value == metric.value)
        shown = "no value" if metric.value is None else f"{metric.value:.3f}"
        share = "" if metric.value is None else scored_share(metric.n_scored, rows[0].questions)
        lines += [f"- {benchmark}: {best}", f"    - {metric_label(name)} **{shown}**{share}"]
    return "\n".join(lines)
