"""What an archive may hold: names that stay inside a folder, plain files only, and no more than a cap of them.

An archive is judged as a whole: one unsafe member, and nothing of it is used. Names are taken as they are or refused,
never mended: a reader that strips `..` gives a file that its author did not mean.
"""

import contextlib
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.compression import MAX_DECODED_BYTES, MAX_RATIO, RATIO_FLOOR_BYTES

MAX_NAME_BYTES = 255  # of one component: what Linux file systems hold
MAX_PATH_BYTES = 1024  # of a whole name: leaves three quarters of PATH_MAX to the folder it is unpacked in
MAX_DEPTH = 32  # components; deeper trees make folder walks recurse, and no benchmark needs them

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # surrogates stand for bytes that are not UTF-8


class Member(NamedTuple):
    """A file of an archive: its name, with `/` between components, and its size in bytes."""

    name: str
    size: int


class Contents(NamedTuple):
    """What an archive holds.

    Args:
        members: Files, sorted by name.
        ignored: Names of what macOS adds to archives (`__MACOSX/`, `.DS_Store`, `._name` beside `name`), sorted.
    """

    members: tuple[Member, ...]
    ignored: tuple[str, ...]


class Caps(NamedTuple):
    """How much an archive may hold.

    Args:
        members: Files and folders together.
        size_bytes: Of all files together.
        ratio: Unpacked bytes for each byte of the archive; enforced from 10 MB unpacked.
    """

    members: int = 10_000
    size_bytes: int = MAX_DECODED_BYTES
    ratio: float = MAX_RATIO


CAPS = Caps()


class Opened(NamedTuple):
    """A member that may be read now: until the next one is asked for."""

    member: Member
    open: Callable[[], BinaryIO]


class Gate:
    """Takes an archive's headers one after another; the first that is unsafe refuses the archive.

    Args:
        shown: How messages name the archive.
        size_bytes: Of the archive's file.
        caps: How much it may hold.
    """

    def __init__(self, shown: str, size_bytes: int, caps: Caps) -> None:
        self.shown = shown
        self.caps = caps
        self._archive_bytes = size_bytes
        self._files: dict[str, Member] = {}
        self._count = 0
        self._size = 0

    def file(self, raw_name: str, size: int) -> Member:
        """Admits a file.

        Raises:
            InputError: `unsafe_archive`, `archive_bomb`.
        """
        self._counted()
        name = self._safe_name(raw_name)
        if not name:
            raise self.unsafe("a member with a name", raw_name)
        if name in self._files:
            raise self.unsafe("each member once", raw_name, hint="Pack it anew from a folder.")
        if size < 0:
            raise self.unsafe("a size of zero or more bytes", f"{raw_name}: {size}")
        self._size += size
        if self._size > self.caps.size_bytes:
            raise self.bomb(f"at most {self.caps.size_bytes:,} bytes unpacked", "more")
        if self._size > max(RATIO_FLOOR_BYTES, self.caps.ratio * self._archive_bytes):
            found = f"{self._size:,} from {self._archive_bytes:,}"
            raise self.bomb(f"at most {self.caps.ratio:g} bytes for each byte of the archive", found)
        member = Member(name, size)
        self._files[name] = member
        return member

    def folder(self, raw_name: str) -> None:
        """Admits a folder: its name is judged and counted; folders without files are not made."""
        self._counted()
        self._safe_name(raw_name)

    def contents(self) -> Contents:
        """The files admitted.

        Raises:
            InputError: `unsafe_archive` when a file is also the folder of another.
        """
        for name in self._files:
            parent = name.rpartition("/")[0]
            while parent:
                if parent in self._files:
                    raise self.unsafe("a member that is a file or a folder, not both", parent)
                parent = parent.rpartition("/")[0]
        ignored = {name for name in self._files if self._is_ignored(name)}
        kept = sorted(member for name, member in self._files.items() if name not in ignored)
        return Contents(tuple(kept), tuple(sorted(ignored)))

    def unsafe(self, expected: str, found: str, *, hint: str = "Unpack it by hand.") -> InputError:
        """The refusal of an archive for a member."""
        return InputError("unsafe_archive", self.shown, expected, found=found, hint=hint)

    def bomb(self, expected: str, found: str) -> InputError:
        """The refusal of an archive for its size."""
        hint = "If the archive is to be trusted, unpack it by hand and name its files."
        return InputError("archive_bomb", self.shown, expected, found=found, hint=hint)

    def _counted(self) -> None:
        self._count += 1
        if self._count > self.caps.members:
            raise self.bomb(f"at most {self.caps.members:,} members", "more")

    def _safe_name(self, raw: str) -> str:
        """The name without `.` components and doubled slashes, which mean nothing."""
        if _UNPRINTABLE.search(raw):
            raise self.unsafe("names in UTF-8 without control characters", raw)
        if raw.startswith("/") or re.match(r"[A-Za-z]:", raw):
            raise self.unsafe("names relative to the archive", raw)
        if "\\" in raw:
            raise self.unsafe("names with / between their components", raw)
        parts = [part for part in raw.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise self.unsafe("names without ..", raw)
        if any(len(part.encode()) > MAX_NAME_BYTES for part in parts) or len(raw.encode()) > MAX_PATH_BYTES:
            raise self.unsafe(f"names of at most {MAX_NAME_BYTES} bytes, {MAX_PATH_BYTES} with their folders", raw)
        if len(parts) > MAX_DEPTH:
            raise self.unsafe(f"at most {MAX_DEPTH - 1} folders inside each other", raw)
        return "/".join(parts)

    def _is_ignored(self, name: str) -> bool:
        folder, _, base = name.rpartition("/")
        if name.startswith("__MACOSX/") or base == ".DS_Store":
            return True
        # AppleDouble: what macOS knows of `name` besides its content, put beside it by its tar.
        return base.startswith("._") and f"{folder}/{base[2:]}".lstrip("/") in self._files


@contextlib.contextmanager
def damage_named(shown: str) -> Iterator[None]:
    """Turns what zipfile, tarfile and zlib raise on a damaged archive into `bad_archive`."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        struct.error,
        EOFError,
        ValueError,
        OverflowError,
        NotImplementedError,
        RecursionError,
    ) as error:
        found = f"{type(error).__name__}: {error}"
        raise InputError(
            "bad_archive", shown, "a whole archive", found=found, hint="Download or pack it anew."
        ) from error
