"""Through a corporate proxy: it is asked for public hosts and no others, and nothing private passes by it."""

import asyncio
import contextlib

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.web.egress.config import EgressConfig
from rag_eval_pipeline.web.egress.policy import EgressPolicy, HostUnresolved
from rag_eval_pipeline.web.egress.proxy import EgressProxy

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Proxy:
    """Stands for the internet: whatever is asked for is answered by itself."""

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
                writer.write(ANSWER)
            await writer.drain()
        writer.close()


async def nobody_knows(host, port):
    raise HostUnresolved(f"{host} cannot be resolved")


@contextlib.asynccontextmanager
async def guarded(proxy, resolver=nobody_knows, **settings):
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with EgressProxy(EgressPolicy(EgressConfig(proxy=address, **settings), resolver=resolver)) as guard:
            yield guard


async def ask(guard, request, document=""):
    port = int(guard.url_for(document).rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_plain_request_names_the_whole_url_and_brings_the_credentials(monkeypatch):
    monkeypatch.setenv("PROXY_LOGIN", "user:word")
    proxy = Proxy()

    async with guarded(proxy, proxy_credentials="PROXY_LOGIN") as guard:
        answer = await ask(guard, b"GET http://example.org/a?b HTTP/1.1\r\nHost: example.org\r\n\r\n")

    assert answer.endswith(b"hi")
    [asked] = proxy.asked
    assert asked.startswith(b"GET http://example.org:80/a?b HTTP/1.1\r\n")
    assert b"\r\nProxy-Authorization: Basic dXNlcjp3b3Jk\r\n" in asked


async def test_a_tunnel_is_made_through_the_proxy():
    proxy = Proxy()

    async with guarded(proxy) as guard:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(guard.url.rpartition(":")[2]))
        writer.write(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"pong"
        writer.close()

    assert proxy.asked[0].startswith(b"CONNECT example.org:443 HTTP/1.1\r\n")
    assert proxy.asked[1] == b"ping"


REFUSED = {
    "a private address": (b"http://10.0.0.1/", b"egress_blocked"),
    "a spelling of loopback": (b"http://0x7f.1/", b"egress_blocked"),
    "a name of the inner network": (b"http://intranet/", b"egress_blocked"),
    "a local name": (b"http://printer.local/", b"egress_blocked"),
    "a name that is nowhere": (b"http://document.invalid/", b"host_unresolved"),
}


@pytest.mark.parametrize(("url", "code"), REFUSED.values(), ids=REFUSED)
async def test_what_is_private_is_not_asked_of_the_proxy(url, code):
    from rag_eval_pipeline.web.egress.policy import system_resolver

    proxy = Proxy()

    async with guarded(proxy, resolver=system_resolver) as guard:
        answer = await ask(guard, b"GET " + url + b" HTTP/1.1\r\nHost: x\r\n\r\n")

    assert code in answer.partition(b"\r\n")[0]
    assert proxy.asked == []


async def test_a_public_name_with_a_private_address_is_not_asked_of_the_proxy():
    async def inner(host, port):
        return ["192.168.0.9"]

    proxy = Proxy()

    async with guarded(proxy, resolver=inner) as guard:
        answer = await ask(guard, b"GET http://example.org/ HTTP/1.1\r\nHost: x\r\n\r\n")

    assert b"egress_blocked" in answer
    assert proxy.asked == []


async def test_an_allowed_host_is_dialled_directly(site):
    site.answers["/a"] = (200, {}, b"here")
    proxy = Proxy()

    async def here(host, port):
        return ["127.0.0.1"]

    async with guarded(proxy, resolver=here, allowed_hosts=(site.host,)) as guard:
        request = f"GET {site.url('/a')} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        answer = await ask(guard, request, document=site.url("/"))
        refused = await ask(guard, request)  # which the proxy might answer, too

    assert answer.endswith(b"here")
    assert b"egress_blocked" in refused
    assert proxy.asked == []


async def test_a_proxy_that_refuses_is_quoted():
    proxy = Proxy(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    async with guarded(proxy) as guard:
        answer = await ask(guard, b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 502 connect_failed\r\n")
    assert b"407 Proxy Authentication Required" in answer


def test_credentials_that_are_not_set_are_missed_at_the_start(monkeypatch):
    monkeypatch.delenv("PROXY_LOGIN", raising=False)

    with pytest.raises(InputError) as missed:
        EgressProxy(EgressPolicy(EgressConfig(proxy="proxy.example:3128", proxy_credentials="PROXY_LOGIN")))

    assert missed.value.code == "missing_secret"
    assert "PROXY_LOGIN" in str(missed.value)
