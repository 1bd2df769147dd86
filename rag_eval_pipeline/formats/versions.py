"""Semantic versions of datasets: checking them, finding the newest, and splitting one off an id."""

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import pydantic
import semver
from pydantic_core import PydanticCustomError

MAX_LENGTH = 128  # a version becomes part of file names
UNVERSIONED = "0.0.0"  # of a dataset whose version nobody states

_NUMBER = r"(?:0|[1-9][0-9]*)"
_IDENTIFIER = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
# For JSON Schemas and pydantic's `pattern`; the regular expression of Semantic Versioning 2.0 without groups.
SEMVER = (
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


class VersionedName(NamedTuple):
    """An id and the version that stood at its end; None where it has none."""

    dataset_id: str
    version: str | None


def parse_version(text: str) -> semver.Version | None:
    """Return the version, which compares by precedence; None if the text is not a semantic version."""
    return semver.Version.parse(text) if len(text) <= MAX_LENGTH and semver.Version.is_valid(text) else None


def newest_versions(versions: Iterable[str]) -> list[str]:
    """Return the highest of the versions: several if they differ in their build only, none if none is a version."""
    parsed = [(version, text) for text in versions if (version := parse_version(text)) is not None]
    highest = max((version for version, _ in parsed), default=None)
    return [text for version, text in parsed if version == highest]


def split_version(name: str) -> VersionedName:
    """Return `personal_rag_eval_v1.0.0` as id and version."""
    dataset_id, _, version = name.rpartition("_v")
    if dataset_id and parse_version(version) is not None:
        return VersionedName(dataset_id, version)
    return VersionedName(name, None)


def _checked(text: str) -> str:
    if parse_version(text) is None:
        raise PydanticCustomError("bad_version", "a semantic version such as 1.2.0")
    return text


SemanticVersion = Annotated[
    str, pydantic.AfterValidator(_checked), pydantic.Field(json_schema_extra={"pattern": f"^{SEMVER}$"})
]
"""A text that is a semantic version."""
