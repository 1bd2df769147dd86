"""A body is whole or an error with a code; nothing but http and https is asked, and limits hold for what is decoded."""

import asyncio
import gzip
import http.server
import socket
import threading

import pytest
import stamina
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.errors import DocumentError, InputError
from rag_eval_pipeline.web.egress.config import EgressConfig
from rag_eval_pipeline.web.egress.policy import EgressPolicy
from rag_eval_pipeline.web.egress.proxy import REFUSAL_HEADER, EgressProxy
from rag_eval_pipeline.web.fetcher import check_url, fetcher
from tests.corpus.making import simple_pdf
from tests.web.certificates import Authority
from tests.web.site import serve


@pytest.fixture(autouse=True)
def _no_waiting():
    with stamina.set_testing(True, attempts=3):
        yield


async def fetch(policy, url):
    async with EgressProxy(policy) as guard, fetcher(guard) as source:
        return (await source.fetch(url)).body


def both_ways(one, other, **settings):
    """Allows two servers, each to the documents of the other as well."""
    hosts = [{"host": one.host, "for": [other.host]}, {"host": other.host, "for": [one.host]}]
    return EgressPolicy(EgressConfig(allowed_hosts=hosts, **settings))


async def refusal(policy, url):
    with pytest.raises(DocumentError) as refused:
        await fetch(policy, url)
    return refused.value.code


async def test_a_page_comes_with_its_charset_and_final_url(site):
    site.answers["/a"] = (200, {"Content-Type": "text/html; charset=ISO-8859-1"}, b"<p>caf\xe9")

    body = await fetch(site.policy(), site.url("/a#part"))

    assert (body.kind, body.charset, body.data) == ("html", "iso-8859-1", b"<p>caf\xe9")
    assert body.final_url == site.url("/a")
    assert site.asked == ["/a"]


async def test_a_pdf_is_known_by_its_bytes_whatever_its_label(site):
    site.answers["/a"] = (200, {"Content-Type": "text/html"}, simple_pdf("x"))

    assert (await fetch(site.policy(), site.url("/a"))).kind == "pdf"


async def test_redirects_are_followed_to_the_body(site):
    site.answers["/a"] = (302, {"Location": "/b"}, b"")
    site.answers["/b"] = (301, {"Location": site.url("/c")}, b"")
    site.answers["/c"] = (200, {}, b"<p>here")

    assert (await fetch(site.policy(), site.url("/a"))).final_url == site.url("/c")


async def test_a_redirects_fragment_is_a_part_of_where_it_leads(site):
    site.answers["/docs/a"] = (302, {"Location": "/#/docs/a"}, b"")
    site.answers["/"] = (200, {"ETag": "x"}, b"<p>here")

    async with EgressProxy(site.policy()) as guard, fetcher(guard) as source:
        fetched = await source.fetch(site.url("/docs/a#own"))

    assert (fetched.body.final_url, fetched.version.url) == (site.url("/#/docs/a"), site.url("/"))
    assert (await fetch(site.policy(), site.url("/#own"))).final_url == site.url("/")


ANSWERS = {
    "not found": ((404, {}, b"no"), "http_404"),
    "gone": ((410, {}, b"no"), "http_410"),
    "forbidden": ((403, {}, b"no"), "http_403"),
    "redirect to this machine": ((302, {"Location": "http://127.0.0.1:1/"}, b""), "egress_blocked"),
    "redirect to mail": ((302, {"Location": "mailto:x"}, b""), "scheme"),
    "redirect to no host": ((302, {"Location": "http://xn--a/"}, b""), "bad_url"),
    "redirect to broken brackets": ((302, {"Location": "http://[::1"}, b""), "bad_url"),
    "redirect to a file": ((302, {"Location": "file:///etc/passwd"}, b""), "scheme"),
    "redirect with credentials": ((302, {"Location": "http://u:p@example.org/"}, b""), "bad_url"),
    "redirect to itself": ((302, {"Location": "/doc"}, b""), "too_many_redirects"),
    "login page for a PDF": ((200, {"Content-Type": "application/pdf"}, b"<html>log in"), "content_mismatch"),
    "nothing": ((200, {}, b" \n"), "empty_body"),
    "no content": ((204, {}, b""), "empty_body"),
    "a picture": ((200, {"Content-Type": "image/png"}, b"\x89PNG"), "unsupported_type"),
    "too large": ((200, {}, b"x" * 10_001), "body_too_large"),
    "a bomb": ((200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 1_000_000)), "body_too_large"),
    "not gzip at all": ((200, {"Content-Encoding": "gzip"}, b"plain"), "bad_encoding"),
    "an encoding nobody asked for": ((200, {"Content-Encoding": "br"}, b"x"), "bad_encoding"),
    "shorter than promised": ((200, {"Content-Length": "99"}, b"x"), "connection_broken"),
    "cut gzip": ((200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 99)[:-9]), "connection_broken"),
    "busy all the time": ((503, {"Retry-After": "0"}, b""), "http_503"),
}


