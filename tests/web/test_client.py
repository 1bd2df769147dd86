"""The client retries what may pass, keeps every limit, counts what it sent, and masks secrets."""

import asyncio
import base64
import gzip
import hashlib
import io
import logging
import socket

import pydantic
import pytest

from rag_eval_pipeline.errors import EndpointError, ServiceError
from rag_eval_pipeline.web.client import Endpoint
from rag_eval_pipeline.web.server_settings import EndpointSettings
from tests.web.certificates import Authority
from tests.web.scripted_server import drip, hang, head, raw, reply, reset, serving, stream

OK = reply(200, {"answer": 1})
GZIP = {"Content-Encoding": "gzip"}


def opened(server, **settings):
    return Endpoint(EndpointSettings(base_url=server.base_url, **{"backoff_seconds": 0.001, **settings}), seed=1)


async def failure(endpoint, **arguments):
    with pytest.raises(EndpointError) as raised:
        await endpoint.request("POST", "/ask", json={"q": 1}, **arguments)
    return raised.value


async def streamed(*steps, **settings):
    async with serving(*steps) as server, opened(server, **settings) as endpoint:
        return await endpoint.stream("POST", "/ask", json={}), len(server.asked)


@pytest.mark.fault(49)
async def test_request_returns_the_body_and_its_account_by_no_proxy_of_the_environment(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with serving(OK) as server, opened(server) as endpoint:
        answer = await endpoint.request("POST", "/ask", json={"q": "Où ?"}, params={"a": "1 2"})
        await endpoint.request("GET", "/a")

    assert (answer.status, answer.json(), answer.requests) == (200, {"answer": 1}, 1)
    assert answer.raw_sha256 == hashlib.sha256(b'{"answer": 1}').hexdigest()
    assert (server.asked[0].target, server.asked[0].json) == ("/v1/ask?a=1+2", {"q": "Où ?"})
    assert server.asked[0].headers["accept-encoding"] == "identity"
    assert len({asked.headers["x-request-id"] for asked in server.asked}) == 2


async def test_gateway_that_always_compresses_is_understood_also_within_a_stream():
    packed = gzip.compress(b"data: 1\n\n") + gzip.compress(b"data: 2\n\n")
    steps = reply(200, gzip.compress(b'{"answer": 1}'), GZIP), reply(200, packed, GZIP)
    async with serving(*steps) as server, opened(server) as endpoint:
        answer = await endpoint.request("GET", "/a")
        streamed = await endpoint.stream("POST", "/ask", json={})

    assert (answer.json(), [event.data for event in streamed.events]) == ({"answer": 1}, ["1", "2"])


async def test_server_is_reached_by_the_proxy_of_its_settings(monkeypatch):
    monkeypatch.setenv("PROXY_LOGIN", "user:wo/rd of it")
    async with serving(OK, reply(407)) as proxy:
        address = proxy.base_url.removeprefix("http://").removesuffix("/v1")
        known = {"proxy": address, "proxy_credentials": "PROXY_LOGIN", "max_retries": 0}
        async with Endpoint(EndpointSettings(base_url="http://rag.invalid:81/v1", **known)) as endpoint:
            answer = await endpoint.request("GET", "/ask")
        async with Endpoint(EndpointSettings(base_url="https://rag.invalid/v1", **known)) as endpoint:
            error = await failure(endpoint)

    plain, tunnel = proxy.asked
    assert (answer.json(), plain.target) == ({"answer": 1}, "http://rag.invalid:81/v1/ask")
    assert plain.headers["proxy-authorization"] == f"Basic {base64.b64encode(b'user:wo/rd of it').decode()}"
    assert (tunnel.method, tunnel.target) == ("CONNECT", "rag.invalid:443")
    assert (error.code, error.requests) == ("connection_refused", 0)
    assert f"by the proxy {address}: the proxy answers 407" in error.message


RETRIED = {
    "429": reply(429),
    "502 with a page": reply(502, "<html>Bad gateway"),
    "503 with Retry-After": reply(503, headers={"Retry-After": "0"}),
    "reset before a reply": reset(),
    "closed before a reply": raw(),
    "closed within a body": raw(head(200, {"Content-Length": "99"}), b"{"),
}


@pytest.mark.fault(45, 46, 49)
@pytest.mark.parametrize("fault", RETRIED.values(), ids=RETRIED)
async def test_request_is_retried_under_the_same_id(fault):
    async with serving(fault, fault, OK) as server, opened(server) as endpoint:
        answer = await endpoint.request("POST", "/ask", json={})

    assert (answer.json(), answer.requests) == ({"answer": 1}, 3)
    assert len({asked.headers["x-request-id"] for asked in server.asked}) == 1
    assert len({asked.headers["idempotency-key"] for asked in server.asked}) == 1


SLOW = {
    "no reply": hang(),
    "a byte now and then": drip(head(200, {"Content-Length": "99999"}), b" "),
}


@pytest.mark.fault(46)
@pytest.mark.parametrize("fault", SLOW.values(), ids=SLOW)
async def test_request_gives_up_an_attempt_that_takes_too_long(fault):
    async with serving(fault, OK) as server, opened(server, attempt_seconds=1) as endpoint:
        answer = await endpoint.request("POST", "/ask", json={})

    assert answer.json() == {"answer": 1}
    assert answer.requests >= 2


BROKEN_BODY = raw(head(200, {"Content-Length": "99"}), b'{"half')
LASTING = {
    #                                  fault                                        code                 status       sent
    "unavailable to the end":          (reply(503),                                 "http_503",          "error",     3),
    "not found is final":              (reply(404),                                 "http_404",          "error",     1),
    "a redirect is not followed":      (reply(302, headers={"Location": "/v1/b"}),  "http_302",          "error",     1),
    "closed":                          (raw(),                                      "connection_broken", "error",     3),
    "a cut body":                      (BROKEN_BODY,                                "connection_broken", "truncated", 3),
    "no HTTP at all":                  (raw(b"SSH-2.0-x\r\n\r\n"),              "bad_response",      "error",     1),
    "in another encoding":             (reply(200, b"x", {"Content-Encoding": "br"}), "bad_response",    "error",     1),
    "no gzip":                         (reply(200, b"{}", GZIP),                    "bad_response",      "error",     1),
    "a cut gzip body":                 (reply(200, gzip.compress(b'{"half')[:-8], GZIP), "connection_broken", "truncated", 3),
    "decodes to more than allowed":    (reply(200, gzip.compress(b"x" * 9**6), GZIP), "body_too_large",  "error",     1),
    "larger than allowed":             (reply(200, b"x" * 2_000),                   "body_too_large",    "error",     1),
    "larger than allowed, announced":  (hang(head(200, {"Content-Length": "9" * 12})), "body_too_large", "error",     1),
}  # fmt: skip


@pytest.mark.fault(45, 46, 47)
@pytest.mark.parametrize(("fault", "code", "status", "sent"), LASTING.values(), ids=LASTING)
async def test_request_that_fails_has_a_code_and_counts_what_was_sent(fault, code, status, sent):
    async with serving(fault) as server, opened(server, max_retries=2, body_mb_max=0.001) as endpoint:
        error = await failure(endpoint)

    assert (error.code, error.status, error.requests) == (code, status, sent)
    assert len(server.asked) == sent
    assert "\n" not in str(error)
    assert "/v1/ask" in error.message
    assert status != "truncated" or (error.partial, error.body) == (b'{"half', None)


async def test_request_that_is_refused_keeps_the_body_and_quotes_its_message():
    refusal = reply(400, {"error": {"message": "seed is\nnot known", "param": "seed"}})
    async with serving(refusal) as server, opened(server) as endpoint:
        error = await failure(endpoint)

    assert (error.http_status, error.requests, error.partial) == (400, 1, None)
    assert b'"param": "seed"' in error.body
    assert "HTTP 400: 'seed is not known'" in error.message


@pytest.mark.fault(46)
async def test_request_to_a_closed_port_or_an_unknown_name_counts_nothing():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening, so that no other process takes the port
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        async with Endpoint(EndpointSettings(base_url=url, backoff_seconds=0.001)) as endpoint:
            error = await failure(endpoint)

    async with Endpoint(EndpointSettings(base_url="http://rag.invalid", max_retries=0)) as endpoint:
        unknown = await failure(endpoint)

    assert (error.code, error.requests) == ("connection_refused", 0)
    assert "4 attempts" in error.message
    assert (unknown.code, unknown.requests) == ("dns", 0)


@pytest.mark.fault(49)
async def test_request_that_must_not_be_repeated_is_sent_once():
    async with serving(reply(503)) as server, opened(server) as endpoint:
        error = await failure(endpoint, retried=False)

    assert (error.code, error.requests, len(server.asked)) == ("http_503", 1, 1)


TOTALS = {
    #                                      what the server does                          limits                                                  code               sent at most
    "no wait beyond the limit":           (reply(429, headers={"Retry-After": "99999"}), {"total_seconds": 5},                                    "rate_limited",    1),
    "an attempt ends with the limit":     (hang(),                                       {"total_seconds": 0.3, "attempt_seconds": 30},           "total_timeout",   1),
    "every attempt counts":               (hang(),                                       {"total_seconds": 1, "attempt_seconds": 0.4, "max_retries": 10}, "total_timeout", 3),
    "every wait counts":                  (reply(503, headers={"Retry-After": "0.6"}),   {"total_seconds": 1, "max_retries": 10},                 "http_503",        2),
}  # fmt: skip


@pytest.mark.fault(45)
@pytest.mark.parametrize(("step", "limits", "code", "most"), TOTALS.values(), ids=TOTALS)
async def test_request_ends_within_its_total_limit(step, limits, code, most):
    async with serving(step) as server, opened(server, **limits) as endpoint:
        error = await failure(endpoint)

    assert error.code == code or (error.status == "timeout" and most > 1)
    assert error.requests <= most
    assert ("no time to wait 27.8 h" in error.message) == (code == "rate_limited")


@pytest.mark.fault(45)
async def test_pause_that_a_server_asks_for_holds_for_all_callers():
    times = []

    async def step(asked, writer):
        times.append(asyncio.get_running_loop().time())
        await (reply(429, headers={"Retry-After": "0.3"}) if len(times) == 1 else OK)(asked, writer)

    async with serving(step) as server, opened(server, in_flight=1) as endpoint:
        await asyncio.gather(*(endpoint.request("GET", "/a") for _ in range(3)))

    assert len(times) == 4
    assert min(time - times[0] for time in times[1:]) >= 0.25  # the server notes the time before it answers


async def test_endpoint_limits_requests_in_flight():
    gate = asyncio.Event()

    async def gated(asked, writer):
        await gate.wait()
        await OK(asked, writer)

    async with serving(gated) as server, opened(server, in_flight=3) as endpoint:
        tasks = [asyncio.create_task(endpoint.request("GET", "/a")) for _ in range(10)]
        while server.at_once < 3:
            await asyncio.sleep(0.001)
        gate.set()
        await asyncio.gather(*tasks)

    assert (server.most_at_once, len(server.asked)) == (3, 10)


async def test_files_are_sent_whole_each_time():
    files = [("documents", ("a.pdf", io.BytesIO(b"%PDF-a"), "application/pdf"))]
    async with serving(reply(503), OK) as server, opened(server) as endpoint:
        await endpoint.request("POST", "/documents", files=files, data={"data": "{}"})

    assert [asked.body.count(b"%PDF-a") for asked in server.asked] == [1, 1]
    assert all(b'name="data"' in asked.body and b'filename="a.pdf"' in asked.body for asked in server.asked)


NOT_JSON = {
    "a page": (b"<html>Login", "<html>Login"),
    "cut": (b'{"a": [1, 2', '{"a": [1, 2'),
    "nothing": (b"", "an empty body"),
    "nested too deeply": (b"[" * 100_000, "[[[["),
}


@pytest.mark.fault(47)
@pytest.mark.parametrize(("body", "found"), NOT_JSON.values(), ids=NOT_JSON)
async def test_reply_that_is_no_json_is_quoted(body, found):
    async with serving(reply(200, body)) as server, opened(server) as endpoint:
        answer = await endpoint.request("GET", "/a")
        with pytest.raises(EndpointError) as raised:
            answer.json()

    assert (raised.value.code, raised.value.requests) == ("bad_response", 1)
    assert found in raised.value.message
    assert len(raised.value.message) < 2_200


STREAMS = {
    #                                 steps                                                                 events       is_cut  requests
    "to its end":                    ([stream("data: a\n\n", ": wait\n\ndata: b", "c\n\n")],                ["a", "bc"], False,  1),
    "cut after its start, not again": ([stream("data: a\n\n", "data: b", end=False)],                       ["a"],       True,   1),
    "cut before its start, again":   ([stream(": hello\n\n", end=False), stream("data: a\n\n")],            ["a"],       False,  2),
}  # fmt: skip


@pytest.mark.fault(49)
@pytest.mark.parametrize(("steps", "events", "is_cut", "requests"), STREAMS.values(), ids=STREAMS)
async def test_stream_is_read_and_never_paid_for_twice(steps, events, is_cut, requests):
    answer, asked = await streamed(*steps)

    assert ([event.data for event in answer.events], answer.is_cut) == (events, is_cut)
    assert answer.requests == asked == requests
    assert 0 <= answer.events[0].at_ms <= answer.events[-1].at_ms <= answer.elapsed_ms


async def test_stream_that_stalls_is_a_timeout_with_what_had_arrived():
    begun = head(200, {"Transfer-Encoding": "chunked"}), b"9\r\ndata: a\n\n\r\n"
    with pytest.raises(EndpointError) as raised:
        await streamed(hang(*begun), attempt_seconds=3)

    assert (raised.value.code, raised.value.status, raised.value.requests) == ("attempt_timeout", "timeout", 1)
    assert raised.value.partial == b"data: a\n\n"


KEY = "sk-canary/0123+456"
QUOTED = {
    "as it is": KEY,
    "percent-encoded": "sk-canary%2F0123%2B456",
    "base64": base64.b64encode(KEY.encode()).decode(),
    "hexadecimal": KEY.encode().hex(),
}


@pytest.mark.fault(44)
@pytest.mark.parametrize("quoted", QUOTED.values(), ids=QUOTED)
@pytest.mark.parametrize("status", [200, 401])
async def test_secret_that_a_server_quotes_is_masked(quoted, status, monkeypatch, caplog):
    monkeypatch.setenv("RAG_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    body = {"error": f"bad key {quoted}"}
    async with serving(reply(status, body)) as server, opened(server, api_key_env="RAG_KEY") as endpoint:
        try:
            answer = await endpoint.request("GET", "/a")
        except EndpointError as error:
            seen = [str(error), repr(error), repr(error.body)]
        else:
            seen = [repr(answer), repr(answer.body), str(answer.bad("less"))]
        seen += [repr(endpoint), repr(vars(endpoint)), caplog.text]

    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert quoted not in "".join(seen)
    assert "***" in seen[-5]


async def test_short_secret_is_not_masked_in_bodies(monkeypatch):
    monkeypatch.setenv("RAG_KEY", "test")
    async with serving(reply(200, {"a": "a test"})) as server, opened(server, headers_env={"api-key": "RAG_KEY"}) as it:
        assert (await it.request("GET", "/a")).json() == {"a": "a test"}

    assert server.asked[0].headers["api-key"] == "test"


SECRETS = {"missing": (None, "missing_secret"), "empty": (" ", "missing_secret"), "two lines": ("a\nb", "bad_secret")}


@pytest.mark.parametrize(("value", "code"), SECRETS.values(), ids=SECRETS)
async def test_secret_that_cannot_be_sent_names_its_variable(value, code, monkeypatch):
    monkeypatch.delenv("RAG_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("RAG_KEY", value)

    with pytest.raises(ServiceError, match="RAG_KEY") as raised:
        await Endpoint(EndpointSettings(base_url="http://h", api_key_env="RAG_KEY")).__aenter__()

    assert raised.value.code == code


@pytest.mark.fault(46)
async def test_endpoint_trusts_the_authority_of_its_ca_file(tmp_path):
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    async with serving(OK, tls=authority.server()) as server:
        async with opened(server) as stranger:
            error = await failure(stranger)
        settings = EndpointSettings(base_url=server.base_url, ca_file="ca.pem")
        async with Endpoint(settings, folder=tmp_path) as endpoint:
            answer = await endpoint.request("GET", "/a")
    (tmp_path / "ca.pem").write_text("no")

    assert (error.code, error.requests, answer.status) == ("tls", 0, 200)
    with pytest.raises(ServiceError, match=r"ca\.pem") as raised:
        await Endpoint(settings, folder=tmp_path).__aenter__()
    assert raised.value.code == "bad_ca_file"


BAD = {
    "no URL": {"base_url": "host:8081"},
    "a port that is none": {"base_url": "http://h:99999"},
    "a line break": {"base_url": "http://h/v1\nX"},
    "a header that frames the request": {"headers_env": {"Content-Length": "KEY"}},
}
MISPLACED = {
    "a user in the URL": {"base_url": "http://u:sk-abc@h/v1"},
    "a key in the URL": {"base_url": "http://h/v1?key=sk-abc"},
    "a key instead of a variable": {"api_key_env": "sk-abc"},
    "a key instead of a header's variable": {"headers_env": {"api-key": "sk-abc"}},
}


@pytest.mark.fault(44)
@pytest.mark.parametrize("given", [*BAD.values(), *MISPLACED.values()], ids=[*BAD, *MISPLACED])
def test_endpoint_settings_name_the_bad_key_and_quote_no_secret(given):
    with pytest.raises(pydantic.ValidationError) as raised:
        EndpointSettings.model_validate({"base_url": "http://h", **given})

    [error] = raised.value.errors()
    assert error["loc"][0] in given
    assert "sk-abc" not in str(raised.value)
    assert (error["type"] == "misplaced_secret") == (given in MISPLACED.values())


def test_endpoint_settings_accept_urls():
    for url in ("https://rag.example.com:8443/a/v1/", "http://[::1]:8081/v1"):
        assert EndpointSettings(base_url=url).base_url == url.rstrip("/")
