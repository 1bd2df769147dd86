"""The six steps of a conversion, in order; each is one asset.

A step refuses what was made from another source, writes its files atomically, and leaves a record.
"""

import glob
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_pipeline.conversion import datasets, shards
from rag_eval_pipeline.conversion.audit_decisions import audit_sha256
from rag_eval_pipeline.conversion.datasets import LISTED
from rag_eval_pipeline.conversion.evaluation_dataset import QUERY_COLUMNS, dataset_head, write_evaluation_dataset
from rag_eval_pipeline.conversion.gold_documents import (
    SearchResult,
    bare_texts,
    find_documents,
    missing_documents,
    read_found,
    remaining_questions,
    with_documents,
    write_found,
)
from rag_eval_pipeline.conversion.planning import Plan, plan
from rag_eval_pipeline.conversion.quarantine import quarantine_notes, read_quarantine, write_quarantine
from rag_eval_pipeline.conversion.question_spool import (
    DOCUMENTS_STAGE,
    count_without_document,
    iterate_batches,
    prefetch,
    questions_of,
    write_batches,
)
from rag_eval_pipeline.conversion.questions import Question
from rag_eval_pipeline.conversion.stamp import Conversion, Stamp, StepRecord, StepReport, discard_stamp, make_check
from rag_eval_pipeline.conversion.summaries import (
    DRIFTED,
    corpus_counts,
    document_facts,
    document_notes,
    first_pages,
    lost_counts,
    missing,
    pages_with_words_lost,
    present,
    slowest,
    words_line,
)
from rag_eval_pipeline.corpus import manifest
from rag_eval_pipeline.corpus.manifest import read_manifest, unless_damaged
from rag_eval_pipeline.corpus.naming import pins
from rag_eval_pipeline.corpus.text.pages import Page, corpus_pages, extractor, read_pages, reusable_pages, write_pages
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationDataset, SourceDocument
from rag_eval_pipeline.formats.ground_truth import Annotation
from rag_eval_pipeline.formats.row_files import write_with_rows
from rag_eval_pipeline.sources.source_files import SourceFiles
from rag_eval_pipeline.storage.atomic_files import TEMP_PREFIX, remove_leftover, sha256_of
from rag_eval_pipeline.storage.json_rows import write_rows
from rag_eval_pipeline.web.egress import EgressPolicy, read_egress_config
from rag_eval_pipeline.workspace import BenchmarkPaths

logger = logging.getLogger(__name__)
PREVIEW_ROWS = 5
LOCATED_SHARE = 0.97  # of gold texts; below, a check warns
OF_THIS_CONVERSION = {"new_or_changed", "drifted"}  # the stamp says what the source comes to, whenever it is converted
EARLIER = ("questions", "corpus", "corpus_text", "train_json", "evaluation_dataset")


def questions(conversion: Conversion) -> StepReport:
    """Rows to questions and planned documents; everything that needs no document."""
    paths, spec = conversion.paths, conversion.spec
    policy = EgressPolicy(read_egress_config(conversion.workspace.egress_config))
    origins = SourceFiles(paths, paths.cache, policy, _logged(paths.name))
    for left in _leftovers(paths):
        remove_leftover(left)
    planned = plan(paths, pins(unless_damaged(read_manifest, paths.documents)), origins=origins)
    _require_new_version(conversion, planned)
    discard_stamp(paths)  # a source that is refused leaves the earlier conversion as it is
    write_batches(paths.questions, prefetch(planned.spool.batches(planned.names, planned.own_urls)))
    manifest.write_planned(paths.planned, planned.documents, base=paths.source)
    write_quarantine(paths.quarantine, planned.quarantine)
    counts = planned.counts
    wrong = {name: {"expected": e, "found": f} for name, e, f in spec.expect.differences(counts.record())}
    unknown = sum(record.code == "unknown_document" for record in planned.quarantine)
    must_be_known = spec.on_missing_document == "fail"
    checks = (
        make_check("rows_conserved", counts.conserved, counts.record()),
        make_check("counts_as_expected", not wrong, wrong or spec.expect.model_dump(exclude_none=True)),
        make_check("every_document_known", unknown == 0, {"unknown": unknown}, blocking=must_be_known),
    )
    shown = _first_questions(iterate_batches(paths.questions))
    preview = [{"id": q.id, "question": q.question, "answer": q.answer} for q in shown]
    notes = (*quarantine_notes(paths.name, planned.quarantine), *planned.notes)
    return conversion.report("questions", counts.record(), checks, preview, notes)