@pytest.mark.parametrize(("answer", "code"), ANSWERS.values(), ids=ANSWERS)
async def test_what_is_no_body_is_an_error(site, answer, code):
    site.answers["/doc"] = answer

    assert await refusal(site.policy(max_body_bytes=10_000), site.url("/doc")) == code


async def test_what_is_called_pdf_and_is_none_is_a_mismatch_unless_it_says_that_it_is_a_page(site):
    site.answers["/paper.pdf"] = (200, {"Content-Type": "application/octet-stream"}, b"<html>not found")
    site.answers["/wiki/File:X.pdf"] = (200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>About X")

    assert await refusal(site.policy(), site.url("/paper.pdf")) == "content_mismatch"
    assert (await fetch(site.policy(), site.url("/wiki/File:X.pdf"))).kind == "html"


class SixthServer(http.server.ThreadingHTTPServer):
    """On ::1."""

    address_family = socket.AF_INET6


@pytest.mark.parametrize("tls", [None, Authority()], ids=["http", "https"])
async def test_an_ipv6_address_is_asked_and_named_with_its_brackets(tls, tmp_path):
    """Over TLS the address is a tunnel's target."""
    hosts = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            hosts.append(self.headers["Host"])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"hi")

        def log_message(self, *args):
            pass

    with SixthServer(("::1", 0), Handler) as server:
        settings = {}
        if tls is not None:
            server.socket = tls.server("::1").wrap_socket(server.socket, server_side=True)
            (tmp_path / "ca.pem").write_bytes(tls.pem)
            settings["ca_file"] = str(tmp_path / "ca.pem")
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        host = f"[::1]:{server.server_address[1]}"
        policy = EgressPolicy(EgressConfig(allowed_hosts=(host,), **settings))
        try:
            body = await fetch(policy, f"{'https' if tls else 'http'}://{host}/a")
        finally:
            server.shutdown()

    assert (body.data, hosts) == (b"hi", [host])


REDIRECTS = {
    "itself": ((), True),
    "one that it is not open to": (("other",), False),
    "one that is open to it": (("other for site",), True),
    "one that is open to somebody else": (("other for nobody",), False),
}


@pytest.mark.parametrize("robots", ["ignore", "obey"])
@pytest.mark.parametrize(("allowed", "works"), REDIRECTS.values(), ids=REDIRECTS)
async def test_a_redirect_leads_to_private_hosts_that_are_open_to_who_redirects(site, allowed, works, robots):
    for other in serve():
        entries = {
            "other": other.host,
            "other for site": {"host": other.host, "for": [site.host]},
            "other for nobody": {"host": other.host, "for": ["127.0.0.1:1"]},
        }
        target = other if allowed else site
        config = EgressConfig(allowed_hosts=[site.host, *(entries[name] for name in allowed)], robots=robots)
        site.answers["/a"] = (302, {"Location": target.url("/b")}, b"")
        target.answers["/b"] = (200, {}, b"<p>private")

        if works:
            assert (await fetch(EgressPolicy(config), site.url("/a"))).data == b"<p>private"
        else:
            assert await refusal(EgressPolicy(config), site.url("/a")) == "egress_blocked"
            assert other.asked == []  # not even its robots.txt
        if allowed:
            assert (await fetch(EgressPolicy(config), other.url("/b"))).data == b"<p>private"


async def test_a_server_over_https_cannot_pass_itself_off_as_the_guard(tmp_path):
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    for site in serve(authority.server()):
        policy = site.policy(ca_file=str(tmp_path / "ca.pem"))
        async with EgressProxy(policy) as guard, fetcher(guard) as source:
            site.answers["/a"] = (200, {REFUSAL_HEADER: f"{guard.secret} not public"}, b"<p>here")
            body = (await source.fetch(site.url("/a"))).body

    assert body.data == b"<p>here"


