"""What the machine cannot read is no damage: the command ends, names the file, and the next one is as if nothing was."""

from pathlib import Path

import pytest

from rag_eval_pipeline.cli import main
from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.reporting.history import read_history

UNREADABLE = Path("/proc/self/mem")  # opens, and cannot be read: EIO at its beginning
RAILWAY = "skarn-railway"

pytestmark = pytest.mark.skipif(not UNREADABLE.exists(), reason="Only Linux has a file that opens and cannot be read.")

FILES = {
    "scores": lambda workspace, name: workspace.runs / name / "answer_scores.parquet",
    "answers": lambda workspace, name: workspace.runs / name / "responses.parquet",
    "the evaluation's record": lambda workspace, name: workspace.runs / name / "evaluation.json",
    "results": results_path,
    "the dataset": lambda workspace, name: next(
        path for path in workspace.evaluation_datasets.rglob("*.json") if RAILWAY in str(path)
    ),
}


@pytest.fixture
def report(monkeypatch, capsys):
    """`rag-eval report` as a shell sees it: exit code and what it says on stderr."""

    def run(workspace):
        monkeypatch.setattr("sys.argv", ["rag-eval", "report", "--workspace", str(workspace.root)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, capsys.readouterr().err

    return run


def site(workspace):
    files = {path.relative_to(workspace.reports): path for path in workspace.reports.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items()}


@pytest.mark.parametrize("place", FILES.values(), ids=FILES)
def test_report_ends_at_a_read_error_and_keeps_nothing_of_it(place, evaluated, report):
    newest = next(one for one in read_history(evaluated).newest() if one.benchmark == RAILWAY)
    path = place(evaluated, newest.evaluation_id)
    assert report(evaluated) == (0, "")
    before = site(evaluated)
    kept = path.rename(path.with_name("kept"))
    path.symlink_to(UNREADABLE)
    (evaluated.reports / ".site.json").unlink()  # so that all pages are made anew

    code, said = report(evaluated)

    assert code == 2
    assert "[os_error]" in said
    path.unlink()
    kept.rename(path)
    assert report(evaluated) == (0, "")
    assert site(evaluated) == before


def test_report_shows_gold_answers_again_when_a_missing_dataset_is_back(evaluated, report):
    report(evaluated)
    before = site(evaluated)
    path = FILES["the dataset"](evaluated, "")
    kept = path.rename(path.with_name("kept"))
    newest = next(one for one in read_history(evaluated).newest() if one.benchmark == RAILWAY)
    page = evaluated.reports / "runs" / newest.evaluation_id / "index.html"
    results = results_path(evaluated, newest.evaluation_id)
    results.write_bytes(results.read_bytes().rstrip() + b"\n\n")  # so that its pages are made anew

    assert report(evaluated)[0] == 0
    assert "The dataset has changed since this run" in page.read_text()
    kept.rename(path)
    report(evaluated)

    assert "The dataset has changed since this run" not in page.read_text()
    assert set(site(evaluated)) == set(before)
