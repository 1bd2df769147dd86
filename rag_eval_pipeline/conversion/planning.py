"""A benchmark's questions and documents, found without the network and without writing anything.

Every row that was read is accepted, dropped by `where` or quarantined; `Plan` says which and why.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.catalogue import Catalogue
from rag_eval_pipeline.conversion.digests import source_digest
from rag_eval_pipeline.conversion.intake import Intake, Places, intake_notes, shortened
from rag_eval_pipeline.conversion.mapping import TRACE_COLUMNS, Mapped, map_source
from rag_eval_pipeline.conversion.queries import Limits
from rag_eval_pipeline.conversion.questions_file import questions_of
from rag_eval_pipeline.conversion.records import Counts, QuarantineRecord, Question
from rag_eval_pipeline.conversion.spec import SOURCE, BenchmarkSpec, read_spec, spec_place
from rag_eval_pipeline.conversion.validation import RowFault
from rag_eval_pipeline.corpus.documents import PlannedDocument
from rag_eval_pipeline.corpus.naming import NameIdentity
from rag_eval_pipeline.sources.origins import Origins
from rag_eval_pipeline.sources.reading import read_relation
from rag_eval_pipeline.workspace import BenchmarkPaths

if TYPE_CHECKING:
    import pyarrow as pa

    from rag_eval_pipeline.sources.relations import Relation


@dataclass(frozen=True, slots=True)
class Plan:
    """What a benchmark comes to.

    Args:
        quarantine: One record a dropped or quarantined row, in the source's order.
        source_digest: Of the files it was made from.
        notes: What a person should know that is no fault of a question's row.
        batches: Reads the accepted questions, as columns of `questions.parquet`.
        origins: Keeps the files that documents lie in.
    """

    spec: BenchmarkSpec
    documents: list[PlannedDocument]
    quarantine: list[QuarantineRecord]
    counts: Counts
    source_digest: str
    notes: list[str]
    batches: "Callable[[], Iterator[pa.RecordBatch]]" = field(compare=False, repr=False)
    origins: Origins = field(compare=False, repr=False)

    @property
    def questions(self) -> list[Question]:
        """The accepted questions, all in memory."""
        return [question for batch in self.batches() for question in questions_of(batch)]


def plan(
    paths: BenchmarkPaths,
    pinned: Mapping[NameIdentity, str] | None = None,
    *,
    limits: Limits | None = None,
    origins: Origins | None = None,
) -> Plan:
    """Reads, maps and validates a benchmark, a few thousand rows in memory at a time.

    Args:
        paths: Where it is.
        pinned: File names of an earlier manifest (`corpus.naming.pins`), which keep their documents.
        limits: Of its SQL.
        origins: Where its files are; unless given, archives are unpacked for the moment and nothing is downloaded.

    Raises:
        InputError: A benchmark.yaml, a file or a query that cannot be used as a whole; bad rows never raise.
    """
    digest = source_digest(paths)
    spec = read_spec(paths)
    origins = origins or Origins(paths)
    relations = {SOURCE: read_relation(paths, spec.source, origin=True, origins=origins)}
    relations |= {name: read_relation(paths, table, origins=origins) for name, table in spec.tables.items()}
    source = relations[SOURCE]
    mapped: dict[str, Mapped] = {}
    if not set(source.schema.names) <= set(TRACE_COLUMNS):  # else no row could be decoded, and SQL could name no column
        mapped = map_source(spec, relations, spec_place(paths), limits)
    notes = [note for name in spec.tables for note in _unread_notes(name, relations[name])]
    catalogue = _catalogue(origins, spec, relations, mapped.get("documents"), notes)
    intake = Intake(spec, catalogue, Places(spec, source))
    if "questions" in mapped:
        for batch in mapped["questions"].batches():
            intake.add(batch, mapped["questions"].columns)
    drafts = intake.close()
    documents, names = catalogue.planned(pinned, strict=spec.naming == "strict")
    own_url = catalogue.own_urls()
    unread = [intake.places.unread_record(row) for row in source.unread]
    counts = Counts(
        rows=intake.rows + len(unread),
        accepted=intake.accepted,
        dropped=intake.dropped,
        quarantined=len(unread) + len(intake.refused) - intake.dropped,
        impossible=intake.impossible,
        contexts=intake.contexts,
        documents=len(documents),
    )
    return Plan(
        spec,
        documents,
        _in_order([*unread, *intake.refused], source),
        counts,
        digest,
        [*notes, *intake_notes(intake, drafts)],
        functools.partial(drafts.batches, names, own_url),
        origins,
    )


def _catalogue(
    origins: Origins,
    spec: BenchmarkSpec,
    relations: "Mapping[str, Relation]",
    documents: Mapped | None,
    notes: list[str],
) -> Catalogue:
    catalogue = Catalogue()
    refused = []
    for number, row in enumerate(documents.rows if documents else [], start=1):
        try:
            catalogue.add_row(origins, row)
        except RowFault as fault:
            refused.append(f"documents, row {number}: expected {fault.expected}, found {fault.excerpt} [{fault.code}].")
    notes.extend(shortened(refused))
    for name, table in spec.tables.items():
        if table.files is not None:
            catalogue.add_files(relations[name].paths)
    return catalogue


def _in_order(records: list[QuarantineRecord], source: "Relation") -> list[QuarantineRecord]:
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


def _unread_notes(name: str, table: "Relation") -> list[str]:
    return shortened(
        f"table {name}: {row.file}, row {row.row}{f' (line {row.line})' if row.line else ''}: "
        f"expected {row.expected}, found {row.found} [{row.code}]."
        for row in table.unread
    )
