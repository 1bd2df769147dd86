"""Messages of alerts: docs/how-to/alerts.md has each as it is sent, and nothing in them notifies or links."""

import email
import email.policy
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag_eval_pipeline.monitoring.alert_files import (
    Alert,
    AlertedMetric,
    AlertedQuestion,
    AlertSettings,
    CourseStep,
    LatePair,
)
from rag_eval_pipeline.monitoring.alert_messages import (
    SECTION_LIMIT,
    mail_of,
    message_of,
    slack_message,
    teams_message,
    text_lines,
)
from rag_eval_pipeline.monitoring.verdict_records import Decline
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "how-to" / "alerts.md").read_text()
OPENED = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
SETTINGS = AlertSettings(
    report_url="https://reports.example.com/rag", mail_from="rag-eval@example.com", mail_to="team@example.com"
)
EXAMPLE = Alert(
    alert_id="eval_run_20261122_001",
    kind="regressed",
    subject="my-rag on hr-handbook regressed: Exact match 72 → 58",
    night=OPENED,
    created_at=datetime(2026, 11, 22, 4, 31, tzinfo=UTC),
    benchmark="hr-handbook",
    system="my-rag",
    evaluation_id="eval_run_20261122_001",
    rerun="eval_run_20261122_003",
    page="comparisons/hr-handbook.my-rag.against.baseline.html",
    baseline=("eval_run_20261116_001", "eval_run_20261117_001"),
    changes=(
        AlertedMetric(
            metric="exact_match", kind="regressed", sentence="",
            summary="Exact match 72 → 58 (−14.2 points, p = 0.003, confirmed by a rerun)",
        ),
        AlertedMetric(
            metric="f1", kind="regressed", sentence="",
            summary="F1 79 → 66 (−13.4 points, p = 0.004, confirmed by a rerun)",
        ),
    ),
    together=("Hit@1 92 → 80 (not sure)",),
    failed=(0, 1, 240),
    cause="Look at retrieval: Hit@1 92 → 80 (not sure); 28 of the 32 questions of section leave got worse, 6 of the "
    "208 others.",
    worst=(
        AlertedQuestion(
            name="HR-017", query_id="16", text="How many days of parental leave are paid?", expected="90 days",
            before="90 days are paid.", now="Up to 30 days of annual leave can be carried over.",
        ),
    ),
    course=(CourseStep(night=OPENED, evaluation_id="eval_run_20261122_001", text="regressed: Exact match 72 → 58, F1 79 → 66"),),
)  # fmt: skip
RESOLVED = EXAMPLE.model_copy(
    update={
        "resolved_at": datetime(2026, 11, 27, 4, 30, tzinfo=UTC),
        "course": (
            *EXAMPLE.course,
            CourseStep(
                night=datetime(2026, 11, 23, 2, tzinfo=UTC), evaluation_id="eval_run_20261123_001",
                text="regressed: Citation overlap 66 → 54",
            ),
            CourseStep(
                night=datetime(2026, 11, 27, 2, tzinfo=UTC), evaluation_id="eval_run_20261127_001",
                text="no longer regressed: Exact match 72 → 72, F1 79 → 78, Citation overlap 66 → 65",
            ),
        ),
    }
)  # fmt: skip

DECLINE = Decline(
    metric="exact_match", evidence=312_345.6, alert_at=262_800, since="2026-11-12", first="eval_run_20261112_001",
    change=-0.012,
)  # fmt: skip
DECLINED = Alert(
    alert_id="decline_eval_run_20261122_001",
    kind="declined",
    subject="my-rag on hr-handbook declines: Exact match −1.2 points since 12 November",
    night=OPENED,
    created_at=EXAMPLE.created_at,
    evaluation_id="eval_run_20261122_001",
    page=EXAMPLE.page,
    baseline=("eval_run_20261103_001",),
    changes=(AlertedMetric(metric="exact_match", kind="declined", sentence="", summary=DECLINE.summary),),
)


def rendered(form: str) -> str:
    """An example as one of its forms, as the page shows it."""
    if form == "declined":
        return "\n".join(text_lines(message_of(DECLINED, SETTINGS, Path("data/reports"))))
    message = message_of(EXAMPLE, SETTINGS, Path("data/reports"))
    if form == "resolved":
        return "\n".join(text_lines(message_of(RESOLVED, SETTINGS, Path("data/reports"), is_resolved=True)))
    mail = email.message_from_bytes(mail_of(message, EXAMPLE, SETTINGS), policy=email.policy.default)
    head = "\n".join(f"{name}: {mail[name]}" for name in ("Subject", "From", "To", "Date"))
    body = "\n".join(mail.get_body(("plain",)).get_content().splitlines()).strip()
    return f"{head}\n\n{body}"


