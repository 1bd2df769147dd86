"""Plan a benchmark: its questions and documents, found without the network and without writing a product.

Every row that was read is accepted, dropped by `where` or audit.yaml, or quarantined. A few thousand rows are in
memory at a time.
"""

import contextlib
import gc
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_pipeline.conversion.audit_decisions import (
    PlacedDecisions,
    place_decisions,
    read_decisions,
    source_rows,
)
from rag_eval_pipeline.conversion.benchmark_spec import SOURCE, BenchmarkSpec, read_spec, spec_place
from rag_eval_pipeline.conversion.document_index import DocumentIndex
from rag_eval_pipeline.conversion.mapping import TRACE_COLUMNS, Limits, Mapped, map_source, mapped_rows
from rag_eval_pipeline.conversion.odd_questions import Marks, QuestionChecks
from rag_eval_pipeline.conversion.quarantine import AUDIT_STAGE, QuarantineRecord
from rag_eval_pipeline.conversion.question_spool import (
    FileNames,
    QuestionSpool,
    count_without_document,
    distinct_items,
    questions_of,
    relevant_contexts,
)
from rag_eval_pipeline.conversion.questions import AMPERSAND_NOTE, Context, NamedContext, Question
from rag_eval_pipeline.conversion.row_rules import BatchValidation
from rag_eval_pipeline.conversion.sql_checks import KEEP, TRACE_FILE, TRACE_ITEM, TRACE_ROW
from rag_eval_pipeline.conversion.stamp import source_digest
from rag_eval_pipeline.conversion.summaries import Counts
from rag_eval_pipeline.corpus.documents import PlannedDocument
from rag_eval_pipeline.corpus.naming import NameIdentity
from rag_eval_pipeline.errors import InputError, counted, excerpt, row_text
from rag_eval_pipeline.formats.beir import QRELS_DOCUMENT, QRELS_QUERY
from rag_eval_pipeline.sources.batches import RowError
from rag_eval_pipeline.sources.relations import Relation, read_relation
from rag_eval_pipeline.sources.source_files import SourceFiles
from rag_eval_pipeline.storage.atomic_files import file_sha256
from rag_eval_pipeline.workspace import BenchmarkPaths

MAX_QUESTIONS = 400_000  # of a benchmark: `bench/memory.py` shows the memory that each step needs at this size
MAX_NOTES = 20  # of one kind
JUDGED_SHOWN = 5  # ids in a note


@dataclass(frozen=True, slots=True)
class Plan:
    """The questions, documents and counts of a benchmark."""

    spec: BenchmarkSpec
    documents: list[PlannedDocument]
    quarantine: list[QuarantineRecord]  # one record for each dropped or quarantined row, in the source's order
    counts: Counts
    source_digest: str
    notes: list[str]  # remarks that are no error of a question's row
    spool: QuestionSpool = field(compare=False, repr=False)  # accepted questions, without the documents' file names
    document_sets: "array[int]" = field(repr=False)  # hashes of the documents of questions of no conversation
    conversations: Mapping[str, int] = field(repr=False)  # number of questions by conversation
    names: FileNames = field(repr=False)  # file name by document and the URL that a question uses for it
    refused_urls: Mapping[str, str]  # excerpts of URLs that name no document, with the place of the first such cell
    own_urls: Mapping[str, str | None] = field(repr=False)  # of documents that a question names in another way
    origins: SourceFiles = field(compare=False, repr=False)  # keeps the documents' files
    source: Relation = field(compare=False, repr=False)  # the rows as they were read
    kept: Mapping[int, set[str]] = field(repr=False)  # findings that are no faults, by question, of audit.yaml

    @property
    def group_sizes(self) -> list[int]:
        """How many questions belong to a conversation, or else are about the same documents; others are alone."""
        shared = [*self.conversations.values(), *Counter(self.document_sets).values()]
        return shared + [1] * (self.counts.accepted - sum(shared))

    @property
    def shared(self) -> str:
        """What the questions of a group share, as in `power`."""
        is_talk = any(size > 1 for size in self.conversations.values())
        is_document = not is_talk or len(set(self.document_sets)) < len(self.document_sets)
        return " or ".join(["document"] * is_document + ["conversation"] * is_talk)

    @property
    def questions(self) -> list[Question]:
        """The accepted questions, all in memory."""
        batches = self.spool.batches(self.names, self.own_urls)
        return [question for batch in batches for question in questions_of(batch)]


