"""Pages of a run with very many questions show a part of them and say so; its CSV, metrics and slices are of all."""

import csv
import io
import shutil

import pytest

from rag_eval_pipeline.formats import dataset
from rag_eval_pipeline.monitoring.history import read_history
from rag_eval_pipeline.monitoring.regressions import write_comparisons
from rag_eval_pipeline.site import question_nights, run_data
from rag_eval_pipeline.site.site import write_site
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import publish_night, register
from tests.site.conftest import run_folder, value_of

QUESTIONS, SHOWN = 60, 25


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    made = Workspace(tmp_path_factory.mktemp("large") / "nights")
    register(made, ["lamps"], ["asked", "other"])
    for number, system in enumerate(("asked", "other"), 1):
        for night in range(6):
            skill = 0.2 if (system, night) == ("asked", 5) else 0.9
            publish_night(made, "lamps", system, night, questions=QUESTIONS, skill=skill, number=number)
    write_comparisons(made)
    return made


def pages(workspace, monkeypatch, *, shown):
    """Write the report anew; return the path of the newest run's pages, and its parts."""
    monkeypatch.setattr(question_nights, "QUESTIONS_SHOWN", shown)
    shutil.rmtree(workspace.reports / "runs", ignore_errors=True)
    write_site(workspace)
    folder = workspace.reports / "runs" / read_history(workspace).by_pair["lamps", "asked"][-1].evaluation_id
    return folder, (folder / "questions.csv").read_bytes(), (folder / "index.html").read_text()


def test_large_run_shows_the_questions_that_changed_most_and_states_the_rest(workspace, monkeypatch):
    _, whole_sheet, whole_page = pages(workspace, monkeypatch, shown=QUESTIONS)
    assert "in the CSV only" not in whole_page

    folder, sheet, page = pages(workspace, monkeypatch, shown=SHOWN)

    assert sheet == whole_sheet
    assert f"The table has {SHOWN} of the {QUESTIONS} questions" in page
    assert page[page.index('id="how"') :] == whole_page[whole_page.index('id="how"') :]  # such as the latencies
    table = value_of(folder / "data/questions.js")
    assert table["of"] == QUESTIONS
    ids = table["columns"][0]["values"]
    assert len(ids) == SHOWN
    rows = {row["query_id"]: row for row in csv.DictReader(io.StringIO(sheet.decode("utf-8-sig")))}
    changes = {name: abs(float(row["change_f1"] or 0)) for name, row in rows.items()}
    assert sum(change > 0.5 for change in changes.values()) >= 10
    assert set(sorted(changes, key=changes.__getitem__)[-10:]) <= set(ids)


def test_pages_are_the_same_whether_large_files_are_read_whole_or_row_by_row(workspace, monkeypatch):
    def made():
        folder, _, _ = pages(workspace, monkeypatch, shown=SHOWN)
        return {path: path.read_bytes() for path in workspace.reports.rglob("*.*") if path.name != ".site.json"}, folder

    whole, folder = made()
    monkeypatch.setattr(run_data, "WHOLE_BYTES", 0)
    monkeypatch.setattr(dataset, "WHOLE_BYTES", 0)

    assert made() == (whole, folder)
    results = workspace.results_file(folder.name)
    kept = results.read_bytes()
    try:
        results.write_bytes(kept.replace(b'"abstained": false', b'"abstained": "no"', QUESTIONS // 2))
        made()
        assert "The questions of this run cannot be read" in (folder / "index.html").read_text()
    finally:
        results.write_bytes(kept)


def test_hidden_questions_of_a_dataset_are_in_the_sheet_and_in_the_slices(reported, monkeypatch):
    folder = run_folder(reported)
    whole_sheet, whole_page = (folder / "questions.csv").read_bytes(), (folder / "index.html").read_text()
    assert b"gold_answer" in whole_sheet
    monkeypatch.setattr(question_nights, "QUESTIONS_SHOWN", 5)
    monkeypatch.setattr(run_data, "WHOLE_BYTES", 0)
    monkeypatch.setattr(dataset, "WHOLE_BYTES", 0)

    write_site(reported)

    assert len(value_of(folder / "data/questions.js")["columns"][0]["values"]) == 5
    assert (folder / "questions.csv").read_bytes() == whole_sheet
    slices = slice(whole_page.index('id="parts"'), whole_page.index('id="how"'))
    assert whole_page[slices] in (folder / "index.html").read_text()


def test_every_question_that_a_page_of_a_large_benchmark_names_has_a_page(workspace, monkeypatch):
    folder, _, _ = pages(workspace, monkeypatch, shown=SHOWN)

    ids = set(value_of(folder / "data/questions.js")["columns"][0]["values"])
    details = [one["id"] for path in sorted(folder.glob("data/details-*.js")) for one in value_of(path)]
    assert set(details) == ids
    assert set(value_of(workspace.reports / "nights/lamps.asked.js")["ids"]) == ids
    for path in workspace.reports.glob("comparisons/*.html"):
        assert set(value_of(path.with_suffix(".js"))["columns"][0]["values"]) <= ids
    answers = [value_of(path)["questions"] for path in workspace.reports.glob("nights/lamps.answers-*.js")]
    assert set().union(*answers) == ids