def corpus(conversion: Conversion) -> StepReport:
    """Planned documents to PDFs; what is unchanged is neither fetched nor rendered again."""
    paths = conversion.paths
    conversion.require("questions")
    previous = manifest.with_web_state(unless_damaged(read_manifest, paths.documents), paths.web)
    known = {(document.file_name, document.pdf_sha256) for document in previous}
    sharded = shards.plan_shards(conversion)
    if sharded is not None:
        built = shards.merge_documents(conversion, sharded)
    else:
        planned = manifest.read_planned(paths.planned, base=paths.source)
        built = shards.build_documents(conversion, planned, previous, paths.corpus_journal)
    paths.documents_json.unlink(missing_ok=True)  # the next step writes that of this corpus
    manifest.write_manifest(paths.documents, built)
    manifest.write_web_state(paths.web, built)
    paths.corpus_journal.unlink(missing_ok=True)
    _link_corpus(paths)
    absent = missing(built)
    drifted = [document for document in present(built) if document.drift in DRIFTED]
    incomplete = pages_with_words_lost(built)
    pages = sum(document.words_seen > 0 for document in present(built))
    checks = (
        make_check(
            "every_document_on_disk",
            not absent,
            {"missing": len(absent), **{d.file_name: d.error or "" for d in absent[:LISTED]}},
            blocking=conversion.spec.on_missing_document == "fail",
        ),
        make_check(
            "documents_as_on_the_web",
            not drifted,
            {"drifted": len(drifted), **{d.file_name: d.drift_reason or "" for d in drifted[:LISTED]}},
            blocking=conversion.spec.on_drift == "fail",
        ),
        make_check(
            "page_words_in_pdf",
            not incomplete,
            {
                "pages": pages,
                "incomplete": len(incomplete),
                **{d.file_name: words_line(d) for d in incomplete[:LISTED]},
            },
            blocking=False,
        ),
    )
    preview = [document_facts(document) for document in built[:LISTED]]
    counts = corpus_counts(built, known, paths.corpus)
    report = conversion.report("corpus", counts, checks, preview, document_notes(built))
    if report.record.failed:
        shards.discard_shards(paths)  # else the next conversion would merge them again and try no document
    sheet = first_pages(built, paths.corpus)
    return replace(
        report,
        seconds={"slowest_seconds": max((document.seconds for document in built), default=0.0)},
        tables={"slowest": slowest(built)},
        pictures={} if sheet is None else {"first_pages": sheet},
    )


def corpus_text(conversion: Conversion) -> StepReport:
    """PDFs to text with page and document offsets, and with its length the manifest as JSON."""
    paths = conversion.paths
    conversion.require("corpus")
    there = present(read_manifest(paths.documents))
    pages = shards.merged_pages(conversion)
    if pages is None:
        pages = corpus_pages(there, paths.corpus, unless_damaged(reusable_pages, paths.pages))
    characters = Counter({document.file_name: 0 for document in there})
    with_text: set[str] = set()
    first: list[Page] = []
    count = 0

    def counted(pages: Iterator[Page]) -> Iterator[Page]:
        nonlocal count
        for page in pages:
            count += 1
            characters[page.file_name] += len(page.text)
            if page.text.strip():
                with_text.add(page.file_name)
            if len(first) < PREVIEW_ROWS:
                first.append(page)
            yield page

    write_pages(paths.pages, counted(pages))
    manifest.write_manifest_json(
        paths.documents_json, manifest.iterate_rows(paths.documents), characters, extractor=extractor()
    )
    shards.discard_shards(paths)
    silent = sorted(characters.keys() - with_text)
    counts = {"pages": count, "characters": characters.total(), "without_text": len(silent)}
    check = make_check("every_pdf_has_text", not silent, {"files": silent[:LISTED]}, blocking=False)
    preview = [{"file": p.file_name, "page": p.page, "text": p.text[:120]} for p in first]
    return conversion.report("corpus_text", counts, (check,), preview)


