"""An object store: whole objects under paths, each put on the condition that nobody has changed it meanwhile.

`S3`, `GCS` and `Azure` are reached by obstore (the extra `s3`); a folder, which several processes of one machine or of
a shared file system use, by `file://`. Both refuse a put whose condition does not hold; leases and pointers rest on it.
"""

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.files import TEMP_PREFIX, errors_about, temp_path, walk
from rag_eval_pipeline.workspace import STORE_VARIABLE

SCHEMES = ("s3", "gs", "az", "file")
RETRY_SECONDS = 120.0  # a store that cannot be reached for longer fails the step, which Dagster retries
LOCK_NAME = ".lock"
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
ANY: Literal["any"] = "any"
Result = TypeVar("Result")


class ConflictError(Exception):
    """A put whose condition does not hold: somebody else has put or deleted the object."""


class Found(NamedTuple):
    """An object of a listing.

    Args:
        tag: Changes whenever the object is put with other content.
        modified: Seconds since 1970.
    """

    path: str
    tag: str
    size: int
    modified: float


class Store(Protocol):
    """Whole objects under paths with `/` between their parts."""

    url: str

    def list(self, prefix: str = "") -> Iterator[Found]:
        """Yield the objects below a folder, in no order."""

    def get(self, path: str) -> tuple[bytes, str] | None:
        """Return an object and its tag; None if there is none."""

    def put(self, path: str, data: bytes, *, replaces: str | None) -> str:
        """Put an object and return its tag.

        Args:
            replaces: The tag that the present object must have; None if there must be none; `ANY` for no condition.

        Raises:
            ConflictError: The condition does not hold, and the present object has other content.
        """

    def delete(self, path: str) -> None:
        """Delete an object, if there is one."""


def open_store(url: str) -> Store:
    """Open the store of a URL; nothing is sent yet.

    Raises:
        InputError: `bad_store` for another scheme or a URL without a bucket, `missing_package` without obstore.
    """
    parts = urlsplit(url)
    example = "one of s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, file:///folder"
    if parts.scheme not in SCHEMES or parts.query or (parts.scheme != "file" and not parts.netloc):
        raise InputError("bad_store", STORE_VARIABLE, example, found=url)
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise InputError("bad_store", STORE_VARIABLE, "file:// and an absolute path", found=url)
        return FolderStore(Path(unquote(parts.path)))
    return ObjectStore(url.rstrip("/"))


class FolderStore:
    """Objects as the files of a folder; conditions hold by a lock on a file beside them."""

    def __init__(self, root: Path) -> None:
        self.url = root.as_uri()
        self._root = root

    def list(self, prefix: str = "") -> Iterator[Found]:
        """Yield the objects below a folder."""
        for folder, _, names in walk(self._root / prefix):
            for name in names:
                path = Path(folder, name)
                if name == LOCK_NAME or name.startswith(TEMP_PREFIX) or path.is_symlink():
                    continue
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    found = path.relative_to(self._root).as_posix()
                    yield Found(found, _tag(status), status.st_size, status.st_mtime)

    def get(self, path: str) -> tuple[bytes, str] | None:
        """Return an object and its tag."""
        try:
            with (self._root / path).open("rb") as file:
                return file.read(), _tag(os.fstat(file.fileno()))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def put(self, path: str, data: bytes, *, replaces: str | None) -> str:
        """Put an object under its condition."""
        target = self._root / path
        with self._locked():
            if replaces != ANY:
                present = self.get(path)
                if (None if present is None else present[1]) != replaces:
                    return _same(path, present, data)
            target.parent.mkdir(parents=True, exist_ok=True)
            temp = temp_path(target.parent)
            try:
                with errors_about(target):
                    temp.write_bytes(data)
                    now = time.time_ns()  # finer than the kernel's clock of files: two puts at once have two tags
                    os.utime(temp, ns=(now, now))
                    tag = _tag(temp.stat())
                    os.replace(temp, target)
            except OSError:
                temp.unlink(missing_ok=True)
                raise
            return tag

    def delete(self, path: str) -> None:
        """Delete an object."""
        with self._locked():
            (self._root / path).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / LOCK_NAME).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _tag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"


def _same(path: str, present: tuple[bytes, str] | None, data: bytes) -> str:
    """Return the tag of an object that is there with this very content: an answer was lost, and the put sent again."""
    if present is None or present[0] != data:
        raise ConflictError(path)
    return present[1]


