"""Writes docs/metrics.md: a row a metric of the registry. Run it after adding one; a test keeps both equal."""

from pathlib import Path

from rag_eval_pipeline.metrics.registry import metric_table, metrics

HEAD = """# Metrics
Every metric that an evaluation, `rag-eval score` or `rag-eval spans` can give. The table is written by
`tools/write_metric_table.py` from the registry (`rag_eval_pipeline/metrics/registry.py`); adding a metric is one small
file, or a package of your own with the entry point `rag_eval_pipeline.metrics`.
The judge's figures are described in [judges.md](judges.md).

## Intervals
Every mean has a 95 % interval and says how it was made. Questions about the same documents are answered from the same
text and fail together, so they are counted by their documents: `n_clusters` says how many there are, and is null where
no two questions share any. A question about two documents belongs with those about the same two; one without documents
stands for itself. Few documents make a wide interval, however many questions they have.

Latencies have limits, too: the mean by bootstrap, p50, p95 and p99 by two of the measurements themselves, whatever
their distribution. That needs 6, 72 and 368 measurements; with fewer the limits are null.

## A metric of your own
A row and a function of one answered question:
```python
from rag_eval_pipeline.metrics.question_metric import AnsweredQuestion, QuestionMetric
from rag_eval_pipeline.metrics.registry import Metric


def brevity(question: AnsweredQuestion) -> float | None:
    return min(1.0, 20 / max(1, len(question.text.split())))


BREVITY = QuestionMetric(
    Metric(
        name="brevity",
        meaning="One up to 20 words, then less.",
        source="our guidelines",
        needs=("answer",),
        levels=("question",),
        room="answers",
        version="1",
    ),
    brevity,
)
```
`own_metrics: [my_metrics:BREVITY]` takes it up, in `evaluation_defaults.config.yaml` or in the `evaluation:` of a
benchmark or a system; the name of an entry point does too. Its scores stand beside those of its `room` (retrieval,
contexts, citations, answers, claims), its mean with an interval in `further_metrics` (in `judge_metrics` for claims)
and in the report. `None` says that it does not apply to a question. A score that is no number of its range, or an
exception, costs that question's score alone: it is counted in `n_failed`, listed in `metric_faults` and told with the
metric's name and the question. Raise `version` when equal answers may score otherwise: old and new nights are then not
compared. A `Family` of retrieval measures goes into `measures`, as `my_metrics:FAMILY@10`.

## The metrics
"""


def page() -> str:
    """The whole document."""
    return HEAD + metric_table(metrics()).rstrip() + "\n"


if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / "docs" / "metrics.md").write_text(page())
