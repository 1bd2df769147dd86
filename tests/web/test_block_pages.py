"""Block pages are detected in a real browser: each kind by its signs, and never a document that only names them."""

import asyncio
import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.corpus.rendering.browser import browser_pool
from rag_eval_pipeline.corpus.rendering.page_loading import MEASURE
from rag_eval_pipeline.web import block_pages
from rag_eval_pipeline.web.block_pages import SIGNS, PageFacts, detect_block_page, page_facts
from rag_eval_pipeline.web.egress import EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from tests.conftest import BUNDLED, SHARED, shared_folder

pytestmark = pytest.mark.browser

SHARED_PAGES = SHARED / "data" / "wiki-urls"
ASKED = "https://site.example/guide/lamps"
SITE = "https://site.example"

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
    "field beside no text":       ("login_wall",     page("Site", "<form><input type=password></form>"), None),
    "unseen prose":               ("soft_404",       page("Page not found", f"<div hidden>{PROSE * 3}</div>"), None),
    "an unseen picture":          ("empty_page",     page("Site", "<div></div><img width=500 height=500 style='visibility:hidden'>"), None),
    "German login":               ("login_wall",     page("Anmelden | Verlag", "<p>Bitte geben Sie Ihre Daten ein."), None),
}  # fmt: skip


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
    "a picture and no text":           (page("Map", "<img src=map.png width=800 height=500>"), None, None),
    "a drawing while it loads":        (page("Chart", "<canvas width=900></canvas><div>Loading…</div>"), None, None),
    "moved to a host of its own":      (page("Lampworks", PROSE * 2), "https://user.example/lampworks-2/", "https://lampworks.example/"),
    "the front page by another name":  (page("Site", PROSE), f"{SITE}/en/index.html", f"{SITE}/"),
    "the manual's newest version":     (page("Manual", PROSE), f"{SITE}/docs/en/latest/", f"{SITE}/"),
    "a site that is the document":     (page("North Pier Lamps", PROSE), f"{SITE}/places/north-pier", f"{SITE}/"),
    "an unseen password field":        (page("Site", "<p>Short.</p><div hidden><input type=password></div>"), None, None),
    "frames":                          ("<frameset cols='50%,50%'><frame src='data:text/html,a'><frame src='data:text/html,b'></frameset>", None, None),
    "a drawing":                       (page("Site", "<svg width=400 height=300><rect width=400 height=300 /></svg>"), None, None),
    "a component's own text":          (page("Site", "<x-a></x-a><script>document.querySelector('x-a').attachShadow({mode:'open'}).innerHTML='<p>Text'</script>"), None, None),
    "a form called title":             (page("Site", "<form name=title>Lamps</form>"), None, None),
    "a host called login":             (page("Lamps", "<p>Short."), "https://login.lamps.example/a", "https://login.lamps.example/a/"),
}  # fmt: skip


REAL = sorted(SHARED_PAGES.glob("pages/*.html")) + sorted(
    path for folder in BUNDLED.values() for path in folder.rglob("*.html")
)


@pytest.fixture(scope="module")
def facts():
    """Return a function that returns the facts of a page of this module; nothing beside the page is loaded."""
    pages = [*(html for _, html, _ in BLOCKED.values()), *(html for html, _, _ in DOCUMENTS.values()), *map(read, REAL)]

    async def measure():
        async with EgressProxy(EgressPolicy()) as proxy, browser_pool(proxy) as pool:
            process = await pool.process()
            async with process.context(scripts=True) as context:
                await context.route("**/*", lambda route: route.abort())
                view, found = await context.new_page(), {}
                for html in pages:
                    await view.set_content(html)
                    found[html] = await view.evaluate(MEASURE)
                return found

    measured = asyncio.run(measure())

    def found(html, *, url=ASKED, final_url=None):
        return page_facts(measured[html], url=url, final_url=final_url or url, body=html.encode())

    return found


def read(path):
    return path.read_text("utf-8", "replace")


@pytest.mark.fault(17)
@pytest.mark.parametrize(("code", "html", "final_url"), BLOCKED.values(), ids=BLOCKED)
def test_block_page_is_detected_by_its_signs(facts, code, html, final_url):
    found = detect_block_page(facts(html, url=ASKED, final_url=final_url))

    assert found is not None
    assert found.code == code
    assert "\n" not in found.reason
    assert len(found.reason) < 200


@pytest.mark.parametrize(("html", "url", "final_url"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_document_that_looks_like_a_block_page_is_none(facts, html, url, final_url):
    assert detect_block_page(facts(html, url=url or ASKED, final_url=final_url)) is None


def test_block_page_reason_names_the_sign_and_the_length_of_the_text():
    found = detect_block_page(PageFacts(ASKED, ASKED, "Just a moment...", "", "Wait", 4))

    assert found is not None
    assert found.reason == "the title says 'Just a moment', as a challenge to bots does; 4 characters of text in all"


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: f"{sign.code}-{sign.place}-{sign.meaning}")
def test_block_page_sign_has_a_page_here(facts, monkeypatch, sign):
    monkeypatch.setattr(block_pages, "SIGNS", (sign,))

    found = [detect_block_page(facts(html, url=ASKED, final_url=final_url)) for _, html, final_url in BLOCKED.values()]

    assert any(one is not None and f"as {sign.meaning} does" in one.reason for one in found)


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_document_is_no_block_page(facts, path):
    assert detect_block_page(facts(read(path), url=addresses().get(path.name, ASKED))) is None


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
    lost = PageFacts(
        "http://127.0.0.1:40419/lost", "http://127.0.0.1:40419/lost", "Page not found", "Page not found", "", 14
    )
    article = "http://127.0.0.1/wiki/HTTP_404"

    assert detect_block_page(lost) is not None
    assert detect_block_page(replace(lost, url=article, final_url=article)) is None


def test_page_requested_by_the_address_of_a_block_page_is_none():
    asked = f"{SITE}/consent/form"

    sent = PageFacts(ASKED, asked, "Form", "", "Ask the harbour office.", 23)

    assert detect_block_page(sent) is not None
    assert detect_block_page(replace(sent, url=asked)) is None
