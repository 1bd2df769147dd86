"""A benchmark with every kind of name, and answers written by hand; neither needs a browser."""

import json
import shutil
from datetime import UTC, datetime

import pypdfium2
import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import REPOSITORY

NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
FILES = ("a b.pdf", "a%20b.pdf", "it's #1.pdf", 'say "hi" 100%.pdf')
PAGE = "https://example.org/wiki/caf%C3%A9.pdf"
GRADED = [{"file": FILES[0], "relevance": 2}, {"file": FILES[1], "relevance": 1}]
ROWS = (
    {"q": "Where?\n\tThere\u2028=1", "a": "here, there", "c": GRADED, "t": "factual"},
    {"q": "=cmd|' /C calc'!A0", "a": "@SUM", "more": ["-1", "+1"], "c": [{"file": FILES[3], "text": 'gold "text"'}]},
    {"q": "Nothing?", "a": "", "no": True, "c": []},
    {"q": "One page, two names?", "a": "one", "c": [{"url": f"{PAGE}#B"}, {"url": f"{PAGE}#A"}], "t": "bridge"},
)
BENCHMARK = """
name: awkward
title: Awkward "names"
version: 1.2.3
released: 2024-01-31
source: rows.jsonl
tables: {docs: {files: "docs/*.pdf"}, pages: pages.jsonl}
questions:
  question: q
  answer: a
  answers: more
  is_impossible: no
  contexts: c
  query_type: t
documents: |
  SELECT name, NULL AS url, file FROM docs UNION ALL SELECT NULL, url, file FROM pages ORDER BY ALL
"""


@pytest.fixture(scope="session")
def _awkward(tmp_path_factory):
    root = tmp_path_factory.mktemp("awkward")
    folder = root / "data" / "sources" / "awkward"
    (folder / "docs").mkdir(parents=True)
    shutil.copytree(REPOSITORY / "data" / "config", root / "data" / "config")
    for number, name in enumerate(FILES, start=1):
        pdf(folder / "docs" / name, number)
    pdf(folder / "page.pdf", 9)
    empty = {"q": None, "a": None, "more": [], "no": False, "c": [], "t": None}
    context = {"file": None, "url": None, "text": None, "relevance": None}
    rows = [empty | row | {"c": [context | given for given in row["c"]]} for row in ROWS]
    pages = [{"url": f"{PAGE}#{name}", "file": "page.pdf"} for name in ("A", "B")]
    for name, values in (("rows", rows), ("pages", pages)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values))
    (folder / "benchmark.yaml").write_text(BENCHMARK)
    convert(Workspace(root), "awkward")
    return root


@pytest.fixture
def awkward(_awkward, tmp_path):
    """A workspace of the test's own with the benchmark `awkward`, converted."""
    root = tmp_path / "workspace"
    shutil.copytree(_awkward, root, symlinks=True)
    return Workspace(root)


@pytest.fixture
def answer_by_hand():
    """`answer_by_hand(workspace, benchmark, answers)` is the id of an evaluation with these; the others failed."""

    def answer(workspace, benchmark, answers):
        pair = load_pair(workspace, benchmark, "embedded")
        evaluation = load_evaluation(workspace, ask(workspace, pair, now=NIGHT).evaluation_id)
        given = {answer.query_id: answer for answer in answers}
        evaluation.write_answers([given.get(q.query_id) or refused(q.query_id) for q in pair.queries])
        return evaluation.record.evaluation_id

    return answer


def refused(query_id):
    return RagAnswer(query_id, "error", None, False, (), (), 5.0, error="connection refused")


def pdf(path, pages):
    document = pypdfium2.PdfDocument.new()
    for _ in range(pages):
        document.new_page(100, 100)
    document.save(path)
    document.close()
