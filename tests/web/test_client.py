"""A client asks again what may be asked again, keeps every limit, counts what it sent, and says in one line what came."""

import asyncio
import base64
import gzip
import hashlib
import io
import logging
import shutil
import socket
import ssl
import subprocess

import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.web.client import Endpoint, EndpointError
from rag_eval_pipeline.web.settings import EndpointSettings
from tests.web.scripted_server import drip, hang, head, raw, reply, reset, serving, stream

FAST = {"backoff_seconds": 0.001}
OK = reply(200, {"answer": 1})


def opened(server, **settings):
    return Endpoint(EndpointSettings(base_url=server.base_url, **{**FAST, **settings}), seed=1)


async def failure(endpoint, **arguments):
    with pytest.raises(EndpointError) as raised:
        await endpoint.request("POST", "/ask", json={"q": 1}, **arguments)
    return raised.value


async def test_a_reply_comes_with_its_body_and_its_account():
    async with serving(OK) as server, opened(server) as endpoint:
        answer = await endpoint.request("POST", "/ask", json={"q": "Où ?"}, params={"a": "1 2"})

    assert (answer.status, answer.json(), answer.requests) == (200, {"answer": 1}, 1)
    assert answer.raw_sha256 == hashlib.sha256(b'{"answer": 1}').hexdigest()
    assert (server.asked[0].target, server.asked[0].json) == ("/v1/ask?a=1+2", {"q": "Où ?"})
    assert server.asked[0].headers["accept-encoding"] == "identity"


RETRIED = {
    "408": reply(408),
    "409": reply(409),
    "425": reply(425),
    "429": reply(429),
    "500": reply(500),
    "502 with a page": reply(502, "<html>Bad gateway"),
    "503 with a wish": reply(503, headers={"Retry-After": "0"}),
    "reset before a reply": reset(),
    "reset within a body": reset(head(200, {"Content-Length": "99"}), b"{"),
    "closed before a reply": raw(),
    "closed within the headers": raw(b"HTTP/1.1 200 OK\r\nContent-"),
    "closed within a body": raw(head(200, {"Content-Length": "99"}), b"{"),
    "closed within a chunk": raw(head(200, {"Transfer-Encoding": "chunked"}), b"5\r\nab"),
}
SLOW = {
    "no reply in time": hang(),
    "half a reply in time": hang(head(200, {"Content-Length": "99"}), b"{"),
    "a byte now and then": drip(head(200, {"Content-Length": "99999"}), b" "),
    "a header byte now and then": drip(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
}


@pytest.mark.parametrize("fault", RETRIED.values(), ids=RETRIED)
async def test_a_passing_fault_is_asked_again_under_the_same_id(fault):
    async with serving(fault, fault, OK) as server, opened(server) as endpoint:
        answer = await endpoint.request("POST", "/ask", json={})

    assert (answer.json(), answer.requests) == ({"answer": 1}, 3)
    assert len({asked.headers["x-request-id"] for asked in server.asked}) == 1
    assert len({asked.headers["idempotency-key"] for asked in server.asked}) == 1


@pytest.mark.parametrize("fault", SLOW.values(), ids=SLOW)
async def test_an_attempt_that_takes_too_long_is_given_up(fault):
    async with serving(fault, OK) as server, opened(server, attempt_seconds=0.5) as endpoint:
        answer = await endpoint.request("POST", "/ask", json={})

    assert answer.json() == {"answer": 1}
    assert answer.requests == len(server.asked) >= 2


async def test_each_request_has_an_id_of_its_own():
    async with serving(OK) as server, opened(server) as endpoint:
        await endpoint.request("GET", "/a")
        await endpoint.request("GET", "/a")

    assert len({asked.headers["x-request-id"] for asked in server.asked}) == 2


BROKEN_BODY = raw(head(200, {"Content-Length": "99"}), b'{"half')
LASTING = {
    #                                  fault                                        code                 status       sent
    "busy to the end":                 (reply(429),                                 "rate_limited",      "error",     3),
    "unavailable to the end":          (reply(503),                                 "http_503",          "error",     3),
    "not found is final":              (reply(404),                                 "http_404",          "error",     1),
    "a bad request is final":          (reply(400),                                 "http_400",          "error",     1),
    "unauthorized is final":           (reply(401),                                 "http_401",          "error",     1),
    "a redirect is not followed":      (reply(302, headers={"Location": "/v1/b"}),  "http_302",          "error",     1),
    "reset":                           (reset(),                                    "connection_reset",  "error",     3),
    "closed":                          (raw(),                                      "connection_broken", "error",     3),
    "a cut body":                      (BROKEN_BODY,                                "connection_broken", "truncated", 3),
    "silent":                          (hang(),                                     "attempt_timeout",   "timeout",   3),
    "no HTTP at all":                  (raw(b"SSH-2.0-x\r\n\r\n"),              "bad_response",      "error",     1),
    "compressed unasked":              (reply(200, gzip.compress(b"x" * 9**6), {"Content-Encoding": "gzip"}), "bad_response", "error", 1),
    "larger than allowed":             (reply(200, b"x" * 2_000),                   "body_too_large",    "error",     1),
    "larger than allowed, in chunks":  (stream(*[b"x" * 400] * 5),                  "body_too_large",    "error",     1),
    "larger than allowed, announced":  (hang(head(200, {"Content-Length": "9" * 12})), "body_too_large", "error",     1),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "code", "status", "sent"), LASTING.values(), ids=LASTING)
