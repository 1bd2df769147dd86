"""From questions to the products: rows of `train.json`, located gold texts, annotations in `.gt.json`.

Source: Citation Accuracy Evaluation 4.1 (agreement above 0.85), Evaluation Data Formats 2.2 (quality checks).
"""

import errno
import functools
import heapq
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pydantic

from rag_eval_pipeline.conversion.annotation_checks import (
    TARGET,
    annotators_agree,
    check_quality,
    citation_name,
    offset_base,
    reanchor,
)
from rag_eval_pipeline.conversion.audit_decisions import audit_sha256
from rag_eval_pipeline.conversion.benchmark_spec import Expect, spec_place
from rag_eval_pipeline.conversion.document_index import text_of_file
from rag_eval_pipeline.conversion.question_spool import questions_of, relevant_contexts
from rag_eval_pipeline.conversion.questions import Context, Question
from rag_eval_pipeline.conversion.stamp import Check, Conversion, Stamp, make_check
from rag_eval_pipeline.corpus.documents import PlannedDocument
from rag_eval_pipeline.corpus.text.alignment import Hint, SourcePlace, TextIndex
from rag_eval_pipeline.corpus.text.pages import Page, document_text, pages_by_document, read_pages
from rag_eval_pipeline.errors import InputError, counted, excerpt
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import (
    AnnotatedCitation,
    CitationAnnotation,
    GroundTruth,
    import_annotations,
)
from rag_eval_pipeline.formats.model import listed
from rag_eval_pipeline.storage import parquet_files
from rag_eval_pipeline.storage.atomic_files import publish, publishing
from rag_eval_pipeline.storage.json_files import read_bytes
from rag_eval_pipeline.storage.json_rows import JsonText, join, lists, objects, texts

LISTED = 20  # names in a check's numbers
SHOWN = 5  # gold texts of a kind that convert prints
SPANS_AT_ONCE = 1000
ANNOTATOR = "source"  # of gold texts that came with the benchmark
TRAIN_DEPTH = 1  # of a row in its file: a top-level array

TRAIN_COLUMNS = (
    *("id", "question", "answer", "is_impossible"),
    *(f"contexts.list.element.{name}" for name in ("file_name", "text", "relevance")),
)

# Keys of a citation, and the fields of its span.
CITATION_FIELDS = {
    **{"file_name": "file_name", "start_char": "start", "end_char": "end", "page_number": "page"},
    **{"page_start": "page_start", "page_end": "page_end"},
}


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


def train_rows(batch: pa.RecordBatch) -> dict[str, JsonText]:
    """Return the members of the rows of `train.json`; gold texts without a document are plain strings."""
    contexts = relevant_contexts(batch)
    items = contexts.flatten()
    names, gold = items.field("file_name"), texts(items.field("text"))
    if names.null_count < len(names):
        named = objects({"filename": texts(pc.fill_null(names, "")), "text": gold}, TRAIN_DEPTH + 2)
        gold = [pc.if_else(names.is_valid(), join(named), join(gold))] if names.null_count else named
    answer = pc.if_else(batch.column("is_impossible"), "", batch.column("answer"))
    columns = {
        name: texts(answer if name == "answer" else batch.column(name))
        for name in ("id", "question", "answer", "is_impossible")
    }
    return {**columns, "contexts": lists(contexts, gold, TRAIN_DEPTH + 1)}


def located_spans(spans: Iterable[GoldSpan]) -> Iterator[tuple[int, list[GoldSpan]]]:
    """Yield the located spans of each question that has some, by its id."""
    located = (span for span in spans if span.method is not None)
    return ((number, list(group)) for number, group in groupby(located, attrgetter("question_id")))


def source_annotations(spans: Iterable[GoldSpan]) -> Iterator[CitationAnnotation]:
    """Yield the located gold texts as one annotation for each question."""
    return (_annotation(question_id, found) for question_id, found in located_spans(spans))


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
                **citation_fields(span),
            )
            for number, span in enumerate(spans)
        ),
        quality_checks={"text_extraction": "successful"},
    )


def citation_fields(span: GoldSpan) -> dict[str, Any]:
    """Return the file and the offsets of a span under the keys of a citation."""
    return {key: getattr(span, name) for key, name in CITATION_FIELDS.items()}


def with_gold(batches: Iterable[pa.RecordBatch]) -> Iterator[Question]:
    """Yield the questions that have a gold text with a document."""
    for batch in batches:
        items = relevant_contexts(batch).flatten()
        gold = pc.and_(items.field("file_name").is_valid(), items.field("text").is_valid())
        if gold.true_count:
            yield from questions_of(batch)


