"""Names of corpus files: the URL-stem rule and its corner cases.

Names depend on the URLs, their order and the pins of an earlier manifest. Each is one path component of at most 255
bytes, and no two are equal after NFC and case folding.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple
from urllib.parse import ParseResult, unquote, urlparse

from rag_eval_pipeline.corpus.documents import CorpusDocument, FileName
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.web.urls import route_of

SUFFIX = ".pdf"  # lower case: NVIDIA's driver counts pages of no other spelling
NAME_BYTES = 255  # longest path component of ext4, xfs, APFS and NTFS (the last counts UTF-16 units, which are fewer)
NAME_FLAGS = ("params_dropped", "query_dropped", "empty_segment", "escaped", "collision", "truncated")
COLLISION_DIGITS = 8
TRUNCATION_DIGITS = 16
NO_STEM = "document"  # for a document without segment, fragment, host and name

_NO_NAMES = ("", ".", "..")  # segments that name nothing
_AUTHORITY = re.compile(r"([^:/?#]*:)?//([^/?#]*)")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Escapes that are not decoded: reserved characters and `%` itself, also where it stands for nothing.
_KEPT_ESCAPE = re.compile(r"%(2[13-9A-Ca-cFf]|3[ABDFabdf]|40|5[BDbd]|(?![0-9A-Fa-f]{2}))")
_PORTS = {"http": ":80", "https": ":443"}
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_HASHED = re.compile(rf"(.*)~[0-9a-f]{{{COLLISION_DIGITS},{TRUNCATION_DIGITS}}}{re.escape(SUFFIX)}", re.DOTALL)


class NameIdentity(NamedTuple):
    """A document and one of its stems; requests of equal identity get one name."""

    key: str
    stem: str


@dataclass(frozen=True, slots=True)
class NameRequest:
    """A document that needs a file name: a URL as written, or the name of the document or its file."""

    key: str
    url: str | None = None
    name: str | None = None

    @property
    def identity(self) -> NameIdentity:
        """Key and stem, which includes the fragment; a document without URL is identified by its key."""
        return NameIdentity(self.key, "" if self.url is None else _named_part(self.url))


def url_stem(url: str) -> str:
    """Return the last path segment, and `#fragment` if there is one; nothing is decoded.

    Source: Evaluation JSON schema, "Deriving corpus filenames from URLs".
    """
    parts = parse_url(url)
    segment = parts.path.rsplit("/", 1)[-1]
    return f"{segment}#{parts.fragment}" if parts.fragment else segment


def last_segment(url: str) -> str:
    """Return the last segment of the path that names something, without the fragment; else the host."""
    parts = parse_url(url)
    segments = reversed(parts.path.split("/"))
    return next((segment for segment in segments if segment not in _NO_NAMES), _host(parts))


def document_key(url: str) -> str:
    """Return lower-case host and port, path, params, query and route in one spelling; equal keys are one document.

    Two spellings are one where RFC 3986 calls them equivalent: percent-encoded letters, dot segments, the scheme's
    port. `/a%2Fb` is not `/a/b`. A fragment counts only as a route (`#/install`): others are places within a page.
    """
    parts = parse_url(_LONE_SURROGATE.sub(lambda match: _percent(match[0]), url))
    params = f";{_unescaped(parts.params)}" if parts.params else ""
    query = f"?{_unescaped(parts.query)}" if parts.query else ""
    route = f"#{_unescaped(found)}" if (found := route_of(parts.fragment)) else ""
    return f"{_authority(parts)}{_without_dots(_unescaped(parts.path or '/'))}{params}{query}{route}"


def parse_url(url: str) -> ParseResult:
    """Split any string; a host that `urlparse` refuses (`http://[x/`) is kept as it is."""
    url = url.strip()
    try:
        return urlparse(url)
    except ValueError:
        authority = _AUTHORITY.match(url)
        if authority is None:  # pragma: no cover - only an authority is ever refused
            raise
        return urlparse(f"{authority[1] or ''}//{url[authority.end() :]}")._replace(netloc=authority[2])


def pins(previous: Iterable[CorpusDocument]) -> dict[NameIdentity, str]:
    """Return the names given by an earlier manifest; a document keeps them whatever is added or removed."""
    return {NameRequest(document.key, document.url).identity: document.file_name for document in previous}


def assign_names(
    requests: Sequence[NameRequest], pinned: Mapping[NameIdentity, str] | None = None, *, strict: bool = False
) -> list[FileName]:
    """Return a file name for each request, in their order.

    Args:
        requests: In source order: of several documents with one name, the first keeps it.
        pinned: From `pins`; they take precedence, and the name of a document that is gone is not given to another.

    Raises:
        InputError: `stem_collision`, only with `strict`.
    """
    reserved: dict[str, NameIdentity] = {}
    for identity, name in (pinned or {}).items():
        reserved.setdefault(folded(name), identity)
    given: dict[NameIdentity, FileName] = {}
    for request in requests:
        identity = request.identity
        if identity in given:
            continue
        stem, flags = _stem(request)
        name = (pinned or {}).get(identity, "")
        if reserved.get(folded(name)) != identity or not _follows(name, stem):
            source = (request.name or "") if request.url is None else request.url.strip()
            name = next(name for name in _candidates(stem, source) if folded(name) not in reserved)
            reserved[folded(name)] = identity
        plain = _with_suffix(stem)
        if name != plain and _fits(plain):
            flags.append("collision")
            if strict:
                raise InputError(
                    "stem_collision",
                    request.url or request.key,
                    "a file name that no other document has",
                    found=plain,
                    hint="Leave one of the documents out, or drop `naming: strict` to get a longer name.",
                )
        if not name.startswith(stem):
            flags.append("truncated")
        given[identity] = FileName(name, request.url, tuple(flags))
    return [given[request.identity] for request in requests]


def folded(name: str) -> str:
    """Return the name as file systems that fold case and composition compare it (APFS, NTFS, S3 browsers)."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def url_host(url: str) -> str:
    """Return the lower-case host of a URL, and its port if that is not the scheme's; "" without any."""
    return _authority(parse_url(url))