async def test_a_lasting_fault_has_its_code_and_counts_what_was_sent(fault, code, status, sent):
    async with (
        serving(fault) as server,
        opened(server, max_retries=2, attempt_seconds=0.2, body_mb_max=0.001) as endpoint,
    ):
        error = await failure(endpoint)

    assert (error.code, error.status, error.requests) == (code, status, sent)
    assert len(server.asked) == sent
    assert "\n" not in str(error)
    assert "/v1/ask" in error.message


async def test_a_cut_body_is_kept_as_what_had_arrived():
    async with serving(BROKEN_BODY) as server, opened(server, max_retries=0) as endpoint:
        error = await failure(endpoint)

    assert (error.partial, error.body) == (b'{"half', None)


async def test_the_body_of_a_refusal_is_kept_and_its_message_quoted():
    refusal = reply(400, {"error": {"message": "seed is\nnot known", "param": "seed"}})
    async with serving(refusal) as server, opened(server) as endpoint:
        error = await failure(endpoint)

    assert error.http_status == 400
    assert b'"param": "seed"' in error.body
    assert "HTTP 400: 'seed is not known'" in error.message


async def test_nothing_listens():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take the port meanwhile
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        async with Endpoint(EndpointSettings(base_url=url, **FAST)) as endpoint:
            error = await failure(endpoint)

    assert (error.code, error.requests) == ("connection_refused", 0)
    assert "4 attempts" in error.message


async def test_a_server_that_does_not_accept_is_a_connect_timeout():
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        held = [socket.socket() for _ in range(3)]
        for waiting in held:  # fill the queue of connections that nobody accepts
            waiting.setblocking(False)
            waiting.connect_ex(address)
        settings = EndpointSettings(base_url=f"http://127.0.0.1:{address[1]}", attempt_seconds=0.4, max_retries=0)
        async with Endpoint(settings) as endpoint:
            error = await failure(endpoint)
        for waiting in held:
            waiting.close()

    assert (error.code, error.status, error.requests) == ("connect_timeout", "timeout", 0)


async def test_a_name_that_does_not_exist():
    async with Endpoint(EndpointSettings(base_url="http://rag.invalid", max_retries=0)) as endpoint:
        error = await failure(endpoint)

    assert (error.code, error.requests) == ("dns", 0)


async def test_a_server_without_tls_is_a_tls_fault():
    async def answer_at_once(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    plain = await asyncio.start_server(answer_at_once, "127.0.0.1", 0)
    async with plain:
        url = f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}"
        async with Endpoint(EndpointSettings(base_url=url, **FAST)) as endpoint:
            error = await failure(endpoint)

    assert (error.code, error.requests) == ("tls", 0)


async def test_what_must_not_be_done_twice_is_asked_once():
    async with serving(reply(503)) as server, opened(server) as endpoint:
        error = await failure(endpoint, retried=False)

    assert (error.code, error.requests, len(server.asked)) == ("http_503", 1, 1)


async def test_no_retry_is_waited_for_beyond_the_total_limit():
    async with (
        serving(reply(429, headers={"Retry-After": "99999"})) as server,
        opened(server, total_seconds=5) as endpoint,
    ):
        error = await failure(endpoint)

    assert (error.code, error.requests) == ("rate_limited", 1)
    assert "no time to wait 1e+05 s" in error.message


