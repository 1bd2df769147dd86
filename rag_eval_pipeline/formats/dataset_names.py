"""Which file holds a dataset, by id and version.

What counts is what a file says of itself, not how it is called: ids and versions are compared with those in the files.
An id may carry its version (`personal_rag_eval_v1.0.0`), a version may carry a `v`, and neither is ever made into a
path or a pattern, so `../` and `*` find nothing.
"""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset_files import stem
from rag_eval_pipeline.formats.findings import listed
from rag_eval_pipeline.formats.versions import newest, parse_version, split_version


class Claim(NamedTuple):
    """What a file says of itself."""

    path: Path
    dataset_id: str
    version: str


class Wanted(NamedTuple):
    """What is asked for; None for the newest version."""

    asked: str
    dataset_id: str
    version: str | None

    @property
    def shown(self) -> str:
        """For messages."""
        return f"{self.dataset_id!r}" + ("" if self.version is None else f" version {self.version}")


def wanted(dataset_id: str, version: str | None = None) -> Wanted:
    """An id and a version as people write them: `x`, `x_v1.0.0`; `1.0.0`, `v1.0.0`.

    Raises:
        InputError: `bad_version`.
    """
    name = split_version(dataset_id)
    if version is None:
        return Wanted(dataset_id, name.dataset_id, name.version)
    bare = version.removeprefix("v")
    if parse_version(bare) is None:
        raise InputError("bad_version", dataset_id, "a semantic version such as 1.2.0", field="version", found=version)
    return Wanted(dataset_id, name.dataset_id, bare)


def find_file(
    files: Sequence[Path], claim_of: Callable[[Path], Claim], dataset_id: str, version: str | None = None
) -> Path | None:
    """The file of a dataset's version, or of its newest; None when there is none.

    Args:
        files: To choose from.
        claim_of: Reads what a file says of itself; raises `InputError` for one that cannot be read.
        dataset_id: An id, with or without a version, or the exact name of a file.
        version: With or without `v`.

    Raises:
        InputError: `ambiguous_dataset` listing the files that claim to be it, `bad_version`, or the fault of a file
            that is the one by its name and cannot be read.
    """
    asked = wanted(dataset_id, version)
    exact = [path for path in files if path.name == dataset_id]
    if exact and version is None:
        return exact[0]
    claims, faults = [], []
    for path in files:
        try:
            claims.append(claim_of(path))
        except InputError as error:
            faults.append((path, error))
    found = _chosen(claims, asked)
    if not found:
        for path, fault in faults:
            if is_named(path, asked):
                raise fault
        return None
    # Of files that claim the same, the one that is called exactly what was typed is meant.
    found = [claim for claim in found if stem(claim.path) == dataset_id] or found
    if len(found) > 1:
        raise InputError(
            "ambiguous_dataset", found[0].path.parent, f"one file of {asked.shown}",
            found=[claim.path.name for claim in found],
            hint="Remove all but one, or give the exact name of a file.",
        )  # fmt: skip
    return found[0].path


def is_named(path: Path, asked: Wanted) -> bool:
    """Whether a file is called as the files of what is asked for: `<id>`, `<id>_v<version>` or `<id>_<version>`."""
    name = stem(path)
    if name in (asked.asked, asked.dataset_id):
        return True
    if not name.startswith(f"{asked.dataset_id}_"):
        return False
    version = name.removeprefix(f"{asked.dataset_id}_").removeprefix("v")
    return parse_version(version) is not None and asked.version in (None, version)


def require_file(
    folder: Path,
    endings: tuple[str, ...],
    claim_of: Callable[[Path], Claim],
    code: str,
    dataset_id: str,
    version: str | None,
) -> Path:
    """The file of a dataset's version in a folder; the arguments are those of `find_file`.

    Raises:
        InputError: `code`, listing what there is, and as `find_file`.
    """
    files = files_in(folder, endings)
    path = find_file(files, claim_of, dataset_id, version)
    if path is not None:
        return path
    there = []
    for file in files:
        with contextlib.suppress(InputError):  # an unreadable file is nothing that could be asked for
            there.append(claim_of(file))
    names = listed(f"{claim.dataset_id} {claim.version}" for claim in there)
    hint = f"There is {names}." if there else "There is none."
    raise InputError(code, folder, f"dataset {wanted(dataset_id, version).shown}", hint=hint)


def files_in(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """The files with these endings, by name; none where there is no folder. Hidden ones are being written."""
    if not folder.is_dir():
        return []
    return sorted(file for file in folder.iterdir() if file.name.endswith(endings) and not file.name.startswith("."))


def _chosen(claims: Sequence[Claim], asked: Wanted) -> list[Claim]:
    """The claims to what is asked for, all of one version or of versions that are equally new."""
    same = [claim for claim in claims if split_version(claim.dataset_id).dataset_id == asked.dataset_id]
    if asked.version is not None:
        found = [claim for claim in same if claim.version == asked.version]
        if found or asked.asked == asked.dataset_id:
            return found
        # An id that ends like a version and has another one: `x_v1.0.0`, version 1.0.1.
        same = [claim for claim in claims if claim.dataset_id == asked.asked]
    highest = newest(claim.version for claim in same)
    return [claim for claim in same if claim.version in highest]
