"""The steps from questions and a corpus to the product files: `train.json`, `.eval.json`, `.gt.json`, and the stamp."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.annotated_truth import annotated_truth
from rag_eval_pipeline.conversion.dataset_columns import QUERY_COLUMNS, TRAIN_DEPTH, train_rows
from rag_eval_pipeline.conversion.dataset_versions import publish_version
from rag_eval_pipeline.conversion.datasets import dataset_head, write_evaluation_dataset
from rag_eval_pipeline.conversion.datasets import ground_truth as build_ground_truth
from rag_eval_pipeline.conversion.gold_spans import locate_gold, read_gold_spans, with_gold, write_gold_spans
from rag_eval_pipeline.conversion.quarantine_file import quarantine_notes, read_quarantine, write_quarantine
from rag_eval_pipeline.conversion.questions_file import iterate_batches, questions_of
from rag_eval_pipeline.conversion.records import Question, lost_counts
from rag_eval_pipeline.conversion.report import without_document
from rag_eval_pipeline.conversion.settlement import STAGE, Missing, Settling
from rag_eval_pipeline.conversion.stamp import Check, Conversion, Stamp, StepRecord, StepReport
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import read_manifest, read_planned
from rag_eval_pipeline.corpus.text.pages import Page, extractor, pages_by_document, read_pages
from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.formats.evaluation_dataset import SourceDocument
from rag_eval_pipeline.formats.rows_file import write_rows
from rag_eval_pipeline.formats.validation import validate
from rag_eval_pipeline.storage.ahead import ahead
from rag_eval_pipeline.storage.digests import sha256_of

if TYPE_CHECKING:
    import pyarrow as pa

LOCATED_SHARE = 0.97  # of gold texts; below, a check warns
PREVIEW_ROWS = 5
LISTED = 20
OF_THIS_CONVERSION = {"new_or_changed", "drifted"}  # the stamp says what the source comes to, whenever it is converted
EARLIER = ("questions", "corpus", "corpus_text", "train_json", "evaluation_dataset")


def train_json(conversion: Conversion) -> StepReport:
    """`train.json`; questions whose documents could not be had go the way the spec says."""
    paths = conversion.paths
    rows = conversion.require("questions").counts["rows"]
    conversion.require("corpus")
    settling = _settling(conversion)
    tally = _Tally(_on_disk(conversion))
    settled = settling.batches(ahead(iterate_batches(paths.questions)))
    write_rows(paths.train_json, tally.counting(settled), train_rows, depth=TRAIN_DEPTH)
    earlier = [record for record in read_quarantine(paths.quarantine) if record.stage != STAGE]
    records = [*earlier, *settling.quarantined]
    write_quarantine(paths.quarantine, records)
    written, findings = tally.questions, sorted(tally.absent)
    dropped = sum(record.stage == "where" for record in records)
    counts = {
        "rows": rows,
        "accepted": written,
        "dropped": dropped,
        "quarantined": len(records) - dropped,
        "impossible": tally.impossible,
        "contexts": tally.contexts,
        "contexts_lost": settling.contexts_lost,
        "without_document": tally.without_document,
        "characters": tally.characters,
        **lost_counts(settling.lost),
    }
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
            passed=settling.contexts_lost == 0,
            blocking=conversion.spec.on_missing_document == "fail",
            numbers={"contexts_lost": settling.contexts_lost},
        ),
    )
    preview = [
        {"id": q.id, "question": q.question, "answer": q.answer, "documents": ", ".join(_file_names(q))}
        for q in _first_questions(conversion)
    ]
    notes = tuple(quarantine_notes(paths.name, settling.quarantined))
    return conversion.report("train_json", counts, checks, preview, notes)


def evaluation_dataset(conversion: Conversion) -> StepReport:
    """`.eval.json`: the same questions with accepted answers and the places of their gold texts."""
    paths = conversion.paths
    counted = conversion.require("train_json").counts
    conversion.require("corpus_text")
    planned = read_planned(paths.planned, base=paths.source)
    # Without a document no gold text has a place, and very large benchmarks have none.
    asked = with_gold(_settled(conversion)) if planned else ()
    pages = read_pages(paths.pages)
    spans = locate_gold(asked, planned, pages)
    write_gold_spans(paths.gold_spans, spans)
    head = dataset_head(conversion.spec, size=counted["accepted"], characters=counted["characters"])
    target = conversion.workspace.eval_json(head.dataset_id, head.version)
    made = paths.steps / "made.eval.json"
    documents = _documents(pages) if conversion.spec.inline_documents else ()
    findings = write_evaluation_dataset(made, head, _settled(conversion, QUERY_COLUMNS), spans, documents)
    publish_version(conversion, made, target)
    gold_texts = [span for span in spans if span.piece == 0]
    lost = [span for span in gold_texts if span.method is None]
    located = len(gold_texts) - len(lost)
    counts = {"queries": counted["accepted"], "gold_texts": len(gold_texts), "gold_texts_located": located}
    checks = (
        Check(name="dataset_validates", passed=not findings, numbers={"findings": findings[:LISTED]}),
        Check(
            name="gold_texts_located",
            passed=located >= LOCATED_SHARE * len(gold_texts),
            blocking=False,
            numbers={
                "located": located,
                "gold_texts": len(gold_texts),
                "not_located": [f"question {s.question_id}: {excerpt(s.text)}" for s in lost[:LISTED]],
            },
        ),
    )
    gold = Counter(span.question_id for span in gold_texts if span.method is not None)
    preview = [
        {"query": q.question, "answer": q.answer, "documents": len(set(_file_names(q))), "gold": gold[q.id]}
        for q in _first_questions(conversion)
    ]
    return conversion.report("evaluation_dataset", counts, checks, preview)


def ground_truth(conversion: Conversion) -> StepReport:
    """`.gt.json` where gold texts were located or people annotated, and last of all the stamp."""
    conversion.paths.stamp.unlink(
        missing_ok=True
    )  # of an earlier conversion; it must not outlive a check that fails now
    records = [conversion.require(step) for step in EARLIER]
    own = build_ground_truth(conversion.spec, read_gold_spans(conversion.paths.gold_spans))
    truth, quality, notes = annotated_truth(conversion, own)
    target = conversion.workspace.gt_json(conversion.spec.name, conversion.spec.version)
    if truth is None:
        target.unlink(missing_ok=True)
    else:
        truth.write(target)
    annotations = () if truth is None else truth.annotations
    findings = [] if truth is None else validate(target)
    check = Check(name="ground_truth_validates", passed=not findings, numbers={"findings": findings[:LISTED]})
    preview = [{"query": a.query_id, "citations": len(a.citations)} for a in annotations[:PREVIEW_ROWS]]
    report = conversion.report("ground_truth", {"annotations": len(annotations)}, (check, *quality), preview, notes)
    if not report.record.failed:
        _stamp(conversion, [*records, report.record])
    return report


def _documents(pages: Sequence[Page]) -> list[SourceDocument]:
    """The corpus's texts, in which the offsets of citations count."""
    texts = {name: "\f".join(page.text for page in own) for name, own in pages_by_document(pages).items()}
    return [SourceDocument(document_id=name, content=text) for name, text in texts.items()]