def train_json(conversion: Conversion) -> StepReport:
    """`train.json`; questions whose documents could not be had go the way the spec says."""
    paths = conversion.paths
    planned = conversion.require("questions").counts
    conversion.require("corpus_text")
    search = _find_documents(conversion) if planned.get("bare_texts") else None
    found = {} if search is None else search.found
    write_found(paths.gold_documents, found)
    absent_documents = missing_documents(conversion)
    tally = _Tally(_on_disk(conversion))
    columns = None if absent_documents.missing or found else datasets.TRAIN_COLUMNS
    asked = with_documents(iterate_batches(paths.questions, columns), found)
    remaining = absent_documents.drop(prefetch(asked))
    rows = planned["rows"]
    write_rows(paths.train_json, tally.counting(remaining), datasets.train_rows, depth=datasets.TRAIN_DEPTH)
    earlier = [record for record in read_quarantine(paths.quarantine) if record.stage != DOCUMENTS_STAGE]
    records = [*earlier, *absent_documents.quarantined]
    write_quarantine(paths.quarantine, records)
    written, findings = tally.questions, sorted(tally.absent)
    dropped = sum(record.is_dropped for record in records)
    counts = {
        "rows": rows,
        "accepted": written,
        "dropped": dropped,
        "quarantined": len(records) - dropped,
        "impossible": tally.impossible,
        "contexts": tally.contexts,
        "contexts_lost": absent_documents.contexts_lost,
        "without_document": tally.without_document,
        "characters": tally.characters,
        **lost_counts(absent_documents.lost),
        **({} if search is None else search.counts()),
    }
    expected = conversion.spec.expect
    short = expected.questions is not None and written < expected.questions
    over = expected.quarantined is not None and counts["quarantined"] > expected.quarantined
    left = {"questions": written, "quarantined": counts["quarantined"]}
    lost = absent_documents.contexts_lost
    must_keep_all = conversion.spec.on_missing_document == "fail"
    checks = (
        make_check("questions_left", written > 0 and not short and not over, left),
        make_check("rows_conserved", rows == written + len(records), dict(counts)),
        make_check("every_gold_document_on_disk", not findings, {"findings": findings[:LISTED]}),
        make_check("no_context_lost", lost == 0, {"contexts_lost": lost}, blocking=must_keep_all),
    )
    preview = [
        {"id": q.id, "question": q.question, "answer": q.answer, "documents": ", ".join(_file_names(q))}
        for q in _first_questions(remaining_questions(conversion))
    ]
    notes = (*quarantine_notes(paths.name, absent_documents.quarantined), *(search.notes() if search else ()))
    return conversion.report("train_json", counts, checks, preview, notes)


def evaluation_dataset(conversion: Conversion) -> StepReport:
    """`.eval.json`: the same questions with accepted answers and the places of their gold texts."""
    paths = conversion.paths
    counted = conversion.require("train_json").counts
    conversion.require("corpus_text")
    planned = manifest.read_planned(paths.planned, base=paths.source)
    # The questions are not read again for gold texts where there are none.
    has_gold = conversion.require("questions").counts["gold_texts"] or counted.get("texts_found")
    asked = datasets.with_gold(remaining_questions(conversion)) if has_gold else ()
    pages = read_pages(paths.pages)
    first = _first_questions(remaining_questions(conversion))
    gold = datasets.GoldTally([question.id for question in first])
    spans = datasets.locate_gold(asked, planned, pages, on_other_page=gold.note_other_page)
    datasets.write_gold_spans(paths.gold_spans, gold.counting(spans))
    head = dataset_head(conversion.spec, size=counted["accepted"], characters=counted["characters"])
    target = conversion.workspace.eval_json(head.dataset_id, head.version)
    made = paths.steps / "made.eval.json"
    findings = _write_dataset(conversion, made, head, remaining_questions(conversion, QUERY_COLUMNS))
    datasets.publish_version(conversion, made, target)
    counts = {
        "queries": counted["accepted"],
        "gold_texts": gold.gold_texts,
        "gold_texts_located": gold.located,
        "gold_texts_similar": gold.similar,
    }
    checks = (
        make_check("dataset_validates", not findings, {"findings": findings[:LISTED]}),
        make_check(
            "gold_texts_located",
            gold.located >= LOCATED_SHARE * gold.gold_texts,
            {"located": gold.located, "gold_texts": gold.gold_texts, "not_located": gold.not_located},
            blocking=False,
        ),
    )
    preview = [
        {"query": q.question, "answer": q.answer, "documents": len(set(_file_names(q))), "gold": gold.of_question[q.id]}
        for q in first
    ]
    report = conversion.report("evaluation_dataset", counts, checks, preview, tuple(gold.notes(pages)))
    return replace(report, fingerprint=sha256_of(target))


