"""The steps from a benchmark's files to a corpus: questions, PDFs, their text."""

import glob
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec

from rag_eval_pipeline.conversion.corpus_report import (
    DRIFTED,
    corpus_counts,
    document_line,
    document_notes,
    files_of,
    first_pages,
    missing,
    pages_with_words_lost,
    present,
    slowest,
    words_line,
)
from rag_eval_pipeline.conversion.document_times import update_times
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.conversion.quarantine_file import quarantine_notes, write_quarantine
from rag_eval_pipeline.conversion.questions_file import iterate_batches, questions_of
from rag_eval_pipeline.conversion.stamp import Check, Conversion, StepReport, discard_stamp
from rag_eval_pipeline.corpus.builder import LookAgain, build_corpus
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.egress.config import read_egress_config
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
from rag_eval_pipeline.corpus.manifest import read_manifest, read_planned, read_rows, write_manifest, write_planned
from rag_eval_pipeline.corpus.manifest_json import write_manifest_json
from rag_eval_pipeline.corpus.naming import pins
from rag_eval_pipeline.corpus.text.pages import Page, corpus_pages, extractor, reusable_pages, write_pages
from rag_eval_pipeline.corpus.web_state import with_web_state, write_web_state
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.origins import Origins
from rag_eval_pipeline.storage.atomic import TEMP_PREFIX
from rag_eval_pipeline.storage.journal import JournalWriter, read_journal
from rag_eval_pipeline.storage.scratch import SCRATCH_PREFIX, remove_leftover
from rag_eval_pipeline.workspace import BenchmarkPaths

logger = logging.getLogger(__name__)

PREVIEW_ROWS = 5
LISTED = 20  # names in a check's numbers; the manifest has them all
TOLD = 200  # documents, up to which each has its line in the log; of more, only the number that is done is told


def questions(conversion: Conversion) -> StepReport:
    """Rows to questions and planned documents; everything that needs no document."""
    paths, spec = conversion.paths, conversion.spec
    discard_stamp(paths)
    policy = EgressPolicy(read_egress_config(conversion.workspace.egress_config))
    origins = Origins(paths, paths.cache, policy, _logged(paths.name))
    for left in _leftovers(paths):
        remove_leftover(left)
    planned = plan(paths, pins(_manifest(paths)), origins=origins, beside=paths.questions)
    planned.publish_questions(paths.questions)
    write_planned(paths.planned, planned.documents, base=paths.source)
    write_quarantine(paths.quarantine, planned.quarantine)
    counts = planned.counts
    wrong = {name: {"expected": e, "found": f} for name, e, f in spec.expect.differences(counts)}
    unknown = sum(record.code == "unknown_document" for record in planned.quarantine)
    checks = (
        Check(name="rows_conserved", passed=counts.conserved, numbers=counts.record()),
        Check(
            name="counts_as_expected",
            passed=not wrong,
            numbers=wrong or spec.expect.model_dump(exclude_none=True),
        ),
        Check(
            name="every_document_known",
            passed=unknown == 0,
            blocking=spec.on_missing_document == "fail",
            numbers={"unknown": unknown},
        ),
    )
    first = (batch.slice(0, PREVIEW_ROWS) for batch in iterate_batches(paths.questions))
    shown = islice((question for batch in first for question in questions_of(batch)), PREVIEW_ROWS)
    preview = [{"id": q.id, "question": q.question, "answer": q.answer} for q in shown]
    notes = (*quarantine_notes(paths.name, planned.quarantine), *planned.notes)
    return conversion.report("questions", counts.record(), checks, preview, notes)


def corpus(conversion: Conversion) -> StepReport:
    """Planned documents to PDFs; what is unchanged is neither fetched nor rendered again."""
    paths = conversion.paths
    conversion.require("questions")
    previous = with_web_state(_manifest(paths), paths.web)
    policy = EgressPolicy(read_egress_config(conversion.workspace.egress_config))
    planned = read_planned(paths.planned, base=paths.source)
    # Rows of an earlier build that was killed before it could write the manifest; later ones stand for earlier ones.
    kept = [msgspec.convert(row, CorpusDocument) for row in read_journal(paths.corpus_journal)]
    tell = conversion.tell if len(planned) <= TOLD else None
    known = files_of(previous)
    with JournalWriter(paths.corpus_journal) as journal:

        def keep(rows: Sequence[CorpusDocument]) -> None:
            journal.extend(rows)
            if tell is not None:
                tell(document_line(rows, known))

        built = build_corpus(
            planned,
            paths.corpus,
            [*reversed(kept), *previous],
            policy,
            progress=conversion.progress,
            keep=keep,
            look_again=_look_again(conversion),
            error_pages=conversion.spec.error_pages == "keep",
            min_page_words=conversion.spec.min_page_words,
        )
    paths.documents_json.unlink(missing_ok=True)  # the next step writes that of this corpus
    write_manifest(paths.documents, built)
    write_web_state(paths.web, built)
    times = update_times(paths.document_times, built)
    paths.corpus_journal.unlink()
    _link_corpus(paths)
    absent = missing(built)
    check = Check(
        name="every_document_on_disk",
        passed=not absent,
        blocking=conversion.spec.on_missing_document == "fail",
        numbers={"missing": len(absent), **{d.file_name: d.error or "" for d in absent[:LISTED]}},
    )
    drifted = [document for document in present(built) if document.drift in DRIFTED]
    unchanged = Check(
        name="documents_as_on_the_web",
        passed=not drifted,
        blocking=conversion.spec.on_drift == "fail",
        numbers={"drifted": len(drifted), **{d.file_name: d.drift_reason or "" for d in drifted[:LISTED]}},
    )
    incomplete = pages_with_words_lost(built)
    whole = Check(
        name="page_words_in_pdf",
        passed=not incomplete,
        blocking=False,
        numbers={"pages": sum(d.words_seen > 0 for d in present(built)), "incomplete": len(incomplete)}
        | {d.file_name: words_line(d) for d in incomplete[:LISTED]},
    )
    preview = [{"file": d.file_name, "pages": d.pages, "from": d.origin, "url": d.url or ""} for d in built[:LISTED]]
    counts = corpus_counts(built, known, paths.corpus)
    report = conversion.report("corpus", counts, (check, unchanged, whole), preview, document_notes(built))
    sheet = first_pages(built, paths.corpus)
    return replace(
        report,
        figures={"slowest_seconds": max((document.seconds for document in built), default=0.0)},
        tables={"slowest": slowest(built, times)},
        pictures={} if sheet is None else {"first_pages": sheet},
    )


