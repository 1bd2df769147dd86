"""From questions to the products: rows of `train.json` and `.eval.json`, located gold texts, annotations in `.gt.json`.

Source: Citation Accuracy Evaluation 4.1 (agreement above 0.85), Evaluation Data Formats 2.2 (quality checks).
"""

import errno
import functools
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime, time
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_eval_pipeline.conversion.documents import text_of_file
from rag_eval_pipeline.conversion.question_table import distinct_items, questions_of
from rag_eval_pipeline.conversion.questions import Context, Question
from rag_eval_pipeline.conversion.spec import BenchmarkSpec, spec_place
from rag_eval_pipeline.conversion.stamp import Check, Conversion, make_check
from rag_eval_pipeline.corpus.documents import PlannedDocument
from rag_eval_pipeline.corpus.text.alignment import Hint, SourcePlace, TextIndex
from rag_eval_pipeline.corpus.text.pages import Page, pages_by_document, read_pages
from rag_eval_pipeline.errors import InputError, excerpt
from rag_eval_pipeline.formats.agreement import citation_agreement
from rag_eval_pipeline.formats.annotation_checks import check_quality, citation_name, offset_base, reanchor
from rag_eval_pipeline.formats.dataset import CONVERTED_METADATA, DatasetMetadata, EvaluationDataset, SourceDocument
from rag_eval_pipeline.formats.ground_truth import (
    AnnotatedCitation,
    CitationAnnotation,
    GroundTruth,
    import_annotations,
)
from rag_eval_pipeline.formats.json_rows import INDENT, QueryCheck, lists, objects, texts, write_rows
from rag_eval_pipeline.formats.store import version_difference
from rag_eval_pipeline.storage import parquet
from rag_eval_pipeline.storage.files import publish, publishing

LISTED = 20  # names in a check's numbers
SPANS_AT_ONCE = 1000
ANNOTATOR = "source"  # of gold texts that came with the benchmark
TRAIN_DEPTH = 1  # of a row in its file: a top-level array
QUERY_DEPTH = 2  # an array under the key `queries`

TRAIN_COLUMNS = (
    *("id", "question", "answer", "is_impossible"),
    *(f"contexts.list.element.{name}" for name in ("file_name", "text")),
)
# What a query is made of; gold texts are most of a large file and no part of it.
QUERY_COLUMNS = (
    *("id", "question", "answer", "answers", "is_impossible", "source_id", "query_type", "difficulty", "metadata"),
    *(f"contexts.list.element.{name}" for name in ("document", "file_name", "relevance")),
)

# Keys of a citation, and the fields of its span.
CITATION_FIELDS = {
    **{"file_name": "file_name", "start_char": "start", "end_char": "end", "page_number": "page"},
    **{"page_start": "page_start", "page_end": "page_end"},
}
# Keys of a query's metadata that mean something here; the source's own columns of these names give way to them.


@dataclass(frozen=True, slots=True)
class GoldSpan:
    """A gold text and its place; a text that printing has split has one of these for each piece."""

    question_id: int
    file_name: str  # of the document that should have it
    text: str  # as the source has it; of a piece, its part of the text
    method: str | None  # `exact`, `normalised`, `citations`, `fuzzy`, `pieces`; None: not found, and the offsets are 0
    score: float  # similarity, 0 to 100; of pieces, the share of the gold text that they hold together
    page: int  # 1-based page on which it starts
    start: int  # first code point in the document's text; `end` is exclusive
    end: int
    page_start: int  # the same counted from the page's first character
    page_end: int
    piece: int = 0  # number of the piece; a gold text is counted by its piece 0


