"""What becomes of hostile URLs, redirects and pages in a network where every address is this machine; prints JSON.

Run by `test_egress.py` in a namespace: `python -m tests.faults.egress.visit PART ...`, a part being a function.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Error, async_playwright

from rag_eval_pipeline.corpus.rendering.browser import find_browser
from rag_eval_pipeline.errors import DocumentError, InputError
from rag_eval_pipeline.sources.download import download
from rag_eval_pipeline.web.client import Endpoint
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from rag_eval_pipeline.web.fetcher import Fetcher, fetcher
from rag_eval_pipeline.web.server_settings import EndpointSettings
from tests.corpus.hostile.prying import KINDS, MOVES
from tests.corpus.hostile.rendering import LOAD_LIMIT_S, make_all, rendering
from tests.corpus.hostile.site import Reply, Site, moved, page
from tests.faults.egress.cases import ALLOWED, FORMS, LOCATIONS, METADATA, MOVE_TARGETS, NAMES, PUBLIC, SILENT, TARGETS
from tests.faults.egress.network import Attempt, NameServer, Sniffer, open_network
from tests.patience import PATIENCE_S

SECRET = "CANARY-TEXT"
CANARY = Reply(f"<p>{SECRET}".encode(), headers=("Access-Control-Allow-Origin: *",))
EXPECTED_PORTS = 10_000  # below them nothing of ours listens on this machine
FAKE_PROXY = f"http://{METADATA}:3128"
# Chromium's own guard of local addresses would keep the control from asking; the pipeline does not rely on it.
NO_GUARD = [
    "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebRTC,BlockInsecurePrivateNetworkRequests"
]


def redirect_pages() -> dict[str, Reply]:
    """Paths that redirect to each location, in its order, and the ways that some of them lead to."""
    pages = {f"/to/{n}": moved(location.encode().decode("latin-1")) for n, location in enumerate(LOCATIONS)}
    pages |= {f"/hops/{n}": moved(f"/hops/{n - 1}") for n in range(1, 9)}
    return pages | {"/redirect/loop": moved("/redirect/loop"), "/hops/0": Reply(b"<p>END"), "/here": Reply(b"<p>END")}


def prying_pages() -> dict[str, Reply]:
    """`/all` shows a frame for each target, which asks it for everything; a page for each way to leave for a target."""
    frames = {f"/frame/{name}": "".join(html.format(u=f"http://{target}/{name}/{kind}") for kind, html in KINDS.items())
              for name, target in TARGETS.items()}  # fmt: skip
    redirected = "".join(f"<img src=/to/{n}>" for n in range(len(LOCATIONS)))
    redirected += "".join(f"<img src=http://flips-page.test/{n}>" for n in range(4))
    shown = "".join(f"<iframe src={path}></iframe>" for path in frames)
    pages = {path: Reply(page(html).encode()) for path, html in frames.items()}
    pages["/all"] = Reply(page(f"<iframe src=/silent></iframe>{redirected}{shown}END").encode())
    pages["/silent"] = Reply(page(f"END{SILENT}").encode())
    pages["/bounce"] = moved(f"http://{METADATA}/move/by-way-of-the-site")
    for n, (kind, html) in enumerate(MOVES.items()):
        target = f"http://{MOVE_TARGETS[n % len(MOVE_TARGETS)]}/move/{kind}"
        pages[f"/move/{kind}"] = Reply(page("FIRST" + html.format(u=target)).encode())
    return pages


class Network:
    """The public site, everything else, the names, and what was tried."""

    def __init__(self) -> None:
        self.sniffer = Sniffer()
        self.names = NameServer(NAMES)
        self.public = Site(
            redirect_pages() | prying_pages() | {"/ok": Reply(b"<p>END")}, Reply(b"<p>not here", status=404)
        )
        self.canary = Site({}, CANARY)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Network"]:
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as stack:
            transport, _ = await loop.create_datagram_endpoint(lambda: self.names, NameServer.address())
            stack.callback(transport.close)
            for site, host, port in (
                (self.public, PUBLIC, 80), *((self.canary, host, port) for host in ("0.0.0.0", "::") for port in (80, 8080, 8081))
            ):  # fmt: skip
                server = await asyncio.start_server(site.serve, host, port, reuse_port=True)
                stack.callback(server.close)
                stack.callback(site.end)
            yield self

    def hits(self) -> dict[str, int]:
        """Return the attempts since the last call at all addresses that are not public, and all datagrams."""
        return {
            f"{a.protocol} {a.address} {a.port}": count for a, count in self.sniffer.take().items() if not _expected(a)
        }


def _expected(attempt: Attempt) -> bool:
    if attempt.protocol == "udp":
        return attempt.address == NameServer.address()[0]  # what it is asked, and what it answers
    is_own = attempt.address == "127.0.0.1" and attempt.port >= EXPECTED_PORTS
    return is_own or (attempt.address == PUBLIC and attempt.port in EgressConfig().allowed_ports)


async def code_of(action: Awaitable[object]) -> str:
    try:
        await action
    except (DocumentError, InputError) as error:
        return error.code
    return "ok"


@contextlib.asynccontextmanager
async def fetching(*hosts: str) -> AsyncIterator[Fetcher]:
    policy = EgressPolicy(EgressConfig(allowed_hosts=hosts, attempts=1))
    async with EgressProxy(policy) as proxy, fetcher(proxy) as source:
        yield source


async def fetched(network: Network) -> dict[str, Any]:
    """What the fetcher makes of each URL and redirect, as a document and as a source, and what a plain client does."""
    urls = {"form": list(FORMS), "location": [f"http://{PUBLIC}/to/{n}" for n in range(len(LOCATIONS))]}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "body"
        async with fetching(ALLOWED) as source:
            ways: Mapping[str, Callable[[str], Awaitable[object]]] = {
                "document": source.fetch,
                "source": lambda url: source.download(
                    url, target, headers={}, max_bytes=1000, progress=lambda done, size: None
                ),
            }
            for way, ask in ways.items():
                for kind, some in urls.items():
                    found[f"{way} {kind}"] = [[await code_of(ask(url)), network.hits()] for url in some]
            found["rebinding"] = [
                await code_of(source.fetch(f"http://flips-form.test/{path}")) for path in ("ok", "here", "ok")
            ]
            found["rebinding hits"] = network.hits()
        policy = EgressPolicy(EgressConfig(allowed_hosts=(ALLOWED,), attempts=1))
        places = {
            "public": f"http://{PUBLIC}/ok",
            "metadata": f"http://{METADATA}/",
            "redirect": f"http://{PUBLIC}/to/10",
        }
        found["cached"] = {
            name: await code_of(asyncio.to_thread(download, url, Path(folder) / "cache", policy))
            for name, url in places.items()
        }
        found["cached hits"] = network.hits()
    found["control"] = {kind: [await plain_hits(network, url) for url in some] for kind, some in urls.items()}
    async with httpx.AsyncClient() as client:  # obeys the environment
        with contextlib.suppress(httpx.HTTPError):
            await client.get(f"http://{PUBLIC}/ok")
    found["control proxy"] = network.hits()
    return found


async def plain_hits(network: Network, url: str) -> dict[str, int]:
    """What a client without guard tries."""
    with contextlib.suppress(Exception):  # many of these URLs are none
        async with httpx.AsyncClient(trust_env=False, follow_redirects=True, timeout=5, verify=_NO_TLS) as client:
            await client.get(url)
    return network.hits()


_NO_TLS = httpx.create_ssl_context(verify=False)


async def operator(network: Network) -> dict[str, Any]:
    """The operator's own server: reached by the settings of a system, and by no URL of data unless it is allowed."""
    async with Endpoint(EndpointSettings(base_url=f"http://{ALLOWED}")) as endpoint:
        found: dict[str, Any] = {
            "system": (await endpoint.request("GET", "/ask")).status,
            "system hits": network.hits(),
        }
    async with fetching() as source:
        found["data"] = await code_of(source.fetch(f"http://{ALLOWED}/own"))
    found["data hits"] = network.hits()
    async with fetching(ALLOWED) as source:
        found["allowed"] = await code_of(source.fetch(f"http://{ALLOWED}/own"))
        found["allowed hits"] = network.hits()
        found["by a public page"] = await code_of(
            source.fetch(f"http://{PUBLIC}/to/{list(LOCATIONS).index(f'http://{ALLOWED}/')}")
        )
    found["by a public page hits"] = network.hits()
    return found


