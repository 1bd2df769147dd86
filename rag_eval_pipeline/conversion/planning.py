"""A benchmark's questions and documents, found without the network and without writing anything.

Every row that was read is accepted, dropped by `where` or quarantined; `Plan` says which and why.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rag_eval_pipeline.conversion.catalogue import Catalogue, Found
from rag_eval_pipeline.conversion.decoded import UnreadRow
from rag_eval_pipeline.conversion.digests import file_sha256, source_digest
from rag_eval_pipeline.conversion.mapping import (
    TRACE_COLUMNS,
    Limits,
    Mapped,
    MappedRow,
    Query,
    run_queries,
    short_form_sql,
)
from rag_eval_pipeline.conversion.records import Context, Counts, QuarantineRecord, Question
from rag_eval_pipeline.conversion.sources import Relation, read_relation
from rag_eval_pipeline.conversion.spec import SOURCE, BenchmarkSpec, read_spec, shown_path
from rag_eval_pipeline.conversion.validation import Draft, RowFault, validate
from rag_eval_pipeline.corpus.documents import PlannedDocument
from rag_eval_pipeline.corpus.naming import NameIdentity
from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.workspace import BenchmarkPaths

MAX_NOTES = 20  # of one kind; a thousand lines about one bad table help nobody


@dataclass(frozen=True, slots=True)
class Plan:
    """What a benchmark comes to.

    Args:
        quarantine: One record a dropped or quarantined row, in the source's order.
        source_digest: Of the files it was made from.
        notes: What a person should know that is no fault of a question's row.
    """

    spec: BenchmarkSpec
    questions: list[Question]
    documents: list[PlannedDocument]
    quarantine: list[QuarantineRecord]
    counts: Counts
    source_digest: str
    notes: list[str]


@dataclass(frozen=True, slots=True)
class _Accepted:
    """A draft whose documents are known but not yet named."""

    id: int
    row: MappedRow
    draft: Draft
    contexts: tuple[Found, ...]


def plan(
    paths: BenchmarkPaths, pinned: Mapping[NameIdentity, str] | None = None, *, limits: Limits | None = None
) -> Plan:
    """Reads, maps and validates a benchmark.

    Args:
        paths: Where it is.
        pinned: File names of an earlier manifest (`corpus.naming.pins`), which keep their documents.
        limits: Of its SQL.

    Raises:
        InputError: A benchmark.yaml, a file or a query that cannot be used as a whole; bad rows never raise.
    """
    digest = source_digest(paths)
    spec = read_spec(paths)
    source = read_relation(paths, spec.source, origin=True)
    tables = {name: read_relation(paths, table) for name, table in spec.tables.items()}
    mapped = _mapped(paths, spec, source, tables, limits)
    notes = [note for name, table in tables.items() for note in _unread_notes(name, table)]
    catalogue = _catalogue(paths, spec, tables, mapped.get("documents"), notes)
    quarantine = [_unread_record(paths, row) for row in source.unread]
    accepted: list[_Accepted] = []
    kept_without: Counter[str] = Counter()
    rows = mapped["questions"].rows if "questions" in mapped else []
    place = _Place(paths, spec, source)
    for number, row in enumerate(rows):
        if not row.keep:
            quarantine.append(place.record("where", number, row, _dropped(spec, row)))
            continue
        try:
            draft = validate(row)
            contexts = _found(catalogue, draft, spec, kept_without)
        except RowFault as fault:
            quarantine.append(place.record("validation", number, row, fault))
            continue
        for found in contexts:
            catalogue.use(found)
        accepted.append(_Accepted(number, row, draft, contexts))
    documents, names = catalogue.planned(pinned, strict=spec.naming == "strict")
    questions = [_question(item, names) for item in accepted]
    notes.extend(_question_notes(questions, accepted, kept_without))
    return Plan(
        spec,
        questions,
        documents,
        _in_order(quarantine, source),
        _counts(source, rows, questions, documents),
        digest,
        notes,
    )


def _mapped(
    paths: BenchmarkPaths, spec: BenchmarkSpec, source: Relation, tables: Mapping[str, Relation], limits: Limits | None
) -> dict[str, Mapped]:
    if source.unread and set(source.table.column_names) <= set(TRACE_COLUMNS):
        return {}  # no row could be decoded, so there is no column that SQL could name
    shown = shown_path(paths, paths.spec.name)
    columns = spec.questions.columns
    sql = short_form_sql(columns, source, shown) if columns is not None else spec.questions.sql or ""
    queries = [Query("questions", sql, spec.where)]
    if spec.documents is not None:
        queries.append(Query("documents", spec.documents))
    return run_queries({SOURCE: source, **tables}, queries, shown, limits)


def _catalogue(
    paths: BenchmarkPaths,
    spec: BenchmarkSpec,
    tables: Mapping[str, Relation],
    documents: Mapped | None,
    notes: list[str],
) -> Catalogue:
    catalogue = Catalogue()
    refused = []
    for number, row in enumerate(documents.rows if documents else [], start=1):
        try:
            catalogue.add_row(paths, row)
        except RowFault as fault:
            refused.append(f"documents, row {number}: expected {fault.expected}, found {fault.excerpt} [{fault.code}].")
    notes.extend(_shortened(refused))
    for name, table in tables.items():
        if spec.tables[name].files is not None:
            catalogue.add_files(paths, table.files)
    return catalogue


def _found(catalogue: Catalogue, draft: Draft, spec: BenchmarkSpec, kept_without: Counter[str]) -> tuple[Found, ...]:
    """The documents of a question; with `on_missing_document: keep` a context that has none goes and is counted."""
    found = []
    for context in draft.contexts:
        try:
            found.append(catalogue.find(context))
        except RowFault as fault:
            if fault.code != "unknown_document" or spec.on_missing_document != "keep":
                raise
            kept_without[fault.excerpt or ""] += 1
    return tuple(found)


class _Place:
    """Says in a quarantine record where a row stood."""

    def __init__(self, paths: BenchmarkPaths, spec: BenchmarkSpec, source: Relation) -> None:
        self._paths = paths
        self._source = source
        self._columns = spec.questions.columns.model_dump() if spec.questions.columns is not None else {}

    def record(self, stage: str, number: int, row: MappedRow, fault: RowFault) -> QuarantineRecord:
        sha256 = file_sha256(self._paths.source / row.file) if row.file in self._source.files else None
        line = self._source.line(row.file, row.row)
        theirs = self._columns.get(fault.field or "")
        name = theirs if isinstance(theirs, str) else fault.field
        return QuarantineRecord(
            stage, fault.code, row.file, sha256, row.row, number, name, fault.expected, fault.excerpt, line
        )


def _dropped(spec: BenchmarkSpec, row: MappedRow) -> RowFault:
    return RowFault("dropped", "where", spec.where or "", row.values.get("question"))


def _unread_record(paths: BenchmarkPaths, row: UnreadRow) -> QuarantineRecord:
    sha256 = file_sha256(paths.source / row.file)
    return QuarantineRecord(
        "validation", row.code, row.file, sha256, row.row, None, row.field, row.expected, row.found, row.line
    )


def _question(item: _Accepted, names: Mapping[tuple[str, str | None], str]) -> Question:
    contexts = tuple(_context(found, names) for found in item.contexts)
    draft = item.draft
    return Question(
        id=item.id,
        question=draft.question,
        answer=draft.answer,
        answers=draft.answers,
        is_impossible=draft.is_impossible,
        contexts=contexts,
        source_id=draft.source_id,
        query_type=draft.query_type,
        difficulty=draft.difficulty,
        metadata=draft.metadata,
        source_file=item.row.file,
        source_row=item.row.row,
    )


def _context(found: Found, names: Mapping[tuple[str, str | None], str]) -> Context:
    context, entry = found.context, found.entry
    if entry is None:
        return Context(None, None, context.text, context.page, context.start, context.end)
    url = context.url if context.url is not None else next(iter(entry.used), entry.url)
    return Context(entry.key, names[entry.key, url], context.text, context.page, context.start, context.end)


def _in_order(records: list[QuarantineRecord], source: Relation) -> list[QuarantineRecord]:
    """By file and row; a row whose origin the query does not say stands where its id does."""
    place = {file: number for number, file in enumerate(source.files)}
    return sorted(
        records,
        key=lambda record: (
            place.get(record.file or "", len(place)),
            record.row if record.row is not None else (record.question_id or 0) + 1,
            record.question_id if record.question_id is not None else -1,
        ),
    )


def _counts(
    source: Relation, rows: list[MappedRow], questions: list[Question], documents: list[PlannedDocument]
) -> Counts:
    kept = sum(row.keep for row in rows)
    return Counts(
        rows=len(rows) + len(source.unread),
        accepted=len(questions),
        dropped=len(rows) - kept,
        quarantined=kept - len(questions) + len(source.unread),
        impossible=sum(question.is_impossible for question in questions),
        contexts=sum(len(question.contexts) for question in questions),
        documents=len(documents),
    )


def _unread_notes(name: str, table: Relation) -> list[str]:
    return _shortened(
        f"table {name}: {row.file}, row {row.row}{f' (line {row.line})' if row.line else ''}: "
        f"expected {row.expected}, found {row.found} [{row.code}]."
        for row in table.unread
    )


def _question_notes(questions: list[Question], accepted: list[_Accepted], kept_without: Counter[str]) -> list[str]:
    """What is odd about accepted rows, with how many rows it is odd about."""
    of_rows = Counter(note for item in accepted for note in item.draft.notes)
    notes = [f"{note} ({number} rows)." for note, number in of_rows.most_common()]
    repeated = [name for name, number in Counter(q.source_id for q in questions if q.source_id).items() if number > 1]
    if repeated:
        notes.append(
            f"source_id: {len(repeated)} ids stand for several questions, the first is {excerpt(repeated[0])}."
        )
    unknown = [
        f"contexts of unknown document {name} were left out ({number})." for name, number in kept_without.items()
    ]
    return [*_shortened(notes), *_shortened(unknown)]


def _shortened(notes: Iterable[str]) -> list[str]:
    notes = list(notes)
    more = [f"... and {len(notes) - MAX_NOTES} more such."] if len(notes) > MAX_NOTES else []
    return notes[:MAX_NOTES] + more
