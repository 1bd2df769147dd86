"""Block pages are detected: each kind by its signs, and never a document that only names them."""

import csv
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.web import block_pages
from rag_eval_pipeline.web.block_pages import HTML_BYTES, SIGNS, PageFacts, detect_block_page
from tests.conftest import BUNDLED, SHARED, shared_folder

SHARED_PAGES = SHARED / "data" / "wiki-urls"
ASKED = "https://site.example/guide/lamps"
SITE = "https://site.example"

_BLOCKS = {"p", "div", "h1", "h2", "h3", "li", "ul", "ol", "tr", "td", "th", "table", "section", "article", "header"}
_BLOCKS |= {"footer", "nav", "main", "form", "button", "br", "blockquote", "pre", "dl", "dt", "dd", "body", "label"}
_UNSEEN = {"script", "style", "noscript", "template", "head", "select"}
_VOID = {"br", "img", "input", "meta", "link", "hr", "embed", "area", "base", "col", "source", "wbr", "param", "track"}
_PICTURES = {"img", "svg", "canvas", "video", "embed", "object", "iframe", "frame"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.parts: list[str] = []
        self.title = ""
        self.headings: list[str] = []
        self.paragraphs: list[str] = []
        self.passwords = self.pictures = 0

    @property
    def unseen(self) -> bool:
        return any(unseen for _, unseen in self.open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        hidden = "hidden" in attributes or "display:none" in (attributes.get("style") or "").replace(" ", "")
        if not hidden and not self.unseen:
            self.passwords += tag == "input" and attributes.get("type") == "password"
            large = int(re.sub(r"\D", "", attributes.get("width") or "") or 0) >= 100
            self.pictures += tag in _PICTURES and large
        if tag in _BLOCKS:
            self.parts.append("\n")
        if tag == "h1":
            self.headings.append("")
        if tag == "p":
            self.paragraphs.append("")
        if tag not in _VOID:
            self.open.append((tag, hidden or tag in _UNSEEN))

    def handle_endtag(self, tag: str) -> None:
        if any(name == tag for name, _ in self.open):
            while self.open.pop()[0] != tag:
                pass
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        names = [name for name, _ in self.open]
        if "title" in names and "svg" not in names:
            self.title += data
        if self.unseen:
            return
        self.parts.append(data)
        if "h1" in names:
            self.headings[-1] += data
        if "p" in names:
            self.paragraphs[-1] += data


def facts(html: str, *, url: str = ASKED, final_url: str | None = None) -> PageFacts:
    """Return the facts of a page without a browser: near to what `measure.js` finds without style sheets."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = [" ".join(line.split()) for line in "".join(reader.parts).splitlines()]
    text = "\n".join(line for line in lines if line)
    return PageFacts(
        url=url,
        final_url=final_url or url,
        title=" ".join(reader.title.split()),
        heading=" ".join(reader.headings[0].split()) if reader.headings else "",
        text=text[:2000],
        text_length=len(text),
        prose_length=sum(len(part.strip()) for part in reader.paragraphs if len(part.strip()) >= 150),
        password_fields=reader.passwords,
        pictures=reader.pictures,
        html=html.encode()[:HTML_BYTES].decode("latin-1"),
    )


NAV = "<nav>" + "".join(f"<a href=/{n}>Section {n}</a> " for n in range(60)) + "</nav>"
FOOT = "<footer>" + "".join(f"<div>Useful link number {n}</div>" for n in range(40)) + "</footer>"
PROSE = "<p>" + "The keeper trimmed the wick, wound the clockwork and wrote the weather into the book. " * 4 + "</p>"


def page(title: str, body: str = "", head: str = "") -> str:
    return f"<!doctype html><html><head><title>{title}</title>{head}</head><body>{body}</body></html>"


BLOCKED = {
    #                              code              page                                                                             final address
    "English":                    ("soft_404",       page("Page not found - Site", "<h1>Oops!</h1><p>Nothing here."), None),
    "with navigation":            ("soft_404",       page("Page Not Found | Site", NAV + "<h1>Page not found</h1>" + FOOT), None),
    "the server's own":           ("soft_404",       page("404 Not Found", "<h1>Not Found</h1><p>The requested URL /x was not found on this server."), None),
    "words without heading":      ("soft_404",       page("Site", "<div>The page you are looking for might have been removed.</div>"), None),
    "nothing but the number":     ("soft_404",       page("Site", "<b>404</b>"), None),
    "German":                     ("soft_404",       page("Seite nicht gefunden – Amt", "<h1>Die gesuchte Seite wurde nicht gefunden.</h1>"), None),
    "Russian":                    ("soft_404",       page("Сайт", "<h1>Страница не найдена</h1>"), None),
    "Chinese":                    ("soft_404",       page("网站", "<h1>抱歉，您访问的页面不存在</h1>"), None),
    "sent to an error page":      ("soft_404",       page("Site", NAV + FOOT), f"{SITE}/errors/404.html"),
    "sent to the front page":     ("soft_404",       page("Site, home of sites", NAV + PROSE * 30), f"{SITE}/"),
    "to the front page's file":   ("soft_404",       page("Site, home of sites", PROSE * 9), f"{SITE}/en/index.html"),
    "Cloudflare":                 ("challenge_page", page("Just a moment...", "<h1>site.example</h1><p>Verifying you are human.", "<script>window._cf_chl_opt={cvId:'3'}</script>"), None),
    "Cloudflare's address":       ("challenge_page", page("Site", "<p>Wait"), f"{ASKED}?__cf_chl_rt_tk=abc"),
    "DataDome":                   ("challenge_page", page("site.example", "<p>Please enable JS and disable any ad blocker</p><script>var dd={'rt':'c','host':'geo.captcha-delivery.com'}</script>"), None),
    "PerimeterX":                 ("challenge_page", page("Access to this page has been denied", '<div id="px-captcha"></div><p>Press &amp; Hold to confirm you are a human'), None),
    "Akamai refuses":             ("challenge_page", page("Access Denied", "<h1>Access Denied</h1>You don't have permission to access this.<p>Reference #18.7d3a1002.1700000000.1a2b"), None),
    "Akamai asks":                ("challenge_page", page("", '<div id="sec-if-cpt-container"></div>'), None),
    "Imperva":                    ("challenge_page", page("", "<iframe width=900 src='/_Incapsula_Resource?SWUDNSAI=31&incident_id=1'>Request unsuccessful. Incapsula incident ID: 1"), None),
    "Distil":                     ("challenge_page", page("Pardon Our Interruption", "<h1>Pardon Our Interruption...</h1><p>Something about your browser made us think you were a bot."), None),
    "Anubis":                     ("challenge_page", page("Making sure you&#39;re not a bot!", "<h1>Making sure you&#39;re not a bot!</h1><p>Loading...<p>Protected by Anubis"), None),
    "AWS":                        ("challenge_page", page("Human Verification", "<p>JavaScript is disabled", "<script>window.gokuProps={}</script>"), None),
    "Sucuri":                     ("challenge_page", page("You are being redirected...", "", "<script>sucuri_cloudproxy_js='';</script>"), None),
    "Kasada":                     ("challenge_page", page("", "<script>window.KPSDK={};</script>"), None),
    "Amazon":                     ("challenge_page", page("Amazon.com", "<p>Enter the characters you see below</p><p>Sorry, we just need to make sure you're not a robot."), None),
    "Google":                     ("challenge_page", page("https://www.google.com/search", "<p>Our systems have detected unusual traffic from your computer network."), "https://www.google.com/sorry/index?q=1"),
    "hCaptcha and no more":       ("challenge_page", page("Site", "<p>Please confirm that you are not a robot</p><div class=h-captcha></div>"), None),
    "password":                   ("login_wall",     page("Site", "<form><label>E-mail</label><input><label>Password</label><input type=password></form>"), None),
    "sent to the login":          ("login_wall",     page("Site", NAV + "<p>E-mail<input>"), f"{SITE}/login?next=/guide/lamps"),
    "sent to another host":       ("login_wall",     page("Company", "<p>One account for everything"), "https://login.example.org/realms/x"),
    "SAML form":                  ("login_wall",     page("", "<form><input type=hidden name=SAMLRequest></form><p>Continue"), None),
    "login as heading":           ("login_wall",     page("Verlag", "<h1>Anmelden</h1><p>E-Mail-Adresse"), None),
    "words only":                 ("login_wall",     page("Forum", "<p>You must log in to view this topic."), None),
    "Google asks":                ("consent_wall",   page("Before you continue to Google Search", "<h1>Before you continue to Google</h1><p>We use cookies and data to"), "https://consent.google.com/m?continue=https://www.google.com/"),
    "Yahoo asks":                 ("consent_wall",   page("Yahoo is part of the Yahoo family of brands", PROSE * 4), "https://guce.yahoo.com/consent?brand=x"),
    "publisher's gate":           ("consent_wall",   page("Krant", "<p>Wij vragen toestemming"), "https://myprivacy.publisher.example/consent"),
    "vendor's page":              ("consent_wall",   page("Zeitung", "<h1>Mit Werbung und Cookies weiterlesen</h1><p>Wir und unsere Partner nutzen Cookies, siehe Datenschutz.</p><button>Alle akzeptieren</button><button>Einstellungen</button>", "<script>window._sp_=1;//sourcepoint</script>"), None),
    "nothing":                    ("empty_page",     page("Site", "<div id=root></div>"), None),
    "only a spinner":             ("empty_page",     page("Site", "<img src=spin.gif width=32><div>Loading…</div>"), None),
    "asks for scripts":           ("empty_page",     page("App", "<div>You need to enable JavaScript to run this app.</div>"), None),
    "hidden text":                ("empty_page",     page("Site", "<div style='display: none'>The article</div>"), None),
    "Anubis, other words":        ("challenge_page", page("Ein Momentchen", "<p>Gleich</p>", '<script id="anubis_challenge" type="application/json">{}</script>'), None),
    "login with navigation":      ("login_wall",     page("Log in - Site", "<h1>Welcome back</h1><input type=password>" + "<div>Useful link</div>" * 30), None),
    "heading over a long form":   ("login_wall",     page("Verlag", "<h1>Anmelden</h1><input type=password>" + "<div>Ein Verweis auf anderes</div>" * 30), None),
    "German login":               ("login_wall",     page("Anmelden | Verlag", "<p>Bitte geben Sie Ihre Daten ein."), None),
}  # fmt: skip


@pytest.mark.fault(17)
@pytest.mark.parametrize(("code", "html", "final_url"), BLOCKED.values(), ids=BLOCKED)
def test_block_page_is_detected_by_its_signs(code, html, final_url):
    found = detect_block_page(facts(html, url=ASKED, final_url=final_url))

    assert found is not None
    assert found.code == code
    assert "\n" not in found.reason
    assert len(found.reason) < 200


DOCUMENTS = {
    #                                   page                                                                                      asked for, and where it led
    "article about the error":         (page("HTTP 404 - Encyclopedia", "<h1>HTTP 404</h1><p>The page you are looking for could not be found." + PROSE), "https://en.example/wiki/HTTP_404", None),
    "long article about the error":    (page("Page not found: a history", "<h1>Page not found</h1>" + PROSE * 20), None, None),
    "the year 404":                    (page("404 - Encyclopedia", "<h1>404</h1><p>Year 404 was a leap year of the Julian calendar."), f"{SITE}/wiki/AD_404", None),
    "article about captchas":          (page("CAPTCHA - Encyclopedia", "<h1>CAPTCHA</h1><p>A user proves to be not a robot." + PROSE * 4), "https://en.example/wiki/CAPTCHA", None),
    "short help about captchas":       (page("Why am I asked?", "<p>We ask you to verify you are human when there is unusual traffic."), f"{SITE}/help/captcha", None),
    "page watched by Cloudflare":      (page("Lamps", "<p>Short.</p><script src=/cdn-cgi/challenge-platform/scripts/jsd/main.js></script>"), None, None),
    "page watched by DataDome":        (page("Lamps", "<p>Short.</p><script src=https://js.datadome.co/tags.js></script>"), None, None),
    "challenge quoted in an article":  (page("Bots", PROSE * 12 + "<pre>window._cf_chl_opt</pre>"), None, None),
    "a moment in a title":             (page("Just a moment: essays on waiting", "<h1>Essays</h1>" + PROSE), None, None),
    "article about logging in":        (page("Login - Encyclopedia", "<h1>Login</h1>" + PROSE * 3), "https://en.example/wiki/Login", None),
    "how to sign in with a key":       (page("Sign in with a key - Manual", "<h1>Sign in with a key</h1>" + "<div>Turn it twice and wait.</div>" * 30), None, None),
    "login box beside a post":         (page("Re: lamps - Forum", "<div><input><input type=password></div>" + PROSE), None, None),
    "login box beside a short post":   (page("Re: lamps - Forum", "<div><input type=password></div>" + "<div>The second lamp burns whale oil.</div>" * 12), None, None),
    "a login page asked for by name":  (page("Harbour office", "<p>Berths are booked at the counter."), f"{SITE}/login", f"{SITE}/login/"),
    "cookie policy":                   (page("Cookie policy", "<p>We use cookies. You can accept or reject them.</p><button>Accept</button>", "<script src=onetrust.js></script>"), f"{SITE}/cookie-policy", None),
    "short document with a banner":    (page("Lamps", "<h1>Lamps</h1><p>Three lamps burn on the north pier, and one more on the south pier in winter.</p><div>We use cookies.</div><button>Accept all</button>", "<script src=onetrust.js></script>"), None, None),
    "partners and a button":           (page("Partners", "<p>Our partners are the harbour and the railway.</p><button>Accept the offer</button>"), None, None),
    "a picture and no text":           (page("Map", "<img src=map.png width=800>"), None, None),
    "a drawing while it loads":        (page("Chart", "<canvas width=900></canvas><div>Loading…</div>"), None, None),
    "moved to a host of its own":      (page("Lampworks", PROSE * 2), "https://user.example/lampworks-2/", "https://lampworks.example/"),
    "the front page by another name":  (page("Site", PROSE), f"{SITE}/en/index.html", f"{SITE}/"),
    "the manual's newest version":     (page("Manual", PROSE), f"{SITE}/docs/en/latest/", f"{SITE}/"),
    "a site that is the document":     (page("North Pier Lamps", PROSE), f"{SITE}/places/north-pier", f"{SITE}/"),
    "a host called login":             (page("Lamps", "<p>Short."), "https://login.lamps.example/a", "https://login.lamps.example/a/"),
}  # fmt: skip


@pytest.mark.parametrize(("html", "url", "final_url"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_document_that_looks_like_a_block_page_is_none(html, url, final_url):
    assert detect_block_page(facts(html, url=url or ASKED, final_url=final_url)) is None


def test_block_page_reason_names_the_sign_and_the_length_of_the_text():
    html = page("Just a moment...", "<p>Wait</p>")

    found = detect_block_page(facts(html))

    assert found is not None
    assert found.reason == "the title says 'Just a moment', as a challenge to bots does; 4 characters of text in all"


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: f"{sign.code}-{sign.place}-{sign.meaning}")
def test_block_page_sign_has_a_page_here(monkeypatch, sign):
    monkeypatch.setattr(block_pages, "SIGNS", (sign,))

    found = [detect_block_page(facts(html, url=ASKED, final_url=final_url)) for _, html, final_url in BLOCKED.values()]

    assert any(one is not None and f"as {sign.meaning} does" in one.reason for one in found)


REAL = sorted(SHARED_PAGES.glob("pages/*.html")) + sorted(
    path for folder in BUNDLED.values() for path in folder.rglob("*.html")
)


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_document_is_no_block_page(path):
    assert detect_block_page(facts(path.read_text("utf-8", "replace"), url=addresses().get(path.name, ASKED))) is None


def test_real_documents_are_there():
    shared_folder("data/wiki-urls")

    assert len([path for path in REAL if path.parent.name == "pages" and SHARED_PAGES in path.parents]) == 39


def addresses() -> dict[str, str]:
    """File name of a saved page to the address it was saved from."""
    table = SHARED_PAGES / "mirror.csv"
    if not table.is_file():
        return {}
    with table.open(encoding="utf-8", newline="") as file:
        return {Path(row["file"]).name: row["url"] for row in csv.DictReader(file)}


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=300), st.integers(8001, 10**7))
def test_page_full_of_text_is_no_block_page_by_its_words(title, heading, text, length):
    page = PageFacts(ASKED, ASKED, title, heading, text, length, password_fields=1)

    assert detect_block_page(page) is None


def test_block_page_is_detected_whatever_port_it_was_requested_at():
    html = page("Page not found", "<h1>Page not found</h1>")

    assert detect_block_page(facts(html, url="http://127.0.0.1:40419/lost")) is not None
    assert detect_block_page(facts(html, url="http://127.0.0.1/wiki/HTTP_404")) is None


def test_page_requested_by_the_address_of_a_block_page_is_none():
    asked = f"{SITE}/consent/form"

    sent = facts(page("Form", "<p>Ask the harbour office."), url=ASKED, final_url=asked)

    assert detect_block_page(sent) is not None
    assert detect_block_page(replace(sent, url=asked)) is None
