"""A body is whole or an error with a code; nothing but http and https is asked, and limits hold for what is decoded."""

import asyncio
import gzip

import pytest
import stamina
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.making import simple_pdf
from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
from rag_eval_pipeline.corpus.fetching.fetcher import check_url, fetcher


@pytest.fixture(autouse=True)
def _no_waiting():
    with stamina.set_testing(True, attempts=3):
        yield


async def fetch(policy, url):
    async with Guard(policy) as guard, fetcher(guard) as source:
        return await source.fetch(url)


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


ANSWERS = {
    "not found": ((404, {}, b"no"), "http_404"),
    "gone": ((410, {}, b"no"), "http_410"),
    "forbidden": ((403, {}, b"no"), "http_403"),
    "redirect to this machine": ((302, {"Location": "http://127.0.0.1:1/"}, b""), "egress_blocked"),
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


async def test_a_page_behind_a_pdf_address_is_a_mismatch(site):
    site.answers["/paper.pdf"] = (200, {}, b"<html>not found")

    assert await refusal(site.policy(), site.url("/paper.pdf")) == "content_mismatch"


async def test_a_gzipped_page_is_decoded(site):
    site.answers["/a"] = (200, {"Content-Encoding": "gzip"}, gzip.compress(b"<p>here"))

    assert (await fetch(site.policy(), site.url("/a"))).data == b"<p>here"


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
        policy = EgressPolicy()
        policy.config = policy.config.model_copy(update={"allowed_hosts": (f"127.0.0.1:{port}",), "fetch_limit_s": 0.3})
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
