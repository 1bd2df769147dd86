"""What people are shown of a corpus: counts, a line on each document, the slowest, a picture of the first pages."""

import functools
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.rendering.printed_words import WORDS_MIN, WORDS_SHARE

Files = Set[tuple[str, str | None]]

DRIFTED = ("changed", "gone")
SLOWEST = 10
SHEET_BYTES = 150_000  # a metadata entry is a third larger, and the UI asks for those of the last runs all at once
# Pixels of a page's width, and pages. Twenty pages of text at 160 pixels are 94 kB, of noise 180 kB even at 80.
SHEETS = ((160, 20), (120, 20), (80, 20), (80, 10))


def present(documents: Sequence[CorpusDocument]) -> list[CorpusDocument]:
    """Those that have a file."""
    return [document for document in documents if document.origin != "missing"]


def missing(documents: Sequence[CorpusDocument]) -> list[CorpusDocument]:
    """Those that could not be had."""
    return [document for document in documents if document.origin == "missing"]


def files_of(documents: Sequence[CorpusDocument]) -> Files:
    """Name and hash of each file: what is among those of the last build is unchanged."""
    return {(document.file_name, document.pdf_sha256) for document in documents}


def corpus_counts(built: Sequence[CorpusDocument], known: Files, corpus_dir: Path) -> dict[str, int]:
    """What a corpus comes to.

    Args:
        built: Its manifest.
        known: Files of the last build.
        corpus_dir: Where the files lie.

    Returns:
        `files` are names, of which a `document` may have several; pages, bytes and images are counted with each name,
        as a server that ingests the folder meets them.
    """
    there = present(built)
    return {
        "files": len(there),
        "documents": len({document.key for document in there}),
        "quarantined": len({document.key for document in missing(built)}),
        "drifted": len({document.key for document in there if document.drift in DRIFTED}),
        "rendered": sum(document.origin == "rendered" for document in there),
        "kept": sum(document.origin == "kept" for document in there),
        "new_or_changed": sum((document.file_name, document.pdf_sha256) not in known for document in there),
        "pages": sum(document.pages for document in there),
        "bytes": sum((corpus_dir / document.file_name).stat().st_size for document in there),
        "images_expected": sum(document.images_expected for document in there),
        "images_drawn": sum(document.images_drawn for document in there),
    }


def document_line(rows: Sequence[CorpusDocument], known: Files) -> str:
    """One line on a document that has just come into the corpus, or was looked at again.

    Args:
        rows: One a name.
        known: Files of the last build.
    """
    row = rows[0]
    what = "unchanged" if (row.file_name, row.pdf_sha256) in known else row.origin
    pages = "1 page" if row.pages == 1 else f"{row.pages} pages"
    flags = f", {', '.join(row.flags)}" if row.flags else ""
    return f"{', '.join(row.file_name for row in rows)}: {what}, {pages}, {row.seconds:.1f} s{flags}"


def document_notes(built: Sequence[CorpusDocument]) -> tuple[str, ...]:
    """One line on each document that could not be had, each whose page is not what it was, each that lost words."""
    drifted = [f"{row.file_name}: {row.drift_reason} [{row.drift}]" for row in present(built) if row.drift is not None]
    lost = [f"{row.file_name}: {words_line(row)} of the page are in the PDF." for row in pages_with_words_lost(built)]
    return (*(missing_note(row) for row in missing(built)), *drifted, *lost)


def missing_note(row: CorpusDocument) -> str:
    """One line on a document that could not be had: its name, its URL, the reason and its code."""
    error = row.error or "no reason is known"
    url = f"{row.url}: " if row.url and row.url not in error else ""
    return f"{row.file_name}: {url}{error} [{row.error_code}]"


def pages_with_words_lost(built: Sequence[CorpusDocument]) -> list[CorpusDocument]:
    """Pages with less than 90 % of their words in the PDF, those that lost most first."""
    rows = [row for row in present(built) if row.words_seen >= WORDS_MIN]
    lost = [row for row in rows if row.words_printed < WORDS_SHARE * row.words_seen]
    return sorted(lost, key=lambda row: (row.words_printed / row.words_seen, row.file_name))


def words_line(row: CorpusDocument) -> str:
    """How many of a page's words are in its PDF."""
    return f"{row.words_printed:,} of {row.words_seen:,} words ({row.words_printed / row.words_seen:.0%})"


def slowest(documents: Sequence[CorpusDocument], times: Mapping[str, float]) -> list[dict[str, Any]]:
    """The documents that took longest, longest first, each under its first name.

    Args:
        documents: The manifest.
        times: From `update_times`.
    """
    first: dict[str, CorpusDocument] = {}
    for document in documents:
        if document.file_name in times:
            first.setdefault(document.key, document)
    ordered = sorted(first.values(), key=lambda document: (-times[document.file_name], document.file_name))
    return [
        {
            "file": document.file_name,
            "seconds": times[document.file_name],
            "pages": document.pages,
            "from": document.origin,
            "url": document.url or "",
        }
        for document in ordered[:SLOWEST]
    ]


def first_pages(documents: Sequence[CorpusDocument], corpus_dir: Path) -> Callable[[], bytes] | None:
    """Draws a contact sheet as PNG of at most 150 kB when it is called, since only those who look at it need it.

    Args:
        documents: The manifest; of a document with several names the first is shown.
        corpus_dir: Where the files lie.

    Returns:
        None when no document is there.
    """
    files: dict[str, CorpusDocument] = {}
    for document in present(documents):
        files.setdefault(document.key, document)
    named = [(document.file_name, corpus_dir / document.file_name) for document in files.values()]
    return functools.partial(_contact_sheet, named) if named else None


def _contact_sheet(files: list[tuple[str, Path]]) -> bytes:
    from rag_eval_pipeline.corpus.text.pictures import contact_sheet

    sheet = b""
    for width, limit in SHEETS:
        sheet = contact_sheet(files, thumb_width=width, limit=limit)
        if len(sheet) <= SHEET_BYTES:
            break
    return sheet
