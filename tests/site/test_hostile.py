"""Text from data is shown and does nothing: in questions, answers, passages, settings, metrics and alerts."""

import json
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from rag_eval_pipeline.monitoring.alert_files import SUFFIX, Alert, alerts_folder
from rag_eval_pipeline.monitoring.regressions import write_comparisons
from rag_eval_pipeline.site.display_text import replace_control_chars
from rag_eval_pipeline.site.site import write_site
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import FIRST, publish_night, register

pytestmark = pytest.mark.browser
RUN = "eval_run_20261002_001"
HOSTILE = {
    0: "<script>alert(1)</script>",
    1: "</script><script>alert(2)</script>",
    2: "<img src=x onerror=alert(3)>",
    3: "[click](javascript:alert(4)) javascript:alert(4)",
    4: "<svg onload=alert(5)><a xlink:href='javascript:alert(6)'><text>x</text></a></svg>",
    5: "abc\u202egnp.exe",
    6: "\x1b[31mred\x1b[0m",
    7: "{{ 7 * 7 }} {% raw %} ${7*7} ]]> --> <!-- &lt; &amp;",
    8: "<iframe src='https://example.org'></iframe><link rel=stylesheet href=https://example.org/x.css>",
    9: "\u2028\u2029'\"`\\",
    10: "<base href='https://example.org/'><meta http-equiv=refresh content='0;url=https://example.org'>",
    11: "=1+1",
    12: "\u2067\u05d0\u2069 <b>bold</b> &lt;i&gt;",
    13: "%3Cscript%3Ealert(7)%3C/script%3E%zz",
}
LONG = 14
ATTACK = "</script><img src=x onerror=alert(8)>\u202e\u2028"
ODD_ID = "#/../<b>?%zz\u202e"


def attack_results(results):
    """Put an attack into settings, versions, models and metrics."""
    results["configuration"] = {ATTACK: ATTACK, "nested": {ATTACK: [ATTACK]}, "long": "x" * 5000}
    results["system_version"] = ATTACK
    results["fingerprints"]["metrics"] = ATTACK
    results["judge"] = {"kind": ATTACK, "fingerprint": ATTACK, "models": [ATTACK], "flags": {ATTACK: 1}}
    figure = {"value": 0.5, "confidence_interval": [0.4, 0.6], "n_scored": 40}
    results["further_metrics"] = {ATTACK: figure, "politeness": figure}
    results["custom_metrics"] = {
        "politeness": {"meaning": ATTACK, "source": ATTACK, "direction": "higher", "category": ATTACK}
    }
    results["metric_faults"] = [{"metric": ATTACK, "query_id": "3", "message": ATTACK}]
    results["quality_thresholds"] = {ATTACK: {"limit": 0.5, "bound": ATTACK}}
    for row in results["query_results"]:
        row["individual_metrics"] |= {ATTACK: 0.5, "__proto__": 0.25, "constructor": 0.125}
    results["query_results"][20]["query_id"] = ODD_ID
    results["query_results"][21] |= {"status": "error", "generated_answer": None, "error": ATTACK}
    results["query_results"][22]["retrieval_results"]["ground_truth_relevant"] = [ATTACK, *map(str, range(100))]


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """A run in which everything that is text is an attack, and one question with answer and passages of 100 kB."""
    workspace = Workspace(tmp_path_factory.mktemp("hostile"))
    register(workspace, ["attacked"], ["asked"])
    texts = HOSTILE | {LONG: "<b>" + "W" * 100_000}
    for night in range(2):
        publish_night(workspace, "attacked", "asked", night, questions=40, skill=0.5, number=1, texts=texts)
    path = workspace.results_file(RUN)
    results = json.loads(path.read_text())
    attack_results(results)
    path.write_text(json.dumps(results))
    alert = Alert(
        alert_id="a", kind="run_failed", subject=ATTACK, night=FIRST, created_at=FIRST, benchmark=ATTACK, system=ATTACK,
        evaluation_id=ATTACK, error=ATTACK,
    )  # fmt: skip
    alert.write(alerts_folder(workspace) / f"a{SUFFIX}")
    write_site(workspace, write_comparisons(workspace))
    return workspace.reports


def foreign(page):
    """Elements that only foreign text could have made."""
    return page.locator("main :is(script, iframe, base, link, form, b, i, img, a[href^=javascript])").count()


@pytest.mark.fault(42)
def test_hostile_question_is_text(hostile, open_page):
    page = open_page(hostile / f"runs/{RUN}/question.html")
    for place, text in HOSTILE.items():
        page.goto(f"{page.url.partition('#')[0]}#{place}")

        expect(page.get_by_role("heading", level=1)).to_have_text(replace_control_chars(text), use_inner_text=True)
        assert foreign(page) == 0, text


PAGES = {
    "the first page": ("index.html", replace_control_chars(ATTACK)[:30]),
    "a benchmark": ("benchmarks/attacked.html", ""),
    "a run": (f"runs/{RUN}/index.html", replace_control_chars(ATTACK)[:30]),
    "a comparison": ("comparisons/attacked.asked.against.baseline.html", ""),
}


@pytest.mark.fault(42)
@pytest.mark.parametrize(("name", "text"), PAGES.values(), ids=PAGES)
def test_page_with_hostile_text_shows_it_and_does_nothing(name, text, hostile, open_page):
    page = open_page(hostile / name)

    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert text in page.locator("main").inner_text()
    assert foreign(page) == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.fault(42)
def test_odd_ids_metrics_and_addresses_are_text(hostile, open_page):
    page = open_page(hostile / f"runs/{RUN}/question.html", fragment=quote(replace_control_chars(ODD_ID), safe=""))
    address = page.url.partition("#")[0]

    expect(page.get_by_text(f"Question {replace_control_chars(ODD_ID)}")).to_be_visible()
    page.goto(f"{address}#%zz<b>")
    expect(page.get_by_role("heading", level=1)).to_have_text("No such question")
    assert foreign(page) == 0
    page.goto(f"{address}#22")
    expect(page.get_by_text("and 81 more")).to_be_visible()  # of 101 missed documents 20 are named
    page.goto(f"{address}#30")
    expect(page.get_by_text("Question 30 ")).to_be_visible()
    page.locator("summary", has_text=" scores").click()
    scores = page.locator(".scores div").all_inner_texts()
    assert any("constructor" in text.lower() and "0.125" in text for text in scores)
    assert any("proto" in text and "0.250" in text for text in scores)


def test_hundred_thousand_characters_are_cut_and_wrap(hostile, open_page):
    page = open_page(hostile / f"runs/{RUN}/question.html", fragment=str(LONG), width=390)

    expect(page.get_by_text(f"Question {LONG} ")).to_be_visible()
    assert len(page.get_by_role("heading", level=1).inner_text()) == 300
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert all(path.stat().st_size < 600_000 for path in hostile.glob("runs/*/data/details-*.js"))
