"""Detect block pages, which answer 200 in place of a document: errors, bot challenges, logins, consent, empty pages.

A false alarm costs a real document and a missed block page costs one wrong one, so every rule asks for two signs: its
pattern, and hardly any other text. Words do not count on a page whose requested address names the subject (`SUBJECTS`).
The phrases are in `block_pages.yaml`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import yaml

from rag_eval_pipeline.errors import shortened

Code = Literal["challenge_page", "consent_wall", "login_wall", "soft_404", "empty_page"]
Place = Literal["html", "final_url", "title", "heading", "text"]

_PHRASES: dict[str, list[str]] = yaml.load(Path(__file__).with_suffix(".yaml").read_bytes(), yaml.CSafeLoader)


class Sign(NamedTuple):
    """A pattern that a block page shows.

    Args:
        code: The kind of block page.
        place: Where to search. A part of `title` and `heading` between dashes or bars must match as a whole, for
            `soft_404` also a sentence; elsewhere the pattern may match anywhere. An address counts only if the
            requested one lacks it.
        text_max: Characters of visible text; a page with more is a document in spite of the sign.
        meaning: Who shows it, for a message.
        pattern: Ignores case, and `.` matches line ends.
        password: Whether a visible password field is required as well.
    """

    code: Code
    place: Place
    text_max: int
    meaning: str
    pattern: re.Pattern[str]
    password: bool = False


def _sign(code: Code, place: Place, text_max: int, meaning: str, *patterns: str, password: bool = False) -> Sign:
    pattern = re.compile("|".join(f"(?:{one})" for one in patterns), re.I | re.S)
    return Sign(code, place, text_max, meaning, pattern, password)


# A document's own subject, by its requested address: an encyclopedia has a page HTTP_404.
SUBJECTS: dict[Code, re.Pattern[str]] = {
    "challenge_page": re.compile(r"captcha|robot|\bbots?\b|human|challenge|cloudflare|anubis|ddos|denied|block", re.I),
    "consent_wall": re.compile(r"consent|cookie|privacy|gdpr|datenschutz|confidentialite|before.you.continue", re.I),
    "login_wall": re.compile(
        r"log.?in\b|sign.?in\b|password|\bauth\b|authent|authori[sz]|anmeld|connexion|sso|saml|oauth", re.I
    ),
    "soft_404": re.compile(r"404|not.?found|no.?encontrad|introuvable|nicht.?gefunden", re.I),
    "empty_page": re.compile(r"javascript|loading", re.I),
}

# What only the challenge itself contains: `/cdn-cgi/challenge-platform/`, `js.datadome.co`, `_pxAppId` and the awswaf
# SDK are in every page that a vendor watches.
_CHALLENGE_SOURCES = (
    _sign("challenge_page", "html", 3000, "a Cloudflare challenge", "_cf_chl_opt", "cf-browser-verification"),
    _sign("challenge_page", "html", 1500, "a DataDome challenge", r"var dd ?=.{0,800}captcha-delivery\.com"),
    _sign("challenge_page", "html", 1500, "a PerimeterX challenge", "id=[\"']?px-captcha"),
    _sign("challenge_page", "html", 1500, "an Akamai challenge", "sec-if-cpt-container", "/_sec/cp_challenge/"),
    _sign("challenge_page", "html", 3000, "an Anubis challenge", "id=[\"']?anubis_challenge", "/x/cmd/anubis/static"),
    _sign("challenge_page", "html", 800, "an AWS WAF challenge", "gokuProps"),
    _sign("challenge_page", "html", 800, "an Imperva challenge", "<iframe[^>]{0,200}/_Incapsula_Resource"),
    _sign("challenge_page", "html", 800, "a Sucuri challenge", "sucuri_cloudproxy_js"),
    _sign("challenge_page", "html", 100, "a Kasada challenge", "KPSDK"),
)
_CHALLENGE_ADDRESSES = (
    r"[?&]__cf_chl_",
    r"google\.[a-z.]+/sorry/",
    r"/\.within\.website/",
    r"//(?:geo\.|ct\.)?captcha-delivery\.com/",
    r"//validate\.perfdrive\.com/",
    r"/captcha(?:[/?.]|$)",
)
_ERROR_ADDRESS = r"/(?:errors?[/_-])?(?:404|page[-_]?not[-_]?found|not[-_]?found)(?:\.\w+)?/?(?:$|[?])"
_ALL_OF_IT_AN_ERROR = rf"\A(?:{'|'.join(_PHRASES['error_phrases'])})[.!。]?\Z"
_ALL_OF_IT_LOADING = rf"\A\W*(?:{'|'.join(_PHRASES['loading_phrases'])})(?: (?:page|content|data|en cours|\w+))?\W*\Z"

SIGNS: tuple[Sign, ...] = (
    *_CHALLENGE_SOURCES,
    _sign("challenge_page", "final_url", 3000, "a challenge to bots", *_CHALLENGE_ADDRESSES),
    _sign("challenge_page", "title", 2500, "a challenge to bots", *_PHRASES["challenge_titles"]),
    _sign("challenge_page", "title", 300, "a challenge to bots", "just a moment", "one moment,? please"),
    _sign("challenge_page", "text", 1500, "a challenge to bots", *_PHRASES["challenge_sentences"]),
    _sign("challenge_page", "text", 400, "a challenge to bots", *_PHRASES["human_sentences"]),
    _sign("consent_wall", "final_url", 8000, "a question for consent", *_PHRASES["consent_addresses"]),
    _sign("consent_wall", "title", 4000, "a question for consent", *_PHRASES["consent_titles"]),
    _sign("login_wall", "html", 400, "a single sign-on", "name=[\"']?SAML(?:Request|Response)"),
    _sign("login_wall", "final_url", 3000, "a login page", *_PHRASES["login_addresses"]),
    _sign("login_wall", "title", 1500, "a login page", *_PHRASES["login_phrases"], password=True),
    _sign("login_wall", "heading", 1500, "a login page", *_PHRASES["login_phrases"], password=True),
    _sign("login_wall", "title", 400, "a login page", *_PHRASES["login_phrases"]),
    _sign("login_wall", "heading", 300, "a login page", *_PHRASES["login_phrases"]),
    _sign("login_wall", "text", 500, "a login page", *_PHRASES["login_sentences"]),
    _sign("soft_404", "final_url", 6000, "an error page", _ERROR_ADDRESS),
    _sign("soft_404", "title", 4000, "an error page", *_PHRASES["error_phrases"]),
    _sign("soft_404", "heading", 2000, "an error page", *_PHRASES["error_phrases"]),
    _sign("soft_404", "text", 600, "an error page", *_PHRASES["error_sentences"], _ALL_OF_IT_AN_ERROR),
    _sign("soft_404", "text", 200, "an error page", r"\A\W*(?:error )?404\W*\Z"),
    _sign("empty_page", "text", 60, "a page that is still loading", _ALL_OF_IT_LOADING),
    _sign("empty_page", "text", 300, "a page without its scripts", *_PHRASES["script_sentences"]),
)


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
_CONSENT_VENDORS, _CONSENT_LINE, _CONSENT_BUTTON = (
    re.compile("|".join(_PHRASES[name]), re.IGNORECASE)
    for name in ("consent_vendors", "consent_line", "consent_button")
)
# Segments of a front page's own address: `/`, `/index.html`, `/en-GB/`, `/de/home`.
_ENTRANCE = re.compile(
    r"(?:index|default|home|main|start|welcome)(?:\.\w+)?|[a-z]{2}(?:[-_][a-z]{2,4})?", re.IGNORECASE
)
# And of addresses that rightly lead there: `/docs/en/latest/` to a manual's newest version.
_FRONT = re.compile(rf"{_ENTRANCE.pattern}|docs?|wiki|web|site|latest|stable|current|v?\d+(?:\.\w+)*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What a page shows once it has settled.

    Args:
        heading: The first visible h1; empty if there is none.
        text: The beginning of the visible text, one line per block.
        text_length: Characters of all visible text.
        prose_length: Characters in visible paragraphs of at least 150.
        pictures: Images, drawings, films, frames and components large enough to be content.
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


class BlockPage(NamedTuple):
    """Why a page is not a document: the code of its `DocumentError`, and the sign that was found, in one line."""

    code: Code
    reason: str


def page_facts(measured: Mapping[str, Any], *, url: str, final_url: str, body: bytes) -> PageFacts:
    """Return the facts from what `measure.js` measured in the state that is printed; `body` is as fetched."""
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


def detect_block_page(page: PageFacts) -> BlockPage | None:
    """Return why a page is blocked, or None for a document."""
    for sign in SIGNS:
        found = _found(sign, page)
        if found is not None:
            return _blocked(sign.code, f"{_SAYS[sign.place]} {_excerpt(found)}, as {sign.meaning} does", page)
    if page.password_fields and page.text_length <= _PASSWORD_TEXT_MAX and not page.prose_length:
        return _blocked("login_wall", "the page has a field for a password", page)
    if _asks_consent_only(page):
        return _blocked("consent_wall", "the page asks for consent and says nothing else", page)
    if _is_sent_to_front(page):
        return _blocked("soft_404", f"the address leads to the front page {page.final_url[:_EXCERPT]}", page)
    if not page.text.strip() and page.text_length == len(page.text) and not page.pictures:
        return BlockPage("empty_page", "no visible text and no picture")
    return None


def _blocked(code: Code, seen: str, page: PageFacts) -> BlockPage:
    return BlockPage(code, f"{seen}; {page.text_length:,} characters of text in all")


def _found(sign: Sign, page: PageFacts) -> str | None:
    if page.text_length > sign.text_max or (sign.password and not page.password_fields):
        return None
    if sign.place == "html":
        found = sign.pattern.search(page.html)
        return found[0] if found else None
    if sign.place == "final_url":
        if sign.pattern.search(page.url):
            return None  # requested by this very address
        found = sign.pattern.search(page.final_url)
        return found[0] if found else None
    if page.prose_length > _PROSE_MAX or _names_subject(page, sign.code):
        return None
    if sign.code == "empty_page" and page.pictures:
        return None
    if sign.place == "text":
        found = sign.pattern.search(page.text)
        return found[0] if found else None
    stated = page.title if sign.place == "title" else page.heading
    parts = [stated, *(_SENTENCES if sign.code == "soft_404" else _BARS).split(stated)]
    return next((part for part in map(_plain, parts) if sign.pattern.fullmatch(part)), None)


def _names_subject(page: PageFacts, code: Code) -> bool:
    address = re.sub(r"^(\w+://[^/?#]*):\d+", r"\1", page.url)  # a port names nothing: `host:14040`
    return SUBJECTS[code].search(unquote(address)) is not None


def _plain(part: str) -> str:
    return re.sub(r"\s*[,;]\s*", " ", " ".join(part.split())).strip(" .!?…:;,-–—'\"“”„()[]")  # noqa: RUF001


def _asks_consent_only(page: PageFacts) -> bool:
    """Whether a short page by a consent vendor has hardly a line that is not about consent, and a consent button."""
    if page.text_length > _CONSENT_TEXT_MAX or not _CONSENT_VENDORS.search(page.html):
        return False
    if _names_subject(page, "consent_wall"):
        return False
    lines = [line for line in map(str.strip, page.text.splitlines()) if line]
    about = sum(len(line) for line in lines if _CONSENT_LINE.search(line))
    button = any(len(line) < 40 and _CONSENT_BUTTON.search(line) for line in lines)
    return button and about >= _CONSENT_SHARE * sum(map(len, lines))


def _is_sent_to_front(page: PageFacts) -> bool:
    """Whether an address deep in a site was answered with the site's front page.

    Not if the host is another (a project that moved has its page at the root), if the front page names what was
    requested, or if the requested address is another name of the front page.
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
    return repr(shortened(" ".join(found.split()), _EXCERPT))