def corpus_text(conversion: Conversion) -> StepReport:
    """PDFs to text with page and document offsets, and with its length the manifest as JSON."""
    paths = conversion.paths
    conversion.require("corpus")
    there = present(read_manifest(paths.documents))
    pages = corpus_pages(there, paths.corpus, _known_pages(paths))
    write_pages(paths.pages, pages)
    characters = Counter({document.file_name: 0 for document in there})
    for page in pages:
        characters[page.file_name] += len(page.text)
    write_manifest_json(paths.documents_json, read_rows(paths.documents), characters, extractor=extractor())
    with_text = {page.file_name for page in pages if page.text.strip()}
    silent = sorted(characters.keys() - with_text)
    counts = {"pages": len(pages), "characters": characters.total(), "without_text": len(silent)}
    check = Check(name="every_pdf_has_text", passed=not silent, blocking=False, numbers={"files": silent[:LISTED]})
    preview = [{"file": p.file_name, "page": p.page, "text": p.text[:120]} for p in pages[:PREVIEW_ROWS]]
    return conversion.report("corpus_text", counts, (check,), preview)


def _leftovers(paths: BenchmarkPaths) -> Iterator[Path]:
    """Temporary files of a killed conversion; the caller holds the benchmark's lock, so none is in use."""
    yield from paths.dataset.glob(f".{SCRATCH_PREFIX}*")
    yield from paths.dataset.glob(f"{TEMP_PREFIX}*")
    yield from paths.steps.glob(f"{TEMP_PREFIX}*")
    yield from paths.corpus.parent.glob(f"{TEMP_PREFIX}{glob.escape(paths.name)}")


def _look_again(conversion: Conversion) -> LookAgain | None:
    if conversion.recheck == "no":
        return None
    return "update" if conversion.recheck == "accept" or conversion.spec.on_drift == "update" else "report"


def _logged(benchmark: str) -> Callable[[int, int | None], None]:
    """Says in the log how far a download is, each time another tenth, or another 100 MB, is there."""
    told = 0

    def progress(done: int, total: int | None) -> None:
        nonlocal told
        if done - told >= (total // 10 if total else 100_000_000):
            told = done
            of = f" of {total / 1e6:.0f}" if total else ""
            logger.info("%s: downloaded %.0f%s MB", benchmark, done / 1e6, of)

    return progress


def _manifest(paths: BenchmarkPaths) -> list[CorpusDocument]:
    """The manifest of the last conversion; none before the first, or when it is damaged: it can be made again."""
    try:
        return read_manifest(paths.documents) if paths.documents.exists() else []
    except InputError as error:
        logger.warning("The manifest of the last conversion is left aside: %s", error)
        return []


def _known_pages(paths: BenchmarkPaths) -> list[Page]:
    try:
        return reusable_pages(paths.pages)
    except InputError as error:
        logger.warning("The text of the last conversion is left aside: %s", error)
        return []


def _link_corpus(paths: BenchmarkPaths) -> None:
    """The `corpus` link of the evaluation root; relative, so that the workspace can be moved."""
    target = os.path.relpath(paths.corpus, paths.dataset)
    paths.corpus.mkdir(parents=True, exist_ok=True)
    if paths.corpus_link.is_symlink() and os.readlink(paths.corpus_link) == target:
        return
    if paths.corpus_link.is_dir() and not paths.corpus_link.is_symlink():
        raise InputError(
            "foreign_folder",
            paths.corpus_link,
            "the link to the corpus, not a folder",
            hint="Remove it; convert makes the link.",
        )
    paths.corpus_link.unlink(missing_ok=True)
    paths.corpus_link.symlink_to(target, target_is_directory=True)