def train_rows(batch: pa.RecordBatch) -> pa.Array:
    """Return the rows of `train.json`; gold texts without a document are plain strings."""
    contexts = batch.column("contexts")
    items = contexts.flatten()
    names, gold = items.field("file_name"), texts(items.field("text"))
    if names.null_count < len(names):
        named = objects({"filename": texts(names), "text": gold}, TRAIN_DEPTH + 2)
        gold = pc.if_else(names.is_valid(), named, gold) if names.null_count else named
    columns = {name: texts(batch.column(name)) for name in ("id", "question", "answer", "is_impossible")}
    return objects({**columns, "contexts": lists(contexts, gold, TRAIN_DEPTH + 1)}, TRAIN_DEPTH)


def query_rows(batch: pa.RecordBatch, spans: Mapping[int, Sequence[GoldSpan]]) -> pa.Array:
    """Return the queries of an `.eval.json`; `spans` are the located gold texts by question id, where there are any."""
    below = QUERY_DEPTH + 1
    answer, impossible = batch.column("answer"), batch.column("is_impossible")
    answered = pc.and_not(pc.not_equal(answer, ""), impossible)
    contexts = batch.column("contexts")
    places, counts = distinct_items(contexts, "file_name")
    offsets = pa.array(np.append(0, np.cumsum(counts)), pa.int32())
    relevant = pa.ListArray.from_arrays(offsets, contexts.flatten().field("file_name").take(places))
    return objects(
        {
            "query_id": texts(batch.column("id").cast(pa.string())),
            "query_text": texts(batch.column("question")),
            "relevant_documents": texts(relevant, below),
            "query_type": texts(batch.column("query_type")),
            "difficulty": texts(batch.column("difficulty")),
            "ground_truth_answer": texts(pc.if_else(answered, answer, pa.scalar(None, pa.string()))),
            "citations": _citations(batch.column("id"), spans, below),
            "metadata": _metadata(batch, below),
        },
        QUERY_DEPTH,
    )


def _citations(ids: pa.Array, spans: Mapping[int, Sequence[GoldSpan]], depth: int) -> pa.Array:
    own = [spans.get(number, ()) for number in ids.to_pylist()] if spans else []
    flat = [span for row in own for span in row]
    if not flat:
        return pa.repeat("[]", len(ids))
    columns = {key: texts(pa.array([getattr(span, name) for span in flat])) for key, name in CITATION_FIELDS.items()}
    columns["confidence_score"] = pa.array([json.dumps(span.score / 100) for span in flat])
    columns["context_text"] = texts(pa.array([span.text for span in flat]))
    written = objects(columns, depth + 1)
    return lists(pa.array([[0] * len(row) for row in own], pa.list_(pa.int8())), written, depth)


def _metadata(batch: pa.RecordBatch, depth: int) -> pa.Array:
    """Return the source's own columns, then those that mean something here."""
    contexts = batch.column("contexts")
    items = contexts.flatten()
    members = {
        "is_impossible": texts(batch.column("is_impossible")),
        "answers": texts(batch.column("answers"), depth + 1),
        "hops": texts(pa.array(distinct_items(contexts, "document")[1], pa.int64())),
        "source_id": texts(batch.column("source_id")),
    }
    if items.field("relevance").null_count < len(items):
        grades = [_grades(row, depth + 1) for row in contexts.to_pylist()]
        members["relevance"] = pa.array([grade or None for grade in grades], pa.string())
    ours = objects(members, depth)
    own = batch.column("metadata")
    if pc.all(pc.equal(own, "{}")).as_py():
        return ours
    theirs = pa.array([_own_members(text, depth) for text in own.to_pylist()], pa.string())
    start = "{\n" + INDENT * (depth + 1)
    both = pc.binary_join_element_wise(start, theirs, ",", pc.utf8_slice_codeunits(ours, 1), "")
    return pc.if_else(theirs.is_valid(), both, ours)


def _grades(contexts: Sequence[Mapping[str, str]], depth: int) -> str:
    """Return grades by file name as JSON text; "" where the source has none."""
    graded = {c["file_name"]: c["relevance"] for c in contexts if c["relevance"] is not None and c["file_name"]}
    return _indented(graded, depth) if graded else ""


