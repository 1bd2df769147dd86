"""A benchmark's questions and documents, found without the network and without writing anything.

Every row that was read is accepted, dropped by `where` or quarantined; `Plan` says which and why.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.catalogue import Catalogue
from rag_eval_pipeline.conversion.digests import source_digest
from rag_eval_pipeline.conversion.drafts import Drafts, Names
from rag_eval_pipeline.conversion.intake import intake_notes
from rag_eval_pipeline.conversion.queries import Limits
from rag_eval_pipeline.conversion.questions_file import questions_of
from rag_eval_pipeline.conversion.records import Counts, QuarantineRecord, Question
from rag_eval_pipeline.conversion.spec import BenchmarkSpec, read_spec
from rag_eval_pipeline.conversion.taking_in import take_in
from rag_eval_pipeline.corpus.documents import PlannedDocument
from rag_eval_pipeline.corpus.naming import NameIdentity
from rag_eval_pipeline.sources.origins import Origins
from rag_eval_pipeline.workspace import BenchmarkPaths

if TYPE_CHECKING:
    import pyarrow as pa

    from rag_eval_pipeline.conversion.taking_in import AnyRelation


@dataclass(frozen=True, slots=True)
class Plan:
    """What a benchmark comes to.

    Args:
        quarantine: One record a dropped or quarantined row, in the source's order.
        source_digest: Of the files it was made from.
        notes: What a person should know that is no fault of a question's row.
        drafts: The accepted questions, without their documents' file names.
        group_sizes: How many questions are about the same documents, group by group.
        names: File name by document and the URL that a question uses for it.
        own_urls: URL of a document that a question names in another way.
        origins: Keeps the files that documents lie in.
    """

    spec: BenchmarkSpec
    documents: list[PlannedDocument]
    quarantine: list[QuarantineRecord]
    counts: Counts
    source_digest: str
    notes: list[str]
    drafts: Drafts = field(compare=False, repr=False)
    group_sizes: Sequence[int] = field(repr=False)
    names: Names = field(repr=False)
    own_urls: Mapping[str, str | None] = field(repr=False)
    origins: Origins = field(compare=False, repr=False)

    def batches(self) -> "Iterator[pa.RecordBatch]":
        """The accepted questions, as columns of `questions.parquet`."""
        return self.drafts.batches(self.names, self.own_urls)

    def publish_questions(self, path: Path) -> None:
        """Writes `questions.parquet`; the plan cannot give them afterwards."""
        self.drafts.publish(path, self.names, self.own_urls)

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
    beside: Path | None = None,
) -> Plan:
    """Reads, maps and validates a benchmark, a few thousand rows in memory at a time.

    Args:
        paths: Where it is.
        pinned: File names of an earlier manifest (`corpus.naming.pins`), which keep their documents.
        limits: Of its SQL.
        origins: Where its files are; unless given, archives are unpacked for the moment and nothing is downloaded.
        beside: Where `questions.parquet` will be published.

    Raises:
        InputError: A benchmark.yaml, a file or a query that cannot be used as a whole; bad rows never raise.
    """
    digest = source_digest(paths)
    spec = read_spec(paths)
    origins = origins or Origins(paths)
    taken = take_in(paths, spec, origins, limits, beside)
    intake, catalogue, source = taken.intake, taken.catalogue, taken.source
    drafts = intake.close()
    documents, names = catalogue.planned(pinned, strict=spec.naming == "strict")
    unread = [intake.places.unread_record(row) for row in source.unread]
    counts = Counts(
        rows=intake.rows + len(unread),
        accepted=intake.accepted,
        dropped=intake.dropped,
        quarantined=len(unread) + len(intake.refused) - intake.dropped,
        impossible=intake.impossible,
        contexts=intake.contexts,
        documents=len(documents),
        contexts_lost=dict(sorted(intake.lost.items())),
        without_document=intake.without_document,
        gold_texts=intake.gold_texts,
    )
    return Plan(
        spec,
        documents,
        _in_order([*unread, *intake.refused], source),
        counts,
        digest,
        [*taken.notes, *intake_notes(intake, drafts), *_unnamed_note(catalogue)],
        drafts,
        intake.group_sizes(),
        names,
        catalogue.own_urls(),
        origins,
    )


def _unnamed_note(catalogue: Catalogue) -> list[str]:
    count = catalogue.unnamed_urls
    hint = "`unnamed_urls: fetch` in benchmark.yaml adds them as distractors"
    return [f"Not fetched, because no question names them: {count} URLs of `documents`; {hint}."] if count else []


def _in_order(records: list[QuarantineRecord], source: "AnyRelation") -> list[QuarantineRecord]:
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