async def test_the_total_limit_ends_an_attempt_that_has_time_left():
    async with serving(hang()) as server, opened(server, attempt_seconds=30) as endpoint:
        error = await failure(endpoint, total_seconds=0.2)

    assert (error.code, error.status, error.requests) == ("total_timeout", "timeout", 1)


async def test_the_total_limit_counts_every_attempt():
    async with (
        serving(hang()) as server,
        opened(server, attempt_seconds=0.2, total_seconds=0.5, max_retries=10) as endpoint,
    ):
        error = await failure(endpoint)

    assert error.status == "timeout"
    assert error.requests == len(server.asked) <= 3


async def test_the_total_limit_counts_every_wait():
    async with (
        serving(reply(503, headers={"Retry-After": "0.3"})) as server,
        opened(server, total_seconds=0.5, max_retries=10) as endpoint,
    ):
        error = await failure(endpoint)

    assert (error.code, error.requests) == ("http_503", len(server.asked))
    assert len(server.asked) <= 2


async def test_a_wish_for_a_pause_holds_for_all_who_ask():
    times = []

    async def step(asked, writer):
        times.append(asyncio.get_running_loop().time())
        await (reply(429, headers={"Retry-After": "0.3"}) if len(times) == 1 else OK)(asked, writer)

    async with serving(step) as server, opened(server, in_flight=1) as endpoint:
        await asyncio.gather(*(endpoint.request("GET", "/a") for _ in range(3)))

    assert len(times) == 4
    assert min(time - times[0] for time in times[1:]) >= 0.29  # the clocks of wait and measurement differ by a tick


WISHES = {
    "a date in the past": "Wed, 21 Oct 2015 07:28:00 GMT",
    "negative": "-5",
    "garbage": "soon",
    "a fraction": "0.001",
}


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
async def test_an_odd_retry_after_holds_nobody_up(wish):
    async with serving(reply(503, headers={"Retry-After": wish}), OK) as server, opened(server) as endpoint:
        answer = await endpoint.request("GET", "/a")

    assert answer.requests == 2


async def test_no_more_requests_are_in_flight_than_allowed():
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
    "empty": (b"", "an empty body"),
    "a page": (b"<html>Login", "<html>Login"),
    "cut": (b'{"a": [1, 2', '{"a": [1, 2'),
    "not a number": (b'{"a": NaN}', "NaN"),
    "no UTF-8": (b'{"a": "\xff"}', r"\xff"),
    "nested to death": (b"[" * 100_000, "[[[["),
}


@pytest.mark.parametrize(("body", "found"), NOT_JSON.values(), ids=NOT_JSON)
async def test_a_body_that_is_no_json_is_quoted(body, found):
    async with serving(reply(200, body)) as server, opened(server) as endpoint:
        answer = await endpoint.request("GET", "/a")
        with pytest.raises(EndpointError) as raised:
            answer.json()

    assert (raised.value.code, raised.value.requests) == ("bad_response", 1)
    assert found in raised.value.message
    assert len(raised.value.message) < 2_200


async def test_a_byte_order_mark_is_no_fault():
    async with serving(reply(200, b'\xef\xbb\xbf{"a": 1}')) as server, opened(server) as endpoint:
        assert (await endpoint.request("GET", "/a")).json() == {"a": 1}


async def test_a_stream_is_read_to_its_end():
    async with serving(stream("data: a\n\n", ": wait\n\ndata: b", "c\n\n")) as server, opened(server) as endpoint:
        answer = await endpoint.stream("POST", "/ask", json={})

    assert [event.data for event in answer.events] == ["a", "bc"]
    assert (answer.ended, answer.requests) == ("done", 1)
    assert 0 <= answer.events[0].at_ms <= answer.events[1].at_ms <= answer.elapsed_ms


async def test_a_stream_that_is_cut_after_its_start_is_not_paid_for_twice():
    async with serving(stream("data: a\n\n", "data: b", end=False)) as server, opened(server) as endpoint:
        answer = await endpoint.stream("POST", "/ask", json={})

    assert ([event.data for event in answer.events], answer.ended, len(server.asked)) == (["a"], "cut", 1)


