"""A body is whole or an error with a code; only http and https are requested, and limits hold for decoded bytes."""

import asyncio
import gzip
import tracemalloc

import pytest
import stamina

from rag_eval_pipeline.errors import DocumentError, InputError
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy
from rag_eval_pipeline.web.egress_proxy import REFUSAL_HEADER, EgressProxy
from rag_eval_pipeline.web.fetcher import fetcher
from tests.corpus.making import simple_pdf
from tests.web.certificates import Authority
from tests.web.site import serve


@pytest.fixture(autouse=True)
def _no_waiting():
    with stamina.set_testing(True, attempts=3):
        yield


async def fetch(policy, *urls):
    """Return the body behind the last URL; all are fetched by one fetcher."""
    async with EgressProxy(policy) as proxy, fetcher(proxy) as source:
        return [(await source.fetch(url)).body for url in urls][-1]


async def refusal(policy, url):
    with pytest.raises(DocumentError) as refused:
        await fetch(policy, url)
    return refused.value.code


def both_ways(one, other, **settings):
    """Allow two servers, each to the documents of the other as well."""
    hosts = [{"host": one.host, "for": [other.host]}, {"host": other.host, "for": [one.host]}]
    return EgressPolicy(EgressConfig(allowed_hosts=hosts, **settings))


async def test_fetcher_returns_the_body_after_redirects_with_charset_and_final_url(site):
    site.answers["/a"] = (302, {"Location": "/b"}, b"")
    site.answers["/b"] = (301, {"Location": site.url("/c")}, b"")
    site.answers["/c"] = (200, {"Content-Type": "text/html; charset=ISO-8859-1"}, b"<p>caf\xe9")

    body = await fetch(site.policy(), site.url("/a#part"))

    assert (body.kind, body.charset, body.data) == ("html", "iso-8859-1", b"<p>caf\xe9")
    assert body.final_url == site.url("/c")
    assert site.asked == ["/a", "/b", "/c"]


async def test_fetcher_keeps_a_route_and_the_fragment_that_a_redirect_adds(site):
    site.answers["/docs/a"] = (302, {"Location": "/#/docs/a"}, b"")
    site.answers["/"] = (200, {"ETag": "x"}, b"<p>here")

    async with EgressProxy(site.policy()) as proxy, fetcher(proxy) as source:
        fetched = await source.fetch(site.url("/docs/a#own"))

    assert (fetched.body.final_url, fetched.version.url) == (site.url("/#/docs/a"), site.url("/"))
    assert (await fetch(site.policy(), site.url("/#own"))).final_url == site.url("/")
    assert (await fetch(site.policy(), site.url("/#/docs/b"))).final_url == site.url("/#/docs/b")


ANSWERS = {
    "not found": ((404, {}, b"no"), "http_404"),
    "gone": ((410, {}, b"no"), "http_410"),
    "a password": ((401, {"WWW-Authenticate": 'Basic realm="x"'}, b""), "http_401"),
    "no content": ((204, {}, b""), "empty_body"),
    "not modified, which was not asked": ((304, {}, b""), "http_304"),
    "redirect to this machine": ((302, {"Location": "http://127.0.0.1:1/"}, b""), "egress_blocked"),
    "redirect to mail": ((302, {"Location": "mailto:x"}, b""), "scheme"),
    "redirect to no host": ((302, {"Location": "http://xn--a/"}, b""), "bad_url"),
    "redirect to broken brackets": ((302, {"Location": "http://[::1"}, b""), "bad_url"),
    "redirect to a file": ((302, {"Location": "file:///etc/passwd"}, b""), "scheme"),
    "redirect to itself": ((302, {"Location": "/doc"}, b""), "too_many_redirects"),
    "login page for a PDF": ((200, {"Content-Type": "application/pdf"}, b"<html>log in"), "content_mismatch"),
    "a picture": ((200, {"Content-Type": "image/png"}, b"\x89PNG"), "unsupported_type"),
    "too large": ((200, {}, b"x" * 10_001), "body_too_large"),
    "a bomb": ((200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 1_000_000)), "body_too_large"),
    "an encoding that was not asked for": ((200, {"Content-Encoding": "br"}, b"x"), "bad_encoding"),
    "another one": ((200, {"Content-Encoding": "zstd"}, b"\x28\xb5\x2f\xfd"), "bad_encoding"),
    "shorter than promised": ((200, {"Content-Length": "99"}, b"x"), "connection_broken"),
    "cut gzip": ((200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 99)[:-9]), "connection_broken"),
    "busy all the time": ((503, {"Retry-After": "0"}, b""), "http_503"),
    "no answer behind a gateway": ((522, {"Retry-After": "0"}, b""), "http_522"),
}