@contextlib.contextmanager
def _frozen_heap() -> Iterator[None]:
    """Keep the garbage collector from searching all older objects again and again: 10 % of the time for a CSV."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@_frozen_heap()
def plan(
    paths: BenchmarkPaths,
    pinned: Mapping[NameIdentity, str] | None = None,
    *,
    limits: Limits | None = None,
    origins: SourceFiles | None = None,
) -> Plan:
    """Read, map and validate a benchmark.

    Args:
        pinned: File names of an earlier manifest (`corpus.naming.pins`).
        origins: Without it, archives are unpacked temporarily and nothing is downloaded.

    Raises:
        InputError: A benchmark.yaml, a file or a query that cannot be used as a whole; bad rows never raise.
    """
    digest = source_digest(paths)
    spec = read_spec(paths)
    origins = origins or SourceFiles(paths)
    relations = {SOURCE: read_relation(paths, spec.source, source_columns=True, files=origins)}
    relations |= {name: read_relation(paths, table, files=origins) for name, table in spec.tables.items()}
    source = relations[SOURCE]
    mapped: dict[str, Mapped] = {}
    if not set(source.schema.names) <= set(TRACE_COLUMNS):  # else no row could be decoded, and SQL could name no column
        mapped = map_source(spec, relations, spec_place(paths), limits)
    notes = list(dict.fromkeys(note + "." for relation in relations.values() for note in relation.notes))
    for name in spec.tables:
        places: dict[str, list[str]] = {}
        for row in relations[name].rejected:
            what = f"expected {row.expected}, found {row.found} [{row.code}]."
            places.setdefault(what, []).append(f"table {name}: {row.file}, row {row_text(row.row, line=row.line)}")
        notes += _each_error_once(places)
    refused_urls: dict[str, str] = {}
    index = _document_index(origins, spec, relations, mapped.get("documents"), notes, refused_urls)
    decisions = PlacedDecisions()
    if "questions" in mapped:
        decisions = place_decisions(read_decisions(paths), source_rows(mapped["questions"].batches()))
    rows = QuestionBuilder(spec, index, source, decisions)
    if "questions" in mapped:
        for batch in mapped["questions"].batches():
            rows.add(batch)
            if rows.accepted > MAX_QUESTIONS:
                raise InputError(
                    "too_many_questions", spec_place(paths)("source", None),
                    f"at most {MAX_QUESTIONS:,} questions in one benchmark", field="source",
                    hint="Split it by a column into several benchmarks of the same source, each with "
                    "`questions: SELECT ... FROM source WHERE topic = 'law'` or the like.",
                )  # fmt: skip
        if decisions.added:
            rows.add(decisions.added_rows())
    rows.spool.close()
    if rows.bare_texts and spec.documents is None:  # else `documents` says which files are in the corpus
        index.plan_files()  # any of them may have the texts
    documents, names = index.planned(pinned, strict=spec.naming == "strict")
    unread = [
        QuarantineRecord(
            "validation", row.code, row.file, file_sha256(source.paths[row.file]), row.row, None, row.field,
            row.expected, row.found, row.line,
        )
        for row in source.rejected
    ]  # fmt: skip
    counts = Counts(
        rows=rows.rows + len(unread),
        accepted=rows.accepted,
        dropped=rows.dropped,
        audit_dropped=len(decisions.drops),
        audit_fixed=len(rows.fixed),
        quarantined=len(unread) + len(rows.refused) - rows.dropped,
        impossible=rows.impossible,
        contexts=rows.contexts,
        documents=len(documents),
        contexts_lost=dict(sorted(rows.lost.items())),
        without_document=rows.without_document,
        gold_texts=rows.gold_texts,
        bare_texts=rows.bare_texts,
    )
    quarantine = _in_order([*unread, *rows.refused], source)
    notes += rows.notes()
    if (joined := index.joined_note()) is not None:
        notes.append(joined)
    if index.unnamed_urls:
        hint = "`unnamed_urls: fetch` in benchmark.yaml adds them as distractors"
        notes.append(f"Not fetched, because no question names them: {index.unnamed_urls} URLs of `documents`; {hint}.")
    notes += _unused_judgements(spec, relations, rows.spool)
    spooled = (
        rows.spool,
        rows.document_sets,
        rows.conversations,
        names,
        refused_urls | rows.refused_urls,
        index.own_urls(),
        origins,
        source,
        decisions.kept,
    )
    return Plan(spec, documents, quarantine, counts, digest, notes, *spooled)


class QuestionBuilder:
    """The questions of mapped rows, and counts of accepted, dropped and refused rows; no row is lost."""

    def __init__(self, spec: BenchmarkSpec, index: DocumentIndex, source: Relation, decisions: PlacedDecisions) -> None:
        self.rows = self.accepted = self.dropped = self.impossible = self.contexts = 0
        self.fixed: set[int] = set()  # numbers of accepted questions that audit.yaml gives other answers
        self.without_document = self.gold_texts = self.bare_texts = 0
        self.refused: list[QuarantineRecord] = []  # and dropped ones
        self.lost: Counter[str] = Counter()  # contexts by cause
        self.refused_urls: dict[str, str] = {}  # as in `Plan`
        self.spool = QuestionSpool()
        self._row_notes: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()  # contexts by what was wrong with them
        self._checks = QuestionChecks(set(source.schema.names) - {*TRACE_COLUMNS})
        self.document_sets = array("q")  # as in `Plan`
        self.conversations: Counter[str] = Counter()
        self._spec, self._index, self._source, self._decisions = spec, index, source, decisions
        self._columns = spec.questions.columns.model_dump() if spec.questions.columns is not None else {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Validate mapped rows and keep the questions."""
        ids = pa.array(np.arange(self.rows, self.rows + batch.num_rows))
        self.rows += batch.num_rows
        drops = self._decisions.drops
        keep = pc.and_not(batch.column(KEEP).fill_null(False), pc.is_in(ids, pa.array(list(drops), pa.int64())))
        if keep.false_count:
            dropped = batch.filter(pc.invert(keep))
            numbers = ids.filter(pc.invert(keep)).to_pylist()
            for position, (number, row) in enumerate(zip(numbers, mapped_rows(dropped), strict=True)):
                stage, expected = "where", self._spec.where or ""
                if number in drops:
                    why = drops[number].reason or drops[number].finding or "no reason is stated"
                    stage, expected = AUDIT_STAGE, f"no decision in audit.yaml to drop it ({why})"
                error = RowError("dropped", stage, expected, row.values.get("question"))
                self._refuse(stage, number, dropped, position, error)
            self.dropped += len(dropped)
            batch, ids = batch.filter(keep), ids.filter(keep)
        found = BatchValidation(
            batch,
            ids,
            self._contexts,
            retrieval_only=self._spec.retrieval_only,
            skip_bad_urls=self._spec.on_missing_document == "keep",
        )
        for position, error in sorted(found.errors.items()):
            self._refuse("validation", ids[position].as_py(), batch, position, error)
        self._row_notes.update(found.notes)
        self._left_out.update(f"the bad URL {url}" for url in found.bad_urls)
        if found.bad_urls:
            self.lost["bad_url"] += len(found.bad_urls)
            self.refused_urls.update(dict.fromkeys(found.bad_urls, "a context that was left out"))
        if found.questions.num_rows:
            self._accept(found.questions)

    def notes(self) -> list[str]:
        """Return what is odd about accepted rows, with the number of rows."""
        notes = [f"{note} ({counted(number, 'row')})." for note, number in self._row_notes.most_common()]
        notes += self._audit_notes()
        notes += self._checks.notes(self.spool.read)
        left_out = [f"contexts of {what} were left out ({number})." for what, number in self._left_out.items()]
        return [*_shortened(notes), *_shortened(left_out)]

    def _audit_notes(self) -> list[str]:
        """Return what audit.yaml has changed, and which of its decisions are not used."""
        drops, fixes, notes = self._decisions.drops, self._decisions.fixes, self._decisions.notes
        unused = [one.id for number, one in fixes.items() if number not in self.fixed]
        notes = [f"audit.yaml: fix of {one} is not used: its row is refused." for one in unused] + notes
        added = self._decisions.added
        counts = f"audit.yaml: {len(drops)} dropped, {len(self.fixed)} with new answers"
        counts += f", {len(added)} added." if added else "."
        return [*([counts] if drops or fixes or added else []), *_shortened(notes)]

    def _accept(self, questions: pa.RecordBatch) -> None:
        questions, fixed = self._decisions.fixed(questions)
        self.fixed |= fixed
        self.accepted += questions.num_rows
        self.impossible += questions.column("is_impossible").true_count
        lengths = questions.column("contexts").value_lengths()
        self.contexts += pc.sum(lengths).as_py()
        items = relevant_contexts(questions).flatten()
        has_text = items.field("text").is_valid()
        self.gold_texts += pc.and_(items.field("document").is_valid(), has_text).true_count
        self.bare_texts += pc.and_not(has_text, items.field("document").is_valid()).true_count
        self.without_document += count_without_document(questions, "document")
        self._checks.add(questions)
        self._use(questions.column("contexts"), self._is_turn(questions.column("metadata")))
        self.spool.add(questions)

    def _is_turn(self, metadata: pa.Array) -> Marks:
        """Count the questions of each conversation; return which belong to one."""
        is_turn: Marks = pc.match_substring(metadata, '"conversation"').to_numpy(zero_copy_only=False).copy()
        for row in np.flatnonzero(is_turn).tolist():
            name = json.loads(metadata[row].as_py()).get("conversation")
            is_turn[row] = isinstance(name, str) and name != ""
            if is_turn[row]:
                self.conversations[name] += 1
        return is_turn

    def _use(self, contexts: pa.Array, is_turn: Marks) -> None:
        """Plan the documents of accepted questions, in the order in which they are named."""
        items = contexts.flatten()
        documents, urls = items.field("document"), items.field("url")
        if documents.null_count == len(documents):
            return
        for url in pc.unique(urls).drop_null().to_pylist():
            self._index.use_url(url)
        for key in pc.unique(documents.filter(urls.is_null())).drop_null().to_pylist():
            self._index.documents[key].is_planned = True
        named = documents.dictionary_encode()
        places, counts = distinct_items(contexts, named)
        hashes = np.array([hash(key) for key in named.dictionary.to_pylist()], np.int64)[named.indices.take(places)]
        starts = (np.cumsum(counts) - counts)[counts > 0]
        sets = np.add.reduceat(hashes, starts)  # a sum has no order, as a set has none
        self.document_sets.frombytes(sets[~is_turn[counts > 0]].tobytes())

    def _contexts(self, named: Sequence[NamedContext]) -> list[Context]:
        """Resolve the documents of a question; with `keep`, contexts without one are left out and counted."""
        contexts = []
        written = named
        if any([context.file is not None for context in named]):
            written = [one for context in named for one in self._index.expanded(context)]
            if len(written) > len(named):
                self._row_notes["contexts.file: a glob names each file that it fits"] += 1
        for context in written:
            try:
                contexts.append(self._context(context))
            except RowError as error:
                if error.code != "unknown_document" or self._spec.on_missing_document != "keep":
                    raise
                self._left_out[f"unknown document {error.found}"] += 1
                self.lost[error.code] += 1
        distinct = list(dict.fromkeys(contexts))
        if len(distinct) < len(contexts):
            self._row_notes["contexts: what is stated twice, such as a judgement, is kept once"] += 1
        return distinct

    def _context(self, named: NamedContext) -> Context:
        placed, document = self._index.resolve(named)
        key = None if document is None else document.key  # file names are known when all questions were read
        place = (placed.page, placed.start, placed.end, placed.relevance, placed.url)
        return Context(key, None, placed.text, *place)

    def _refuse(self, stage: str, number: int, batch: pa.RecordBatch, position: int, error: RowError) -> None:
        file, row, item = (batch.column(name)[position].as_py() for name in (TRACE_FILE, TRACE_ROW, TRACE_ITEM))
        path = self._source.paths.get(file or "")
        if error.code == "bad_url":
            place = f"{file}, row {row_text(row, item=item)}" if file else f"id {number}"
            self.refused_urls.setdefault(error.found or "", place)
        theirs = self._columns.get(error.field or "")
        self.refused.append(
            QuarantineRecord(
                stage=stage,
                code=error.code,
                file=file,
                sha256=None if path is None else file_sha256(path),
                row=row,
                question_id=number,
                field=theirs if isinstance(theirs, str) else error.field,
                expected=error.expected,
                excerpt=error.found,
                line=self._source.line(file, row),
                item=item,
            )
        )


