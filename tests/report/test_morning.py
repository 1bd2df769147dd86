"""What the pages are made from: a night and its rerun are marked alike, and the questions are those of the verdicts."""

from types import SimpleNamespace

import pytest

from rag_eval_pipeline.report.data import read_report_data
from rag_eval_pipeline.reporting.comparison import Comparison
from rag_eval_pipeline.reporting.regressions import Comparisons
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_nights import publish_night, register

PAIR = "harbour", "asked"
NIGHT, RERUN = "eval_run_20261002_001", "eval_run_20261002_002"


@pytest.fixture
def nightly(tmp_path):
    workspace = Workspace(tmp_path / "workspace")
    register(workspace, ["harbour"], ["asked"])
    for night, number in ((0, 1), (1, 1), (1, 2)):
        publish_night(workspace, *PAIR, night, questions=8, skill=0.5, number=number)
    return workspace


def test_the_night_is_marked_and_not_the_rerun_that_saw_it_again(nightly):
    verdicts = {"f1": SimpleNamespace(kind="regressed"), "page/hit@1": SimpleNamespace(kind="inconclusive")}
    row = Comparison("baseline", "harbour", "baseline", "asked", verdicts, None, {}, NIGHT, RERUN)

    report = read_report_data(nightly, Comparisons([row], nightly.reports / "regressions.json"))

    assert [point.mark for point in report.points(PAIR, "f1")] == [None, "regressed", None]
    assert [point.mark for point in report.points(PAIR, "hit@1")] == [None, None, None]


def test_a_rerun_is_no_night_of_its_own(nightly):
    assert read_report_data(nightly, Comparisons([], nightly.reports / "regressions.json")).n_days == 2
