"""Alerts as messages: plain text, mail with an HTML part, the JSON of Slack's webhooks, and an Adaptive Card for Teams.

Questions and answers come from elsewhere: each form escapes them, so that none notifies a channel or draws a link.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from rag_eval_pipeline.errors import counted, shortened
from rag_eval_pipeline.monitoring.alert_files import Alert, AlertSettings

TEXT_LIMIT = 200  # characters of a question or an answer in a message
SECTION_LIMIT = 2900  # Slack refuses sections of more than 3,000 characters
HEADER_LIMIT = 150  # and headers of more than these
BLOCKS_LIMIT = 50  # and messages of more blocks
CARD_LIMIT = 27_000  # bytes; Teams refuses messages of more than about 28 KB
FACT_LIMIT = 500  # characters of a fact in a message that is still too long without questions


class Message(NamedTuple):
    """What an alert says in every form.

    Args:
        facts: Label and value.
        questions: Name and text of each question, and its answers by label.
        course: A line for each night on which something changed.
        link: The comparison's page: an address, or a path if the report has none.
        next_step: A command, or what a person has to do.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    questions: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    course: tuple[str, ...]
    link: str
    next_step: str

    @property
    def is_link(self) -> bool:
        """Whether the link is an address that a browser opens."""
        return self.link.startswith(("https://", "http://"))


def message_of(alert: Alert, settings: AlertSettings, reports: Path, *, is_resolved: bool = False) -> Message:
    """Return what an alert says.

    Args:
        reports: The folder of the report, which is named where the report has no address.
        is_resolved: The message that closes the incident.
    """
    link = f"{settings.report_url.rstrip('/')}/{alert.page}" if settings.report_url else str(reports / alert.page)
    course = tuple(f"{step.night:%Y-%m-%d}  {_one_line(step.text)}" for step in alert.course)
    if is_resolved:
        why = "Closed: a new baseline was pinned for" if alert.new_baseline else "Resolved:"
        title = f"{why} {alert.system} on {alert.benchmark}"
        return Message(_one_line(title), tuple(_facts(alert))[:1], (), course, link, "")
    return Message(
        title=_one_line(alert.subject),
        facts=tuple((label, _one_line(value)) for label, value in _facts(alert)),
        questions=tuple(_questions(alert, settings.questions_shown)),
        course=course if len(course) > 1 else (),
        link=link,
        next_step=_next_step(alert),
    )


def _facts(alert: Alert) -> Iterator[tuple[str, str]]:
    if not alert.late:
        seen = f", {alert.evaluation_id}" if alert.evaluation_id else ""
        again = f", again in {alert.rerun}" if alert.rerun else ""
        yield "Night", f"{alert.night:%Y-%m-%d %H:%M} UTC{seen}{again}"
    yield from (("Overdue", one.sentence) for one in alert.late)
    if alert.error is not None:
        yield "Error", alert.error
    for kind in dict.fromkeys(change.kind for change in alert.changes):
        first, *others = (change.summary or change.sentence for change in alert.changes if change.kind == kind)
        yield kind.capitalize(), first
        if others:
            yield f"Also {kind}", ", ".join(text.partition(" (")[0] for text in others)
    if alert.together:
        yield "Together with", ", ".join(alert.together)
    if alert.failed is not None:
        now, before, asked = alert.failed
        yield "Failed questions", f"{now} of {asked}, {before} before"
    if alert.cause:
        yield "Cause", alert.cause


def _questions(alert: Alert, shown: int) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    for one in alert.worst[:shown]:
        answers = (("expected", one.expected or "no answer"), ("before", one.before), ("now", one.now))
        yield _cut(f"{one.name}: {one.text}"), tuple((label, _cut(text)) for label, text in answers)


def _next_step(alert: Alert) -> str:
    if alert.kind in ("regressed", "changed", "declined") and alert.baseline:
        return f"rag-eval compare {alert.baseline[-1]} {alert.evaluation_id}"
    if alert.late:
        first = alert.late[0]
        return "rag-eval status" if first.obstacle else f"rag-eval evaluate {first.benchmark} --system {first.system}"
    if alert.kind == "run_failed" and alert.system:  # of a void night
        return f"rag-eval evaluate {alert.benchmark} --system {alert.system}"
    if alert.kind == "run_failed":
        return "Open the run in Dagster, and materialize its partition again."
    return ""


