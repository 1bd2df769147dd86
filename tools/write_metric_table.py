"""Writes docs/metrics.md: a row a metric of the registry. Run it after adding one; a test keeps both equal."""

from pathlib import Path

from rag_eval_pipeline.metrics.registry import metric_table, metrics

HEAD = """# Metrics
Every metric that an evaluation, `rag-eval score` or `rag-eval spans` can give. The table is written by
`tools/write_metric_table.py` from the registry (`rag_eval_pipeline/metrics/registry.py`); adding a metric is one small
file, or a package of your own with the entry point `rag_eval_pipeline.metrics`.
The judge's figures are described in [judges.md](judges.md).

"""


def page() -> str:
    """The whole document."""
    return HEAD + metric_table(metrics()).rstrip() + "\n"


if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / "docs" / "metrics.md").write_text(page())