async def test_a_gzipped_page_is_decoded(site):
    site.answers["/a"] = (200, {"Content-Encoding": "gzip"}, gzip.compress(b"<p>here"))

    assert (await fetch(site.policy(), site.url("/a"))).data == b"<p>here"


async def test_a_body_in_several_gzip_members_is_whole(site):
    members = gzip.compress(b"<p>one ") + gzip.compress(b"two") + b"\0" * 8  # and padding
    site.answers["/a"] = (200, {"Content-Encoding": "gzip"}, members)

    assert (await fetch(site.policy(), site.url("/a"))).data == b"<p>one two"


async def test_a_busy_server_is_asked_again(site):
    answers = iter([(503, {}, b""), (429, {"Retry-After": "0"}, b""), (200, {}, b"<p>here")])
    site.answers["/a"] = lambda: next(answers)

    assert (await fetch(site.policy(), site.url("/a"))).data == b"<p>here"
    assert len(site.asked) == 3


async def test_a_missing_page_is_asked_for_once(site):
    await refusal(site.policy(), site.url("/a"))

    assert site.asked == ["/a"]


async def test_this_machine_is_refused(site):
    assert await refusal(EgressPolicy(), site.url("/a")) == "egress_blocked"
    assert await refusal(EgressPolicy(), "https://127.0.0.1/a") == "egress_blocked"
    assert site.asked == []


async def test_a_dead_host_is_unresolved():
    assert await refusal(EgressPolicy(), "https://document.invalid/a") == "host_unresolved"
    assert await refusal(EgressPolicy(), "http://document.invalid/a") == "host_unresolved"


