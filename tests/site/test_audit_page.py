"""The page of an audit: what is decided on it is the audit.yaml that a plan applies."""

import datetime
import json

import pytest
from playwright.sync_api import expect

from rag_eval_pipeline.audit.drafts import find_drafts
from rag_eval_pipeline.audit.findings import AuditFinding, Suspect, undecided
from rag_eval_pipeline.audit.trace_questions import Trace
from rag_eval_pipeline.conversion.audit_decisions import converted_decisions, read_decisions
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.conversion.question_spool import iterate_batches, questions_of
from rag_eval_pipeline.serving.report_server import report_server
from rag_eval_pipeline.site.audit_page import write_audit
from rag_eval_pipeline.site.data import read_report_data
from rag_eval_pipeline.site.page_writer import STATE, SiteFolder
from tests.site.conftest import RAILWAY, new_page

ATTACK = "</script><img src=x onerror=alert(1)>\u202e\u2028"
FINDINGS = [
    AuditFinding(
        "other_answer", "wrong", f"The documents have another answer {ATTACK}.", "Look at both.",
        tuple(Suspect(number, f"a.csv, row {number}", f"evidence {ATTACK}", ("1874",)[:number]) for number in range(30)),
    ),
    AuditFinding("duplicate", "doubtful", "Asked twice.", "Drop one.", (Suspect(1, "1", "as question 2"),)),
    AuditFinding("unnamed", "note", "No question names them.", "None.", documents=("a.pdf", "b.pdf")),
]  # fmt: skip


def written(workspace):
    parts = {"questions": FINDINGS[:2], "answers": FINDINGS[2:]}
    return write_audit(
        SiteFolder(workspace.reports), read_report_data(workspace), RAILWAY, lambda named: parts[named[0]]
    )


@pytest.fixture
def audited(reported):
    """A workspace of the test's own whose report has the page of other findings."""
    (reported.reports / STATE).unlink()
    assert written(reported) == {"wrong": 30}
    return reported


def card(page, question, kind="other answer"):
    finding = page.locator("details.finding", has_text={"other answer": "another answer"}.get(kind, kind)).first
    if finding.get_attribute("open") is None:
        finding.locator("summary").click()
    return finding.locator("li").filter(
        has=page.get_by_role("group", name=f"Decision on question {question}", exact=True)
    )


@pytest.mark.browser
def test_decisions_of_the_page_are_saved_where_it_is_served_and_can_be_withdrawn(audited, browser):
    paths = audited.benchmark(RAILWAY)
    batches = iterate_batches(paths.questions)
    questions = {one.id: one for batch in batches for one in questions_of(batch)}
    name = {number: one.source_id or str(number) for number, one in questions.items()}
    with report_server(audited.reports, "127.0.0.1", 0) as address:
        page = new_page(browser)
        page.goto(f"{address}benchmarks/{RAILWAY}.audit.html")
        page.get_by_label("Your name").fill("ada")
        card(page, name[0]).get_by_role("button", name="Drop").click()
        card(page, name[0]).get_by_label("Reason").fill('asked "twice": yes # no')
        card(page, name[2]).get_by_role("button", name="Fix").click()
        expect(card(page, name[2]).get_by_label("Accepted answer")).to_have_value("1874")
        card(page, name[2]).get_by_role("button", name="Another").click()
        card(page, name[2]).get_by_label("Accepted answer").nth(1).fill(f"in 1874 {ATTACK}\nand later")
        card(page, name[3]).get_by_role("button", name="Fix").click()
        card(page, name[3]).get_by_label("The documents do not answer it").check()
        card(page, name[1], "Asked twice").get_by_role("button", name="Keep").click()
        expect(card(page, name[1]).get_by_role("button", name="Keep")).to_have_attribute("aria-pressed", "false")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status")).to_have_text("Saved in the workspace.")

        found = [one.model_dump(exclude_defaults=True) for one in read_decisions(paths)]
        common = {"by": "ada", "on": datetime.datetime.now(datetime.UTC).date()}
        assert found == [
            {"id": name[number], "question": questions[number].question, "decision": decision, **rest, **common}
            for number, decision, rest in (
                (0, "drop", {"finding": "other_answer", "reason": 'asked "twice": yes # no'}),
                (2, "fix", {"answers": ("1874", f"in 1874 {ATTACK}\nand later"), "finding": "other_answer"}),
                (3, "fix", {"unanswerable": True, "finding": "other_answer"}),
                (1, "keep", {"finding": "duplicate"}),
            )
        ]
        kept = undecided(FINDINGS, converted_decisions(paths).kept)
        assert [one.count for one in kept] == [30, 2]
        assert (plan(paths).counts.audit_dropped, plan(paths).counts.audit_fixed) == (1, 2)

        page.reload()
        expect(card(page, name[0]).get_by_role("button", name="Drop")).to_have_attribute("aria-pressed", "true")
        for _ in found:
            page.get_by_role("button", name="Withdraw").first.click()
        paths.audit.write_text(f"# by hand\n{paths.audit.read_text()}")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status")).to_contain_text("audit_changed")
        page.reload()
        for _ in found:
            page.get_by_role("button", name="Withdraw").first.click()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status")).to_have_text("Saved in the workspace.")
        assert not paths.audit.exists()
        page.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_page_of_an_audit_works_from_a_file(audited, width, open_page):
    audited.benchmark(RAILWAY).audit.write_text("decisions: [{id: 99, question: gone, decision: drop, by: bo}]\n")
    written(audited)

    page = open_page(audited.reports / "benchmarks" / f"{RAILWAY}.audit.html", width=width)
    finding = page.locator("details.finding").first

    expect(finding.locator("li")).to_have_count(30)
    finding.get_by_role("button", name="Drop").first.click()
    expect(page.get_by_role("button", name="Withdraw")).to_have_count(2)
    assert page.get_by_label("audit.yaml", exact=True).input_value().count("decision: drop\n") == 2
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "audit.yaml"
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
def test_question_from_production_is_taken_with_its_gold_answer_or_dropped(reported, browser):
    paths = reported.benchmark(RAILWAY)
    asked = [Trace("Are dogs allowed?", f"Never {ATTACK}", True), Trace("Is there a toilet?", None, False)]
    drafts = find_drafts(["When did it open?"], [*asked, *asked[:1]]).drafts
    paths.drafts.write_bytes(json.dumps([one._asdict() for one in drafts]).encode())
    (reported.reports / STATE).unlink()
    assert written(reported) == {"wrong": 30}
    with report_server(reported.reports, "127.0.0.1", 0) as address:
        page = new_page(browser)
        page.goto(f"{address}benchmarks/{RAILWAY}.audit.html")
        dogs, toilet = (card(page, one.id, "Users asked") for one in drafts)
        expect(dogs).to_contain_text("asked 2 times, 2 with thumbs down")
        expect(dogs).to_contain_text("The system in production answered (not gold): Never")
        dogs.get_by_role("button", name="Take").click()
        expect(page.locator("#decisions + div")).to_contain_text("no gold answer yet: not asked")
        dogs.get_by_label("Accepted answer").fill("On a lead.")
        toilet.get_by_role("button", name="Drop").click()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status")).to_have_text("Saved in the workspace.")

    taken, dropped = read_decisions(paths)
    assert (taken.id, taken.decision, taken.answers) == (drafts[0].id, "add", ("On a lead.",))
    assert (dropped.question, dropped.decision) == ("Is there a toilet?", "drop")
    paths.drafts.unlink()
    assert written(reported) == {"wrong": 30}