async def test_a_stream_that_is_cut_before_its_start_is_asked_for_again():
    async with (
        serving(stream(": hello\n\n", end=False), stream("data: a\n\n")) as server,
        opened(server) as endpoint,
    ):
        answer = await endpoint.stream("POST", "/ask", json={})

    assert ([event.data for event in answer.events], answer.ended, answer.requests) == (["a"], "done", 2)


async def test_a_stream_that_stalls_is_a_timeout_with_what_had_arrived():
    begun = head(200, {"Transfer-Encoding": "chunked"}), b"9\r\ndata: a\n\n\r\n"
    async with serving(hang(*begun)) as server, opened(server, attempt_seconds=0.2) as endpoint:
        with pytest.raises(EndpointError) as raised:
            await endpoint.stream("POST", "/ask", json={})

    assert (raised.value.code, raised.value.status, raised.value.requests) == ("attempt_timeout", "timeout", 1)
    assert raised.value.partial == b"data: a\n\n"


async def test_a_stream_with_a_failing_status_is_an_error():
    async with serving(stream("data: {}\n\n", status=422)) as server, opened(server) as endpoint:
        with pytest.raises(EndpointError) as raised:
            await endpoint.stream("POST", "/ask", json={})

    assert (raised.value.code, raised.value.body) == ("http_422", b"data: {}\n\n")


KEY = "sk-canary/0123+456"
QUOTED = {
    "as it is": KEY,
    "percent-encoded": "sk-canary%2F0123%2B456",
    "base64": base64.b64encode(KEY.encode()).decode(),
}


@pytest.mark.parametrize("quoted", QUOTED.values(), ids=QUOTED)
@pytest.mark.parametrize("status", [200, 401])
async def test_a_secret_that_a_server_quotes_is_masked(quoted, status, monkeypatch, caplog):
    monkeypatch.setenv("RAG_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    said = {"error": f"bad key {quoted}"}
    async with serving(reply(status, said)) as server, opened(server, api_key_env="RAG_KEY") as endpoint:
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


async def test_a_short_secret_is_no_reason_to_spoil_an_answer(monkeypatch):
    monkeypatch.setenv("RAG_KEY", "test")
    async with serving(reply(200, {"a": "a test"})) as server, opened(server, api_key_env="RAG_KEY") as endpoint:
        assert (await endpoint.request("GET", "/a")).json() == {"a": "a test"}


async def test_headers_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("AZURE", "abc")
    async with serving(OK) as server, opened(server, headers_env={"api-key": "AZURE"}) as endpoint:
        await endpoint.request("GET", "/a")

    assert server.asked[0].headers["api-key"] == "abc"


SECRETS = {"missing": (None, "missing_secret"), "empty": (" ", "missing_secret"), "two lines": ("a\nb", "bad_secret")}


@pytest.mark.parametrize(("value", "code"), SECRETS.values(), ids=SECRETS)
async def test_a_secret_that_cannot_be_sent_names_its_variable(value, code, monkeypatch):
    monkeypatch.delenv("RAG_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("RAG_KEY", value)

    with pytest.raises(ServiceError, match="RAG_KEY") as raised:
        await Endpoint(EndpointSettings(base_url="http://h", api_key_env="RAG_KEY")).__aenter__()

    assert raised.value.code == code


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with serving(OK) as server, opened(server) as endpoint:
        assert (await endpoint.request("GET", "/a")).status == 200


async def test_an_authority_that_is_no_pem_is_named(tmp_path):
    (tmp_path / "ca.pem").write_text("no")

    with pytest.raises(ServiceError, match=r"ca\.pem") as raised:
        await Endpoint(EndpointSettings(base_url="https://h", ca_file="ca.pem"), folder=tmp_path).__aenter__()

    assert raised.value.code == "bad_ca_file"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
async def test_an_authority_of_ones_own_is_trusted_where_it_is_named(tmp_path):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem", "-out", "ca.pem", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    async with serving(OK, tls=context) as server:
        async with opened(server) as stranger:
            error = await failure(stranger)
        settings = EndpointSettings(base_url=server.base_url, ca_file="ca.pem")
        async with Endpoint(settings, folder=tmp_path) as endpoint:
            answer = await endpoint.request("GET", "/a")

    assert (error.code, error.requests) == ("tls", 0)
    assert answer.status == 200
