"""A report is made again when anything that it is made from or has written is another, and only then."""

import logging
import os
import sys

import pytest

from rag_eval_pipeline.metrics.registry import metrics_by_key
from rag_eval_pipeline.site.report_state import inputs_digest, is_made, making_report, registry_digest
from rag_eval_pipeline.workspace import Workspace

RESULT, PAGE = "data/evaluation/results/eval_run_1.results.json", "data/reports/index.html"
LINKED = "elsewhere/responses.parquet"  # below a folder that data/evaluation/runs/eval_run_1 is a link to


@pytest.fixture
def workspace(tmp_path):
    for name in ("data/sources/b/benchmark.yaml", "data/config/verdicts.config.yaml", RESULT, LINKED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("before")
    runs = tmp_path / "data" / "evaluation" / "runs"
    runs.mkdir()
    (runs / "eval_run_1").symlink_to(tmp_path / "elsewhere")
    (runs / "above").symlink_to(tmp_path / "data")
    (runs / "itself").symlink_to(runs / "itself")
    make(Workspace(tmp_path))
    return Workspace(tmp_path)


def make(workspace, *, meanwhile=lambda: None):
    with making_report(workspace, inputs_digest(workspace)):
        for path in (workspace.root / PAGE, workspace.nights / "b" / "s" / "1.json"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("made")
        meanwhile()


def write(path):
    path.parent.mkdir(exist_ok=True)
    path.write_text("published meanwhile")


def is_current(workspace):
    return is_made(workspace, inputs_digest(workspace))


def rewrite_with_its_old_time(path):
    before = path.stat()
    path.write_text("BEFORE")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES = {
    "a new file": lambda root: (root / "data/evaluation/labels.jsonl").write_text("{}"),
    "settings": lambda root: (root / "data/config/verdicts.config.yaml").write_text("after."),
    "equal size and time": lambda root: rewrite_with_its_old_time(root / RESULT),
    "an alert": lambda root: write(root / "data/reports/alerts/1.json"),
    "a file that is gone": lambda root: (root / RESULT).unlink(),
    "a file behind a link": lambda root: (root / LINKED).write_text("after."),
    "a page that is gone": lambda root: (root / PAGE).unlink(),
    "a damaged page": lambda root: (root / PAGE).write_text("mad\0"),
    "a damaged record": lambda root: (root / "data/reports/.made_from").write_bytes(b"\xff"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_report_is_made_again_after_a_change(workspace, change):
    assert is_current(workspace)

    change(workspace.root)

    assert not is_current(workspace)
    make(workspace)
    assert is_current(workspace)


@pytest.mark.parametrize("folder", ["data/evaluation/judge_cache", "data/datasets/b/.cache", "corpus/b"])
def test_report_is_not_made_again_for_files_that_no_report_reads(workspace, folder):
    (workspace.root / folder).mkdir(parents=True)
    (workspace.root / folder / "body").write_text("")

    assert is_current(workspace)


METRIC = """
from rag_eval_pipeline.metrics.custom import MetricInfo
from rag_eval_pipeline.metrics.retrieval.families import Family

HALF = Family(MetricInfo("half@k", "Half a point.", "here", ("ranking",), ("document",)), None, takes="cutoff")
"""


def test_report_is_made_again_with_a_metric_that_was_installed(workspace, tmp_path, monkeypatch):
    information = tmp_path / "team_metrics-1.0.dist-info"
    information.mkdir()
    (tmp_path / "team_metrics.py").write_text(METRIC)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: team-metrics\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[rag_eval_pipeline.metrics]\nhalf = team_metrics:HALF\n")
    assert is_current(workspace)

    forget()
    monkeypatch.syspath_prepend(tmp_path)
    is_current_with_it = is_current(workspace)
    monkeypatch.undo()
    forget()
    sys.modules.pop("team_metrics")

    assert (is_current_with_it, is_current(workspace)) == (False, True)


def forget():
    """Forget which metrics are installed, as another process does."""
    registry_digest.cache_clear()
    metrics_by_key.cache_clear()


def fail():
    raise OSError("the disk is full")


def test_report_that_failed_or_warned_or_met_another_is_made_again(workspace):
    with pytest.raises(OSError, match="full"):
        make(workspace, meanwhile=fail)
    assert not is_current(workspace)

    make(workspace, meanwhile=lambda: logging.getLogger("rag_eval_pipeline").warning("An evaluation is left out"))
    assert not is_current(workspace)

    make(workspace, meanwhile=lambda: make(workspace))
    assert is_current(workspace)  # only the one inside has said so, of the same inputs and pages

    for name in (RESULT, "data/reports/alerts/1.json"):
        make(workspace, meanwhile=lambda name=name: write(workspace.root / name))
        assert not is_current(workspace)