async def rendered(network: Network) -> dict[str, Any]:
    """What becomes of the pages in the pipeline's browser."""
    paths = ["/all", *(f"/move/{kind}" for kind in MOVES)]
    network.names.asked.clear()
    async with rendering(ALLOWED, page_load_limit_s=LOAD_LIMIT_S) as renderer:
        made = await make_all(renderer, [f"http://{PUBLIC}{path}" for path in paths], at_once=4)
    return {
        "pages": {path: [outcome.code, outcome.text] for path, outcome in zip(paths, made, strict=True)},
        "hits": network.hits(),
        "names": sorted(network.names.asked),
    }


async def unguarded(network: Network) -> dict[str, Any]:
    """What the same pages do in a browser without the pipeline's guard."""
    wanted = {f"/{name}/{kind}" for name in TARGETS for kind in KINDS} | {f"/move/{kind}" for kind in MOVES}
    network.canary.asked.clear()
    seen: Counter[str] = Counter()
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=find_browser(),
            chromium_sandbox=False,
            args=NO_GUARD,
            env={"PATH": os.environ["PATH"]},
            timeout=1000 * PATIENCE_S,
        )
        one = await browser.new_page()
        with contextlib.suppress(Error):
            await one.goto(f"http://{PUBLIC}/all")
        for kind in MOVES:
            other = await browser.new_page()
            with contextlib.suppress(Error):
                await other.goto(f"http://{PUBLIC}/move/{kind}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while wanted - set(network.canary.asked) or not any(name.startswith("udp") for name in seen):
                    seen.update(network.hits())
                    await asyncio.sleep(0.05)
        await browser.close()
    seen.update(network.hits())
    return {
        "missing": sorted(wanted - set(network.canary.asked)),
        "hits": dict(seen),
    }


async def main(parts: Iterable[str]) -> dict[str, Any]:
    functions = {function.__name__: function for function in (fetched, operator, rendered, unguarded)}
    async with Network().running() as network:
        return {part: await functions[part](network) for part in parts}


if __name__ == "__main__":
    open_network()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        os.environ[name] = os.environ[name.lower()] = FAKE_PROXY
    print(json.dumps(asyncio.run(main(sys.argv[1:]))))