async def test_a_proxy_in_the_environment_is_ignored(site, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", site.url("/proxy"))
    monkeypatch.setenv("ALL_PROXY", site.url("/proxy"))

    assert await refusal(EgressPolicy(), "http://document.invalid/a") == "host_unresolved"
    assert site.asked == []


async def test_a_body_that_never_ends_meets_the_wall_clock():
    async def drip(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await asyncio.sleep(0.01)

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        policy = EgressPolicy(EgressConfig(allowed_hosts=(f"127.0.0.1:{port}",), fetch_limit_s=0.3))
        assert await refusal(policy, f"http://127.0.0.1:{port}/") == "fetch_timeout"


BAD_URLS = {
    "a file": ("file:///etc/passwd", "scheme"),
    "data": ("data:text/html,x", "scheme"),
    "a script": ("javascript:alert(1)", "scheme"),
    "the browser itself": ("chrome://version", "scheme"),
    "no scheme": ("en.wikipedia.org/wiki/A", "scheme"),
    "nothing": ("", "scheme"),
    "credentials": ("http://user:pw@example.org/", "bad_url"),
    "a backslash before the path": ("http://a\\@example.org/", "bad_url"),
    "a newline": ("http://example.org/a\r\nHost: x", "bad_url"),
    "a blank": ("http://example.org/a b", "bad_url"),
    "NUL": ("http://example.org/\0", "bad_url"),
    "a lone surrogate": ("http://example.org/\ud800", "bad_url"),
    "no host": ("http:///a", "bad_url"),
    "broken brackets": ("http://[::1/a", "bad_url"),
    "no Punycode": ("http://xn--a/", "bad_url"),
    "a port that is none": ("http://example.org:99999/", "bad_url"),
}


@pytest.mark.parametrize(("url", "code"), BAD_URLS.values(), ids=BAD_URLS)
def test_what_cannot_be_asked_for_is_refused_before_anything_is_sent(url, code):
    with pytest.raises(DocumentError) as refused:
        check_url(url)

    assert refused.value.code == code


@settings(deadline=None)
@given(st.text() | st.text().map(lambda text: f"http://{text}") | st.text().map(lambda text: f"https://h/{text}"))
def test_any_url_is_lawful_or_refused_with_a_code(url):
    code = "ok"
    try:
        checked = check_url(url)
    except DocumentError as error:
        code = error.code

    assert code in {"ok", "scheme", "bad_url"}
    if code == "ok":
        assert checked.scheme in {"http", "https"}
        assert checked.host


CHANGED = {
    "by its ETag": ({"ETag": 'W/"1"', "Last-Modified": "x"}, "if-none-match", 'W/"1"'),
    "by its date": ({"Last-Modified": "Fri, 01 May 2026 07:00:00 GMT"}, "if-modified-since",
                    "Fri, 01 May 2026 07:00:00 GMT"),
}  # fmt: skip


@pytest.mark.parametrize(("headers", "name", "value"), CHANGED.values(), ids=CHANGED)
async def test_a_known_version_is_not_sent_again(site, headers, name, value):
    site.answers["/start"] = (302, {"Location": "/a"}, b"")
    site.answers["/a"] = (200, headers, b"<p>here")

    async with EgressProxy(site.policy()) as guard, fetcher(guard) as source:
        first = await source.fetch(site.url("/start"))
        site.answers["/a"] = (304, {}, b"")
        second = await source.fetch(site.url("/start"), first.version)

    assert second.body is None
    assert [headers.get(name) for headers in site.headers] == [None, None, None, value]  # for the body and no redirect


async def test_not_modified_without_having_been_asked_is_an_error(site):
    site.answers["/a"] = (304, {}, b"")

    assert await refusal(site.policy(), site.url("/a")) == "http_304"


async def test_credentials_go_to_their_origin_and_to_no_other(site, monkeypatch):
    monkeypatch.setenv("WIKI_TOKEN", "Bearer x")
    for other in serve():
        policy = both_ways(site, other, credentials={f"http://{site.host}": {"Authorization": "WIKI_TOKEN"}})
        site.answers["/a"] = (302, {"Location": other.url("/b")}, b"")
        other.answers["/b"] = (302, {"Location": site.url("/c")}, b"")
        site.answers["/c"] = (200, {}, b"<p>here")

        await fetch(policy, site.url("/a"))

        assert [headers.get("authorization") for headers in site.headers] == ["Bearer x", "Bearer x"]
        assert [headers.get("authorization") for headers in other.headers] == [None]


async def test_cookies_stay_on_the_way_to_one_body_and_at_their_origin(site):
    for other in serve():  # another port of the same host, to which a browser's jar would send them
        policy = both_ways(site, other)
        site.answers["/a"] = (302, {"Location": "/b", "Set-Cookie": "seen=1"}, b"")
        site.answers["/b"] = (302, {"Location": other.url("/c")}, b"")
        other.answers["/c"] = (200, {}, b"<p>here")

        async with EgressProxy(policy) as guard, fetcher(guard) as source:
            await source.fetch(site.url("/a"))
            await source.fetch(site.url("/b"))

        assert [headers.get("cookie") for headers in site.headers] == [None, "seen=1", None]
        assert [headers.get("cookie") for headers in other.headers] == [None, None]


async def test_a_secret_that_is_not_set_is_missed_before_anything_is_asked(site, monkeypatch):
    monkeypatch.delenv("WIKI_TOKEN", raising=False)
    policy = site.policy(credentials={f"http://{site.host}": {"Authorization": "WIKI_TOKEN"}})

    with pytest.raises(InputError) as missed:
        await fetch(policy, site.url("/a"))

    assert (missed.value.code, site.asked) == ("missing_secret", [])
    assert "WIKI_TOKEN" in str(missed.value)


async def test_one_host_is_asked_for_few_documents_at_once():
    at_once = most = 0

    async def answer(reader, writer):
        nonlocal at_once, most
        await reader.readuntil(b"\r\n\r\n")
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n<p>here")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        policy = EgressPolicy(EgressConfig(allowed_hosts=(f"127.0.0.1:{port}",), host_requests=2))
        async with EgressProxy(policy) as guard, fetcher(guard) as source:
            await asyncio.gather(*(source.fetch(f"http://127.0.0.1:{port}/{n}") for n in range(8)))

    assert most == 2


async def test_waiting_for_its_turn_is_not_counted_against_a_document(site):
    answers = iter([(503, {"Retry-After": "3"}, b""), (200, {}, b"<p>here")])
    site.answers["/a"] = lambda: next(answers)  # the whole host is left in peace for longer than a document may take

    assert (await fetch(site.policy(fetch_limit_s=2.5), site.url("/a"))).data == b"<p>here"


async def test_robots_txt_is_obeyed_where_the_setting_says_so(site):
    site.answers["/robots.txt"] = (200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /private")
    site.answers["/private/a"] = site.answers["/open"] = (200, {}, b"<p>here")

    assert await refusal(site.policy(robots="obey"), site.url("/private/a")) == "robots_disallowed"
    assert (await fetch(site.policy(robots="obey"), site.url("/open"))).data == b"<p>here"
    assert (await fetch(site.policy(), site.url("/private/a"))).data == b"<p>here"
    assert site.asked == ["/robots.txt", "/robots.txt", "/open", "/private/a"]
