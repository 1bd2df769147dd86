"""Links from the Dagster UI to the report: a browser follows none from a server's page to a file.

So the report needs an address. A team that publishes `data/reports` states it as `report_url` in alerts.config.yaml;
else it is that of the server that `make up` has beside the UI; without either, the file's path is shown.
"""

import contextlib
import os
from urllib.parse import quote

import dagster as dg

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import Workspace

REPORT_URL_VARIABLE = "RAG_EVAL_REPORT_URL"
INDEX = "index.html"


def run_page(evaluation_id: str) -> str:
    """The page of an evaluation, by its place in the report."""
    return f"runs/{evaluation_id}/index.html"


def benchmark_page(benchmark: str) -> str:
    """The page of a benchmark, by its place in the report."""
    return f"benchmarks/{benchmark}.html"


def report_link(workspace: Workspace, page: str = INDEX) -> dg.UrlMetadataValue | dg.PathMetadataValue:
    """A page of the report as metadata; the page is there after the next aggregation."""
    base = _report_url(workspace)
    if base is None:
        return dg.MetadataValue.path(workspace.reports / page)
    return dg.MetadataValue.url(f"{base.rstrip('/')}/{quote(page)}")


def _report_url(workspace: Workspace) -> str | None:
    from rag_eval_pipeline.reporting.alert_settings import read_alert_settings

    # A broken file of alerts is told where alerts are sent; results are published in spite of it.
    with contextlib.suppress(InputError):
        if url := read_alert_settings(workspace).report_url:
            return url
    return os.environ.get(REPORT_URL_VARIABLE) or None
