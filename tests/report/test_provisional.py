"""The first nights have comparisons like all others, and say how many nights there are on the way to a baseline."""

import json

import pytest

from rag_eval_pipeline.report.site import write_site
from rag_eval_pipeline.reporting.regressions import write_comparisons
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_nights import publish_night, register

PAGE = "comparisons/harbour.asked.against.baseline"


@pytest.fixture
def nightly(tmp_path):
    workspace = Workspace(tmp_path / "workspace")
    register(workspace, ["harbour"], ["asked"])
    return workspace


def nights(workspace, n, *, last=0.7):
    for night in range(n):
        skill = last if night == n - 1 else 0.7
        publish_night(workspace, "harbour", "asked", night, questions=120, skill=skill, number=1)
    return write_site(workspace, write_comparisons(workspace)).root


def test_a_comparison_of_the_first_nights_says_how_many_there_are(nightly):
    root = nights(nightly, 3)

    page = (root / f"{PAGE}.html").read_text()
    assert "provisional: 3 of 5 nights" in page
    assert "asked against its nights so far" in page
    assert "before: 2 earlier runs" in page
    assert "provisional: 3 of 5 nights" in (root / "index.html").read_text()
    assert "provisional: 3 of 5 nights" in (root / "benchmarks/harbour.html").read_text()


def test_its_questions_have_a_table_that_leads_to_the_answers_of_both_sides(nightly):
    root = nights(nightly, 2, last=0.3)

    text = (root / f"{PAGE}.js").read_text()
    table = json.loads(text[text.index(",") + 1 : text.rindex(")")])
    places = {column["name"]: n for n, column in enumerate(table["columns"])}
    assert len(table["values"][places["id"]]) > 100
    assert {link["column"]: link["href"] for link in table["links"]} == {
        "question": "../runs/eval_run_20261002_001/question.html#", "old": "../runs/eval_run_20261001_001/question.html#",
    }  # fmt: skip
    before, now, change = (table["values"][places[name]] for name in ("f1_before", "f1", "change"))
    assert [None if None in (a, b) else round(b - a, 4) for a, b in zip(before, now, strict=True)] == change


def test_with_its_baseline_a_pair_is_provisional_no_more(nightly):
    root = nights(nightly, 6)

    assert "provisional:" not in (root / f"{PAGE}.html").read_text()
    assert "before: 5 pinned runs" in (root / f"{PAGE}.html").read_text()
    assert "provisional:" not in (root / "index.html").read_text()


def test_a_first_night_is_compared_with_nothing_and_says_so(nightly):
    root = nights(nightly, 1)

    assert not (root / f"{PAGE}.html").exists()
    assert "No baseline is pinned for 1 pair" in (root / "index.html").read_text()
