"""The proxy dials what the policy allows, reads strictly, and passes nothing private by a corporate proxy."""

import asyncio
import contextlib
import logging

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy, HostUnresolved, system_resolver
from rag_eval_pipeline.web.egress_proxy import REFUSAL_HEADER, EgressProxy

HI = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhi"


@contextlib.asynccontextmanager
async def origin(answer=HI):
    """A server that keeps what it receives, and answers the first head of each connection."""
    received = []

    async def accept(reader, writer):
        head = b""
        with contextlib.suppress(asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
        received.append(head)
        with contextlib.suppress(OSError):
            writer.write(answer)
            await writer.drain()
            received[-1] += await reader.read()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], received


def allowing(*ports):
    return EgressPolicy(EgressConfig(allowed_hosts=tuple(f"127.0.0.1:{port}" for port in ports)))


async def connect(proxy, document=None):
    """As a document of an allowed server; where none is allowed, as all others."""
    url = proxy.urls[-1] if document is None else proxy.url_for(document)
    return await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))


async def ask(proxy, request, *, until=None, document=None):
    """Return what the proxy answers to raw bytes, to its end or to some bytes."""
    reader, writer = await connect(proxy, document)
    writer.write(request)
    answer = await (reader.readuntil(until) if until else reader.read())
    writer.close()
    return answer


async def test_proxy_forwards_one_request_and_ends_the_connection():
    async with origin() as (port, received), EgressProxy(allowing(port)) as proxy:
        head = (
            f"GET http://127.0.0.1:{port}/a?b HTTP/1.1\r\nHost: other\r\nProxy-Connection: keep-alive\r\nX: 1\r\n\r\n"
        )
        answer = await ask(proxy, head.encode() + b"GET http://10.0.0.1/smuggled HTTP/1.1\r\n\r\n", until=b"hi")

    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    assert received == [f"GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX: 1\r\nConnection: close\r\n\r\n".encode()]


async def test_proxy_forwards_a_body_to_its_length_and_no_further():
    async with origin() as (port, received), EgressProxy(allowing(port)) as proxy:
        reader, writer = await connect(proxy)
        writer.write(f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /x".encode())
        await reader.readuntil(b"hi")
        writer.write_eof()
        await reader.read()
        writer.close()

    assert received[0].endswith(b"\r\n\r\nabc")


@pytest.mark.parametrize("target", ["CONNECT 127.0.0.1:{}", "GET http://127.0.0.1:{}/"])
async def test_proxy_opens_a_private_host_to_its_own_documents_and_to_those_that_are_named(target):
    async with origin() as (port, received):
        hosts = [{"host": f"127.0.0.1:{port}", "for": ["docs.example:443"]}, "lab.example:80"]
        documents = ("https://docs.example/a", "https://lab.example/", "http://lab.example/", "http://x.example/")
        async with EgressProxy(EgressPolicy(EgressConfig(allowed_hosts=hosts))) as proxy:
            request = f"{target.format(port)} HTTP/1.1\r\n\r\n".encode()
            answers = [await ask(proxy, request, until=b"\r\n", document=document) for document in documents]

    assert [answer[9:12] for answer in answers] == [b"200", b"403", b"403", b"403"]
    assert len(received) == 1


@pytest.mark.fault(13)
@pytest.mark.parametrize("form", ["GET http://127.0.0.1:{}/ HTTP/1.1", "CONNECT 127.0.0.1:{} HTTP/1.1"])
async def test_proxy_refuses_without_a_connection_and_logs_the_refusal(form, caplog):
    caplog.set_level(logging.INFO)
    async with origin() as (port, received), EgressProxy(EgressPolicy()) as proxy:
        answer = await ask(proxy, f"{form.format(port)}\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 403 egress_blocked\r\n")
    assert f"{REFUSAL_HEADER}: {proxy.secret} ".encode() in answer
    assert answer.endswith(b"\r\n\r\n")
    assert (received, proxy.denied) == ([], 1)
    [record] = [record for record in caplog.records if record.name.startswith("rag_eval_pipeline")]
    assert record.getMessage().startswith(f"egress_blocked: 127.0.0.1:{port}: ")


MALFORMED = {
    "no absolute form": b"GET / HTTP/1.1\r\n\r\n",
    "https without a tunnel": b"GET https://example.org/ HTTP/1.1\r\n\r\n",
    "credentials": b"GET http://a:b@example.org/ HTTP/1.1\r\n\r\n",
    "a blank in the target": b"GET http://example.org/a b HTTP/1.1\r\n\r\n",
    "chunked body": b"POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "two lengths": b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "folded header": b"GET http://example.org/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
    "bare newline in a header": b"GET http://example.org/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n",
    "blank before the colon": b"GET http://example.org/ HTTP/1.1\r\nContent-Length : 1\r\n\r\n",
    "a port that is none": b"CONNECT example.org:99999 HTTP/1.1\r\n\r\n",
}


@pytest.mark.fault(6)
@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED)
async def test_proxy_refuses_what_two_parsers_could_understand_differently(request_bytes):
    async with EgressProxy(EgressPolicy()) as proxy:
        answer = await ask(proxy, request_bytes)

    assert answer.startswith(b"HTTP/1.1 400 bad_request\r\n")


