"""Mapped rows on their way to questions: each is accepted, dropped by `where` or refused, and none is lost."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.catalogue import Catalogue, Found
from rag_eval_pipeline.conversion.drafts import Drafts
from rag_eval_pipeline.conversion.mapped import MappedRow, mapped_rows
from rag_eval_pipeline.conversion.questions_file import batch_of
from rag_eval_pipeline.conversion.records import Context, QuarantineRecord, Question
from rag_eval_pipeline.conversion.report import without_document
from rag_eval_pipeline.conversion.row_fault import RowFault
from rag_eval_pipeline.conversion.spec import QUESTION_COLUMNS, BenchmarkSpec
from rag_eval_pipeline.conversion.validation import Draft, validate
from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.sources.decoded import UnreadRow
from rag_eval_pipeline.storage.digests import file_sha256

if TYPE_CHECKING:
    import pyarrow as pa

    from rag_eval_pipeline.conversion.taking_in import AnyRelation

MAX_NOTES = 20  # of one kind; a thousand lines about one bad table help nobody


class Intake:
    """What the rows of a benchmark came to, so far.

    Args:
        spec: Of the benchmark.
        catalogue: Its documents; those that accepted questions name are planned.
        places: Says where a row stood.
        beside: Where the questions will be published.
    """

    def __init__(self, spec: BenchmarkSpec, catalogue: Catalogue, places: "Places", beside: Path | None = None) -> None:
        self.rows = self.accepted = self.dropped = self.impossible = self.contexts = 0
        self.bare = 0  # answerable questions without a context
        self.first_bare: int | None = None
        self.refused: list[QuarantineRecord] = []  # and dropped ones
        self.notes: Counter[str] = Counter()
        self.kept_without: Counter[str] = Counter()  # contexts that were left out, by what was wrong with them
        self.lost: Counter[str] = Counter()  # contexts, by cause
        self.without_document = self.gold_texts = 0
        self.places = places
        self.source_ids = array("q")  # hashes: a million ids as text are 100 MB
        self._documents = array("q")  # hashes of the sets of documents that questions are about
        self._spec, self._catalogue = spec, catalogue
        self._drafts = Drafts(beside)

    def add(self, batch: "pa.RecordBatch", columns: Sequence[str]) -> None:
        """Takes mapped rows in."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from rag_eval_pipeline.conversion.plain_rows import plain_rows

        first = self.rows
        self.rows += batch.num_rows
        own = [name for name in columns if name in QUESTION_COLUMNS]
        plain = plain_rows(batch, own, first, retrieval_only=self._spec.retrieval_only)
        if plain is not None:
            self.notes.update(plain.notes)
            dropped = pc.invert(batch.column("__keep").fill_null(False))
            rest = pc.or_(pc.invert(plain.is_settled), dropped)
        else:
            rest = pa.repeat(True, batch.num_rows)
        numbers = [first + place for place in pc.indices_nonzero(rest).to_pylist()]
        others = [*self._row_by_row(mapped_rows(batch.filter(rest)), numbers)] if numbers else []
        batches = [plain.questions] if plain is not None and plain.questions.num_rows else []
        batches += [batch_of(others)] if others else []
        whole = batches[0] if len(batches) == 1 else None
        if len(batches) > 1:
            [whole] = pa.Table.from_batches(batches).sort_by("id").combine_chunks().to_batches()
        if whole is not None:
            self._accept(whole)

    def group_sizes(self) -> list[int]:
        """Questions about the same documents, as in the evaluation dataset; one without documents is its own group."""
        shared = list(Counter(self._documents).values())
        return shared + [1] * (self.accepted - len(self._documents))

    def close(self) -> Drafts:
        """All accepted questions."""
        self._drafts.close()
        return self._drafts

    def _accept(self, questions: "pa.RecordBatch") -> None:
        import pyarrow.compute as pc

        self.accepted += questions.num_rows
        self.impossible += questions.column("is_impossible").true_count
        lengths = questions.column("contexts").value_lengths()
        self.contexts += pc.sum(lengths).as_py()
        items = questions.column("contexts").flatten()
        self.gold_texts += pc.and_(items.field("document").is_valid(), items.field("text").is_valid()).true_count
        self.without_document += without_document(questions, "document")
        bare = pc.and_not(pc.equal(lengths, 0), questions.column("is_impossible"))
        if self.bare == 0 and bare.true_count:
            self.first_bare = questions.column("id").filter(bare)[0].as_py()
        self.bare += bare.true_count
        ids = questions.column("source_id")
        if ids.null_count < len(ids):
            self.source_ids.extend(map(hash, ids.drop_null().to_pylist()))
        self._drafts.add(questions)

    def _row_by_row(self, rows: Iterable[MappedRow], numbers: Iterable[int]) -> Iterator[Question]:
        for number, row in zip(numbers, rows, strict=True):
            if not row.keep:
                self.dropped += 1
                fault = RowFault("dropped", "where", self._spec.where or "", row.values.get("question"))
                self.refused.append(self.places.record("where", number, row, fault))
                continue
            try:
                keep_without = self._spec.on_missing_document == "keep"
                draft = validate(row, retrieval_only=self._spec.retrieval_only, keep_without=keep_without)
                contexts = self._found(draft)
            except RowFault as fault:
                self.refused.append(self.places.record("validation", number, row, fault))
                continue
            for found in contexts:
                self._catalogue.use(found)
            documents = frozenset(found.entry.key for found in contexts if found.entry is not None)
            if documents:
                self._documents.append(hash(documents))
            self.notes.update(draft.notes)
            self.kept_without.update(f"the bad URL {url}" for url in draft.bad_urls)
            self.lost.update("bad_url" for _ in draft.bad_urls)
            yield _question(number, row, draft, contexts)

    def _found(self, draft: Draft) -> list[Found]:
        """The documents of a question; with `on_missing_document: keep` a context that has none goes and is counted."""
        found = []
        for context in draft.contexts:
            try:
                found.append(self._catalogue.find(context))
            except RowFault as fault:
                if fault.code != "unknown_document" or self._spec.on_missing_document != "keep":
                    raise
                self.kept_without[f"unknown document {fault.excerpt}"] += 1
                self.lost[fault.code] += 1
        return found


