"""`rag_eval_pipeline.open`: frames with the numbers that the files have, and a notebook that runs on them."""

import json
import re
import shutil

import pandas as pd
import pytest

import rag_eval_pipeline as rag
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.results import EvaluationResults
from tests.conftest import REPOSITORY

RAILWAY = "skarn-railway"
NOTEBOOK = REPOSITORY / "examples" / "analysis.ipynb"


@pytest.fixture(scope="module")
def ws(_evaluated, tmp_path_factory):
    """A workspace that no test but the one of damage changes, which has a copy of its own."""
    root = tmp_path_factory.mktemp("analysis") / "workspace"
    shutil.copytree(_evaluated, root, symlinks=True)
    return rag.open(root)


def evaluation_of(ws, system):
    results = ws.results(RAILWAY, system)
    return results["evaluation_id"].iloc[0]


def test_open_takes_the_workspace_or_its_data_folder(evaluated, tmp_path):
    assert rag.open(evaluated.root).workspace == rag.open(str(evaluated.root / "data")).workspace == evaluated
    with pytest.raises(InputError, match="no_workspace"):
        rag.open(tmp_path / "nowhere")


def test_results_have_the_metrics_of_the_results_files(ws):
    frame = ws.results(RAILWAY, "embedded")

    published = EvaluationResults.read(ws.workspace.results / f"{evaluation_of(ws, 'embedded')}.results.json")
    f1 = published.answer_quality_metrics.f1
    row = frame[frame["metric"] == "f1"].iloc[0]
    assert (row["value"], (row["low"], row["high"]), row["n_scored"]) == (f1.value, f1.confidence_interval, f1.n_scored)
    assert row["timestamp"] == pd.Timestamp(published.timestamp)
    assert set(frame["benchmark"]) == {RAILWAY}
    assert set(frame[frame["value"].isna()]["reason"].isna()) <= {False}
    assert set(ws.results()["system"]) == {"embedded", "embedded-weak"}


def test_results_name_a_damaged_evaluation_and_write_a_cut_table_again(evaluated):
    ws = rag.open(evaluated.root)
    whole = ws.results()
    damaged, cut = evaluation_of(ws, "embedded-weak"), evaluation_of(ws, "embedded")
    path = ws.workspace.results / f"{damaged}.results.json"
    path.write_bytes(path.read_bytes()[:900])
    for table in ws.workspace.root.glob(f"data/evaluation/history/*/{cut}.parquet"):
        table.write_bytes(table.read_bytes()[:500])

    with pytest.warns(UserWarning, match=f"{damaged}.results.json"):
        frame = ws.results()

    left = whole[whole["evaluation_id"] != damaged].reset_index(drop=True)
    pd.testing.assert_frame_equal(frame, left)


@pytest.mark.parametrize(("names", "code"), [(("skarn-railwy",), "no_benchmark"), ((None, "embeded"), "no_system")])
def test_results_of_an_unknown_name_are_refused_with_the_known_one(names, code, ws):
    with pytest.raises(InputError, match="Did you mean") as refused:
        ws.results(*names)

    assert refused.value.code == code


def test_questions_have_gold_answers_and_own_ids(ws):
    frame = ws.questions(RAILWAY)

    assert len(frame) == 40
    assert frame["query_id"].is_unique
    assert frame["source_id"].notna().all()
    assert frame["is_impossible"].sum() == 8
    assert frame.loc[frame["is_impossible"], "answer"].isna().all()
    with pytest.raises(InputError, match="not_converted"):
        ws.questions("tarrow-lights")


def test_answers_have_metrics_passages_and_reasons(ws):
    frame = ws.answers(evaluation_of(ws, "embedded"))

    assert frame["query_id"].tolist() == ws.questions(RAILWAY)["query_id"].tolist()
    assert frame["gold_answer"].equals(ws.questions(RAILWAY)["answer"])
    impossible = frame[frame["is_impossible"]]
    assert {reasons["retrieval"] for reasons in impossible["reasons"]} == {"impossible"}
    assert impossible["hit@1"].isna().all()
    passage = frame["passages"].iloc[0][0]
    assert passage["document"] == frame["documents"].iloc[0][0]
    published = ws.results(RAILWAY, "embedded").set_index("metric")["value"]
    assert frame["exact_match"].mean() == pytest.approx(published["exact_match"])


def test_comparison_has_a_verdict_for_each_metric(ws):
    frame = ws.compare(evaluation_of(ws, "embedded"), evaluation_of(ws, "embedded-weak")).set_index("metric")

    row = frame.loc["exact_match"]
    assert (row["verdict"], row["n"]) == ("regressed", 40)
    assert row["new"] - row["old"] == pytest.approx(row["difference"])
    assert row["low"] <= row["difference"] <= row["high"] < 0


def test_notebook_runs_and_stores_no_outputs(ws, monkeypatch):
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    monkeypatch.chdir(ws.workspace.root)
    names = {}

    for cell in cells:
        exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)

    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
    assert len(names["worst"]) == 10
    assert names["comparison"]["verdict"].notna().all()


def test_page_of_the_documents_names_every_column(ws):
    page = (REPOSITORY / "docs" / "reference" / "python.md").read_text()
    documented = {
        line.split("(")[0].strip("| `"): set(re.findall(r"`(\w+)`", line))
        for line in page.splitlines()
        if line.startswith("| `")
    }
    run = evaluation_of(ws, "embedded")
    answers = ws.answers(run)
    frames = {
        "results": ws.results(),
        "questions": ws.questions(RAILWAY),
        "answers": answers,
        "compare": ws.compare(run, run),
    }

    assert frames.keys() == documented.keys()
    for name, frame in frames.items():
        columns = set(frame.columns[: frame.columns.get_loc("reasons") + 1] if name == "answers" else frame.columns)
        assert columns - documented[name] == set(), name