async def test_proxy_skips_an_interim_response():
    answer = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with origin(answer) as (port, _), EgressProxy(allowing(port)) as proxy:
        head = await ask(proxy, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode(), until=b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 OK")


# A page can learn the secret: its script may read the headers when its own host refuses a connection.
FORGED = {
    "by name": b"%s: ",
    "after a bare newline": b"X: y\n%s: ",
    "after a blank": b" %s: ",
    "before a blank": b"%s : ",
}


@pytest.mark.parametrize("form", FORGED.values(), ids=FORGED)
async def test_proxy_lets_no_server_forge_a_refusal_even_with_the_secret(form):
    answer = bytearray()
    async with origin(answer) as (port, _), EgressProxy(allowing(port)) as proxy:
        header = form.replace(b"%s", REFUSAL_HEADER.encode()) + proxy.secret.encode()
        answer += b"HTTP/1.1 200 OK\r\n" + header + b" not public\r\nContent-Length: 0\r\n\r\n"
        head = await ask(proxy, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode(), until=b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nContent-Length: 0\r\n" in head
    assert proxy.secret.encode() not in head


@pytest.mark.fault(3)
async def test_proxy_does_not_resolve_a_name_again_that_changes_its_address():
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def resolver(host, port):
        return next(answers)

    async with origin() as (port, received):
        policy = EgressPolicy(EgressConfig(allowed_hosts=(f"site.example:{port}",)), resolver=resolver)
        async with EgressProxy(policy) as proxy:
            for _ in range(2):
                await ask(proxy, f"GET http://site.example:{port}/ HTTP/1.1\r\n\r\n".encode(), until=b"hi")

    assert len(received) == 2


class Corporate:
    """A corporate proxy, which answers in place of the internet."""

    def __init__(self, refusal: bytes = b"") -> None:
        self.asked: list[bytes] = []
        self._refusal = refusal

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            self.asked.append(await reader.readuntil(b"\r\n\r\n"))
            if self._refusal:
                writer.write(self._refusal)
            elif self.asked[-1].startswith(b"CONNECT"):
                writer.write(b"HTTP/1.1 200 fine\r\n\r\n")
                self.asked.append(await reader.readexactly(4))
                writer.write(b"pong")
            else:
                writer.write(HI)
            await writer.drain()
        writer.close()


async def unresolved(host, port):
    raise HostUnresolved(f"{host} cannot be resolved")


@contextlib.asynccontextmanager
async def behind(corporate, resolver=unresolved, *, proxy_resolves=True, **settings):
    async with await asyncio.start_server(corporate.serve, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        config = EgressConfig(proxy=address, proxy_resolves=proxy_resolves, **settings)
        async with EgressProxy(EgressPolicy(config, resolver=resolver)) as proxy:
            yield proxy


async def test_corporate_proxy_gets_the_whole_url_and_the_credentials(monkeypatch):
    monkeypatch.setenv("PROXY_LOGIN", "user:word")
    corporate = Corporate()

    async with behind(corporate, proxy_credentials="PROXY_LOGIN") as proxy:
        answer = await ask(proxy, b"GET http://example.org/a?b HTTP/1.1\r\nHost: example.org\r\n\r\n")

    assert answer.endswith(b"hi")
    [asked] = corporate.asked
    assert asked.startswith(b"GET http://example.org:80/a?b HTTP/1.1\r\n")
    assert b"\r\nProxy-Authorization: Basic dXNlcjp3b3Jk\r\n" in asked


async def test_corporate_proxy_tunnels():
    corporate = Corporate()

    async with behind(corporate) as proxy:
        reader, writer = await connect(proxy)
        writer.write(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"pong"
        writer.close()

    assert corporate.asked[0].startswith(b"CONNECT example.org:443 HTTP/1.1\r\n")
    assert corporate.asked[1] == b"ping"


async def inner_name(host, port):
    return ["192.168.0.9"]


NOT_ASKED = {
    "a spelling of loopback": (b"http://0x7f.1/", system_resolver, b"egress_blocked"),
    "a name of the inner network": (b"http://intranet/", system_resolver, b"egress_blocked"),
    "a public name with a private address": (b"http://example.org/", inner_name, b"egress_blocked"),
    "a name that is nowhere": (b"http://document.invalid/", system_resolver, b"host_unresolved"),
}


@pytest.mark.parametrize(("url", "resolver", "code"), NOT_ASKED.values(), ids=NOT_ASKED)
async def test_corporate_proxy_is_not_asked_for_what_is_private(url, resolver, code):
    corporate = Corporate()

    async with behind(corporate, resolver=resolver) as proxy:
        answer = await ask(proxy, b"GET " + url + b" HTTP/1.1\r\nHost: x\r\n\r\n")

    assert code in answer.partition(b"\r\n")[0]
    assert corporate.asked == []


async def test_corporate_proxy_is_not_asked_for_what_this_machine_cannot_check():
    corporate = Corporate()

    async with behind(corporate, proxy_resolves=False) as proxy:
        answer = await ask(proxy, b"GET http://wiki.corp.example/secret HTTP/1.1\r\nHost: x\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 502 host_unresolved\r\n")
    assert b"set proxy_resolves: true in egress.config.yaml" in answer
    assert corporate.asked == []


async def test_corporate_proxy_is_not_asked_for_an_allowed_host(site):
    site.answers["/a"] = (200, {}, b"here")
    corporate = Corporate()

    async def here(host, port):
        return ["127.0.0.1"]

    async with behind(corporate, resolver=here, allowed_hosts=(site.host,)) as proxy:
        request = f"GET {site.url('/a')} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        answer = await ask(proxy, request, document=site.url("/"))
        refused = await ask(proxy, request, document="")  # which the corporate proxy might answer, too

    assert answer.endswith(b"here")
    assert b"egress_blocked" in refused
    assert corporate.asked == []


async def test_corporate_proxy_that_refuses_is_quoted():
    async with behind(Corporate(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")) as proxy:
        answer = await ask(proxy, b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 502 connect_failed\r\n")
    assert b"407 Proxy Authentication Required" in answer


def test_corporate_proxy_without_its_credentials_is_an_error_at_the_start(monkeypatch):
    monkeypatch.delenv("PROXY_LOGIN", raising=False)

    with pytest.raises(InputError, match="PROXY_LOGIN") as missed:
        EgressProxy(EgressPolicy(EgressConfig(proxy="proxy.example:3128", proxy_credentials="PROXY_LOGIN")))

    assert missed.value.code == "missing_secret"