@pytest.mark.fault(4, 14, 15, 17, 18)
@pytest.mark.parametrize(("answer", "code"), ANSWERS.values(), ids=ANSWERS)
async def test_fetcher_names_why_there_is_no_body(site, answer, code):
    site.answers["/doc"] = answer

    assert await refusal(site.policy(max_body_bytes=10_000), site.url("/doc")) == code
    assert len(site.asked) == {"connection_broken": 3, "http_503": 3, "http_522": 3, "too_many_redirects": 6}.get(
        code, 1
    )


@pytest.mark.fault(17)
async def test_fetcher_refuses_what_its_name_does_not_promise_unless_it_is_labelled_as_a_page(site):
    for name in ("/paper.pdf", "/paper.PDF", "/data.csv"):
        site.answers[name] = (200, {"Content-Type": "application/octet-stream"}, b"<html>not found")
    site.answers["/wiki/File:X.pdf"] = (200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>About X")
    site.answers["/a"] = (200, {"Content-Type": "text/html"}, simple_pdf("x"))

    for name in list(site.answers)[:3]:
        assert await refusal(site.policy(), site.url(name)) == "content_mismatch"
    assert (await fetch(site.policy(), site.url("/wiki/File:X.pdf"))).kind == "html"
    assert (await fetch(site.policy(), site.url("/a"))).kind == "pdf"


@pytest.mark.parametrize("tls", [None, Authority()], ids=["http", "https"])
async def test_fetcher_writes_an_ipv6_address_in_brackets(tls, tmp_path):
    (tmp_path / "ca.pem").write_bytes(tls.pem if tls else b"")
    for site in serve(tls and tls.server("::1"), host="::1"):
        site.answers["/a"] = (200, {}, b"hi")
        body = await fetch(site.policy(ca_file=tls and str(tmp_path / "ca.pem")), site.url("/a"))

    assert (body.data, site.headers[0]["host"]) == (b"hi", f"[::1]:{site.port}")


REDIRECTS = {
    "itself": ("site", True),
    "a host that is not open to it": ("other", False),
    "a host that is open to it": ("other for site", True),
    "a host that is open to another": ("other for nobody", False),
}


@pytest.mark.parametrize(("allowed", "works"), REDIRECTS.values(), ids=REDIRECTS)
async def test_fetcher_follows_a_redirect_to_private_hosts_that_are_open_to_the_page(site, allowed, works):
    for other in serve():
        entries = {
            "site": site.host,
            "other": other.host,
            "other for site": {"host": other.host, "for": [site.host]},
            "other for nobody": {"host": other.host, "for": ["127.0.0.1:1"]},
        }
        target = site if allowed == "site" else other
        policy = EgressPolicy(EgressConfig(allowed_hosts=[site.host, entries[allowed]]))
        site.answers["/a"] = (302, {"Location": target.url("/b")}, b"")
        target.answers["/b"] = (200, {}, b"<p>private")

        if works:
            assert (await fetch(policy, site.url("/a"))).data == b"<p>private"
        else:
            assert await refusal(policy, site.url("/a")) == "egress_blocked"
            assert other.asked == []
        assert (await fetch(policy, target.url("/b"))).data == b"<p>private"


async def test_fetcher_believes_no_refusal_of_a_server_over_https(tmp_path):
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    for site in serve(authority.server()):
        async with EgressProxy(site.policy(ca_file=str(tmp_path / "ca.pem"))) as proxy, fetcher(proxy) as source:
            site.answers["/a"] = (200, {REFUSAL_HEADER: f"{proxy.secret} not public"}, b"<p>here")
            body = (await source.fetch(site.url("/a"))).body

    assert body.data == b"<p>here"


@pytest.mark.fault(14)
async def test_fetcher_decodes_all_members_of_a_gzipped_body(site):
    members = gzip.compress(b"<p>one ") + gzip.compress(b"two") + b"\0" * 8  # and padding
    site.answers["/a"] = (200, {"Content-Encoding": "gzip"}, members)

    assert (await fetch(site.policy(), site.url("/a"))).data == b"<p>one two"


async def test_fetcher_decodes_a_member_whose_first_byte_is_the_last_of_a_chunk(site):
    chunk = 1 << 20
    around = len(gzip.compress(b"x" * chunk, 0)) - chunk  # of a member that is stored as it is
    first = gzip.compress(b"x" * (chunk - 1 - around), 0)
    assert len(first) == chunk - 1
    site.answers["/a"] = (200, {"Content-Encoding": "gzip"}, first + gzip.compress(b" end"))

    assert (await fetch(site.policy(), site.url("/a"))).data.endswith(b"x end")


@pytest.mark.fault(18)
async def test_fetcher_retries_a_busy_server(site):
    answers = iter([(503, {}, b""), (429, {"Retry-After": "0"}, b""), (200, {}, b"<p>here")])
    site.answers["/a"] = lambda: next(answers)

    assert (await fetch(site.policy(), site.url("/a"))).data == b"<p>here"
    assert len(site.asked) == 3


@pytest.mark.fault(1, 11)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_fetcher_reaches_neither_this_machine_nor_dead_hosts_nor_a_proxy_of_the_environment(
    site, monkeypatch, scheme
):
    monkeypatch.setenv("HTTP_PROXY", site.url("/proxy"))
    monkeypatch.setenv("ALL_PROXY", site.url("/proxy"))

    assert await refusal(EgressPolicy(), f"{scheme}://127.0.0.1/a") == "egress_blocked"
    assert await refusal(EgressPolicy(), f"{scheme}://{site.host}/a") == "egress_blocked"
    assert await refusal(EgressPolicy(), f"{scheme}://document.invalid/a") == "host_unresolved"
    assert site.asked == []


SLOW = {"a byte now and then": b"HTTP/1.1 200 OK\r\n\r\n", "no answer at all": b""}


@pytest.mark.fault(15, 16)
@pytest.mark.parametrize("head", SLOW.values(), ids=SLOW)
async def test_fetcher_ends_a_body_without_end_at_the_wall_clock(head):
    async def drip(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        while not writer.is_closing():
            writer.write(b"x" if head else b"")
            await asyncio.sleep(0.01)

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        policy = EgressPolicy(EgressConfig(allowed_hosts=(f"127.0.0.1:{port}",), fetch_limit_s=0.3))
        assert await refusal(policy, f"http://127.0.0.1:{port}/") == "fetch_timeout"


@pytest.mark.fault(14)
async def test_fetcher_holds_no_more_of_a_bomb_than_its_limit(site):
    site.answers["/bomb"] = (200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(64 << 20), 1))

    tracemalloc.start()
    try:
        code = await refusal(site.policy(max_body_bytes=1 << 20), site.url("/bomb"))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert code == "body_too_large"
    assert peak_bytes < 16 << 20


DATE = "Fri, 01 May 2026 07:00:00 GMT"
VERSIONS = {
    "by its ETag": ({"ETag": 'W/"1"', "Last-Modified": "x"}, "if-none-match", 'W/"1"'),
    "by its date": ({"Last-Modified": DATE}, "if-modified-since", DATE),
}


@pytest.mark.parametrize(("headers", "name", "value"), VERSIONS.values(), ids=VERSIONS)
async def test_fetcher_does_not_receive_a_known_version_again(site, headers, name, value):
    site.answers["/start"] = (302, {"Location": "/a"}, b"")
    site.answers["/a"] = (200, headers, b"<p>here")

    async with EgressProxy(site.policy()) as proxy, fetcher(proxy) as source:
        first = await source.fetch(site.url("/start"))
        site.answers["/a"] = (304, {}, b"")
        second = await source.fetch(site.url("/start"), first.version)

    assert second.body is None
    assert [headers.get(name) for headers in site.headers] == [None, None, None, value]  # for the body and no redirect


@pytest.mark.fault(5)
async def test_fetcher_sends_credentials_and_cookies_to_no_other_host_or_scheme(site, monkeypatch):
    monkeypatch.setenv("WIKI_TOKEN", "Bearer x")
    named = f"localhost:{site.port}"  # the same server
    credentials = {f"http://{site.host}": {"Authorization": "WIKI_TOKEN"}, f"https://{named}": {"X-Key": "WIKI_TOKEN"}}
    policy = EgressPolicy(
        EgressConfig(allowed_hosts=[site.host, {"host": named, "for": [site.host]}], credentials=credentials)
    )
    site.answers["/a"] = (302, {"Location": f"http://{named}/b", "Set-Cookie": "seen=1"}, b"")
    site.answers["/b"] = (200, {}, b"<p>here")

    await fetch(policy, site.url("/a"))

    sent = [{name for name in ("authorization", "cookie", "x-key") if name in headers} for headers in site.headers]
    assert (site.asked, sent) == (["/a", "/b"], [{"authorization"}, set()])


@pytest.mark.fault(5)
async def test_fetcher_sends_credentials_and_cookies_to_their_origin_on_the_way_to_one_body(site, monkeypatch):
    monkeypatch.setenv("WIKI_TOKEN", "Bearer x")
    for other in serve():  # another port of the same host, to which a browser would send the cookies
        policy = both_ways(site, other, credentials={f"http://{site.host}": {"Authorization": "WIKI_TOKEN"}})
        site.answers["/a"] = (302, {"Location": "/b", "Set-Cookie": "seen=1"}, b"")
        site.answers["/b"] = (302, {"Location": other.url("/c")}, b"")
        other.answers["/c"] = (302, {"Location": site.url("/d")}, b"")
        site.answers["/d"] = (200, {}, b"<p>here")

        await fetch(policy, site.url("/a"), site.url("/d"))

        assert site.asked == ["/a", "/b", "/d", "/d"]
        assert [headers.get("authorization") for headers in site.headers] == ["Bearer x"] * 4
        assert [headers.get("cookie") for headers in site.headers] == [None, "seen=1", "seen=1", None]
        assert [(h.get("authorization"), h.get("cookie")) for h in other.headers] == [(None, None)]


async def test_fetcher_needs_its_secrets_before_anything_is_requested(site, monkeypatch):
    monkeypatch.delenv("WIKI_TOKEN", raising=False)
    policy = site.policy(credentials={f"http://{site.host}": {"Authorization": "WIKI_TOKEN"}})

    with pytest.raises(InputError, match="WIKI_TOKEN") as missed:
        await fetch(policy, site.url("/a"))

    assert (missed.value.code, site.asked) == ("missing_secret", [])


async def test_fetcher_does_not_count_waiting_for_a_turn_against_a_document(site):
    answers = iter([(503, {"Retry-After": "2"}, b""), (200, {}, b"<p>here")])
    site.answers["/a"] = lambda: next(answers)  # the whole host is paused for longer than a document may take

    assert (await fetch(site.policy(fetch_limit_s=1.5), site.url("/a"))).data == b"<p>here"
