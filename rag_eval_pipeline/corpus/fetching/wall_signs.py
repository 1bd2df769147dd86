"""The signs that walls are known by: one row each, tried from the top.

A sign is worth nothing alone: an article about captchas holds all of their words. Each row therefore says how much
visible text a page may hold and still be the wall, and words do not count on a page that was asked for by such a name
(`SUBJECTS`).
"""

import re
from typing import Literal, NamedTuple

from rag_eval_pipeline.corpus.fetching import wall_phrases as said

Code = Literal["challenge_page", "consent_wall", "login_wall", "soft_404", "empty_page"]
Place = Literal["html", "final_url", "title", "heading", "text"]


class Sign(NamedTuple):
    """A pattern that a wall shows.

    Args:
        code: The wall.
        place: Where it is looked for. Of `title` and `heading` a part between dashes or bars must match as a whole, for
            `soft_404` a sentence, too; elsewhere the pattern may stand anywhere. An address counts only when the one
            asked for lacks it.
        text_max: Characters of visible text; a page with more is a document in spite of the sign.
        meaning: Who shows it, for a person.
        pattern: Ignores case, and `.` matches line ends.
        password: Whether a field for a password must be seen, too.
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


# A document's own subject, by the address it was asked for under: an encyclopedia has a page HTTP_404.
SUBJECTS: dict[Code, re.Pattern[str]] = {
    "challenge_page": re.compile(r"captcha|robot|\bbots?\b|human|challenge|cloudflare|anubis|ddos|denied|block", re.I),
    "consent_wall": re.compile(r"consent|cookie|privacy|gdpr|datenschutz|confidentialite|before.you.continue", re.I),
    "login_wall": re.compile(
        r"log.?in\b|sign.?in\b|password|\bauth\b|authent|authori[sz]|anmeld|connexion|sso|saml|oauth", re.I
    ),
    "soft_404": re.compile(r"404|not.?found|no.?encontrad|introuvable|nicht.?gefunden", re.I),
    "empty_page": re.compile(r"javascript|loading", re.I),
}

# What only the challenge itself holds. `/cdn-cgi/challenge-platform/`, `js.datadome.co`, `_pxAppId` and the awswaf SDK
# are not among these: vendors and sites put them into every page that is watched.
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
_ALL_OF_IT_AN_ERROR = rf"\A(?:{'|'.join(said.ERROR_PHRASES)})[.!。]?\Z"
_ALL_OF_IT_LOADING = rf"\A\W*(?:{'|'.join(said.LOADING_PHRASES)})(?: (?:page|content|data|en cours|\w+))?\W*\Z"

SIGNS: tuple[Sign, ...] = (
    *_CHALLENGE_SOURCES,
    _sign("challenge_page", "final_url", 3000, "a challenge to bots", *_CHALLENGE_ADDRESSES),
    _sign("challenge_page", "title", 2500, "a challenge to bots", *said.CHALLENGE_TITLES),
    _sign("challenge_page", "title", 300, "a challenge to bots", "just a moment", "one moment,? please"),
    _sign("challenge_page", "text", 1500, "a challenge to bots", *said.CHALLENGE_SENTENCES),
    _sign("challenge_page", "text", 400, "a challenge to bots", *said.HUMAN_SENTENCES),
    _sign("consent_wall", "final_url", 8000, "a question for consent", *said.CONSENT_ADDRESSES),
    _sign("consent_wall", "title", 4000, "a question for consent", *said.CONSENT_TITLES),
    _sign("login_wall", "html", 400, "a single sign-on", "name=[\"']?SAML(?:Request|Response)"),
    _sign("login_wall", "final_url", 3000, "a login page", *said.LOGIN_ADDRESSES),
    _sign("login_wall", "title", 1500, "a login page", *said.LOGIN_PHRASES, password=True),
    _sign("login_wall", "heading", 1500, "a login page", *said.LOGIN_PHRASES, password=True),
    _sign("login_wall", "title", 400, "a login page", *said.LOGIN_PHRASES),
    _sign("login_wall", "heading", 300, "a login page", *said.LOGIN_PHRASES),
    _sign("login_wall", "text", 500, "a login page", *said.LOGIN_SENTENCES),
    _sign("soft_404", "final_url", 6000, "an error page", _ERROR_ADDRESS),
    _sign("soft_404", "title", 4000, "an error page", *said.ERROR_PHRASES),
    _sign("soft_404", "heading", 2000, "an error page", *said.ERROR_PHRASES),
    _sign("soft_404", "text", 600, "an error page", *said.ERROR_SENTENCES, _ALL_OF_IT_AN_ERROR),
    _sign("soft_404", "text", 200, "an error page", r"\A\W*(?:error )?404\W*\Z"),
    _sign("empty_page", "text", 60, "a page that is still loading", _ALL_OF_IT_LOADING),
    _sign("empty_page", "text", 300, "a page without its scripts", *said.SCRIPT_SENTENCES),
)
