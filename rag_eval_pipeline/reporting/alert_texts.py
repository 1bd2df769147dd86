"""An alert as a mail and as a message for a Slack-compatible webhook; questions are foreign text and stay text."""

from collections.abc import Iterator, Mapping
from email.message import EmailMessage
from email.policy import SMTP
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.reporting.alert_settings import AlertSettings

if TYPE_CHECKING:
    from rag_eval_pipeline.reporting.alerts import Alert, AlertedMetric

QUESTION_LIMIT = 120  # characters of a question in a message
SECTION_LIMIT = 2900  # Slack refuses sections of more than 3,000 characters


def mail_of(alert: "Alert", texts: Mapping[str, str], settings: AlertSettings) -> bytes:
    """The alert as a mail that can be handed to any mail program (RFC 5322).

    Args:
        alert: What is told.
        texts: Question -> its words.
        settings: Sender, recipient, and where the report is.
    """
    mail = EmailMessage(policy=SMTP)
    mail["Subject"] = _one_line(f"[rag-eval] {alert.subject}")
    if settings.mail_from:
        mail["From"] = settings.mail_from
    if settings.mail_to:
        mail["To"] = settings.mail_to
    mail["Date"] = alert.created_at
    mail["Message-ID"] = f"<{alert.alert_id}@rag-eval>"
    mail.set_content("\n".join(_lines(alert, texts, settings)) + "\n")
    return mail.as_bytes()


def slack_message(alert: "Alert", texts: Mapping[str, str], settings: AlertSettings) -> dict[str, Any]:
    """The alert as the JSON of an incoming webhook: `text` for any receiver, `blocks` for those that know them."""
    first, *rest = _lines(alert, texts, settings)
    body = _escaped("\n".join(rest)).strip()
    blocks = [_section(f"*{_escaped(first)}*")]
    while body:
        blocks.append(_section(body[:SECTION_LIMIT]))
        body = body[SECTION_LIMIT:]
    return {"text": _escaped("\n".join((first, *rest))), "blocks": blocks}


def _lines(alert: "Alert", texts: Mapping[str, str], settings: AlertSettings) -> Iterator[str]:
    yield _one_line(alert.subject)
    if not alert.late:
        yield f"Night of {alert.night:%Y-%m-%d %H:%M} UTC" + (f", {alert.evaluation_id}" if alert.evaluation_id else "")
    yield from (one.sentence for one in alert.late)
    if alert.error is not None:
        yield ""
        yield _one_line(alert.error)
    for change in alert.changes:
        yield ""
        yield f"{change.metric} {change.kind}: {change.sentence}"
        yield from _questions(change, texts, settings.questions_shown)
    if settings.report_url:
        yield ""
        yield f"Report: {settings.report_url}"


def _questions(change: "AlertedMetric", texts: Mapping[str, str], shown: int) -> Iterator[str]:
    for one in change.questions[:shown]:
        words = _one_line(texts.get(one.query_id, ""))
        words = words if len(words) <= QUESTION_LIMIT else words[: QUESTION_LIMIT - 1] + "…"
        yield f"  question {one.query_id}: {one.before:.2f} -> {one.after:.2f}  {words}".rstrip()


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _escaped(text: str) -> str:
    """`&`, `<` and `>` are Slack's: `<!channel>` in a question would ring everybody's bell."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _one_line(text: str) -> str:
    return " ".join(text.split())