def locate_gold(
    questions: Iterable[Question],
    planned: Sequence[PlannedDocument],
    pages: Sequence[Page],
    *,
    on_other_page: Callable[[GoldSpan, int], None] = lambda span, stated: None,
) -> Iterator[GoldSpan]:
    """Yield every gold text with a document, located or not, in the questions' order; pieces follow each other.

    Where the source gives the place of a text in its own body, and the body has it there, the same place is searched in
    the corpus. `on_other_page` gets each text (its first piece) that is not on the page that the source states, and
    that page.
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
            if context.file_name is None or context.text is None or context.relevance == 0:
                continue
            index = index_of(context.file_name)
            found = index.locate(context.text, hint_of(context))
            if not found:
                yield GoldSpan(question.id, context.file_name, context.text, None, 0.0, 1, 0, 0, 0, 0)
            for piece, at in enumerate(found):
                text = at.text if len(found) > 1 else context.text
                offsets = (at.start, at.end, at.page_start, at.page_end)
                span = GoldSpan(question.id, context.file_name, text, at.method, at.score, at.page, *offsets, piece)
                stated = context.page if piece == 0 else None
                if stated is not None and not any(one.page <= stated <= index.page_of(one.end - 1) for one in found):
                    on_other_page(span, stated)
                yield span


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
    for batch in parquet_files.read_table(path).to_batches(SPANS_AT_ONCE):
        yield from (GoldSpan(**row) for row in batch.to_pylist())


@dataclass(slots=True)
class GoldTally:
    """Counts of gold texts, those with a place in the corpus among them; the first without one, the least alike."""

    questions: Sequence[int]  # whose located gold texts are counted one by one
    gold_texts: int = 0
    located: int = 0
    similar: int = 0  # of the located ones, those whose place has another wording
    not_located: list[str] = field(default_factory=list)
    least_alike: list[GoldSpan] = field(default_factory=list)
    on_other_pages: list[tuple[GoldSpan, int]] = field(default_factory=list)  # with the page that the source states
    of_question: Counter[int] = field(default_factory=Counter)

    def counting(self, spans: Iterable[GoldSpan]) -> Iterator[GoldSpan]:
        """Yield the spans as they are."""
        for span in spans:
            self.gold_texts += span.piece == 0
            if span.method is None:
                if len(self.not_located) < LISTED:
                    self.not_located.append(
                        f"question {span.question_id}: {excerpt(span.text)} is not in {span.file_name}"
                    )
            elif span.piece == 0:
                self.located += 1
                if span.score < 100:
                    self.similar += 1
                    self.least_alike = heapq.nsmallest(SHOWN, [*self.least_alike, span], key=attrgetter("score"))
                if span.question_id in self.questions:
                    self.of_question[span.question_id] += 1
            yield span

    def note_other_page(self, span: GoldSpan, stated: int) -> None:
        """Note a text that is not on the page that the source states."""
        self.on_other_pages.append((span, stated))

    def notes(self, pages: Sequence[Page]) -> list[str]:
        """Return lines on the first texts that were not located or are on other pages, and the least alike places."""
        lines = [f"gold text of {line}." for line in self.not_located[:SHOWN]]
        if self.on_other_pages:
            lines.append(self._other_pages())
        for span in self.least_alike:
            found = document_text(page for page in pages if page.file_name == span.file_name)[span.start : span.end]
            lines.append(
                f"gold text of question {span.question_id}: {_shown(span.text)} is {span.score:.0f} % alike in "
                f"{span.file_name}: {_shown(found)}"
            )
        return lines

    def _other_pages(self) -> str:
        shown = [
            f"question {span.question_id}: {_shown(span.text)} is on page {span.page} of {span.file_name}, not {stated}"
            for span, stated in self.on_other_pages[:SHOWN]
        ]
        number = len(self.on_other_pages)
        line = (
            f"{counted(number, 'gold text is', 'gold texts are')} not on the page that the source states, and "
            f"{'counts' if number == 1 else 'count'} where the document has {'it' if number == 1 else 'them'}: "
            + "; ".join([*shown, "..."] if number > SHOWN else shown)
        )
        shifts = {span.page - stated for span, stated in self.on_other_pages}
        if number > 1 and len(shifts) == 1:
            line += f". All differ by {shifts.pop():+d}: the source may count pages from another number than 1"
        return line + "."


def _shown(text: str) -> str:
    return excerpt(" ".join(text.split()))


def require_new_version(conversion: Conversion, made: Path, target: Path) -> None:
    """Refuse a finished `.eval.json` if the same version was published with other content.

    Raises:
        InputError: `version_conflict` with what differs.
    """
    difference = None if conversion.replace or not target.exists() else version_difference(target, made)
    if difference is not None:
        name, version = conversion.paths.name, conversion.spec.version
        raise InputError(
            "version_conflict",
            spec_place(conversion.paths)("version", None),
            f"a higher version than {version}, which was published with other content",
            field="version",
            found=difference,
            hint=f"{_audit_changes(conversion)}Raise `version`; or, if the old one is no longer needed: "
            f"rag-eval convert {name} --replace",
        )


def _audit_changes(conversion: Conversion) -> str:
    """Return a sentence if the audit.yaml is not that of the last conversion, as far as that is known."""
    present, earlier = audit_sha256(conversion.paths), None
    if conversion.paths.stamp.exists():
        earlier = Stamp.read(conversion.paths.stamp).audit_sha256
    if present == earlier:
        return ""
    also = " Where `expect` counts what it changes, state the new counts." if conversion.spec.expect != Expect() else ""
    return f"audit.yaml has changed since it was published.{also} "


def publish_version(conversion: Conversion, made: Path, target: Path) -> None:
    """Move a finished `.eval.json` to its place, unless `require_new_version` refuses it."""
    try:
        require_new_version(conversion, made, target)
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
    agreement = annotators_agree(people)
    checks = [
        make_check("annotations_conserved", found.is_conserved and not found.refused, counts, blocking=False),
        agreement,
    ]
    if not agreement.passed:
        facts = agreement.numbers
        notes += (
            f"Annotators agree too little on what answers cite: character Jaccard {facts['jaccard']:.3f} over "
            f"{counted(facts['questions'], 'question')}, more than {TARGET:g} is wanted; "
            f"least on {', '.join(facts['least_agreed'])}.",
        )
    checks += check_quality(made, texts, base=base)
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


def version_difference(old: Path, new: Path) -> str | None:
    """Return what changed from one evaluation dataset to another; None if both have the same content.

    The order of keys, fields without value, the schema version and the form of the file are no change; the order of the
    questions is one.
    """
    if read_bytes(old) == read_bytes(new):
        return None
    return _difference(EvaluationDataset.read(old), EvaluationDataset.read(new))


def _difference(old: EvaluationDataset, new: EvaluationDataset) -> str | None:
    changes = _item_changes("query", "queries", old.queries, new.queries)
    changes += _item_changes("document", "documents", old.documents or (), new.documents or ())
    rest = {"schema_version", "queries", "documents"}
    before, after = (json.loads(one.model_dump_json(exclude=rest, exclude_none=True)) for one in (old, new))
    for name in sorted(before.keys() | after.keys()):
        first, second = before.get(name) or None, after.get(name) or None
        if first != second:
            changes.append(f"{name} was {excerpt(first)} and is {excerpt(second)}")
    return "; ".join(changes) or None


def _item_changes(
    kind: str, kinds: str, old: Sequence[pydantic.BaseModel], new: Sequence[pydantic.BaseModel]
) -> list[str]:
    before = {getattr(item, f"{kind}_id"): item for item in old}
    after = {getattr(item, f"{kind}_id"): item for item in new}
    changed = {one: fields for one in after if one in before and (fields := _changed_fields(before[one], after[one]))}
    names = ", ".join(sorted({name for fields in changed.values() for name in fields}))
    found = (
        ([one for one in after if one not in before], "added"),
        ([one for one in before if one not in after], "removed"),
        (list(changed), f"changed in {names}"),
    )
    changes = [f"{counted(len(ids), kind, kinds)} {verb}: {listed(ids)}" for ids, verb in found if ids]
    if before.keys() == after.keys() and list(before) != list(after):
        changes.append(f"{kinds} are in another order")
    return changes


def _changed_fields(old: pydantic.BaseModel, new: pydantic.BaseModel) -> list[str]:
    before, after = (json.loads(item.model_dump_json(exclude_none=True)) for item in (old, new))
    return [
        name
        for name in before.keys() | after.keys()
        # As text, because Python finds 1 equal to true.
        if json.dumps(before.get(name), sort_keys=True) != json.dumps(after.get(name), sort_keys=True)
    ]
