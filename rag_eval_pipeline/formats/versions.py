"""Semantic versions: recognising and ordering them.

Order is that of Semantic Versioning 2.0: 1.10.0 is newer than 1.9.0, 1.0.0-rc.1 older than 1.0.0, and what follows `+`
says nothing about order.
"""

import re
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import pydantic
from pydantic_core import PydanticCustomError

MAX_LENGTH = 128  # of a version; it becomes part of file names
_NUMBER = r"(?:0|[1-9][0-9]*)"
_IDENTIFIER = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
SEMVER = (
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_PARTS = re.compile(
    rf"(?P<numbers>{_NUMBER}\.{_NUMBER}\.{_NUMBER})(?:-(?P<pre>{_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+(?P<build>.+))?"
)
_COMPLETE = re.compile(SEMVER)
_SUFFIXED = re.compile(rf"(?P<id>.+)_v(?P<version>{SEMVER})", re.DOTALL)


class Version(NamedTuple):
    """A semantic version in its parts.

    Args:
        numbers: Major, minor, patch.
        pre_release: Identifiers after `-`; none for a release.
        build: What stands after `+`, or an empty text.
    """

    numbers: tuple[int, int, int]
    pre_release: tuple[str, ...]
    build: str

    @property
    def precedence(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[bool, int, str], ...]]:
        """A key that sorts versions from oldest to newest; equal for versions that differ in their build only."""
        # A release is newer than its pre-releases; numeric identifiers are older than others, and compare as numbers.
        identifiers = tuple(
            (False, int(part), "") if part.isdecimal() else (True, 0, part) for part in self.pre_release
        )
        return self.numbers, not self.pre_release, identifiers


class VersionedName(NamedTuple):
    """An id with the version at its end taken off; None where it has none."""

    dataset_id: str
    version: str | None


def parse_version(text: str) -> Version | None:
    """The version in its parts; None when the text is no semantic version."""
    if len(text) > MAX_LENGTH or not _COMPLETE.fullmatch(text):
        return None
    match = _PARTS.fullmatch(text)
    assert match is not None
    major, minor, patch = (int(number) for number in match["numbers"].split("."))
    return Version((major, minor, patch), tuple(match["pre"].split(".")) if match["pre"] else (), match["build"] or "")


def newest(versions: Iterable[str]) -> list[str]:
    """The highest of the versions; several when they differ in their build only, none when none is a version."""
    parsed = [(version.precedence, text) for text in versions if (version := parse_version(text)) is not None]
    if not parsed:
        return []
    highest = max(precedence for precedence, _ in parsed)
    return [text for precedence, text in parsed if precedence == highest]


def split_version(name: str) -> VersionedName:
    """`personal_rag_eval_v1.0.0` as id and version."""
    match = _SUFFIXED.fullmatch(name)
    return VersionedName(match["id"], match["version"]) if match else VersionedName(name, None)


def _checked(text: str) -> str:
    if parse_version(text) is None:
        raise PydanticCustomError("bad_version", "a semantic version such as 1.2.0")
    return text


SemanticVersion = Annotated[
    str, pydantic.AfterValidator(_checked), pydantic.Field(json_schema_extra={"pattern": f"^{SEMVER}$"})
]
"""A text that is a semantic version."""
