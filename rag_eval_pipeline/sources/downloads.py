"""Sources behind URLs, downloaded once: through the egress guard, continued after an interruption, kept by content.

What a URL gave is taken from the cache without a request until `refresh` asks whether it has changed.
"""

import asyncio
import copy
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
from rag_eval_pipeline.corpus.fetching.urls import check_url
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.compression import MAX_DECODED_BYTES, open_decoded
from rag_eval_pipeline.sources.download_cache import Cache, Downloaded, Part
from rag_eval_pipeline.sources.download_headers import header_values
from rag_eval_pipeline.sources.transfers import Asked, Progress, transfer
from rag_eval_pipeline.storage.lock import locked

MAX_SOURCE_BYTES = MAX_DECODED_BYTES  # a document's 100 MB would stop every large benchmark; disk is the measure here
LOCK_WAIT_S = 3600.0  # another process's download of the same URL: 2 GiB at 5 Mbit/s

_COPY_BYTES = 1 << 20


def download(
    url: str,
    cache: Path,
    policy: EgressPolicy,
    *,
    headers: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    refresh: bool = False,
    max_bytes: int = MAX_SOURCE_BYTES,
    environ: Mapping[str, str] | None = None,
) -> Downloaded:
    """The body behind a URL as a file; without any request when it is in the cache.

    May be called from any thread that runs no event loop. Of two processes that ask for one URL at once, one downloads
    and the other waits for it.

    Args:
        url: http or https.
        cache: A folder for downloads; made when missing.
        policy: What may be reached. Redirects, attempts and the seconds without progress (at most 25) are its
            settings', the body limit is not.
        headers: Sent to the URL's own origin only; `${NAME}` in a value stands for an environment variable. They are
            no part of what the cache knows a body by.
        progress: Told the bytes that are there and the size when it is known.
        refresh: Asks the server whether what is in the cache is still its version.
        max_bytes: Size of the body, as it is sent and decoded.
        environ: The process's environment unless given.

    Raises:
        InputError: `download_failed` with the HTTP status or what became of the connection; `tls_untrusted`,
            `bad_ca_file`; `egress_blocked`, `too_many_redirects`, `body_too_large`, `bad_url`, `scheme`; `bad_header`,
            `missing_variable`; `bad_compression`, `archive_bomb` for an encoded body.
        ServiceError: `locked`, when another process is at it for longer than an hour.
    """
    key = _key(url)
    store = Cache(cache)
    kept = store.find(key)
    if kept is not None and not refresh:
        return kept._replace(url=url)
    values = header_values(headers or {}, os.environ if environ is None else environ, shown=url)
    holder = f"the download of {url}, process {os.getpid()}"
    with locked(store.lock(key), holder=holder, exclusive=True, wait_seconds=LOCK_WAIT_S):
        kept = store.find(key)
        if kept is not None and not refresh:
            return kept._replace(url=url)  # the other process's
        part = store.part(key)
        if refresh and part.is_whole:
            part.discard()  # of a process killed at its last step, nobody knows when
        asked = Asked(
            url=url,
            headers=values,
            etag=None if kept is None else kept.etag,
            last_modified=None if kept is None else kept.last_modified,
            max_bytes=max_bytes,
            progress=progress or (lambda done, size: None),
        )
        if asyncio.run(_transferred(policy, asked, part)) == "unchanged":
            assert kept is not None
            return kept._replace(url=url)
        assert part.version is not None
        done = store.store(key, _decoded(part, url, max_bytes), part.version)
        part.discard()
    return done._replace(url=url)


def cached(url: str, cache: Path) -> Downloaded | None:
    """What the cache holds of a URL; None when it has to be downloaded first.

    Raises:
        InputError: `bad_url`, `scheme`.
    """
    found = Cache(cache).find(_key(url))
    return None if found is None else found._replace(url=url)


async def _transferred(policy: EgressPolicy, asked: Asked, part: Part) -> Literal["whole", "unchanged"]:
    roomy = copy.copy(policy)
    # TLS adds less than 1 %; a guard that cuts a body at its exact limit would cut it before this side notices.
    limit = asked.max_bytes + asked.max_bytes // 50
    roomy.config = policy.config.model_copy(update={"max_body_bytes": limit})
    async with Guard(roomy) as guard, transfer(guard, asked, part) as running:
        return await running.run()


def _decoded(part: Part, url: str, max_bytes: int) -> Path:
    """The body's file; decoded where the server sent it encoded although nobody had asked for that."""
    if part.version is None or part.version.content_encoding == "identity":
        return part.path
    plain = part.path.with_suffix(".decoded")
    try:
        with (
            open_decoded(part.path, "gz", shown=url, max_bytes=max_bytes, refuse_double=False) as source,
            plain.open("wb") as target,
        ):
            shutil.copyfileobj(source, target, _COPY_BYTES)
    except BaseException:
        plain.unlink(missing_ok=True)
        part.discard()
        raise
    return plain


def _key(url: str) -> str:
    """The URL as it is requested: two spellings of one address share a body."""
    try:
        return str(check_url(url))
    except DocumentError as error:
        raise InputError(error.code, url, "an http or https URL", found=error.message) from error