def _host(parts: ParseResult) -> str:
    return parts.netloc.rpartition("@")[2].lower()


def _authority(parts: ParseResult) -> str:
    return _host(parts).removesuffix(_PORTS.get(parts.scheme, "")).removesuffix(":")


def _unescaped(text: str) -> str:
    """Decode what is percent-encoded, but for reserved characters and bytes that are no UTF-8.

    Source: RFC 3986, 2.2 and 6.2.2; RFC 3987, 5.3.2.3 for characters beyond ASCII.
    """
    kept = _KEPT_ESCAPE.sub(lambda match: f"%25{match[1].upper() or '25'}", text)
    return re.sub(r"[\udc80-\udcff]", lambda match: _percent(match[0]), unquote(kept, errors="surrogateescape"))


def _without_dots(path: str) -> str:
    """Return a path without `.` and `..` (RFC 3986, 5.2.4)."""
    segments = path.split("/")
    kept = segments[:1]
    for segment in segments[1:]:
        if segment == "..":
            kept = kept[:1] + kept[1:-1]
        elif segment != ".":
            kept.append(segment)
    return "/".join([*kept, *([""] if segments[-1] in (".", "..") else [])])


def _stem(request: NameRequest) -> tuple[str, list[str]]:
    """Return the stem with the characters that a file system accepts, not yet shortened, and flags."""
    flags = []
    if request.url is None:
        stem, is_empty = request.name or NO_STEM, not request.name
    else:
        parts = parse_url(request.url)
        flags = [flag for flag, part in zip(NAME_FLAGS, (parts.params, parts.query), strict=False) if part]
        stem = _named_part(request.url) or NO_STEM
        is_empty = stem != url_stem(request.url)
    if is_empty:
        flags.append("empty_segment")
    # A lone surrogate has no encoding on disk, in JSON or in parquet, so it is escaped like `/` and NUL.
    escaped = re.sub(r"[/\x00\ud800-\udfff]", lambda match: _percent(match[0]), stem)
    if escaped != stem:
        flags.append("escaped")
    return escaped, flags


def _named_part(url: str) -> str:
    """Return the stem; in place of an empty one, `.` and `..`, the last other segment, else the host."""
    stem = url_stem(url)
    return last_segment(url) if stem in _NO_NAMES else stem


def _with_suffix(stem: str) -> str:
    return stem if stem.endswith(SUFFIX) else stem + SUFFIX


def _fits(name: str) -> bool:
    return len(name.encode()) <= NAME_BYTES


def _candidates(stem: str, source: str) -> Iterator[str]:
    """Yield names for a document, the plain one first; endless, as a hostile source can use the hashed ones too."""
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    yield from filter(_fits, (_with_suffix(stem), f"{stem}~{digest[:COLLISION_DIGITS]}{SUFFIX}"))
    yield _cut(stem, digest[:TRUNCATION_DIGITS])
    for attempt in count():
        yield _cut(stem, hashlib.sha256(f"{digest} {attempt}".encode()).hexdigest()[:TRUNCATION_DIGITS])


def _cut(stem: str, digest: str) -> str:
    """Cut the stem at a character and not inside a `%XX`, and append the digest."""
    tail = f"~{digest}{SUFFIX}"
    head = stem.encode()[: NAME_BYTES - len(tail)].decode(errors="ignore")
    if len(head) < len(stem):
        inside = next((n for n in (1, 2) if _ESCAPE.match(stem, len(head) - n)), 0)
        head = head[: len(head) - inside]
    return head + tail


def _follows(name: str, stem: str) -> bool:
    """Whether a pinned name is one that the rule gives this stem; a manifest edited by hand can contain anything."""
    if name == _with_suffix(stem):
        return _fits(name)
    hashed = _HASHED.fullmatch(name)
    return hashed is not None and stem.startswith(hashed[1]) and _fits(name)


def _percent(text: str) -> str:
    """Write each byte as %XX; a lone surrogate made by `surrogateescape` is the byte it represents."""
    if "\udc80" <= text <= "\udcff":
        return f"%{ord(text) - 0xDC00:02X}"
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))
