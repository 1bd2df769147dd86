"""The six steps of a conversion, in order; each is one asset, and `rag-eval convert` runs them all.

A step reads what the steps before it wrote, refuses it when it was made from another source, writes its own files
atomically, and leaves a record. Steps hold the benchmark's lock, so a conversion and an evaluation never mix.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from rag_eval_pipeline.conversion.datasets import evaluation_dataset as build_dataset
from rag_eval_pipeline.conversion.datasets import ground_truth as build_ground_truth
from rag_eval_pipeline.conversion.datasets import train_row
from rag_eval_pipeline.conversion.digests import source_digest
from rag_eval_pipeline.conversion.gold_spans import locate_gold, read_gold_spans, write_gold_spans
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.conversion.quarantine_file import read_quarantine, write_quarantine
from rag_eval_pipeline.conversion.questions_file import read_questions, write_questions
from rag_eval_pipeline.conversion.settlement import STAGE, Settlement, settle
from rag_eval_pipeline.conversion.spec import BenchmarkSpec, read_spec
from rag_eval_pipeline.conversion.stamp import (
    Check,
    Stamp,
    StepRecord,
    StepReport,
    discard_stamp,
    require,
    write_record,
)
from rag_eval_pipeline.corpus.builder import build_corpus
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.egress import EgressPolicy, read_egress_config
from rag_eval_pipeline.corpus.manifest import read_manifest, read_planned, write_manifest, write_planned
from rag_eval_pipeline.corpus.naming import pins
from rag_eval_pipeline.corpus.text import corpus_pages, read_pages, reusable_pages, write_pages
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.formats.train_json import write_train_json
from rag_eval_pipeline.formats.validation import validate
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

LOCATED_SHARE = 0.97  # of gold texts, below which a check warns
PREVIEW_ROWS = 5

Progress = Callable[[int, int], None]


Step = Callable[[Workspace, BenchmarkPaths, BenchmarkSpec, str, Progress | None], StepReport]


def _questions(
    workspace: Workspace, paths: BenchmarkPaths, spec: BenchmarkSpec, digest: str, progress: Progress | None
) -> StepReport:
    """Rows to questions and planned documents; everything that needs no document."""
    discard_stamp(paths)
    planned = plan(paths, pins(_previous(paths)))
    write_questions(paths.questions, planned.questions)
    write_planned(paths.planned, planned.documents, base=paths.source)
    write_quarantine(paths.quarantine, planned.quarantine)
    counts = planned.counts
    wrong = {name: {"expected": e, "found": f} for name, e, f in spec.expect.differences(counts)}
    checks = (
        Check(name="rows_conserved", passed=counts.conserved, numbers=asdict(counts)),
        Check(name="counts_as_expected", passed=not wrong, numbers=wrong),
    )
    preview = [{"id": q.id, "question": q.question, "answer": q.answer} for q in planned.questions[:PREVIEW_ROWS]]
    return StepReport(_record("questions", digest, asdict(counts), checks), preview, tuple(planned.notes))


def _corpus(
    workspace: Workspace, paths: BenchmarkPaths, spec: BenchmarkSpec, digest: str, progress: Progress | None
) -> StepReport:
    """Planned documents to PDFs; what is unchanged is neither fetched nor rendered again."""
    require(paths, "questions", digest)
    planned = read_planned(paths.planned, base=paths.source)
    previous = _previous(paths)
    built = build_corpus(
        planned, paths.corpus, previous, EgressPolicy(read_egress_config(workspace.egress_config)), progress=progress
    )
    write_manifest(paths.documents, built)
    _link_corpus(paths)
    missing = [document for document in built if document.origin == "missing"]
    known = {(document.file_name, document.pdf_sha256) for document in previous}
    counts = {
        "files": len(built) - len(missing),
        "documents": len({document.key for document in built if document.origin != "missing"}),
        "missing": len(missing),
        "rendered": sum(document.origin == "rendered" for document in built),
        "kept": sum(document.origin == "kept" for document in built),
        "new_or_changed": sum((d.file_name, d.pdf_sha256) not in known for d in built if d.origin != "missing"),
        "pages": sum(document.pages for document in built),
        "images_expected": sum(document.images_expected for document in built),
        "images_drawn": sum(document.images_drawn for document in built),
    }
    check = Check(
        name="every_document_on_disk",
        passed=not missing,
        blocking=spec.on_missing_document == "fail",
        numbers={document.file_name: document.error or "" for document in missing[:20]},
    )
    preview = [{"file": d.file_name, "pages": d.pages, "from": d.origin, "url": d.url or ""} for d in built[:20]]
    notes = tuple(f"{document.file_name}: {document.error}" for document in missing)
    return StepReport(_record("corpus", digest, counts, (check,)), preview, notes)


def _corpus_text(
    workspace: Workspace, paths: BenchmarkPaths, spec: BenchmarkSpec, digest: str, progress: Progress | None
) -> StepReport:
    """PDFs to text with page and document offsets."""
    require(paths, "corpus", digest)
    present = [document for document in read_manifest(paths.documents) if document.origin != "missing"]
    pages = corpus_pages(present, paths.corpus, reusable_pages(paths.pages))
    write_pages(paths.pages, pages)
    with_text = {page.file_name for page in pages if page.text.strip()}
    silent = sorted({document.file_name for document in present} - with_text)
    counts = {"pages": len(pages), "characters": sum(len(page.text) for page in pages), "without_text": len(silent)}
    check = Check(name="every_pdf_has_text", passed=not silent, blocking=False, numbers={"files": silent[:20]})
    preview = [{"file": p.file_name, "page": p.page, "text": p.text[:120]} for p in pages[:PREVIEW_ROWS]]
    return StepReport(_record("corpus_text", digest, counts, (check,)), preview)


def _train_json(
    workspace: Workspace, paths: BenchmarkPaths, spec: BenchmarkSpec, digest: str, progress: Progress | None
) -> StepReport:
    """`train.json`; questions whose documents could not be had go the way the spec says."""
    rows = require(paths, "questions", digest).counts["rows"]
    require(paths, "corpus", digest)
    settlement = _settlement(paths, spec)
    earlier = [record for record in read_quarantine(paths.quarantine) if record.stage != STAGE]
    records = [*earlier, *settlement.quarantined]
    write_quarantine(paths.quarantine, records)
    written = write_train_json(paths.train_json, (train_row(question) for question in settlement.questions))
    dropped = sum(record.stage == "where" for record in records)
    counts = {
        "rows": rows,
        "accepted": written,
        "dropped": dropped,
        "quarantined": len(records) - dropped,
        "impossible": sum(question.is_impossible for question in settlement.questions),
        "contexts": sum(len(question.contexts) for question in settlement.questions),
        "contexts_lost": settlement.contexts_lost,
    }
    findings = validate(paths.train_json)
    checks = (
        Check(name="rows_conserved", passed=rows == written + len(records), numbers=dict(counts)),
        Check(name="every_gold_document_on_disk", passed=not findings, numbers={"findings": findings[:20]}),
        Check(
            name="no_context_lost",
            passed=settlement.contexts_lost == 0,
            blocking=spec.on_missing_document == "fail",
            numbers={"contexts_lost": settlement.contexts_lost},
        ),
    )
    preview = [
        {"id": q.id, "question": q.question, "answer": q.answer, "documents": ", ".join(_file_names(q.contexts))}
        for q in settlement.questions[:PREVIEW_ROWS]
    ]
    return StepReport(_record("train_json", digest, counts, checks), preview)


def _evaluation_dataset(
    workspace: Workspace, paths: BenchmarkPaths, spec: BenchmarkSpec, digest: str, progress: Progress | None
) -> StepReport:
    """`.eval.json`: the same questions with accepted answers and the places of their gold texts."""
    require(paths, "train_json", digest)
    require(paths, "corpus_text", digest)
    settlement = _settlement(paths, spec)
    spans = locate_gold(settlement.questions, read_planned(paths.planned, base=paths.source), read_pages(paths.pages))
    write_gold_spans(paths.gold_spans, spans)
    dataset = build_dataset(spec, settlement.questions, spans)
    target = workspace.eval_json(dataset.dataset_id, dataset.version)
    dataset.write(target)
    located = sum(span.method is not None for span in spans)
    findings = validate(target)
    counts = {"queries": len(dataset.queries), "gold_texts": len(spans), "gold_texts_located": located}
    checks = (
        Check(name="dataset_validates", passed=not findings, numbers={"findings": findings[:20]}),
        Check(
            name="gold_texts_located",
            passed=located >= LOCATED_SHARE * len(spans),
            blocking=False,
            numbers={"located": located, "gold_texts": len(spans)},
        ),
    )
    preview = [{"file": s.file_name, "page": s.page, "method": s.method, "text": s.text[:80]} for s in spans[:10]]
    return StepReport(_record("evaluation_dataset", digest, counts, checks), preview)


def _ground_truth(
    workspace: Workspace, paths: BenchmarkPaths, spec: BenchmarkSpec, digest: str, progress: Progress | None
) -> StepReport:
    """`.gt.json` where gold texts were located, and last of all the stamp."""
    records = [require(paths, step, digest) for step in STEPS if step != "ground_truth"]
    truth = build_ground_truth(spec, read_gold_spans(paths.gold_spans))
    target = workspace.gt_json(spec.name, spec.version)
    if truth is None:
        target.unlink(missing_ok=True)
    else:
        truth.write(target)
    annotations = 0 if truth is None else len(truth.annotations)
    findings = [] if truth is None else validate(target)
    check = Check(name="ground_truth_validates", passed=not findings, numbers={"findings": findings[:20]})
    record = _record("ground_truth", digest, {"annotations": annotations}, (check,))
    if not record.failed:
        _stamp(workspace, paths, spec, digest, [*records, record])
    preview = [] if truth is None else [{"query": a.query_id, "citations": len(a.citations)} for a in truth.annotations]
    return StepReport(record, preview[:PREVIEW_ROWS])


STEPS: dict[str, Step] = {
    "questions": _questions,
    "corpus": _corpus,
    "corpus_text": _corpus_text,
    "train_json": _train_json,
    "evaluation_dataset": _evaluation_dataset,
    "ground_truth": _ground_truth,
}


def run_step(workspace: Workspace, benchmark: str, step: str, *, progress: Progress | None = None) -> StepReport:
    """One step of a benchmark's conversion.

    Raises:
        InputError: A fault of the spec, of a source file, or an earlier step that is missing, stale or failed.
        ServiceError: `locked`, or a browser that could not be used.
    """
    paths = workspace.benchmark(benchmark)
    if not paths.spec.exists():
        raise InputError("missing_spec", paths.spec, f"a folder data/sources/{benchmark} with a benchmark.yaml")
    holder = f"{step} of {benchmark}, process {os.getpid()}"
    with locked(paths.lock, holder=holder, exclusive=True):
        report = STEPS[step](workspace, paths, read_spec(paths), source_digest(paths), progress)
        write_record(paths, report.record)
    return report


def convert(
    workspace: Workspace, benchmark: str, *, progress: Callable[[str], Progress | None] = lambda step: None
) -> list[StepReport]:
    """All steps of a conversion; stops after a step whose blocking check failed.

    Args:
        workspace: Where.
        benchmark: What.
        progress: Given the name of a step, what to call with done and total.

    Raises:
        InputError: As `run_step`, or `check_failed` with what was found.
    """
    reports = []
    for step in STEPS:
        report = run_step(workspace, benchmark, step, progress=progress(step))
        reports.append(report)
        for check in report.record.checks:
            if check.blocking and not check.passed:
                source = workspace.benchmark(benchmark).spec
                raise InputError(
                    "check_failed", source, f"the check {check.name} of {step} to pass", found=check.numbers
                )
    return reports


def _record(step: str, digest: str, counts: dict[str, int], checks: tuple[Check, ...]) -> StepRecord:
    return StepRecord(step=step, source_digest=digest, counts=counts, checks=checks)


def _previous(paths: BenchmarkPaths) -> list[CorpusDocument]:
    return read_manifest(paths.documents) if paths.documents.exists() else []


def _settlement(paths: BenchmarkPaths, spec: BenchmarkSpec) -> Settlement:
    missing = {d.file_name: d.error or "" for d in read_manifest(paths.documents) if d.origin == "missing"}
    return settle(read_questions(paths.questions), missing, spec.on_missing_document)


def _file_names(contexts: Iterable[Any]) -> list[str]:
    return [context.file_name for context in contexts if context.file_name is not None]


def _link_corpus(paths: BenchmarkPaths) -> None:
    """The `corpus` link of the evaluation root; relative, so that the workspace can be moved."""
    target = os.path.relpath(paths.corpus, paths.dataset)
    paths.corpus.mkdir(parents=True, exist_ok=True)
    if paths.corpus_link.is_symlink() and os.readlink(paths.corpus_link) == target:
        return
    paths.corpus_link.unlink(missing_ok=True)
    paths.corpus_link.symlink_to(target, target_is_directory=True)


def _stamp(
    workspace: Workspace, paths: BenchmarkPaths, spec: BenchmarkSpec, digest: str, records: list[StepRecord]
) -> None:
    counts = {f"{record.step}.{name}": value for record in records for name, value in record.counts.items()}
    Stamp(
        benchmark=paths.name,
        source_digest=digest,
        dataset_id=spec.name,
        dataset_version=spec.version,
        dataset_fingerprint=hashlib.sha256(read_bytes(workspace.eval_json(spec.name, spec.version))).hexdigest(),
        corpus_fingerprint=_corpus_fingerprint(read_manifest(paths.documents)),
        counts=counts,
        checks={f"{record.step}.{check.name}": check.passed for record in records for check in record.checks},
    ).write(paths.stamp)


def _corpus_fingerprint(documents: Iterable[CorpusDocument]) -> str:
    lines = sorted(f"{d.file_name}\0{d.pdf_sha256}\n" for d in documents if d.origin != "missing")
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
