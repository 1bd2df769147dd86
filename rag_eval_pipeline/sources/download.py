"""Downloads of sources: through the egress proxy, kept by content, and fetched once.

```text
<cache>/<sha256>            a whole body
<cache>/index.json          URL -> its body
<cache>/parts/<key>.part    a body under way; <key>.lock: the process that downloads it
```
"""

import asyncio
import copy
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rag_eval_pipeline.errors import DocumentError, InputError
from rag_eval_pipeline.sources.compression import UNPACKED
from rag_eval_pipeline.sources.object_storage import fetch_object, object_url
from rag_eval_pipeline.storage.atomic_files import atomic_write_json, publish
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.web.egress import EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from rag_eval_pipeline.web.fetcher import Progress, fetcher
from rag_eval_pipeline.web.server_settings import is_free_header
from rag_eval_pipeline.web.urls import check_url

MAX_SOURCE_BYTES = UNPACKED.max_bytes  # a document's 100 MB would stop every large benchmark
LOCK_WAIT_S = 3600.0  # another process's download of the same URL: 2 GiB at 5 Mbit/s
Strings = Mapping[str, str]

_VALUE = re.compile(r"[\x20-\x7e\t]*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CHECK = "Check `url` in benchmark.yaml."
_HEADERS = "State the header that the server asks for under `headers`, with ${NAME} for a secret."
_HINTS = {
    "body_too_large": "If the file can be trusted, download it by hand and name it.",
    "http_401": _HEADERS,
    "http_403": _HEADERS,
    "scheme": _CHECK,
    "bad_url": _CHECK,
    "too_many_redirects": _CHECK,
}
_OWN_CODES = {"bad_url", "scheme", "egress_blocked", "too_many_redirects", "body_too_large", "tls_untrusted"}
_QUERY = re.compile(r"(https?://[^\s?#]+)\?\S*")


class Record(msgspec.Struct, frozen=True):
    """An entry of the index: the body of a URL."""

    sha256: str
    size: int


def cached(url: str, cache: Path) -> Path | None:
    """Return the body of a URL in the cache; None if it has to be downloaded."""
    record = _read_index(cache).get(_key(url))
    if record is None:
        return None
    path = cache / record.sha256
    return path if path.is_file() and path.stat().st_size == record.size else None


def download(
    url: str,
    cache: Path,
    policy: EgressPolicy,
    *,
    headers: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    max_bytes: int = MAX_SOURCE_BYTES,
    environ: Mapping[str, str] | None = None,
) -> Path:
    """Return the body behind a URL (http, https, s3, gs, az) as a file; nothing is requested when the cache has it.

    May be called from any thread that runs no event loop. Of two processes that want the same URL, one downloads it and
    the other waits. The policy's limit of a body's size does not hold here.

    Args:
        headers: Of http, sent to the URL's origin only; `${NAME}` in a value is an environment variable.
        max_bytes: Decoded size of the body.
    """
    known = cached(url, cache)
    if known is not None:
        return known
    environ = os.environ if environ is None else environ
    values = expand_headers(headers or {}, environ, url)
    key = _key(url)
    parts = cache / "parts"
    stem = hashlib.sha256(key.encode()).hexdigest()[:32]
    holder = f"the download of {url}, process {os.getpid()}"
    with locked(parts / f"{stem}.lock", holder=holder, exclusive=True, wait_seconds=LOCK_WAIT_S):
        known = cached(url, cache)
        if known is not None:
            return known  # another process's download
        part = parts / f"{stem}.part"
        try:
            asyncio.run(_fetch(url, part, policy, values, environ, max_bytes, progress or (lambda done, size: None)))
            return _store(key, part, cache)
        except DocumentError as error:
            raise _input_error(url, error) from error
        finally:
            part.unlink(missing_ok=True)


def expand_headers(headers: Mapping[str, str], environ: Mapping[str, str], url: str) -> dict[str, str]:
    """Return the headers as they are sent, by lower-case name; `${NAME}` is an environment variable."""
    values: dict[str, str] = {}
    for name, stated in headers.items():
        lower = name.lower()
        if not is_free_header(name) or lower.startswith("proxy-"):
            raise InputError("bad_header", url, "a header that a source may set", field=name)
        if "${" in _VARIABLE.sub("", stated):
            raise InputError("bad_header", url, "variables as ${NAME}", field=name)
        for variable in _VARIABLE.findall(stated):
            if not environ.get(variable, "").strip():
                hint = "Set it where the command or the server is started."
                raise InputError("missing_variable", url, f"the environment variable {variable}", field=name, hint=hint)
        value = _VARIABLE.sub(lambda match: environ[match[1]].strip(), stated).strip()
        if not _VALUE.fullmatch(value):
            raise InputError("bad_header", url, "a value of printable ASCII on one line", field=name)
        values[lower] = value
    return values


async def _fetch(
    url: str, part: Path, policy: EgressPolicy, headers: Strings, environ: Strings, max_bytes: int, progress: Progress
) -> None:
    roomy = copy.copy(policy)
    # TLS adds less than 1 %; a proxy that cuts a body at its exact limit would cut it before this side notices.
    roomy.config = policy.config.model_copy(update={"max_body_bytes": max_bytes + max_bytes // 50})
    async with EgressProxy(roomy) as proxy, fetcher(proxy) as source:
        if stored := object_url(url):
            await fetch_object(stored, part, proxy, environ, max_bytes, progress)
        else:
            await source.download(url, part, headers=headers, max_bytes=max_bytes, progress=progress)


def _store(key: str, part: Path, cache: Path) -> Path:
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    record = Record(digest, part.stat().st_size)
    publish(part, cache / digest)
    holder = f"the index of downloads, process {os.getpid()}"
    with locked(cache / "parts" / "index.lock", holder=holder, exclusive=True):
        index = {**_read_index(cache), key: record}
        atomic_write_json(cache / "index.json", msgspec.to_builtins(dict(sorted(index.items()))))
    return cache / digest


def _read_index(cache: Path) -> dict[str, Record]:
    try:
        return msgspec.json.decode((cache / "index.json").read_bytes(), type=dict[str, Record])
    except (FileNotFoundError, ValueError):
        return {}  # a cache that cannot be read is an empty one: nothing is lost but time


def _key(url: str) -> str:
    """Return the URL as it is requested: two spellings of one address share a body."""
    try:
        return object_url(url) or str(check_url(url))
    except DocumentError as error:
        raise InputError(error.code, url, "an http, https, s3, gs or az URL", found=error.message) from error


def _input_error(url: str, error: DocumentError) -> InputError:
    # A query that a server made up for a redirect may be a signature.
    found = _QUERY.sub(r"\1?...", error.message.removeprefix(f"{url}: "))
    if error.code == "connection_broken":  # httpx's message may quote a header
        found = f"a connection that broke ({type(error.__cause__).__name__})"
    elif error.code in {"host_unresolved", "connect_failed"}:
        found = f"{error.code}: {found}"
    code = error.code if error.code in _OWN_CODES else "download_failed"
    hint = None if code in ("tls_untrusted", "egress_blocked") else _HINTS.get(error.code, "Try again later.")
    if re.fullmatch(r"http_4\d\d", error.code) and error.code != "http_429":
        hint = _HINTS.get(error.code, _CHECK)
    return InputError(code, url, "a body that can be downloaded", found=found, hint=hint)
