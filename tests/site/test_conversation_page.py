"""The page of a conversation, reached from the list of questions and from the page of a question."""

import pytest
from playwright.sync_api import expect

from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.site.site import write_site
from tests.json_server import json_server
from tests.site.conftest import RULES, rows, serious_findings
from tests.talks import answer_with_count, make_talks, question_of, set_chat

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")  # before the browser is there
def run(tmp_path_factory):
    """The folder of a run's pages; the third turn of conversation c2 failed."""
    workspace = make_talks(tmp_path_factory.mktemp("conversation") / "talks")

    def answer(path, body):
        return (500, {}) if question_of(body) == "c2 3?" else answer_with_count(path, body)

    with json_server(answer) as server:
        set_chat(workspace, server)
        evaluate(workspace, load_pair(workspace, "chats", "chat"))
    write_site(workspace)
    return workspace.reports / "runs" / newest_evaluation(workspace, "chats", "chat").record.evaluation_id


def test_conversation_has_its_turns_in_order_with_what_was_sent_before_them(run, open_page):
    page = open_page(run / "index.html")
    expect(rows(page).last.get_by_role("link")).to_have_count(1)  # its question: it is of no conversation
    rows(page).filter(has_text="2 of c2").get_by_role("link", name="2 of c2").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Conversation c2")
    expect(
        page.get_by_text("4 turns, each asked with the system's own answers to the turns before it.")
    ).to_be_visible()
    assert page.locator(".turn > h2").all_inner_texts() == ["1. c2 1?", "2. c2 2?", "3. c2 3?", "4. c2 4?"]
    expect(page.get_by_role("region", name="Scores by turn").locator("tbody tr")).to_have_count(4)
    third = page.locator(".turn").nth(2)
    third.get_by_text("4 messages before it").click()
    expect(third.locator("details tr").last).to_have_text("assistant (own)own 3")
    expect(page.locator(".turn").nth(3)).to_contain_text("not asked: question")
    third.locator("p.lead a").click()
    page.get_by_role("link", name="the conversation c2").click()
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Conversation c3")


@pytest.mark.parametrize(("width", "scheme"), RULES)
def test_conversation_can_be_read_on_every_screen(width, scheme, run, open_page):
    page = open_page(run / "conversation.html", fragment="4", width=width, scheme=scheme)
    page.locator(".turn").first.wait_for()

    assert serious_findings(page, RULES[width, scheme]) == []  # and everything is unfolded now
    beyond = (
        "cells => cells.filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.innerText)"
    )
    assert page.locator("td").evaluate_all(beyond) == []
