"""From a benchmark's files to its questions: read, mapped, validated, a few thousand rows in memory at a time."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rag_eval_pipeline.conversion.catalogue import Catalogue
from rag_eval_pipeline.conversion.intake import Intake, Places, shortened
from rag_eval_pipeline.conversion.mapped import TRACE_COLUMNS, Mapped
from rag_eval_pipeline.conversion.mapping import map_source
from rag_eval_pipeline.conversion.queries import Limits, Place
from rag_eval_pipeline.conversion.row_fault import RowFault
from rag_eval_pipeline.conversion.spec import SOURCE, BenchmarkSpec, spec_place
from rag_eval_pipeline.sources.origins import Origins
from rag_eval_pipeline.sources.reading import read_relation, stream_relation
from rag_eval_pipeline.workspace import BenchmarkPaths

if TYPE_CHECKING:
    from rag_eval_pipeline.sources.mended_rows import MendedRows
    from rag_eval_pipeline.sources.relations import Relation
    from rag_eval_pipeline.sources.streamed import StreamedRelation

    AnyRelation = Relation | StreamedRelation


class Taken(NamedTuple):
    """What all rows of a benchmark came to."""

    intake: Intake
    catalogue: Catalogue
    source: "AnyRelation"
    notes: list[str]


def take_in(
    paths: BenchmarkPaths, spec: BenchmarkSpec, origins: Origins, limits: Limits | None, beside: Path | None
) -> Taken:
    """All rows of the benchmark, each accepted, dropped or refused.

    Args:
        paths: Where it is.
        spec: Its benchmark.yaml.
        origins: Where its files are.
        limits: Of its SQL.
        beside: Where the questions will be published.

    Raises:
        InputError: A file or a query that cannot be used as a whole.
    """
    from rag_eval_pipeline.sources.mended_rows import source_mends
    from rag_eval_pipeline.sources.streamed import TypesChanged

    place = spec_place(paths)
    mends = source_mends(paths, spec.source, origins)
    streamed = _streamed(paths, spec, origins, mends)
    relations: dict[str, AnyRelation] = {
        SOURCE: streamed or read_relation(paths, spec.source, origin=True, origins=origins, mends=mends)
    }
    relations |= {name: read_relation(paths, table, origins=origins) for name, table in spec.tables.items()}
    try:
        taken = _mapped(spec, origins, relations, limits, beside, place)
    except TypesChanged:  # a later row needed another type; now all are known
        taken = _mapped(spec, origins, relations, limits, beside, place)
    taken.notes.extend(shortened(mends.notes if mends is not None else ()))
    return taken


def _streamed(
    paths: BenchmarkPaths, spec: BenchmarkSpec, origins: Origins, mends: "MendedRows | None"
) -> "StreamedRelation | None":
    """The source without being written first, where no SQL has to see it."""
    columns = spec.questions.columns
    if columns is None or spec.where is not None or spec.documents is not None:
        return None
    wanted = columns.model_dump(exclude_none=True).values()
    names = [name for theirs in wanted for name in ([theirs] if isinstance(theirs, str) else theirs)]
    return stream_relation(paths, spec.source, names, origins, mends)


def _mapped(
    spec: BenchmarkSpec,
    origins: Origins,
    relations: "dict[str, AnyRelation]",
    limits: Limits | None,
    beside: Path | None,
    place: Place,
) -> Taken:
    source = relations[SOURCE]
    mapped: dict[str, Mapped] = {}
    if not set(source.schema.names) <= set(TRACE_COLUMNS):  # else no row could be decoded, and SQL could name no column
        mapped = map_source(spec, relations, place, limits)
    notes = [note for name in spec.tables for note in _unread_notes(name, relations[name])]
    catalogue = _catalogue(origins, spec, relations, mapped.get("documents"), notes)
    intake = Intake(spec, catalogue, Places(spec, source), beside)
    if "questions" in mapped:
        for batch in mapped["questions"].batches():
            intake.add(batch, mapped["questions"].columns)
    return Taken(intake, catalogue, source, notes)


def _catalogue(
    origins: Origins,
    spec: BenchmarkSpec,
    relations: "Mapping[str, AnyRelation]",
    documents: Mapped | None,
    notes: list[str],
) -> Catalogue:
    catalogue = Catalogue(fetch_unnamed=spec.unnamed_urls == "fetch")
    refused: list[tuple[str, str]] = []
    for number, row in enumerate(documents.rows if documents else [], start=1):
        try:
            catalogue.add_row(origins, row)
        except RowFault as fault:
            what = f"expected {fault.expected}, found {fault.excerpt} [{fault.code}]."
            refused.append((f"documents, row {number}", what))
    notes.extend(_each_fault_once(refused))
    for name, table in spec.tables.items():
        if table.files is not None:
            catalogue.add_files(relations[name].paths)
    return catalogue


def _unread_notes(name: str, table: "AnyRelation") -> list[str]:
    return _each_fault_once(
        (
            f"table {name}: {row.file}, row {row.row}{f' (line {row.line})' if row.line else ''}",
            f"expected {row.expected}, found {row.found} [{row.code}].",
        )
        for row in table.unread
    )


def _each_fault_once(faults: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each fault at the first of its places, with the number of rows that have it."""
    places: dict[str, list[str]] = {}
    for place, what in faults:
        places.setdefault(what, []).append(place)
    return shortened(
        f"{found[0]}: {what}" + (f" {len(found)} rows have this fault." if len(found) > 1 else "")
        for what, found in places.items()
    )