@pytest.mark.parametrize("form", ["mail", "resolved", "declined"])
def test_alerts_page_has_the_message_as_it_is_sent(form):
    assert f"\n{rendered(form)}\n```" in PAGE


HOSTILE = "<!channel> <https://x.example|here> [here](https://x.example) <at>all</at>\x1b[31m \u202eabc\nsecond line"


@pytest.fixture
def hostile():
    question = AlertedQuestion(name="1", query_id="1", text=HOSTILE, expected=HOSTILE, before="y" * 10_000, now=HOSTILE)
    update = {"subject": HOSTILE, "cause": HOSTILE * 90, "worst": (question,), "together": (HOSTILE,)}
    return message_of(EXAMPLE.model_copy(update=update), AlertSettings(), Path("data/reports"))


@pytest.mark.fault(42)
def test_slack_message_escapes_what_would_notify_or_link_and_keeps_to_limits(hostile):
    payload = slack_message(hostile)

    header, *sections = (block["text"] for block in payload["blocks"])
    assert header["type"] == "plain_text"
    assert not re.search(r"[<>]", "".join(section["text"] for section in sections) + payload["text"])
    assert max(len(section["text"]) for section in sections) <= SECTION_LIMIT
    assert not re.search("[\x1b\u202e]", json.dumps(payload, ensure_ascii=False))


def test_mail_escapes_foreign_text_in_its_html(hostile):
    mail = email.message_from_bytes(mail_of(hostile, EXAMPLE, SETTINGS), policy=email.policy.default)

    assert not re.search("<at>|<https|<!", mail.get_body(("html",)).get_content())


def test_teams_message_has_foreign_text_in_rich_text_only(hostile):
    content = teams_message(hostile)["attachments"][0]["content"]

    assert {block["type"] for block in content["body"]} == {"RichTextBlock"}
    assert {run["type"] for block in content["body"] for run in block["inlines"]} == {"TextRun"}
    assert "entities" not in content["msteams"]  # without which no mention notifies
    assert "actions" not in content  # a path is no link
    assert len(json.dumps(content)) < 28_000  # Teams refuses larger ones


def longest(questions=0, nights=0, late=0):
    """The longest message that the settings allow."""
    text = "<&>" * 400
    worst = [
        AlertedQuestion(name=str(n), query_id=str(n), text=text, expected=text, before=text, now=text)
        for n in range(questions)
    ]
    course = [
        CourseStep(night=OPENED, evaluation_id="e", text=f"regressed: {'Exact match 72 → 58, ' * 5}")
        for _ in range(nights)
    ]
    pairs = [LatePair(benchmark=f"benchmark-{n}", system="my-rag", since=OPENED) for n in range(late)]
    update = {"worst": tuple(worst), "course": tuple(course), "late": tuple(pairs)}
    return message_of(EXAMPLE.model_copy(update=update), AlertSettings(questions_shown=50), Path("data/reports"))


LONGEST = {
    #                 message               left out of Slack's        and of Teams'
    "questions":      ({"questions": 50},   "and 28 more",             "and 34 more"),
    "nights":         ({"nights": 1_200},   r"[2-9]\d\d earlier",      r"11\d\d earlier"),
    "overdue pairs":  ({"late": 2_000},     r"\d+ lines are in the report", r"1,9\d\d lines are in the report"),
}  # fmt: skip


@pytest.mark.parametrize(("made", "slack", "teams"), LONGEST.values(), ids=LONGEST)
def test_long_messages_are_shortened_to_what_receivers_accept(made, slack, teams):
    message = longest(**made)
    blocks, card = slack_message(message)["blocks"], json.dumps(teams_message(message))
    text = "\n".join(block["text"]["text"] for block in blocks if "text" in block)

    assert len(blocks) <= 50
    assert max(len(block["text"]["text"]) for block in blocks if "text" in block) <= SECTION_LIMIT
    assert len(card.encode()) <= 28_000
    assert re.search(slack, text)
    assert re.search(teams, card)
    assert not re.search(r"&\w*$|^\w{1,3};", text, re.MULTILINE)  # no escaped character is cut in two


def test_text_of_an_alert_has_one_line_for_each_fact(hostile):
    lines = list(text_lines(hostile))

    assert not any(re.search("[\x1b\u202e\n]", line) for line in lines)
    assert f"Report:           {Path('data/reports') / EXAMPLE.page}" in lines