def _own_members(metadata: str, depth: int) -> str | None:
    """Return the members of metadata as text; None where there are none."""
    values = json.loads(metadata)
    named = {f"source_{name}" if name in CONVERTED_METADATA else name: value for name, value in values.items()}
    return _indented(named, depth).removeprefix("{").removesuffix("}").strip("\n ") if named else None


def _indented(value: Mapping[str, object], depth: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + INDENT * depth)


def dataset_head(spec: BenchmarkSpec, *, size: int, characters: int) -> EvaluationDataset:
    """Return an evaluation dataset without queries; `created_at` is the source's day of release, never the clock.

    `characters` are the code points of all questions together.
    """
    return EvaluationDataset(
        dataset_id=spec.name,
        name=spec.title or spec.name,
        version=spec.version,
        description=spec.description,
        created_at=None if spec.released is None else datetime.combine(spec.released, time(), UTC),
        metadata=DatasetMetadata(
            domain=spec.domain,
            language=spec.language,
            size=size,
            avg_query_length=round(characters / size, 2) if size else None,
            source=spec.title or spec.name,
        ),
        queries=(),
    )


def write_evaluation_dataset(
    path: Path,
    head: EvaluationDataset,
    batches: Iterable[pa.RecordBatch],
    spans: Iterable[GoldSpan],
    documents: Sequence[SourceDocument] = (),
) -> list[str]:
    """Publish an `.eval.json` and return the faults that a check of the written bytes found.

    `head` is the dataset without its queries; the questions have no missing documents. Spans are in their order.
    """
    located: dict[int, list[GoldSpan]] = {}  # of the batches that are being written
    # The key `queries` is followed by `documents` or by nothing.
    whole = head.model_copy(update={"documents": tuple(documents) or None})
    before, array, after = whole.model_dump_json(indent=2, exclude_none=True).partition('"queries": []')
    assert array
    check = QueryCheck()

    def render(batch: pa.RecordBatch) -> pa.Array:
        ids = batch.column("id").to_pylist() if located else []
        return query_rows(batch, {number: located.pop(number) for number in ids if number in located})

    write_rows(
        path,
        _with_spans(batches, spans, located),
        render,
        depth=QUERY_DEPTH,
        head=(before + '"queries": ').encode(),
        tail=after.encode() + b"\n",
        check=check.add,
    )
    return check.findings