class _Tally:
    """Counts of the questions that were written."""

    def __init__(self, files: set[str]) -> None:
        self.questions = self.impossible = self.contexts = self.characters = self.without_document = 0
        self.absent: set[str] = set()  # file names that the corpus does not have
        self._files = files

    def counting(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """The batches as they are."""
        import pyarrow.compute as pc

        for batch in batches:
            items = batch.column("contexts").flatten()
            self.questions += batch.num_rows
            self.impossible += batch.column("is_impossible").true_count
            self.contexts += len(items)
            self.without_document += without_document(batch, "file_name")
            self.characters += pc.sum(pc.utf8_length(batch.column("question"))).as_py() or 0
            named = pc.unique(items.field("file_name")).drop_null().to_pylist()
            self.absent.update(name for name in named if name not in self._files)
            yield batch


def _on_disk(conversion: Conversion) -> set[str]:
    """Files of the manifest that lie in the corpus; what somebody else put there is no document."""
    corpus = conversion.paths.corpus
    entries = os.scandir(corpus) if corpus.is_dir() else ()
    found = {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}
    return found & {d.file_name for d in read_manifest(conversion.paths.documents) if d.origin != "missing"}


def _settling(conversion: Conversion) -> Settling:
    documents = read_manifest(conversion.paths.documents)
    missing = {
        d.file_name: Missing(d.error_code or "missing_document", d.error or "")
        for d in documents
        if d.origin == "missing"
    }
    return Settling(missing, conversion.spec.on_missing_document)


def _settled(conversion: Conversion, columns: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
    settling = _settling(conversion)
    questions = iterate_batches(conversion.paths.questions, None if settling.has_missing else columns)
    return settling.batches(ahead(questions))


def _first_questions(conversion: Conversion) -> list[Question]:
    batches = (batch.slice(0, PREVIEW_ROWS) for batch in _settled(conversion))
    return list(islice((question for batch in batches for question in questions_of(batch)), PREVIEW_ROWS))


def _file_names(question: Question) -> list[str]:
    return [context.file_name for context in question.contexts if context.file_name is not None]


def _stamp(conversion: Conversion, records: list[StepRecord]) -> None:
    paths, spec = conversion.paths, conversion.spec
    counts = {
        f"{record.step}.{name}": value
        for record in records
        for name, value in record.counts.items()
        if name not in OF_THIS_CONVERSION
    }
    dataset = conversion.workspace.eval_json(spec.name, spec.version)
    Stamp(
        benchmark=paths.name,
        source_digest=conversion.digest,
        dataset_id=spec.name,
        dataset_version=spec.version,
        dataset_fingerprint=sha256_of(dataset),
        corpus_fingerprint=_corpus_fingerprint(read_manifest(paths.documents)),
        files={path.name: sha256_of(path) for path in (paths.documents, paths.pages)},
        counts=counts,
        checks={f"{record.step}.{check.name}": check.passed for record in records for check in record.checks},
    ).write(paths.stamp)


def _corpus_fingerprint(documents: Iterable[CorpusDocument]) -> str:
    lines = sorted(f"{d.file_name}\0{d.pdf_sha256}\n" for d in documents if d.origin != "missing")
    return hashlib.sha256("".join([*lines, extractor()]).encode("utf-8", "surrogateescape")).hexdigest()