def _write_dataset(
    conversion: Conversion, made: Path, head: EvaluationDataset, batches: Iterable[pa.RecordBatch]
) -> list[str]:
    paths, inline = conversion.paths, conversion.spec.inline_documents
    texts = datasets.document_texts(read_pages(paths.pages)) if inline else {}
    documents = [SourceDocument(document_id=name, content=text) for name, text in texts.items()]
    return write_evaluation_dataset(made, head, batches, datasets.read_gold_spans(paths.gold_spans), documents)


def _require_new_version(conversion: Conversion, planned: Plan) -> None:
    """Refuse other questions under a published version while the conversion that published them is still whole.

    The dataset is made with that conversion's documents and places of gold texts. What only a changed document or gold
    text moves is found when the documents have been read, by the step `evaluation_dataset`.
    """
    paths, spec = conversion.paths, conversion.spec
    target, made = conversion.workspace.eval_json(spec.name, spec.version), paths.steps / "made.eval.json"
    try:
        if conversion.replace or not (paths.stamp.exists() and target.exists()):
            return
        earlier = Stamp.read(paths.stamp)
        if earlier.source_digest == conversion.digest or earlier.dataset_fingerprint != sha256_of(target):
            return  # of the same source, or another version
        found, absent, tally = read_found(paths.gold_documents), missing_documents(conversion), _Tally(set())
        if spec.on_missing_document == "fail" and absent.missing:
            return  # a check says so

        def remaining() -> Iterator[pa.RecordBatch]:
            return absent.drop(with_documents(planned.spool.batches(planned.names, planned.own_urls), found))

        for _ in tally.counting(remaining()):
            pass
        if not tally.questions:
            return  # a check says so
        head = dataset_head(spec, size=tally.questions, characters=tally.characters)
        _write_dataset(conversion, made, head, remaining())
        datasets.require_new_version(conversion, made, target)
    except (InputError, OSError, pa.ArrowException) as error:  # a file of the earlier conversion is damaged or gone
        if isinstance(error, InputError) and error.code == "version_conflict":
            raise
    finally:
        made.unlink(missing_ok=True)


def ground_truth(conversion: Conversion) -> StepReport:
    """`.gt.json` where gold texts were located or people annotated, and last of all the stamp."""
    conversion.paths.stamp.unlink(missing_ok=True)  # of an earlier conversion
    records = [conversion.require(step) for step in EARLIER]
    truth, quality, notes = datasets.annotated_truth(conversion)
    own = datasets.source_annotations(datasets.read_gold_spans(conversion.paths.gold_spans))
    annotations = chain(own, truth.annotations)  # the source's first
    first = list(islice(annotations, PREVIEW_ROWS))
    written = 0

    def counted() -> Iterator[Annotation]:
        nonlocal written
        for annotation in chain(first, annotations):
            written += 1
            yield annotation

    target = conversion.workspace.gt_json(conversion.spec.name, conversion.spec.version)
    if first:
        write_with_rows(target, truth.model_copy(update={"annotations": ()}), "annotations", counted())
    else:
        target.unlink(missing_ok=True)
    preview = [{"query": a.query_id, "citations": len(a.citations)} for a in first]
    report = conversion.report("ground_truth", {"annotations": written}, quality, preview, notes)
    return replace(report, fingerprint=_stamp(conversion, [*records, report.record]).fingerprint)


STEPS: dict[str, Callable[[Conversion], StepReport]] = {
    "questions": questions,
    "corpus": corpus,
    "corpus_text": corpus_text,
    "train_json": train_json,
    "evaluation_dataset": evaluation_dataset,
    "ground_truth": ground_truth,
}


def _leftovers(paths: BenchmarkPaths) -> Iterator[Path]:
    """Yield the temporary files of a killed conversion; the caller holds the benchmark's lock, so none is in use."""
    yield from paths.dataset.glob(f"{TEMP_PREFIX}*")
    yield from paths.steps.glob(f"{TEMP_PREFIX}*")
    yield from paths.corpus.parent.glob(f"{TEMP_PREFIX}{glob.escape(paths.name)}")
    yield from paths.corpus.parent.glob(f"{TEMP_PREFIX}{glob.escape(paths.name)}~*")  # of its shards


