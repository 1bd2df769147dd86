"""The bundled handbook and the recorded answers of the demo belong together, and the answers can be made again."""

import gzip
import json
import re
from collections import Counter
from html import unescape

import pytest

from tests.conftest import REPOSITORY

DEMO = REPOSITORY / "examples" / "demo"
HANDBOOK = DEMO / "sources" / "harbour-handbook"
NIGHTS = [f"2026-11-{day:02}T02.jsonl.gz" for day in range(9, 17)]
RERUNS = ["2026-11-15T06.jsonl.gz", "2026-11-16T06.jsonl.gz"]
SIZE_LIMIT_BYTES = 3_000_000


@pytest.fixture(scope="module")
def questions():
    return [json.loads(line) for line in (HANDBOOK / "questions.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def pages():
    """URL -> HTML."""
    listed = json.loads((HANDBOOK / "pages.json").read_text("utf-8"))
    return {page["url"]: (HANDBOOK / page["file"]).read_text("utf-8") for page in listed}


def test_handbook_has_questions_of_each_kind_and_section(questions):
    assert [question["id"] for question in questions] == [f"HH-{number:03}" for number in range(1, 251)]
    assert Counter(question["kind"] for question in questions) == {"one place": 186, "two places": 31, "no answer": 33}
    assert Counter(question["section"] for question in questions) == {
        "pilotage": 34, "berths": 38, "goods": 33, "tariffs": 57, "environment": 31, "safety": 33, "staff": 24,
    }  # fmt: skip
    for question in questions:
        assert question["unanswerable"] == (question["kind"] == "no answer") == (not question["answer"])


def test_handbook_lists_every_page_and_shows_every_picture(pages):
    listed = {page["file"] for page in json.loads((HANDBOOK / "pages.json").read_text("utf-8"))}
    shown = {name for html in pages.values() for name in re.findall(r'<img src="img/([^"]+)"', html)}

    assert listed == {f"pages/{path.name}" for path in (HANDBOOK / "pages").glob("*.html")}
    assert shown == {path.name for path in (HANDBOOK / "pages" / "img").iterdir()}
    assert len(pages) == 46
    assert all("<table>" in html for html in pages.values())


def test_handbook_pages_have_their_gold_texts(questions, pages):
    texts = {url: _folded(re.sub(r"<[^>]+>", " ", re.sub("</?strong>", "", html))) for url, html in pages.items()}

    named = {source["url"] for question in questions for source in question["sources"]}
    lost = [
        source["text"]
        for question in questions
        for source in question["sources"]
        if _folded(source["text"]) not in texts[source["url"]]
    ]

    assert lost == []
    assert named == set(pages)  # each document is asked about


@pytest.mark.parametrize(
    ("system", "files"),
    [
        pytest.param("hybrid", NIGHTS, id="hybrid"),
        pytest.param("hybrid-next", NIGHTS, id="hybrid-next"),
        pytest.param("hybrid-mini", sorted(NIGHTS + RERUNS), id="hybrid-mini"),
    ],
)
def test_answers_are_recorded_for_every_question_and_night(system, files, questions, pages):
    folder = DEMO / "answers" / system
    asked = [(question["id"], question["question"]) for question in questions]
    documents = {f"{url.rpartition('/')[2]}.pdf" for url in pages}

    assert sorted(path.name for path in folder.iterdir()) == files
    for name in files:
        rows = [json.loads(line) for line in gzip.decompress((folder / name).read_bytes()).splitlines()]
        assert [(row["id"], row["question"]) for row in rows] == asked
        found = {context["document"] for row in rows for context in row["contexts"]}
        lacks_tariffs = system == "hybrid-mini" and name >= "2026-11-15"
        assert found <= documents
        assert any(document.startswith("tariffs-") for document in found) != lacks_tariffs


def test_demo_files_are_small():
    assert sum(path.stat().st_size for path in DEMO.rglob("*") if path.is_file()) < SIZE_LIMIT_BYTES


def _folded(text):
    """Return a text without the differences between HTML and what is printed."""
    return " ".join(unescape(text).split())
