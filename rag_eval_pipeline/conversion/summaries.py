"""The report on a plan and a conversion: counts, notes on documents, the slowest documents, the first pages."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rag_eval_pipeline.corpus.documents import HIDDEN_SHOWN, NO_TEXT, WORDS_SHARE, CorpusDocument
from rag_eval_pipeline.errors import counted, first_names

LOST = "lost."  # begins the names of a step's counts of lost contexts; the cause follows


def lost_counts(lost: Mapping[str, int]) -> dict[str, int]:
    """Return lost contexts by cause as counts of a step."""
    return {f"{LOST}{cause}": lost[cause] for cause in sorted(lost)}


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a plan: `rows == accepted + dropped + quarantined` always."""

    rows: int
    accepted: int
    dropped: int
    quarantined: int
    impossible: int
    contexts: int
    documents: int
    contexts_lost: Mapping[str, int] = field(default_factory=dict)  # contexts of accepted questions, by cause
    without_document: int = 0  # answerable accepted questions that have no context with a document
    gold_texts: int = 0  # contexts with a text and a document
    bare_texts: int = 0  # contexts with a text and no document
    audit_dropped: int = 0  # of the dropped questions, those of audit.yaml
    audit_fixed: int = 0  # questions that audit.yaml gives other answers

    @property
    def conserved(self) -> bool:
        """Whether no row was lost and none was made up."""
        return self.rows == self.accepted + self.dropped + self.quarantined

    def record(self) -> dict[str, int]:
        """Return the counts of a conversion step: numbers only."""
        numbers = asdict(self)
        lost = numbers.pop("contexts_lost")
        for name in ("bare_texts", "audit_dropped", "audit_fixed"):
            if not numbers[name]:
                del numbers[name]
        return {**numbers, **lost_counts(lost)}


def plan_sentences(counts: Counts) -> Iterator[str]:
    """Yield what is known before any document is fetched."""
    found, questions = _contexts(counts.contexts, counts.contexts_lost, counts.without_document)
    yield found
    # Documents may still be found for their gold texts.
    yield questions if not counts.bare_texts else questions.removesuffix(".") + " so far."
    if counts.gold_texts:
        yield (
            f"{counted(counts.gold_texts, 'gold text has', 'gold texts have')} a document; "
            f"convert says how many are found in it."
        )

    if counts.bare_texts:
        texts = counted(counts.bare_texts, "gold text names", "gold texts name")
        if counts.documents:
            yield f"{texts} no document; convert looks in all of them."
        else:
            hint = '`tables: {docs: {files: "docs/*.pdf"}}` adds some'
            yield f"{texts} no document, and there are none to look in; {hint}."


