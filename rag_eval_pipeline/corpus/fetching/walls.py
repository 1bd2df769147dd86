"""Walls: pages that stand where a document should be, and answer 200 all the same.

Error pages, challenges to bots, logins, questions for consent and pages without content. A false alarm costs a real
document and a missed wall costs one wrong one, so every rule asks for two signs: what the page says, and that it holds
hardly anything else.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from rag_eval_pipeline.corpus.fetching.wall_signs import SIGNS, SUBJECTS, Code, Place, Sign

HTML_BYTES = 200_000  # vendors' marks stand near the top; a challenge with its styles has about 30 KB
_PROSE_MAX = 500  # characters in long paragraphs; error pages and logins have lists of links instead
_PASSWORD_TEXT_MAX = 300  # characters; a forum's short post with a login box beside it has more
_CONSENT_TEXT_MAX = 1500
_CONSENT_SHARE = 0.8  # of the text; a banner below a short document stays under it
_EXCERPT = 80
_SAYS: dict[Place, str] = {
    "html": "the source holds",
    "final_url": "the final address holds",
    "title": "the title says",
    "heading": "the first heading says",
    "text": "the text says",
}

_BARS = re.compile(r"\s+[-–—:/]\s+|\s*[|·•»«]\s*")  # noqa: RUF001
_SENTENCES = re.compile(rf"{_BARS.pattern}|:\s+|\s*[.!?…]+(?:\s+|$)|[。！？]")  # noqa: RUF001
_CONSENT_VENDORS = re.compile(
    r"onetrust|otSDKStub|sp_message|sourcepoint|didomi|usercentrics|cookiebot|quantcast|consentmanager|trustarc|iubenda",
    re.IGNORECASE,
)
_CONSENT_LINE = re.compile(
    r"cookie|consent|accept|reject|agree|partners?\b|vendors?\b|privacy|personal data|preferences|zustimm|einwillig"
    r"|akzept|ablehn|datenschutz|einstellungen|accepter|refuser|paramétrer|partenaires|confidentialité|acept|rechaz"
    r"|privacidad|accett|rifiut|aceit|akkoord|weiger|zgadzam|akcept|согла|同意",
    re.IGNORECASE,
)
_CONSENT_BUTTON = re.compile(
    r"accept|agree|reject|zustimmen|akzeptieren|ablehnen|einverstanden|accepter|refuser|aceptar|rechazar|accett"
    r"|aceitar|akkoord|zgadzam|akceptuj|согла|同意",
    re.IGNORECASE,
)
# Segments of a front page's own address: `/`, `/index.html`, `/en-GB/`, `/de/home`.
_ENTRANCE = re.compile(
    r"(?:index|default|home|main|start|welcome)(?:\.\w+)?|[a-z]{2}(?:[-_][a-z]{2,4})?", re.IGNORECASE
)
# And of addresses that rightly lead there: `/docs/en/latest/` to a manual's newest version.
_FRONT = re.compile(rf"{_ENTRANCE.pattern}|docs?|wiki|web|site|latest|stable|current|v?\d+(?:\.\w+)*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What a page showed when it had come to rest.

    Args:
        url: As it was asked for.
        final_url: After redirects.
        title: Of the document.
        heading: The first visible one of the first level; empty when there is none.
        text: The beginning of what is visible, a line for each block.
        text_length: Characters of all that is visible.
        prose_length: Characters in visible paragraphs of at least 150.
        password_fields: Visible ones.
        pictures: Images, drawings, films, frames and components large enough to be content.
        html: The beginning of the body as it was fetched.
    """

    url: str
    final_url: str
    title: str
    heading: str
    text: str
    text_length: int
    prose_length: int = 0
    password_fields: int = 0
    pictures: int = 0
    html: str = ""


@dataclass(frozen=True, slots=True)
class Wall:
    """Why a page is no document.

    Args:
        code: The kind of wall, fit for a `DocumentError`.
        reason: The sign that was seen, in one line.
    """

    code: Code
    reason: str


def page_facts(measured: Mapping[str, Any], *, url: str, final_url: str, body: bytes) -> PageFacts:
    """Facts from what `measure.js` returned.

    Args:
        measured: Its answer, in the state that is printed.
        url: As it was asked for.
        final_url: After redirects.
        body: As fetched.
    """
    return PageFacts(
        url=url,
        final_url=final_url,
        title=measured["title"],
        heading=measured["heading"],
        text=measured["text"],
        text_length=measured["textLength"],
        prose_length=measured["proseLength"],
        password_fields=measured["passwordFields"],
        pictures=measured["pictures"],
        html=body[:HTML_BYTES].decode("latin-1"),  # the marks are ASCII in whatever charset
    )


