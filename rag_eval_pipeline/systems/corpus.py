"""What a system under test is given of a benchmark: its documents, never its questions or answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class PageText(NamedTuple):
    """Text of one page and where it starts in its document."""

    document: str
    page: int
    start: int
    text: str


@dataclass(frozen=True, slots=True)
class SystemCorpus:
    """The converted corpus of one benchmark.

    Args:
        benchmark: Its name.
        folder: Where the PDFs lie.
        files: Basenames, each document once.
        aliases: Every name that a system may use for a document (other names of it, names without `.pdf`) -> basename.
        fingerprint: Changes with the corpus.
        pages: Reads the text of every page, each document once.
        settings_folder: Where the system's file lies; paths in its settings are relative to it.
        state_folder: Where the system may keep what it knows of its server, such as what was uploaded.
        observe: Is given the JSON of each reply before it is read, and returns what is read in its place.
    """

    benchmark: str
    folder: Path
    files: Sequence[str]
    aliases: dict[str, str]
    fingerprint: str
    pages: Callable[[], list[PageText]]
    settings_folder: Path
    state_folder: Path
    observe: Callable[[Any], Any] | None = None
