"""The guard dials what the policy allows, once a connection, and remembers what it refused."""

import asyncio
import contextlib

import pytest

from rag_eval_pipeline.web.egress.config import EgressConfig
from rag_eval_pipeline.web.egress.policy import EgressPolicy, HostUnresolved
from rag_eval_pipeline.web.egress.proxy import REFUSAL_HEADER, EgressProxy


@contextlib.asynccontextmanager
async def origin(answer=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhi"):
    """A server that keeps what it receives and answers the first head of each connection."""
    received = []

    async def accept(reader, writer):
        head = b""
        with contextlib.suppress(asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
        received.append(head)
        writer.write(answer)
        with contextlib.suppress(OSError):
            await writer.drain()
            received[-1] += await reader.read()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], received


def allowing(*ports):
    return EgressPolicy(EgressConfig(allowed_hosts=tuple(f"127.0.0.1:{port}" for port in ports)))


async def connect(guard):
    """As what an allowed server's documents ask; where none is allowed, as all others."""
    return await asyncio.open_connection("127.0.0.1", int(guard.urls[-1].rpartition(":")[2]))


async def ask(guard, request):
    """What the guard answers to raw bytes, until it closes the connection."""
    reader, writer = await connect(guard)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


async def test_a_plain_request_reaches_an_allowed_server_and_ends_the_connection():
    async with origin() as (port, received), EgressProxy(allowing(port)) as guard:
        reader, writer = await connect(guard)
        writer.write(f"GET http://127.0.0.1:{port}/a?b HTTP/1.1\r\n".encode())
        writer.write(b"Host: other\r\nProxy-Connection: keep-alive\r\nX: 1\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(2)
        writer.close()

    assert head == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    assert body == b"hi"
    assert received[0] == f"GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX: 1\r\nConnection: close\r\n\r\n".encode()


async def test_a_second_request_on_the_connection_is_not_forwarded():
    async with origin() as (port, received), EgressProxy(allowing(port)) as guard:
        first = f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode()
        reader, writer = await connect(guard)
        writer.write(first + b"GET http://10.0.0.1/smuggled HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"hi")
        writer.close()
        await guard.__aexit__(None, None, None)
        await asyncio.sleep(0)

    assert len(received) == 1
    assert b"smuggled" not in received[0]


async def test_a_body_is_forwarded_to_its_length_and_no_further():
    async with origin() as (port, received), EgressProxy(allowing(port)) as guard:
        reader, writer = await connect(guard)
        writer.write(f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /x".encode())
        await reader.readuntil(b"hi")
        writer.write_eof()
        await reader.read()
        writer.close()

    assert received[0].endswith(b"\r\n\r\nabc")


async def test_a_tunnel_reaches_an_allowed_server():
    async with origin() as (port, _), EgressProxy(allowing(port)) as guard:
        reader, writer = await connect(guard)
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        established = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"anything\r\n\r\n")
        answer = await reader.readuntil(b"hi")
        writer.close()

    assert established.startswith(b"HTTP/1.1 200 ")
    assert answer.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("target", ["CONNECT 127.0.0.1:{}", "GET http://127.0.0.1:{}/"])
async def test_an_allowed_host_is_open_to_its_own_documents_and_to_those_that_are_named(target):
    async with origin() as (port, received):
        hosts = [{"host": f"127.0.0.1:{port}", "for": ["docs.example:443"]}, "lab.example:80"]
        async with EgressProxy(EgressPolicy(EgressConfig(allowed_hosts=hosts))) as guard:
            answers = {}
            for document in (
                "https://docs.example/a",
                "https://lab.example/",
                "http://lab.example/",
                "http://x.example/",
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", int(guard.url_for(document).split(":")[2]))
                writer.write(f"{target.format(port)} HTTP/1.1\r\n\r\n".encode())
                answers[document] = (await reader.readuntil(b"\r\n"))[9:12]
                writer.close()

    assert list(answers.values()) == [b"200", b"403", b"403", b"403"]
    assert len(received) == 1


@pytest.mark.parametrize("form", ["GET http://127.0.0.1:{}/ HTTP/1.1", "CONNECT 127.0.0.1:{} HTTP/1.1"])
async def test_what_is_not_allowed_is_refused_without_a_connection_and_logged(form):
    async with origin() as (port, received), EgressProxy(EgressPolicy()) as guard:
        answer = await ask(guard, f"{form.format(port)}\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 403 egress_blocked\r\n")
    assert f"{REFUSAL_HEADER}: {guard.secret} ".encode() in answer
    assert answer.endswith(b"\r\n\r\n")
    assert received == []
    assert guard.denied == 1
    assert (guard.denials[0].code, guard.denials[0].target) == ("egress_blocked", f"127.0.0.1:{port}")


MALFORMED = {
    "no absolute form": b"GET / HTTP/1.1\r\n\r\n",
    "another scheme": b"GET ftp://example.org/ HTTP/1.1\r\n\r\n",
    "https without a tunnel": b"GET https://example.org/ HTTP/1.1\r\n\r\n",
    "credentials": b"GET http://a:b@example.org/ HTTP/1.1\r\n\r\n",
    "a blank in the target": b"GET http://example.org/a b HTTP/1.1\r\n\r\n",
    "chunked body": b"POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "two lengths": b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "signed length": b"POST http://example.org/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
    "folded header": b"GET http://example.org/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
    "bare newline in a header": b"GET http://example.org/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n",
    "blank before the colon": b"GET http://example.org/ HTTP/1.1\r\nContent-Length : 1\r\n\r\n",
    "a path in a tunnel": b"CONNECT example.org:443/x HTTP/1.1\r\n\r\n",
    "a port that is none": b"CONNECT example.org:99999 HTTP/1.1\r\n\r\n",
    "broken brackets": b"GET http://[::1/ HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED)
async def test_what_two_readers_could_understand_differently_is_refused(request_bytes):
    async with EgressProxy(EgressPolicy()) as guard:
        answer = await ask(guard, request_bytes)

    assert answer.startswith(b"HTTP/1.1 400 bad_request\r\n")


async def test_an_interim_answer_is_not_taken_for_the_answer():
    answer = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with origin(answer) as (port, _), EgressProxy(allowing(port)) as guard:
        reader, writer = await connect(guard)
        writer.write(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()

    assert head.startswith(b"HTTP/1.1 200 OK")


async def test_a_server_cannot_pass_itself_off_as_the_guard():
    answer = f"HTTP/1.1 200 OK\r\n{REFUSAL_HEADER}: x\r\nContent-Length: 0\r\n\r\n".encode()
    async with origin(answer) as (port, _), EgressProxy(allowing(port)) as guard:
        reader, writer = await connect(guard)
        writer.write(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()

    assert REFUSAL_HEADER.encode() not in head


async def test_an_unresolved_host_is_looked_up_once():
    lookups = []

    async def resolver(host, port):
        lookups.append(host)
        raise HostUnresolved(f"{host} cannot be resolved")

    async with EgressProxy(EgressPolicy(resolver=resolver)) as guard:
        answers = await asyncio.gather(*(ask(guard, b"CONNECT dead.example:443 HTTP/1.1\r\n\r\n") for _ in range(8)))

    assert all(answer.startswith(b"HTTP/1.1 502 host_unresolved") for answer in answers)
    assert lookups == ["dead.example"]


async def test_a_name_that_changes_its_address_is_not_asked_again():
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def resolver(host, port):
        return next(answers)

    async with origin() as (port, received):
        policy = EgressPolicy(EgressConfig(allowed_hosts=(f"site.example:{port}",)), resolver=resolver)
        async with EgressProxy(policy) as guard:
            for _ in range(2):
                reader, writer = await connect(guard)
                writer.write(f"GET http://site.example:{port}/ HTTP/1.1\r\n\r\n".encode())
                await reader.readuntil(b"hi")
                writer.close()

    assert len(received) == 2


async def test_a_closed_port_is_a_failed_connection():
    async with origin() as (port, _):
        pass
    async with EgressProxy(allowing(port)) as guard:
        answer = await ask(guard, f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 504 connect_failed")
