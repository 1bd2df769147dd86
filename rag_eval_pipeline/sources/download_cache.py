"""What was downloaded: files named by their sha256, an index from URL to file, and the parts of what is under way.

```text
<cache>/<sha256>            a whole body
<cache>/index.json          URL -> what is known of its body
<cache>/parts/<key>.part    the beginning of a body, <key>.json: of which version of it, <key>.lock: who is at it
```
"""

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from rag_eval_pipeline.storage.atomic import atomic_write, atomic_write_json, fsync_folder
from rag_eval_pipeline.storage.lock import locked

FIRST_BYTES = 512  # of a body: enough to tell a log-in page from data


class Record(msgspec.Struct, frozen=True):
    """What the index knows of a URL's body; see `Downloaded`."""

    sha256: str
    final_url: str
    size: int
    etag: str | None
    last_modified: str | None
    content_type: str | None
    first_bytes: bytes


class Downloaded(NamedTuple):
    """A body from a URL, in the cache.

    Args:
        path: The file.
        sha256: Of the file.
        url: As it was asked for.
        final_url: After redirects; without its query when there were any, because that may be a signature.
        size: Of the file, in bytes.
        etag: Of the server's version of the body; None when it gave none.
        last_modified: The same as a date, as the server wrote it.
        content_type: As the server labelled the body.
        first_bytes: The body's first 512 bytes.
    """

    path: Path
    sha256: str
    url: str
    final_url: str
    size: int
    etag: str | None
    last_modified: str | None
    content_type: str | None
    first_bytes: bytes


class Version(msgspec.Struct, frozen=True):
    """Which version of a body a part is of.

    Args:
        final_url: Where it came from.
        size: Of the whole body as it is sent, in bytes; None when the server did not say.
        validator: What `If-Range` needs to continue: a strong ETag or a date; None when it cannot be continued.
        etag: As the server gave it, weak or strong.
        last_modified: As the server gave it.
        content_type: As the server gave it.
        content_encoding: `gzip` or `identity`.
    """

    final_url: str
    size: int | None
    validator: str | None
    etag: str | None
    last_modified: str | None
    content_type: str | None
    content_encoding: str


class Part:
    """The beginning of a body on disk, and the version that it is of.

    The version is on disk before the first byte and the bytes of another version are gone before that, so that a part
    is never a mix, whenever its writer is killed.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._data = folder / f"{key}.part"
        self._state = folder / f"{key}.json"
        self.version = self._read()

    @property
    def path(self) -> Path:
        """Where the bytes are."""
        return self._data

    @property
    def offset(self) -> int:
        """Bytes that are there."""
        try:
            return self._data.stat().st_size if self.version is not None else 0
        except FileNotFoundError:
            return 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self.version is not None and self.version.size == self.offset and self._data.exists()

    def begin(self, version: Version) -> None:
        """Starts anew with another version."""
        self.discard()
        atomic_write(self._state, msgspec.json.encode(version))
        self.version = version

    def end(self) -> None:
        """Notes that the body has ended here, when its size was not known before."""
        if self.version is not None and self.version.size is None:
            self.version = msgspec.structs.replace(self.version, size=self.offset)
            atomic_write(self._state, msgspec.json.encode(self.version))

    def open(self) -> BinaryIO:
        """The file to append to, unbuffered: what was received is on disk when the process is killed."""
        return open(self._data, "ab", buffering=0)  # noqa: SIM115  # the caller closes it

    def discard(self) -> None:
        """Forgets the bytes, then the version."""
        self._data.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)
        self.version = None

    def _read(self) -> Version | None:
        try:
            return msgspec.json.decode(self._state.read_bytes(), type=Version)
        except (FileNotFoundError, msgspec.DecodeError):
            return None


class Cache:
    """A folder of downloads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts = folder / "parts"

    def find(self, url: str) -> Downloaded | None:
        """The body of a URL; None when it is not there, or not with its size."""
        record = self._index().get(url)
        if record is None:
            return None
        path = self._folder / record.sha256
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return None
        if size != record.size:
            return None
        return Downloaded(path, record.sha256, url, *msgspec.structs.astuple(record)[1:])

    def lock(self, url: str) -> Path:
        """The lock of a URL's part."""
        return self._parts / f"{_key(url)}.lock"

    def part(self, url: str) -> Part:
        """What is there of a URL's body; only for the holder of its lock."""
        self._parts.mkdir(parents=True, exist_ok=True)
        return Part(self._parts, _key(url))

    def store(self, url: str, body: Path, version: Version) -> Downloaded:
        """Takes a whole body over: moves the file to its name and notes it in the index."""
        with body.open("rb") as file:
            first = file.read(FIRST_BYTES)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
            os.fsync(file.fileno())
        os.replace(body, self._folder / digest)
        fsync_folder(self._folder)
        record = Record(
            sha256=digest,
            final_url=version.final_url,
            size=size,
            etag=version.etag,
            last_modified=version.last_modified,
            content_type=version.content_type,
            first_bytes=first,
        )
        holder = f"the index of downloads, process {os.getpid()}"
        with locked(self._parts / "index.lock", holder=holder, exclusive=True):
            index = {**self._index(), url: record}
            atomic_write_json(self._folder / "index.json", msgspec.to_builtins(dict(sorted(index.items()))))
        found = self.find(url)
        assert found is not None
        return found

    def _index(self) -> dict[str, Record]:
        try:
            return msgspec.json.decode((self._folder / "index.json").read_bytes(), type=dict[str, Record])
        except (FileNotFoundError, msgspec.DecodeError):
            return {}  # a cache that cannot be read is an empty one: nothing is lost but time


def _key(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:32]