def _document_index(
    origins: SourceFiles,
    spec: BenchmarkSpec,
    relations: Mapping[str, Relation],
    documents: Mapped | None,
    notes: list[str],
    refused_urls: dict[str, str],
) -> DocumentIndex:
    index = DocumentIndex(fetch_unnamed=spec.unnamed_urls == "fetch")
    places: dict[str, list[str]] = {}
    for number, row in enumerate(documents.rows if documents else [], start=1):
        try:
            index.add_row(origins, row)
        except RowError as error:
            what = f"expected {error.expected}, found {error.found} [{error.code}]."
            places.setdefault(what, []).append(f"documents, row {number}")
            if error.code == "bad_url":
                refused_urls.setdefault(error.found or "", f"documents, row {number}")
    notes.extend(_each_error_once(places))
    if index.escaped_urls:
        notes.append(f"{AMPERSAND_NOTE} ({counted(index.escaped_urls, 'row')} of `documents`).")
    for name, table in spec.tables.items():
        if table.files is not None:
            index.add_files(relations[name].paths)
    return index


def _unused_judgements(spec: BenchmarkSpec, relations: Mapping[str, Relation], spool: QuestionSpool) -> Iterator[str]:
    """Yield a line for each table of judgements (BEIR, TREC) with some of queries that are no question."""
    asked: set[str | None] | None = None
    for name in spec.tables:
        columns = {re.sub(r"\W+", "_", column.lower()): column for column in relations[name].schema.names}
        query = next((columns[word] for word in QRELS_QUERY if word in columns), None)
        if query is None or not any(word in columns for word in QRELS_DOCUMENT):
            continue
        asked = asked or {one for batch in spool.read() for one in batch.column("source_id").to_pylist()}
        judged = Counter(chain.from_iterable(batch.column(query).to_pylist() for batch in relations[name].batches()))
        others = {str(one): count for one, count in judged.items() if one is not None and str(one) not in asked}
        if others and len(others) < len(judged):  # else `source_id` is something else
            total = sum(others.values())
            which = (
                "judgement is not used, because its query is no question"
                if total == 1
                else (
                    "judgements are not used, because their "
                    f"{counted(len(others), 'query is no question', 'queries are no questions')}"
                )
            )
            shown = [*map(excerpt, list(others)[:JUDGED_SHOWN]), *(["..."] if len(others) > JUDGED_SHOWN else [])]
            yield f"{name}: {total} {which}: {', '.join(shown)}."


def _each_error_once(places: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line for each error at the first of its places, with the number of rows that have it."""
    return _shortened(
        f"{found[0]}: {what}" + (f" {len(found)} rows have this fault." if len(found) > 1 else "")
        for what, found in places.items()
    )


def _shortened(notes: Iterable[str]) -> list[str]:
    notes = list(notes)
    more = [f"... and {len(notes) - MAX_NOTES} more such."] if len(notes) > MAX_NOTES else []
    return notes[:MAX_NOTES] + more


def _in_order(records: list[QuarantineRecord], source: Relation) -> list[QuarantineRecord]:
    """Sort by file and row; a row of unknown origin is placed by its id."""
    place = {file: number for number, file in enumerate(source.files)}
    return sorted(
        records,
        key=lambda record: (
            place.get(record.file or "", len(place)),
            record.row if record.row is not None else (record.question_id or 0) + 1,
            record.question_id if record.question_id is not None else -1,
        ),
    )
