"""A comparison as one file: it opens without a network and has the questions, the answers and the pages in it."""

import re
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import expect

from rag_eval_pipeline.monitoring.comparison import compare_named
from rag_eval_pipeline.monitoring.regressions import read_comparisons
from rag_eval_pipeline.serving.report_server import report_server
from rag_eval_pipeline.site.comparison_file import comparison_file
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import publish_night, register
from tests.site.conftest import RAILWAY, new_page, rows

NAME = f"{RAILWAY}.embedded-weak.against.embedded"


@pytest.fixture(scope="module")
def row(_reported):
    found = read_comparisons(Workspace(_reported)).rows
    return next(one for one in found if (one.benchmark, one.old) == (RAILWAY, "embedded"))


@pytest.mark.browser
def test_comparison_file_shows_each_question_with_its_pages(site, row, open_page, tmp_path):
    file = tmp_path / "weak.html"
    file.write_bytes(comparison_file(site, row))
    page = open_page(file)
    heading = page.get_by_role("heading", level=1)

    expect(heading).to_have_text("embedded-weak against embedded")
    expect(page.get_by_role("link", name="Download as one file")).to_be_hidden()
    question = rows(page).first.get_by_role("link").inner_text()
    rows(page).first.get_by_role("link").click()
    expect(heading).to_have_text(question)
    for part in ("Gold answer", "Answer before", "Present answer", "In the documents"):
        expect(page.get_by_role("heading", name=part, exact=True)).to_be_visible()
    page.wait_for_function("document.querySelector('.sheet img').naturalWidth > 0")
    page.get_by_role("link", name="Next").click()
    expect(heading).not_to_have_text(question)
    page.get_by_role("link", name="2 of 40").click()
    expect(heading).to_have_text("embedded-weak against embedded")
    # Nothing leads out of the file.
    assert page.locator("a:visible:not([href^='#'])").count() == 0


def test_comparison_file_leaves_out_what_it_has_no_room_for(site, row):
    whole, limit = comparison_file(site, row), 400_000

    small = comparison_file(site, row, limit=limit)

    assert len(small) <= limit < len(whole)
    left_out = int(re.search(r"except the (\d+) that changed least", small.decode())[1])
    assert 0 < left_out < 40
    assert small.count(b",null") + small.count(b"[null") >= left_out
    assert b"changed least" not in whole


def test_comparison_file_links_the_report_where_it_has_an_address(tmp_path):
    workspace = Workspace(tmp_path)
    register(workspace, ["lamps"], ["asked"])
    ids = [publish_night(workspace, "lamps", "asked", night, questions=8, skill=0.7, number=1) for night in range(2)]
    (workspace.config / "alerts.config.yaml").write_text("report_url: https://reports.example/rag/\n")

    text = comparison_file(workspace, compare_named(workspace, *ids)).decode()

    assert f'<a href="https://reports.example/rag/runs/{ids[1]}/index.html" class="code">' in text


@pytest.mark.browser
def test_report_that_is_served_here_offers_the_file(site, row, browser):
    with report_server(site.reports, "127.0.0.1", 0) as address:
        page = new_page(browser)
        page.goto(f"{address}comparisons/{NAME}.html")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download as one file").click()
        assert download.value.suggested_filename == f"{NAME}.html"
        assert download.value.path().read_bytes() == comparison_file(site, row)
        page.close()
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(f"{address}files/none")
        assert (error.value.code, b"no_evaluation" in error.value.read()) == (400, True)
