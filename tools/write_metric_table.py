"""Write docs/metrics.md from the registry. Run it after adding a metric; a test keeps both equal."""

from pathlib import Path

from rag_eval_pipeline.metrics.registry import metrics

HEAD = """# Metrics
Every metric that an evaluation, `rag-eval score` or `rag-eval spans` can give. The table is written by
`tools/write_metric_table.py` from the registry (`rag_eval_pipeline/metrics/registry.py`). Terminals, reports, alerts
and mails show the label; settings, results and history use the key in the first column.
The judge's figures are described in [judges.md](judges.md).

## Intervals
Every mean has a 95 % interval and says how it was made. Questions about the same documents are answered from the same
text and fail together, so they are counted by their documents: `n_clusters` says how many there are, and is null where
no two questions share any. A question about two documents belongs with those about the same two; one without documents
stands for itself. Few documents make a wide interval, however many questions they have.

Latencies have limits, too: the mean by bootstrap, p50, p95 and p99 by two of the measurements themselves, whatever
their distribution. That needs 6, 72 and 368 measurements; with fewer the limits are null.

## Custom metrics
A custom metric is a row and a function of one answered question:
```python
from rag_eval_pipeline.metrics.custom import AnsweredQuestion, MetricInfo, QuestionMetric


def brevity(question: AnsweredQuestion) -> float | None:
    return min(1.0, 20 / max(1, len(question.text.split())))


BREVITY = QuestionMetric(
    MetricInfo(
        name="brevity",
        meaning="1 up to 20 words, then less.",
        source="our guidelines",
        needs=("answer",),
        levels=("question",),
        category="answers",
        version="1",
    ),
    brevity,
)
```
`custom_metrics: [my_metrics:BREVITY]` adds it, in `evaluation_defaults.config.yaml` or in the `evaluation:` of a
benchmark or a system. A package can also offer it as an entry point of the group `rag_eval_pipeline.metrics`; then its
name is enough. Its scores are stored beside those of its `category` (retrieval, contexts, citations, answers, claims),
and its mean with an interval is in `further_metrics` (in `judge_metrics` for claims) and in the report.

The function returns a number of the metric's range, `None` if the metric does not apply to the question, or an
`Evaluation` record of the Evaluation Data Models with such a score. Records are published in
`<category's scores>.evaluations.json` beside the scores. A score out of range, an exception, or a record with an error
costs only that question's score: it is counted in `n_failed`, and listed in `metric_faults` with the metric and the
question. Raise `version` when equal answers may score differently: earlier nights are then not compared with later
ones. A `Family` of `rag_eval_pipeline.metrics.retrieval.measures` goes into `measures`, as `my_metrics:FAMILY@10`.

## The metrics
"""


def page() -> str:
    """Return the whole document."""
    lines = ["| metric | label | meaning | range | better | levels | source |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | {row.label} | {row.meaning} | {row.range} | {row.direction} | {', '.join(row.levels)} | "
        f"{row.source} |"
        for row in metrics()
    ]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / "docs" / "metrics.md").write_text(page())