class Places:
    """Says in a quarantine record where a row stood."""

    def __init__(self, spec: BenchmarkSpec, source: "AnyRelation") -> None:
        self._source = source
        self._columns = spec.questions.columns.model_dump() if spec.questions.columns is not None else {}

    def record(self, stage: str, number: int, row: MappedRow, fault: RowFault) -> QuarantineRecord:
        """Of a row that was mapped."""
        path = self._source.paths.get(row.file or "")
        sha256 = None if path is None else file_sha256(path)
        theirs = self._columns.get(fault.field or "")
        name = theirs if isinstance(theirs, str) else fault.field
        line = self._source.line(row.file, row.row)
        return QuarantineRecord(
            stage, fault.code, row.file, sha256, row.row, number, name, fault.expected, fault.excerpt, line
        )

    def unread_record(self, row: UnreadRow) -> QuarantineRecord:
        """Of a row that could not be decoded."""
        sha256 = file_sha256(self._source.paths[row.file])
        return QuarantineRecord(
            "validation", row.code, row.file, sha256, row.row, None, row.field, row.expected, row.found, row.line
        )


def intake_notes(intake: Intake, drafts: Drafts) -> list[str]:
    """What is odd about accepted rows, with how many rows it is odd about."""
    notes = [f"{note} ({number} rows)." for note, number in intake.notes.most_common()]
    if suspects := _repeated(intake.source_ids):
        counts = Counter(source_id for source_id in drafts.source_ids() if hash(source_id) in suspects)
        repeated = [source_id for source_id, count in counts.items() if count > 1]
        if repeated:
            first = excerpt(repeated[0])
            notes.append(f"source_id: {len(repeated)} ids are used by several questions, the first is {first}.")
    unknown = [f"contexts of {what} were left out ({number})." for what, number in intake.kept_without.items()]
    if 0 < intake.bare < intake.accepted:  # no fault, but maybe a mapping that finds nothing
        notes.append(f"{intake.bare} answerable questions name no document, the first is id {intake.first_bare}")
    return [*shortened(notes), *shortened(unknown)]


def shortened(notes: Iterable[str]) -> list[str]:
    """The first of many notes, and how many more there are."""
    notes = list(notes)
    more = [f"... and {len(notes) - MAX_NOTES} more such."] if len(notes) > MAX_NOTES else []
    return notes[:MAX_NOTES] + more


def _repeated(hashes: "array[int]") -> set[int]:
    import numpy as np

    values = np.frombuffer(hashes, np.int64).copy()
    values.sort()
    return {int(value) for value in values[1:][values[1:] == values[:-1]]}


def _question(number: int, row: MappedRow, draft: Draft, contexts: Sequence[Found]) -> Question:
    return Question(
        id=number,
        question=draft.question,
        answer=draft.answer,
        answers=draft.answers,
        is_impossible=draft.is_impossible,
        contexts=tuple(map(_context, contexts)),
        source_id=draft.source_id,
        query_type=draft.query_type,
        difficulty=draft.difficulty,
        metadata=draft.metadata,
        source_file=row.file,
        source_row=row.row,
    )


def _context(found: Found) -> Context:
    named = found.context
    return Context(
        document=None if found.entry is None else found.entry.key,
        file_name=None,  # known when all questions were seen
        text=named.text,
        page=named.page,
        start=named.start,
        end=named.end,
        relevance=named.relevance,
        url=named.url,
    )