def text_lines(message: Message) -> Iterator[str]:
    """Yield a message as lines of plain text."""
    yield message.title
    yield ""
    width = max(len(label) for label in ("Report", *(label for label, _ in message.facts)))
    yield from (f"{label + ':':{width + 1}} {value}" for label, value in (*message.facts, ("Report", message.link)))
    if message.questions:
        yield from ("", "Worst questions")
    for question, answers in message.questions:
        yield f"  {question}"
        yield from (f"    {label + ':':9} {text}" for label, text in answers)
    if message.course:
        yield from ("", "Course", *(f"  {line}" for line in message.course))
    if message.next_step:
        yield from ("", f"Next: {message.next_step}")


def mail_of(message: Message, alert: Alert, settings: AlertSettings, *, is_resolved: bool = False) -> bytes:
    """Return a message as a mail (RFC 5322)."""
    mail = EmailMessage(policy=SMTP)
    # Python's encoding of other characters doubles the space before them.
    mail["Subject"] = f"[rag-eval] {message.title}".replace("→", "->").replace("−", "-")
    if settings.mail_from:
        mail["From"] = settings.mail_from
    if settings.mail_to:
        mail["To"] = settings.mail_to
    mail["Date"] = alert.resolved_at if is_resolved and alert.resolved_at else alert.created_at
    if is_resolved:
        mail["Message-ID"] = f"<{alert.alert_id}.resolved@rag-eval>"
        mail["In-Reply-To"] = f"<{alert.alert_id}@rag-eval>"
    else:
        mail["Message-ID"] = f"<{alert.alert_id}@rag-eval>"
    # 8bit can be read in the file itself; lines of more than 998 bytes need an encoding.
    text, html = "\n".join(text_lines(message)) + "\n", _html(message)
    mail.set_content(text, cte="8bit" if max(map(len, text.encode().split(b"\n"))) < 998 else None)
    mail.add_alternative(html, subtype="html")
    return mail.as_bytes()


def _html(message: Message) -> Markup:
    """Return a message as the HTML of a mail."""
    row = Markup('<tr valign="top"><td style="color: #616061; white-space: nowrap">{}&emsp;</td><td>{}</td></tr>')
    link = Markup('<a href="{}">Open the report</a>').format(message.link) if message.is_link else message.link
    parts = [Markup("<h3>{}</h3>").format(message.title)]
    parts += [_table(row.format(*fact) for fact in (*message.facts, ("Report", link)))]
    for question, answers in message.questions:
        parts += [Markup("<p><b>{}</b></p>").format(question), _table(row.format(*answer) for answer in answers)]
    parts += [Markup("<p>{}</p>").format(line) for line in message.course]
    parts += [Markup("<p>Next: <code>{}</code></p>").format(message.next_step)] if message.next_step else []
    return Markup('<div style="font: 14px/1.5 sans-serif">{}</div>\n').format(Markup("\n").join(parts))


def _table(rows: Iterable[Markup]) -> Markup:
    return Markup('<table style="font: inherit" cellpadding="1">{}</table>').format(Markup("\n").join(rows))


def slack_message(message: Message) -> dict[str, Any]:
    """Return the JSON of Slack's incoming webhooks: `text` for notifications, `blocks` for the message."""
    found = next(blocks for one in _shorter(message) if len(blocks := _blocks(one)) <= BLOCKS_LIMIT)
    return {"text": _escaped(message.title), "blocks": found}


def _blocks(message: Message) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": message.title[:HEADER_LIMIT]}},
        *_sections(f"*{_escaped(label)}*: {_escaped(value)}" for label, value in message.facts),
    ]
    if message.questions:
        blocks += _sections(["*Worst questions*"])
    for question, answers in message.questions:
        blocks += _sections([f"*{_escaped(question)}*", *(f"{label}: {_escaped(text)}" for label, text in answers)])
    if message.course:
        blocks += _sections(("*Course*", *map(_escaped, message.course)))
    if message.next_step:
        blocks += _sections([f"*Next*: {_escaped(message.next_step)}"])
    if message.is_link:
        button = {"type": "button", "text": {"type": "plain_text", "text": "Open the report"}, "url": message.link}
        blocks.append({"type": "actions", "elements": [button]})
    else:
        blocks += _sections([f"*Report*: {_escaped(message.link)}"])
    return blocks


