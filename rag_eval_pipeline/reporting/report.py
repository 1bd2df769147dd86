"""The report to look at in the morning: a site of plain files in `data/reports`."""

from pathlib import Path

from rag_eval_pipeline.reporting.comparison import Comparisons
from rag_eval_pipeline.reporting.site.data_part import data_part
from rag_eval_pipeline.reporting.site.morning import read_morning
from rag_eval_pipeline.reporting.site.overview import overview_page
from rag_eval_pipeline.reporting.site.writing import index_path, write_site
from rag_eval_pipeline.workspace import Workspace


def write_report(workspace: Workspace, comparisons: Comparisons | None = None) -> Path:
    """Publishes the site and returns the path of its first page.

    Args:
        workspace: Where.
        comparisons: What `write_comparisons` has just returned; made again when left out, which takes seconds.
    """
    write_site(workspace, comparisons)
    return index_path(workspace)


def render_report(workspace: Workspace) -> str:
    """The first page as HTML, without writing anything; equal results give equal text."""
    morning = read_morning(workspace)
    return overview_page(morning, data_part(morning)).decode()
