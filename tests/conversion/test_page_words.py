"""Pages that lose words in print, and rows with a URL that is none, through a whole conversion."""

import json
import re

import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.workspace import Workspace

SPEC = """
name: scratch
version: 1.0.0
source: q.jsonl
tables: {docs: {path: d.jsonl}}
questions: "SELECT q AS question, 'a' AS answer, [{'url': url}] AS contexts FROM source"
documents: SELECT url, html FROM docs
"""
WHOLE = "<p>" + "Gannets dive for herring off the skerry. " * 20
HALF = "<style>@media print{.side{display:none}}</style>" + WHOLE + "<div class=side>" + "And terns hover. " * 35


@pytest.mark.browser
def test_pages_that_lose_words_are_listed(benchmark, tmp_path):
    pages = {"whole": WHOLE, "half": HALF, "hidden": f"<main hidden>{WHOLE}</main>", "drawn": "<canvas>"}
    documents = "\n".join(json.dumps({"url": f"http://x.example/{name}", "html": html}) for name, html in pages.items())
    questions = "\n".join(json.dumps({"q": f"What of {name}?", "url": f"http://x.example/{name}"}) for name in pages)
    benchmark(SPEC, {"q.jsonl": questions, "d.jsonl": documents})

    [report] = [report for report in convert(Workspace(tmp_path), "scratch") if report.record.step == "corpus"]
    [check] = [check for check in report.record.checks if check.name == "page_words_in_pdf"]
    assert not check.passed
    # 140 of the 245 words are in the PDF; three letters in a row that both halves have add a few.
    assert (check.numbers["pages"], check.numbers["incomplete"]) == (3, 1)
    assert re.fullmatch(r"14\d of 245 words \((57|58|59)%\)", check.numbers["half.pdf"])
    assert report.notes[-2:] == (
        "Pages printed with text that is hidden until a tab is opened or a script runs: hidden.pdf.",
        "PDFs without any text, in which nothing can be found: drawn.pdf.",
    )
    assert f"half.pdf: {check.numbers['half.pdf']} of the page are in the PDF." in report.notes
