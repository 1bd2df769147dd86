"""`metrics.prom`: the newest scores and verdicts of every pair in Prometheus' text format, served as `/metrics`.

Source: Prometheus, Exposition formats, text-based format 0.0.4.
"""

from collections.abc import Iterable, Iterator, Sequence

from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.monitoring.leaderboard import COLUMNS
from rag_eval_pipeline.monitoring.verdict_records import Comparison, leading
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.workspace import Workspace

METRICS_FILE = "metrics.prom"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[dict[str, str], float]
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def write_metrics(workspace: Workspace, newest: Sequence[ResultsHeader], rows: Iterable[Comparison]) -> None:
    """Write the newest evaluation of each pair, and its verdicts against the baseline."""
    text = "".join(_lines(newest, [row for row in rows if row.kind == "baseline"]))
    atomic_write(workspace.reports / METRICS_FILE, text.encode())


def _lines(newest: Sequence[ResultsHeader], against: Sequence[Comparison]) -> Iterator[str]:
    names = {header.evaluation_id: {"benchmark": header.benchmark, "system": header.system} for header in newest}
    scores = [(names[one.evaluation_id], name, one.metric(name)) for one in newest for name in COLUMNS]
    known = [(pair | {"metric": name}, found) for pair, name, found in scores if found.value is not None]
    yield from _family(
        "rag_eval_score", "Mean of a metric in the newest evaluation; latencies in milliseconds.",
        ((labels, found.value) for labels, found in known if found.value is not None),
    )  # fmt: skip
    yield from _family(
        "rag_eval_score_limit", "Limits of the 95 % interval of the mean.",
        (
            (labels | {"limit": limit}, value)
            for labels, found in known
            for limit, value in zip(("low", "high"), found.confidence_interval or (), strict=False)
        ),
    )  # fmt: skip
    yield from _family(
        "rag_eval_scored_questions", "Questions behind the mean.",
        ((labels, found.n_scored) for labels, found in known),
    )  # fmt: skip
    yield from _family(
        "rag_eval_failed_questions", "Questions of the newest evaluation without an answer.",
        ((names[one.evaluation_id], one.summary.get("failed_queries") or 0) for one in newest),
    )  # fmt: skip
    yield from _family(
        "rag_eval_evaluated_timestamp_seconds", "When the newest evaluation was published.",
        ((names[one.evaluation_id], one.timestamp.timestamp()) for one in newest),
    )  # fmt: skip
    yield from _family(
        "rag_eval_verdict", "1 for the verdict of a metric against the baseline.",
        (
            ({"benchmark": row.benchmark, "system": row.new, "metric": name, "verdict": row.verdicts[name].kind}, 1)
            for row in against
            for name in leading(row.verdicts)
        ),
    )  # fmt: skip


def _family(name: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    """Yield one metric family; nothing without samples."""
    for number, (labels, value) in enumerate(samples):
        if number == 0:
            yield f"# HELP {name} {text}\n# TYPE {name} gauge\n"
        inner = ",".join(f'{key}="{one.translate(_ESCAPED)}"' for key, one in labels.items())
        yield f"{name}{{{inner}}} {float(value)!r}\n"