def _with_spans(
    batches: Iterable[pa.RecordBatch], spans: Iterable[GoldSpan], located: dict[int, list[GoldSpan]]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches, each when the spans of its questions are in `located`."""
    pending = _located(spans)
    following = next(pending, None)
    for batch in batches:
        while following is not None and following[0] <= batch.column("id")[-1].as_py():
            located[following[0]] = following[1]
            following = next(pending, None)
        yield batch


def _located(spans: Iterable[GoldSpan]) -> Iterator[tuple[int, list[GoldSpan]]]:
    """Yield the located spans of each question that has some, by its id."""
    located = (span for span in spans if span.method is not None)
    return ((number, list(group)) for number, group in groupby(located, attrgetter("question_id")))


def source_annotations(spans: Iterable[GoldSpan]) -> Iterator[CitationAnnotation]:
    """Yield the located gold texts as one annotation for each question."""
    return (_annotation(question_id, found) for question_id, found in _located(spans))


def _annotation(question_id: int, spans: Sequence[GoldSpan]) -> CitationAnnotation:
    return CitationAnnotation(
        annotation_id=f"{ANNOTATOR}_{question_id}",
        query_id=str(question_id),
        annotator_id=ANNOTATOR,
        citations=tuple(
            AnnotatedCitation(
                citation_id=f"{ANNOTATOR}_{question_id}_{number}",
                text=span.text,
                annotation_confidence=span.score / 100,
                justification=f"located in the corpus: {span.method}"
                + (f", piece {span.piece + 1}" if span.method == "pieces" else ""),
                **{key: getattr(span, name) for key, name in CITATION_FIELDS.items()},
            )
            for number, span in enumerate(spans)
        ),
        quality_checks={"text_extraction": "successful"},
    )


def with_gold(batches: Iterable[pa.RecordBatch]) -> Iterator[Question]:
    """Yield the questions that have a gold text with a document."""
    for batch in batches:
        items = batch.column("contexts").flatten()
        gold = pc.and_(items.field("file_name").is_valid(), items.field("text").is_valid())
        if gold.true_count:
            yield from questions_of(batch)


def locate_gold(
    questions: Iterable[Question], planned: Sequence[PlannedDocument], pages: Sequence[Page]
) -> Iterator[GoldSpan]:
    """Yield every gold text with a document, located or not, in the questions' order; pieces follow each other.

    Where the source gives the place of a text in its own body, and the body has it there, the same place is searched in
    the corpus.
    """
    texts = {name: [page.text for page in own] for name, own in pages_by_document(pages).items()}
    documents = {document.key: document for document in planned}

    @functools.cache
    def index_of(file_name: str) -> TextIndex:
        return TextIndex(texts.get(file_name, []))

    @functools.cache
    def body_of(key: str) -> TextIndex | None:
        document = documents.get(key)
        text = None if document is None else document.content or text_of_file(document.body, document.path)
        return TextIndex([text]) if text else None

    def hint_of(context: Context) -> Hint:
        body = body_of(context.document) if context.document is not None and context.start is not None else None
        if body is None or context.start is None:
            return Hint(context.page)
        stated = None if context.end is None else SourcePlace(body, context.start, context.end)
        return Hint(context.page, context.start / len(body.text), stated)

    for question in questions:
        for context in question.contexts:
            if context.file_name is None or context.text is None:
                continue
            found = index_of(context.file_name).locate(context.text, hint_of(context))
            if not found:
                yield GoldSpan(question.id, context.file_name, context.text, None, 0.0, 1, 0, 0, 0, 0)
            for piece, at in enumerate(found):
                text = at.text if len(found) > 1 else context.text
                offsets = (at.start, at.end, at.page_start, at.page_end)
                yield GoldSpan(question.id, context.file_name, text, at.method, at.score, at.page, *offsets, piece)


def write_gold_spans(path: Path, spans: Iterable[GoldSpan]) -> None:
    """Publish the spans, one row each."""
    types = {name: pa.string() for name in ("file_name", "text", "method")} | {"score": pa.float64()}
    schema = pa.schema([(one.name, types.get(one.name, pa.int64())) for one in fields(GoldSpan)])
    tables, pending = [schema.empty_table()], iter(spans)
    while part := list(islice(pending, SPANS_AT_ONCE)):
        tables.append(pa.Table.from_pylist([asdict(span) for span in part], schema=schema))
    with publishing(path) as file:
        # One chunk, so that the bytes do not depend on how many spans are read at once.
        pq.write_table(pa.concat_tables(tables).combine_chunks(), file)


def read_gold_spans(path: Path) -> Iterator[GoldSpan]:
    """Yield the spans of a file."""
    for batch in parquet.read_table(path).to_batches(SPANS_AT_ONCE):
        yield from (GoldSpan(**row) for row in batch.to_pylist())


@dataclass(slots=True)
class GoldTally:
    """Counts of gold texts, those with one place in the corpus among them, and the first that have none."""

    questions: Sequence[int]  # whose located gold texts are counted one by one
    gold_texts: int = 0
    located: int = 0
    not_located: list[str] = field(default_factory=list)
    of_question: Counter[int] = field(default_factory=Counter)

    def counting(self, spans: Iterable[GoldSpan]) -> Iterator[GoldSpan]:
        """Yield the spans as they are."""
        for span in spans:
            self.gold_texts += span.piece == 0
            if span.method is None:
                if len(self.not_located) < LISTED:
                    self.not_located.append(f"question {span.question_id}: {excerpt(span.text)}")
            elif span.piece == 0:
                self.located += 1
                if span.question_id in self.questions:
                    self.of_question[span.question_id] += 1
            yield span


def publish_version(conversion: Conversion, made: Path, target: Path) -> None:
    """Move a finished `.eval.json` to its place, unless the same version was published with other content.

    Raises:
        InputError: `version_conflict` with what differs.
    """
    try:
        difference = None if conversion.replace or not target.exists() else version_difference(target, made)
        if difference is not None:
            name, version = conversion.paths.name, conversion.spec.version
            raise InputError(
                "version_conflict",
                spec_place(conversion.paths)("version", None),
                f"a higher version than {version}, which was published with other content",
                field="version",
                found=difference,
                hint=f"Raise `version`; or, if nobody needs the old one: rag-eval convert {name} --replace",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            publish(made, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            with made.open("rb") as source, publishing(target) as file:  # behind a mount or a link
                shutil.copyfileobj(source, file)
    finally:
        made.unlink(missing_ok=True)


def document_texts(pages: Sequence[Page]) -> dict[str, str]:
    """Return the text of each document by file name, in which the offsets of citations count."""
    return {name: "\f".join(page.text for page in own) for name, own in pages_by_document(pages).items()}


def annotated_truth(conversion: Conversion) -> tuple[GroundTruth, tuple[Check, ...], tuple[str, ...]]:
    """Move the annotations that people made to where the corpus has their texts.

    Returns the ground truth with their annotations only; checks of people's work, which only warn; notes on annotations
    that were refused or moved.
    """
    spec = conversion.spec
    found = import_annotations(conversion.workspace.annotations, dataset_id=spec.name, version=spec.version)
    empty = GroundTruth(dataset_id=spec.name, version=spec.version, annotations=())
    made = next((t for t in found.truths if (t.dataset_id, t.version) == (spec.name, spec.version)), empty)
    texts = document_texts(read_pages(conversion.paths.pages)) if made.annotations else {}
    base = offset_base(made, texts)
    people = reanchor(made, texts, base=base)
    notes = (*(str(finding) for finding in found.findings), *_moves(made, people))
    counts = {"read": found.read, "imported": found.imported, "refused": found.refused}
    checks = [
        make_check("annotations_conserved", found.is_conserved and not found.refused, counts, blocking=False),
        _agreement(people),
    ]
    for check in check_quality(made, texts, base=base):
        numbers = {"checked": check.checked, "failed": check.failed, **check.counts}
        offenders = list(check.offenders[:LISTED])
        checks.append(make_check(check.name, check.passed, {**numbers, "offenders": offenders}, blocking=False))
    return empty.model_copy(update={"annotations": people.annotations}), tuple(checks), notes


def _moves(made: GroundTruth, placed: GroundTruth) -> Iterator[str]:
    """Yield a line for each citation whose text is not at its annotator's offsets."""
    for before, after in zip(made.citation_annotations, placed.citation_annotations, strict=True):
        for index, (old, new) in enumerate(zip(before.citations, after.citations, strict=True)):
            if (old.start_char, old.end_char) != (new.start_char, new.end_char):
                yield (
                    f"{citation_name(before, index)}: its text is at {new.start_char} to {new.end_char} of "
                    f"{new.file_name}, not at {old.start_char} to {old.end_char}; it was moved there."
                )


def _agreement(people: GroundTruth) -> Check:
    agreement = citation_agreement(people)
    numbers = {
        "jaccard": agreement.jaccard,
        "verdict": agreement.verdict or agreement.reason,
        "questions": agreement.n_queries,
        "pairs": agreement.n_pairs,
        "least_agreed": [query_id for query_id, _ in agreement.worst],
    }
    return make_check("annotators_agree", agreement.verdict in (None, "meets_target"), numbers, blocking=False)
