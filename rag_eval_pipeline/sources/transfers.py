"""One body from a URL to a part file: through the egress guard, continued where an earlier attempt stopped.

A part only ever holds bytes of one version of a body. Busy servers and broken connections are tried again, as long as
attempts last or bytes come; everything else is final.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple

import httpx

from rag_eval_pipeline.corpus.egress.clients import ClientFor, guarded_clients, redirect_of
from rag_eval_pipeline.corpus.egress.config import origin_of
from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.fetching.fetcher import USER_AGENT
from rag_eval_pipeline.corpus.fetching.retries import BUSY, REDIRECTS, attempts, retry_after
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.download_cache import Part
from rag_eval_pipeline.sources.transfer_answers import (
    CHECK,
    LATER,
    Fault,
    backoff,
    broken,
    encoding_of,
    guarded,
    lawful,
    version_of,
)

Progress = Callable[[int, int | None], None]

# The guard ends a connection after 30 s without a byte, which would make a body without a stated length look whole.
STALL_LIMIT_S = 25.0
STALL_BYTES = 16 << 10  # fewer in that time are no progress: 0.7 kB/s would take a month for the largest source
PROGRESS_BYTES = 1 << 20  # a round of attempts that got so much further was worth another round


class Asked(NamedTuple):
    """What is asked for.

    Args:
        url: As messages name it.
        headers: For the URL's own origin and no other, by lower-case name.
        etag: Of the version that is there already; with it or the date, an unchanged body is not sent.
        last_modified: Of that version.
        max_bytes: Size of a body as it is sent.
        progress: Told the bytes that are there and the size when it is known.
    """

    url: str
    headers: Mapping[str, str]
    etag: str | None
    last_modified: str | None
    max_bytes: int
    progress: Progress


class Transfer:
    """Brings one body; made by `transfer`."""

    def __init__(self, clients: ClientFor, guard: Guard, asked: Asked, part: Part) -> None:
        self._clients = clients
        self._guard = guard
        self._config = guard.policy.config
        self._asked = asked
        self._part = part

    async def run(self) -> Literal["whole", "unchanged"]:
        """Makes the part whole, or finds that the version already there is the server's.

        Raises:
            InputError: `download_failed` for a status or a connection, `tls_untrusted`, `egress_blocked`,
                `too_many_redirects`, `body_too_large`, `bad_url`, `scheme`.
        """
        furthest = self._part.offset
        while True:
            try:
                return await self._attempts()
            except Fault as fault:
                if fault.passing and self._part.offset - furthest >= PROGRESS_BYTES:
                    furthest = self._part.offset
                    continue
                expected = "a body that can be downloaded"
                raise InputError(fault.code, self._asked.url, expected, found=fault.found, hint=fault.hint) from fault

    async def _attempts(self) -> Literal["whole", "unchanged"]:
        stall_s = min(STALL_LIMIT_S, self._config.fetch_limit_s)
        async for attempt in attempts(self._config.attempts, on=backoff):
            with attempt:
                try:
                    async with asyncio.timeout(stall_s) as deadline:
                        return await self._follow(deadline, stall_s)
                except TimeoutError:
                    found = f"less than {STALL_BYTES:,} bytes in {stall_s:g} s, after {self._part.offset:,} bytes"
                    raise Fault("download_failed", found, LATER, passing=True) from None
        raise AssertionError("the last attempt returns or raises")

    async def _follow(self, deadline: asyncio.Timeout, stall_s: float) -> Literal["whole", "unchanged"]:
        if self._part.is_whole:
            return "whole"
        own = lawful(self._asked.url)
        current = asking = own
        for _ in range(self._config.max_redirects + 1):
            deadline.reschedule(asyncio.get_running_loop().time() + stall_s)
            client = self._clients(str(asking))
            request = client.build_request("GET", current, headers=self._headers(current, own))
            try:
                response = await client.send(request, stream=True)
                try:
                    location = self._redirect(response, own)
                    if location is None:
                        return await self._take(response, own, deadline, stall_s)
                finally:
                    await response.aclose()
            except httpx.ProxyError as error:
                # Only a CONNECT that the guard refused ends here; it carries the status line, "403 egress_blocked".
                raise guarded(str(error).partition(" ")[2], f"{_origin(current)} was refused") from error
            except httpx.TransportError as error:
                raise broken(error, f"{_origin(current)}", self._part.offset) from error
            asking, current = current, lawful(location, base=current)
        raise Fault("too_many_redirects", f"more than {self._config.max_redirects} redirects", CHECK)

    def _headers(self, current: httpx.URL, own: httpx.URL) -> dict[str, str]:
        headers = dict(self._asked.headers) if _origin(current) == _origin(own) else {}
        headers["connection"] = "close"
        version = self._part.version
        if version is not None and version.validator is not None and self._part.offset:
            return {**headers, "range": f"bytes={self._part.offset}-", "if-range": version.validator}
        if self._asked.etag is not None:
            headers["if-none-match"] = self._asked.etag
        elif self._asked.last_modified is not None:
            headers["if-modified-since"] = self._asked.last_modified
        return headers

    def _redirect(self, response: httpx.Response, own: httpx.URL) -> str | None:
        """Where an answer leads; None when it is about the body.

        Raises:
            Fault: It is neither.
        """
        refusal = self._guard.refusal(str(response.url), response.headers)
        if refusal is not None:
            raise guarded(response.reason_phrase, refusal)
        status = response.status_code
        if status in REDIRECTS and (location := redirect_of(response)) is not None:
            return location
        asked = response.request.headers
        if status == 200 or (status == 206 and "range" in asked):
            return None
        if status == 304 and ("if-none-match" in asked or "if-modified-since" in asked):
            return None
        if status == 416 and "range" in asked:
            self._part.discard()
            raise Fault("download_failed", "HTTP 416 for the rest of the body", LATER, passing=True)
        elsewhere = "" if _origin(response.url) == _origin(own) else f" from {_origin(response.url)}"
        found = f"HTTP {status}{elsewhere}"
        if status in BUSY:
            raise Fault("download_failed", found, LATER, passing=True, wait_s=retry_after(response))
        hint = CHECK
        if status in (401, 403):
            hint = "State the header that the server asks for under `headers`, with ${NAME} for a secret."
            if elsewhere and self._asked.headers:
                hint = f"Headers are sent to {_origin(own)} only: name the address that it leads to."
        raise Fault("download_failed", found, hint)

    async def _take(
        self, response: httpx.Response, own: httpx.URL, deadline: asyncio.Timeout, stall_s: float
    ) -> Literal["whole", "unchanged"]:
        if response.status_code == 304:
            return "unchanged"
        if response.status_code == 206:
            self._check_rest(response)
        else:
            self._part.begin(version_of(response, own))
        version = self._part.version
        assert version is not None
        size, offset, since = version.size, self._part.offset, 0
        self._check_size(max(offset, size or 0))
        loop = asyncio.get_running_loop()
        self._asked.progress(offset, size)
        with self._part.open() as file:
            async for chunk in response.aiter_raw():
                offset += len(chunk)
                since += len(chunk)
                self._check_size(offset)
                file.write(chunk)
                self._asked.progress(offset, size)
                if since >= STALL_BYTES:
                    deadline.reschedule(loop.time() + stall_s)
                    since = 0
        if size is not None and offset != size:
            raise Fault("download_failed", f"{offset:,} of {size:,} bytes", LATER, passing=True)
        self._part.end()
        return "whole"

    def _check_size(self, size: int) -> None:
        if size > self._asked.max_bytes:
            self._part.discard()
            found = f"more than {self._asked.max_bytes:,} bytes"
            raise Fault("body_too_large", found, "If it is to be trusted, download it by hand and name the file.")

    def _check_rest(self, response: httpx.Response) -> None:
        """Refuses what does not continue the part; the next attempt then starts anew."""
        version = self._part.version
        assert version is not None
        place = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("content-range", "").strip())
        continued = (
            place is not None
            and int(place[1]) == self._part.offset
            and (version.size is None or place[2] in ("*", str(version.size)))
            and response.headers.get("etag", version.etag) == version.etag
            and response.headers.get("last-modified", version.last_modified) == version.last_modified
            and encoding_of(response) == version.content_encoding
        )
        if not continued:
            self._part.discard()
            raise Fault("download_failed", "the rest of another version", LATER, passing=True)


@asynccontextmanager
async def transfer(guard: Guard, asked: Asked, part: Part) -> AsyncIterator[Transfer]:
    """A transfer behind a running guard.

    Args:
        guard: Its body limit has to leave room for `max_bytes` and what TLS adds.
        asked: What is asked for.
        part: What is there of it.

    Raises:
        InputError: `bad_ca_file`.
    """
    # Encoded bodies differ from one request to the next on some servers, and then cannot be continued.
    headers = {"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "identity"}
    # The deadline of an attempt is moved on with its progress.
    async with guarded_clients(guard, headers=headers, timeout_s=None) as clients:
        yield Transfer(clients, guard, asked, part)


def _origin(url: httpx.URL) -> str | None:
    """What headers are bound to."""
    return origin_of(str(url))