def _logged(benchmark: str) -> Callable[[int, int | None], None]:
    """Return a function that logs the progress of a download at each tenth of it, or each 100 MB."""
    reported = 0

    def progress(done: int, total: int | None) -> None:
        nonlocal reported
        if done - reported >= (total // 10 if total else 100_000_000):
            reported = done
            of = f" of {total / 1e6:.0f}" if total else ""
            logger.info("%s: downloaded %.0f%s MB", benchmark, done / 1e6, of)

    return progress


def _link_corpus(paths: BenchmarkPaths) -> None:
    """Make the `corpus` link of the evaluation root; it is relative, so that the workspace can be moved."""
    target = os.path.relpath(paths.corpus, paths.dataset)
    paths.corpus.mkdir(parents=True, exist_ok=True)
    if paths.corpus_link.is_symlink() and os.readlink(paths.corpus_link) == target:
        return
    if paths.corpus_link.is_dir() and not paths.corpus_link.is_symlink():
        expected, hint = "the link to the corpus, not a folder", "Remove it; convert makes the link."
        raise InputError("foreign_folder", paths.corpus_link, expected, hint=hint)
    paths.corpus_link.unlink(missing_ok=True)
    paths.corpus_link.symlink_to(target, target_is_directory=True)


class _Tally:
    """Counts of the questions that were written."""

    def __init__(self, files: set[str]) -> None:
        self.questions = self.impossible = self.contexts = self.characters = self.without_document = 0
        self.absent: set[str] = set()  # file names that the corpus does not have
        self._files = files

    def counting(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches as they are."""
        for batch in batches:
            items = batch.column("contexts").flatten()
            self.questions += batch.num_rows
            self.impossible += batch.column("is_impossible").true_count
            self.contexts += len(items)
            self.without_document += count_without_document(batch, "file_name")
            self.characters += pc.sum(pc.utf8_length(batch.column("question"))).as_py() or 0
            named = pc.unique(items.field("file_name")).drop_null().to_pylist()
            self.absent.update(name for name in named if name not in self._files)
            yield batch


def _on_disk(conversion: Conversion) -> set[str]:
    """Return the files of the manifest that are in the corpus; other files there are no documents."""
    corpus = conversion.paths.corpus
    entries = os.scandir(corpus) if corpus.is_dir() else ()
    found = {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}
    return found & {d.file_name for d in read_manifest(conversion.paths.documents) if d.origin != "missing"}


def _find_documents(conversion: Conversion) -> SearchResult:
    """Look for the gold texts that name no document."""
    paths = conversion.paths
    questions = (question for batch in iterate_batches(paths.questions) for question in questions_of(batch))
    planned = manifest.read_planned(paths.planned, base=paths.source)
    return find_documents(bare_texts(questions), planned, read_pages(paths.pages))


def _first_questions(batches: Iterable[pa.RecordBatch]) -> list[Question]:
    first = (batch.slice(0, PREVIEW_ROWS) for batch in batches)
    return list(islice((question for batch in first for question in questions_of(batch)), PREVIEW_ROWS))


def _file_names(question: Question) -> list[str]:
    return [context.file_name for context in question.contexts if context.file_name is not None]


def _stamp(conversion: Conversion, records: list[StepRecord]) -> Stamp:
    paths, spec = conversion.paths, conversion.spec
    counts = {
        f"{record.step}.{name}": value
        for record in records
        for name, value in record.counts.items()
        if name not in OF_THIS_CONVERSION
    }
    dataset = conversion.workspace.eval_json(spec.name, spec.version)
    files = sorted(f"{d.file_name}\0{d.pdf_sha256}\n" for d in present(read_manifest(paths.documents)))
    corpus_content = "".join([*files, extractor()]).encode("utf-8", "surrogateescape")
    stamp = Stamp(
        benchmark=paths.name,
        source_digest=conversion.digest,
        dataset_id=spec.name,
        dataset_version=spec.version,
        dataset_fingerprint=sha256_of(dataset),
        corpus_fingerprint=hashlib.sha256(corpus_content).hexdigest(),
        audit_sha256=audit_sha256(paths),
        files={path.name: sha256_of(path) for path in (paths.documents, paths.pages)},
        counts=counts,
        checks={f"{record.step}.{check.name}": check.passed for record in records for check in record.checks},
    )
    stamp.write(paths.stamp)
    return stamp