class ObjectStore:
    """A bucket, or a part of it, by obstore; credentials are the provider's usual variables and roles."""

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError as error:
            hint = "Install it: pip install 'rag-eval-pipeline[s3]'"
            raise InputError("missing_package", STORE_VARIABLE, "the package obstore", hint=hint) from error
        self.url = url
        self._obstore: Any = obstore
        # Google's condition is the object's generation, which a listing does not have.
        self._needs_generation = url.startswith("gs://")
        names = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
        is_plain = any(os.environ.get(name, "").startswith("http://") for name in names)
        retries = {
            "max_retries": 10_000,
            "retry_timeout": timedelta(seconds=RETRY_SECONDS),
            "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=3), "base": 2},
        }
        options = {"timeout": timedelta(seconds=RETRY_SECONDS), **({"allow_http": True} if is_plain else {})}
        try:
            self._store = from_url(url, client_options=options, retry_config=retries)
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise InputError("bad_store", STORE_VARIABLE, "a store that can be opened", found=_line(error)) from error

    def list(self, prefix: str = "") -> Iterator[Found]:
        """Yield the objects below a folder."""
        chunks = iter(self._call("list", lambda: self._obstore.list(self._store, prefix or None)))
        while chunk := self._call("list", lambda: next(chunks, None)):
            for one in chunk:
                yield Found(one["path"], one["e_tag"] or "", one["size"], one["last_modified"].timestamp())

    def get(self, path: str) -> tuple[bytes, str] | None:
        """Return an object and its tag."""

        def read() -> tuple[bytes, str]:
            answer = self._obstore.get(self._store, path)
            return bytes(answer.bytes()), answer.meta["e_tag"] or ""

        try:
            return self._call("get", read)
        except FileNotFoundError:
            return None

    def put(self, path: str, data: bytes, *, replaces: str | None) -> str:
        """Put an object under its condition."""
        errors = self._obstore.exceptions

        def send() -> str:
            mode: Any = "overwrite" if replaces == ANY else "create" if replaces is None else {"e_tag": replaces}
            if isinstance(mode, dict) and self._needs_generation:
                meta = self._obstore.head(self._store, path)
                if meta["e_tag"] != replaces:
                    raise ConflictError(path)
                mode["version"] = meta["version"]
            return self._obstore.put(self._store, path, data, mode=mode)["e_tag"] or ""

        try:
            return self._call("put", send)
        except (ConflictError, FileNotFoundError, errors.AlreadyExistsError, errors.PreconditionError):
            return _same(path, self.get(path), data)

    def delete(self, path: str) -> None:
        """Delete an object."""
        with contextlib.suppress(FileNotFoundError):
            self._call("delete", lambda: self._obstore.delete(self._store, path))

    def _call(self, what: str, call: Callable[[], Result]) -> Result:
        """Call the store; its errors but those of conditions become one line."""
        errors = self._obstore.exceptions
        for is_last in (False, True):
            try:
                return call()
            except (errors.AlreadyExistsError, errors.PreconditionError):
                raise
            except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
                text = f"{self.url} refuses to {what}: {_line(error)}"
                hint = "Check the credentials and what they may do: list, read, write and delete."
                raise ServiceError("store_refused", text, hint=hint) from None
            except (FileNotFoundError, errors.BaseError) as error:
                if any(name in str(error) for name in NO_BUCKET):
                    raise ServiceError("no_store", f"{self.url}: there is no such bucket") from None
                if isinstance(error, FileNotFoundError):
                    raise
                # obstore repeats a request unless it may have been carried out; `put` then finds its own content.
                if is_last or "after" in str(error).partition("\n")[0]:
                    text = f"{self.url} did not {what}: {_line(error)}"
                    raise ServiceError("store_unreachable", text) from None
        raise AssertionError("the last attempt returns or raises")


def _line(error: Exception) -> str:
    """Return the first line of an error; obstore's goes on with the structure of its source."""
    return str(error).strip().partition("\n")[0].strip()[:400]


def check_store(store: Store) -> None:
    """Try what leases and pointers rest on, with an object that is removed again.

    Raises:
        ServiceError: `store_unfit` for a store that overwrites against the condition or lists other tags than it
            returns, and those of a store that cannot be used.
    """
    folder = f"leases/check-{secrets.token_hex(4)}"
    path = f"{folder}/object"
    first = store.put(path, b"1", replaces=None)
    try:
        second = store.put(path, b"2", replaces=first)
        kept = [_refuses(store, path, replaces) for replaces in (None, first)]
        listed = [found.tag for found in store.list(folder)]
    finally:
        store.delete(path)
    faults = [
        *([] if kept[0] else ["it overwrites an object that a put asked not to be there"]),
        *([] if kept[1] else ["it overwrites an object that another had replaced meanwhile"]),
        *([] if not all(kept) or listed == [second] else ["it lists other entity tags than it returns"]),
    ]
    if faults:
        hint = "Use one that supports If-None-Match and If-Match on PUT."
        raise ServiceError(
            "store_unfit", f"{store.url} is no store for several machines: {'; '.join(faults)}", hint=hint
        )


def _refuses(store: Store, path: str, replaces: str | None) -> bool:
    try:
        store.put(path, b"3", replaces=replaces)
    except ConflictError:
        return True
    return False
