"""The steps from questions and a corpus to the product files: `train.json`, `.eval.json`, `.gt.json`, and the stamp."""

import hashlib
from collections.abc import Iterable

from rag_eval_pipeline.conversion.corpus_steps import quarantine_notes
from rag_eval_pipeline.conversion.datasets import evaluation_dataset as build_dataset
from rag_eval_pipeline.conversion.datasets import ground_truth as build_ground_truth
from rag_eval_pipeline.conversion.datasets import train_row
from rag_eval_pipeline.conversion.gold_spans import locate_gold, read_gold_spans, write_gold_spans
from rag_eval_pipeline.conversion.quarantine_file import read_quarantine, write_quarantine
from rag_eval_pipeline.conversion.questions_file import read_questions
from rag_eval_pipeline.conversion.records import Question
from rag_eval_pipeline.conversion.settlement import STAGE, Settlement, settle
from rag_eval_pipeline.conversion.stamp import Check, Conversion, Stamp, StepRecord, StepReport
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import read_manifest, read_planned
from rag_eval_pipeline.corpus.text import extractor, read_pages
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.formats.train_json import write_train_json
from rag_eval_pipeline.formats.validation import validate

LOCATED_SHARE = 0.97  # of gold texts; below, a check warns
PREVIEW_ROWS = 5
LISTED = 20
EARLIER = ("questions", "corpus", "corpus_text", "train_json", "evaluation_dataset")


def train_json(conversion: Conversion) -> StepReport:
    """`train.json`; questions whose documents could not be had go the way the spec says."""
    paths = conversion.paths
    rows = conversion.require("questions").counts["rows"]
    conversion.require("corpus")
    settlement = _settlement(conversion)
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
    expected = conversion.spec.expect
    short = expected.questions is not None and written < expected.questions
    over = expected.quarantined is not None and counts["quarantined"] > expected.quarantined
    checks = (
        Check(
            name="questions_left",
            passed=written > 0 and not short and not over,
            numbers={"questions": written, "quarantined": counts["quarantined"]},
        ),
        Check(name="rows_conserved", passed=rows == written + len(records), numbers=dict(counts)),
        Check(name="every_gold_document_on_disk", passed=not findings, numbers={"findings": findings[:LISTED]}),
        Check(
            name="no_context_lost",
            passed=settlement.contexts_lost == 0,
            blocking=conversion.spec.on_missing_document == "fail",
            numbers={"contexts_lost": settlement.contexts_lost},
        ),
    )
    preview = [
        {"id": q.id, "question": q.question, "answer": q.answer, "documents": ", ".join(_file_names(q))}
        for q in settlement.questions[:PREVIEW_ROWS]
    ]
    notes = tuple(quarantine_notes(paths.name, settlement.quarantined))
    return conversion.report("train_json", counts, checks, preview, notes)


def evaluation_dataset(conversion: Conversion) -> StepReport:
    """`.eval.json`: the same questions with accepted answers and the places of their gold texts."""
    paths = conversion.paths
    conversion.require("train_json")
    conversion.require("corpus_text")
    settlement = _settlement(conversion)
    planned = read_planned(paths.planned, base=paths.source)
    spans = locate_gold(settlement.questions, planned, read_pages(paths.pages))
    write_gold_spans(paths.gold_spans, spans)
    dataset = build_dataset(conversion.spec, settlement.questions, spans)
    target = conversion.workspace.eval_json(dataset.dataset_id, dataset.version)
    dataset.write(target)
    located = sum(span.method is not None for span in spans)
    findings = validate(target)
    counts = {"queries": len(dataset.queries), "gold_texts": len(spans), "gold_texts_located": located}
    checks = (
        Check(name="dataset_validates", passed=not findings, numbers={"findings": findings[:LISTED]}),
        Check(
            name="gold_texts_located",
            passed=located >= LOCATED_SHARE * len(spans),
            blocking=False,
            numbers={"located": located, "gold_texts": len(spans)},
        ),
    )
    preview = [
        {
            "query": q.query_text,
            "answer": q.ground_truth_answer,
            "documents": len(q.relevant_documents),
            "gold": len(q.citations),
        }
        for q in dataset.queries[:PREVIEW_ROWS]
    ]
    return conversion.report("evaluation_dataset", counts, checks, preview)


def ground_truth(conversion: Conversion) -> StepReport:
    """`.gt.json` where gold texts were located, and last of all the stamp."""
    conversion.paths.stamp.unlink(
        missing_ok=True
    )  # of an earlier conversion; it must not outlive a check that fails now
    records = [conversion.require(step) for step in EARLIER]
    truth = build_ground_truth(conversion.spec, read_gold_spans(conversion.paths.gold_spans))
    target = conversion.workspace.gt_json(conversion.spec.name, conversion.spec.version)
    if truth is None:
        target.unlink(missing_ok=True)
    else:
        truth.write(target)
    annotations = () if truth is None else truth.annotations
    findings = [] if truth is None else validate(target)
    check = Check(name="ground_truth_validates", passed=not findings, numbers={"findings": findings[:LISTED]})
    preview = [{"query": a.query_id, "citations": len(a.citations)} for a in annotations[:PREVIEW_ROWS]]
    report = conversion.report("ground_truth", {"annotations": len(annotations)}, (check,), preview)
    if not report.record.failed:
        _stamp(conversion, [*records, report.record])
    return report


def _settlement(conversion: Conversion) -> Settlement:
    paths = conversion.paths
    missing = {d.file_name: d.error or "" for d in read_manifest(paths.documents) if d.origin == "missing"}
    return settle(read_questions(paths.questions), missing, conversion.spec.on_missing_document)


def _file_names(question: Question) -> list[str]:
    return [context.file_name for context in question.contexts if context.file_name is not None]


def _stamp(conversion: Conversion, records: list[StepRecord]) -> None:
    paths, spec = conversion.paths, conversion.spec
    counts = {
        f"{record.step}.{name}": value
        for record in records
        for name, value in record.counts.items()
        if name != "new_or_changed"  # what this conversion had to do; the stamp says what the source comes to
    }
    dataset = conversion.workspace.eval_json(spec.name, spec.version)
    Stamp(
        benchmark=paths.name,
        source_digest=conversion.digest,
        dataset_id=spec.name,
        dataset_version=spec.version,
        dataset_fingerprint=hashlib.sha256(read_bytes(dataset)).hexdigest(),
        corpus_fingerprint=_corpus_fingerprint(read_manifest(paths.documents)),
        files={path.name: hashlib.sha256(read_bytes(path)).hexdigest() for path in (paths.documents, paths.pages)},
        counts=counts,
        checks={f"{record.step}.{check.name}": check.passed for record in records for check in record.checks},
    ).write(paths.stamp)


def _corpus_fingerprint(documents: Iterable[CorpusDocument]) -> str:
    lines = sorted(f"{d.file_name}\0{d.pdf_sha256}\n" for d in documents if d.origin != "missing")
    return hashlib.sha256("".join([*lines, extractor()]).encode("utf-8", "surrogateescape")).hexdigest()
