"""HTTP clients whose only way out is the guard: one for each of its addresses, made when it is first wanted."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.egress.trust import trust

ClientFor = Callable[[str], httpx.AsyncClient]

_LOCATION = "location"


@asynccontextmanager
async def guarded_clients(
    guard: Guard, *, headers: Mapping[str, str], timeout_s: float | None
) -> AsyncIterator[ClientFor]:
    """Clients behind a running guard, each for what documents from one host ask.

    They keep no cookies, follow no redirects (`redirect_of` says where an answer leads), and do not use the proxies
    that environment variables name.

    Args:
        guard: Its running proxy.
        headers: Sent with every request.
        timeout_s: Of each step of a request; None for none.

    Returns:
        The client for the URL that a document comes from.

    Raises:
        InputError: `bad_ca_file`.
    """
    tls = trust(guard.policy.config.ca_file)
    clients: dict[str, httpx.AsyncClient] = {}

    def client_for(document: str) -> httpx.AsyncClient:
        proxy = guard.url_for(document)
        if proxy not in clients:
            clients[proxy] = httpx.AsyncClient(
                proxy=proxy,
                verify=tls,
                trust_env=False,
                follow_redirects=False,
                timeout=timeout_s,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                headers=headers,
                event_hooks={"request": [_bracket_ipv6], "response": [_set_location_aside]},
            )
            stack.push_async_callback(clients[proxy].aclose)
        return clients[proxy]

    async with AsyncExitStack() as stack:
        yield client_for


def redirect_of(response: httpx.Response) -> str | None:
    """The `Location` of an answer, as the server wrote it; None when it has none."""
    return response.extensions.get(_LOCATION)


async def _bracket_ipv6(request: httpx.Request) -> None:
    """Write an IPv6 address in brackets where the proxy reads the whole URL; httpcore leaves them out."""
    if request.url.scheme == "http" and ":" in request.url.host:
        request.extensions["target"] = str(request.url).encode("ascii")


async def _set_location_aside(response: httpx.Response) -> None:
    """Keep httpx from building the request that would follow: it raises at `mailto:x`, whether it may follow or not."""
    if _LOCATION in response.headers:
        response.extensions[_LOCATION] = response.headers.pop(_LOCATION)