def _sections(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return lines in as few sections as hold them; a section ends with a line or before an escaped character."""
    parts = [""]
    for line in lines:
        for piece in _pieces(line):
            joined = f"{parts[-1]}\n{piece}" if parts[-1] else piece
            if len(joined) <= SECTION_LIMIT:
                parts[-1] = joined
            else:
                parts.append(piece)
    return [{"type": "section", "text": {"type": "mrkdwn", "text": part, "verbatim": True}} for part in parts if part]


def _pieces(line: str) -> Iterator[str]:
    while len(line) > SECTION_LIMIT:
        entity = line.rfind("&", SECTION_LIMIT - 4, SECTION_LIMIT)  # the longest is &amp;
        end = entity if entity >= 0 and ";" not in line[entity:SECTION_LIMIT] else SECTION_LIMIT
        yield line[:end]
        line = line[end:]
    yield line


def _shorter(message: Message) -> Iterator[Message]:
    """Yield a message, then ever shorter ones: with fewer questions, then fewer nights, then fewer facts."""
    shorter = message
    for shown in _fewer(len(message.questions)):
        left = len(message.questions) - shown
        rest = ((f"and {left} more", ()),) if left else ()
        shorter = message._replace(questions=(*message.questions[:shown], *rest))
        yield shorter
    message = shorter
    for shown in _fewer(len(message.course)):
        left = len(message.course) - shown
        earlier = (f"{left} earlier",) if left else ()
        shorter = message._replace(course=(*earlier, *message.course[left:]))
        yield shorter
    message = shorter
    facts = tuple((label, value[:FACT_LIMIT]) for label, value in message.facts)
    for shown in _fewer(len(facts)):
        left = len(facts) - shown
        more = (("More", f"{counted(left, 'line is', 'lines are')} in the report"),) if left else ()
        yield message._replace(facts=(*facts[:shown], *more))


def _fewer(number: int) -> Iterator[int]:
    """Yield a number and ever smaller ones down to 0, each at most a tenth smaller than the one before."""
    while number:
        yield number
        number -= max(1, number // 10)
    yield 0


def teams_message(message: Message) -> dict[str, Any]:
    """Return the JSON of a Teams workflow that posts webhook requests to a channel: an Adaptive Card.

    Only rich text, in which Markdown and mentions mean nothing, holds what comes from elsewhere.
    """
    return next(card for one in _shorter(message) if len(json.dumps(card := _card(one)).encode()) <= CARD_LIMIT)


def _card(message: Message) -> dict[str, Any]:
    body = [_rich_text((message.title, True), size="Large")]
    body += [_rich_text((f"{label}: ", True), (value, False)) for label, value in message.facts]
    if message.questions:
        body.append(_rich_text(("Worst questions", True)))
    for question, answers in message.questions:
        body.append(_rich_text((question, True)))
        body += [_rich_text((f"{label}: ", True), (text, False)) for label, text in answers]
    if message.course:
        body.append(_rich_text(("Course", True)))
        body += [_rich_text((line, False)) for line in message.course]
    if message.next_step:
        body.append(_rich_text(("Next: ", True), (message.next_step, False)))
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": body,
    }
    if message.is_link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open the report", "url": message.link}]
    else:
        body.append(_rich_text(("Report: ", True), (message.link, False)))
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _rich_text(*runs: tuple[str, bool], size: str = "Default") -> dict[str, Any]:
    """Return a paragraph of runs of text, each bold or not."""
    inlines = [
        {"type": "TextRun", "text": text, "weight": "Bolder" if is_bold else "Default", "size": size}
        for text, is_bold in runs
    ]
    return {"type": "RichTextBlock", "inlines": inlines}


def _escaped(text: str) -> str:
    """Escape Slack's markup: `<!channel>` in a question would notify a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str) -> str:
    return shortened(_one_line(text), TEXT_LIMIT)


def _one_line(text: str) -> str:
    """Return text without line ends, control characters and signs that reorder what follows."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


PAYLOADS: Mapping[str, Any] = {"slack": slack_message, "teams": teams_message}