def conversion_sentences(counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield the results of a whole conversion, given the counts of each step by its name."""
    planned, written, dataset = counts["questions"], counts["train_json"], counts["evaluation_dataset"]
    lost = {
        name.removeprefix(LOST): planned.get(name, 0) + written.get(name, 0)
        for name in sorted({*planned, *written})
        if name.startswith(LOST)
    }
    yield from _contexts(written["contexts"], lost, written["without_document"])
    if bare := planned.get("bare_texts"):
        found = written.get("texts_found", 0)
        reasons = {"in several": "texts_ambiguous", "in none": "texts_nowhere", "too short to look for": "texts_short"}
        others = [f"{written[name]} {what}" for what, name in reasons.items() if written.get(name)]
        yield f"{found} of {bare} gold texts that name no document are found in one{', '.join(['', *others])}."
    if dataset["gold_texts"]:
        located, gold_texts = dataset["gold_texts_located"], dataset["gold_texts"]
        similar = dataset["gold_texts_similar"]
        how = f", {similar} of them by similarity (another wording, the same numbers)" if similar else ""
        yield f"{located} of {gold_texts} gold texts that have a document are located in it{how}."


def _contexts(found: int, lost: Mapping[str, int], without_document: int) -> Iterator[str]:
    causes = f" ({', '.join(f'{cause} {number}' for cause, number in lost.items())})" if lost else ""
    yield f"{counted(found, 'context')} found, {sum(lost.values())} lost{causes}."
    questions = counted(without_document, "answerable question is", "answerable questions are")
    yield f"{questions} left without a document."


Files = Set[tuple[str, str | None]]  # name and hash of each file of the last build

DRIFTED = ("changed", "gone")
FLAG_NOTES = {
    HIDDEN_SHOWN: "Pages printed with text that is hidden until a tab is opened or a script runs",
    NO_TEXT: "PDFs without any text, in which nothing can be found",
}
LISTED = 10  # of the slowest documents


def present(documents: Sequence[CorpusDocument]) -> list[CorpusDocument]:
    """Return the documents that have a file."""
    return [document for document in documents if document.origin != "missing"]


def missing(documents: Sequence[CorpusDocument]) -> list[CorpusDocument]:
    """Return the documents that are missing."""
    return [document for document in documents if document.origin == "missing"]


def corpus_counts(built: Sequence[CorpusDocument], known: Files, corpus_dir: Path) -> dict[str, int]:
    """Return the counts of a corpus; pages, bytes and images count with each name, as a server ingests each file."""
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
    """Return one line on a document that was just built or rechecked, from its rows, one for each name."""
    row = rows[0]
    what = "unchanged" if (row.file_name, row.pdf_sha256) in known else row.origin
    pages = counted(row.pages, "page")
    flags = f", {', '.join(row.flags)}" if row.flags else ""
    return f"{', '.join(row.file_name for row in rows)}: {what}, {pages}, {row.seconds:.1f} s{flags}"


def document_notes(built: Sequence[CorpusDocument]) -> tuple[str, ...]:
    """Return one line on each document that is missing, has drifted, or lost words in its PDF; one for each flag."""
    drifted = [f"{row.file_name}: {row.drift_reason} [{row.drift}]" for row in present(built) if row.drift is not None]
    lost = [f"{row.file_name}: {words_line(row)} of the page are in the PDF." for row in pages_with_words_lost(built)]
    flagged = []
    for flag, what in FLAG_NOTES.items():
        names = sorted(row.file_name for row in present(built) if flag in row.flags)
        flagged += [f"{what}: {first_names(names, LISTED)}."] if names else []
    return (*_missing_notes(missing(built)), *drifted, *lost, *flagged)


def _missing_notes(rows: Sequence[CorpusDocument]) -> Iterator[str]:
    """Yield a line for each cause; one that many documents share, such as a host that is not allowed, has one line."""
    causes: dict[tuple[str | None, str | None], list[CorpusDocument]] = {}
    for row in rows:
        causes.setdefault((row.error_code, row.error and row.error.replace(row.url or "", "")), []).append(row)
    for same in causes.values():
        others = len({row.file_name for row in same}) - 1
        yield missing_note(same[0]) + (f". {counted(others, 'more document')} likewise." if others else "")


def missing_note(row: CorpusDocument) -> str:
    """Return one line on a missing document: its name, its URL, the reason and its code."""
    error = row.error or "no reason is known"
    url = f"{row.url}: " if row.url and row.url not in error else ""
    return f"{row.file_name}: {url}{error} [{row.error_code}]"


def pages_with_words_lost(built: Sequence[CorpusDocument]) -> list[CorpusDocument]:
    """Return pages with less than 90 % of their words in the PDF, the worst first."""
    lost = [row for row in present(built) if row.words_printed < WORDS_SHARE * row.words_seen]
    return sorted(lost, key=lambda row: (row.words_printed / row.words_seen, row.file_name))


def words_line(row: CorpusDocument) -> str:
    """Return how many of a page's words are in its PDF."""
    return f"{row.words_printed:,} of {row.words_seen:,} words ({row.words_printed / row.words_seen:.0%})"


def slowest(documents: Sequence[CorpusDocument]) -> list[dict[str, Any]]:
    """Return the documents that took longest of those made or checked this time, each under its first name."""
    first: dict[str, CorpusDocument] = {}
    for document in documents:
        first.setdefault(document.key, document)
    made = [document for document in first.values() if document.seconds]
    ordered = sorted(made, key=lambda document: (-document.seconds, document.file_name))
    return [{**document_facts(document), "seconds": round(document.seconds, 3)} for document in ordered[:LISTED]]


def document_facts(row: CorpusDocument) -> dict[str, Any]:
    """Return a row of a table of documents."""
    return {"file": row.file_name, "pages": row.pages, "from": row.origin, "url": row.url or ""}


def first_pages(documents: Sequence[CorpusDocument], corpus_dir: Path) -> Callable[[], bytes] | None:
    """Return a function that draws a contact sheet as PNG; None without documents."""
    from rag_eval_pipeline.corpus.text.page_drawing import contact_sheet

    files: dict[str, Path] = {}
    for document in present(documents):
        files.setdefault(document.key, corpus_dir / document.file_name)
    return functools.partial(contact_sheet, list(files.values())) if files else None