def wall(page: PageFacts) -> Wall | None:
    """The wall that a page is, or None for a document."""
    for sign in SIGNS:
        found = _found(sign, page)
        if found is not None:
            return _wall(sign.code, f"{_SAYS[sign.place]} {_excerpt(found)}, as {sign.meaning} does", page)
    if page.password_fields and page.text_length <= _PASSWORD_TEXT_MAX and not page.prose_length:
        return _wall("login_wall", "the page has a field for a password", page)
    if _asks_consent_only(page):
        return _wall("consent_wall", "the page asks for consent and says nothing else", page)
    if _is_sent_to_front(page):
        return _wall("soft_404", f"the address leads to the front page {page.final_url[:_EXCERPT]}", page)
    if not page.text.strip() and page.text_length == len(page.text) and not page.pictures:
        return Wall("empty_page", "no visible text and no picture")
    return None


def _wall(code: Code, seen: str, page: PageFacts) -> Wall:
    return Wall(code, f"{seen}; {page.text_length:,} characters of text in all")


def _found(sign: Sign, page: PageFacts) -> str | None:
    if page.text_length > sign.text_max or (sign.password and not page.password_fields):
        return None
    if sign.place == "html":
        found = sign.pattern.search(page.html)
        return found[0] if found else None
    if sign.place == "final_url":
        if sign.pattern.search(page.url):
            return None  # asked for by this very address
        found = sign.pattern.search(page.final_url)
        return found[0] if found else None
    if page.prose_length > _PROSE_MAX or SUBJECTS[sign.code].search(unquote(page.url)):
        return None
    if sign.code == "empty_page" and page.pictures:
        return None
    if sign.place == "text":
        found = sign.pattern.search(page.text)
        return found[0] if found else None
    stated = page.title if sign.place == "title" else page.heading
    parts = [stated, *(_SENTENCES if sign.code == "soft_404" else _BARS).split(stated)]
    return next((part for part in map(_plain, parts) if sign.pattern.fullmatch(part)), None)


def _plain(part: str) -> str:
    return re.sub(r"\s*[,;]\s*", " ", " ".join(part.split())).strip(" .!?…:;,-–—'\"“”„()[]")  # noqa: RUF001


def _asks_consent_only(page: PageFacts) -> bool:
    """A short page by a consent vendor where nearly all lines speak of consent and one of them is a button."""
    if page.text_length > _CONSENT_TEXT_MAX or not _CONSENT_VENDORS.search(page.html):
        return False
    if SUBJECTS["consent_wall"].search(unquote(page.url)):
        return False
    lines = [line for line in map(str.strip, page.text.splitlines()) if line]
    about = sum(len(line) for line in lines if _CONSENT_LINE.search(line))
    button = any(len(line) < 40 and _CONSENT_BUTTON.search(line) for line in lines)
    return button and about >= _CONSENT_SHARE * sum(map(len, lines))


def _is_sent_to_front(page: PageFacts) -> bool:
    """Whether an address deep in a site was answered with the site's front page.

    Not when the host is another, for a project that moved has its page at the root; not when the front page speaks of
    what was asked for; and not when what was asked for is another name of the front page.
    """
    asked, final = urlsplit(page.url), urlsplit(page.final_url)
    if _site(asked) != _site(final) or final.query or final.fragment:
        return False
    if not all(map(_ENTRANCE.fullmatch, _segments(final))):
        return False
    segments = [segment for segment in _segments(asked) if not _FRONT.fullmatch(segment)]
    if not segments or (len(segments) == 1 and not re.search(r"[-_\d.%+]", segments[0])):
        return False
    words = re.findall(r"[^\W_]{4,}", re.sub(r"\.\w{2,5}$", "", segments[-1]).casefold())
    shown = f"{page.title} {page.heading}".casefold()
    return not any(word in shown for word in words)


def _site(parts: SplitResult) -> str:
    return (parts.hostname or "").removeprefix("www.")


def _segments(parts: SplitResult) -> list[str]:
    return [unquote(segment) for segment in parts.path.split("/") if segment]


def _excerpt(found: str) -> str:
    line = " ".join(found.split())
    return repr(line if len(line) <= _EXCERPT else line[: _EXCERPT - 1] + "…")
