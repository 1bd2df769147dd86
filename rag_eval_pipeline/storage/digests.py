"""sha256 of files, cheap enough for a sensor that asks every 30 seconds."""

import hashlib
from pathlib import Path

# (path, size, mtime) -> sha256, for the life of the process. A file rewritten to the same size within one clock tick is
# not seen; the next conversion, in its own process, sees it.
_known: dict[tuple[str, int, int], str] = {}


def file_sha256(path: Path) -> str:
    """sha256 of a file, in hex; read again only when size or modification time changed."""
    status = path.stat()
    key = (str(path), status.st_size, status.st_mtime_ns)
    if key not in _known:
        _known[key] = sha256_of(path)
    return _known[key]


def sha256_of(path: Path) -> str:
    """sha256 of a file, in hex, read now."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
