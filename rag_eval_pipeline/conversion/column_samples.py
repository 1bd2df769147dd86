"""The columns of a benchmark's source and tables, with their types in SQL, before its mapping is right."""

from collections.abc import Iterator
from dataclasses import dataclass

from rag_eval_pipeline.conversion.benchmark_spec import SOURCE, read_sources
from rag_eval_pipeline.conversion.sql_worker import sql_types
from rag_eval_pipeline.errors import shortened
from rag_eval_pipeline.sources.relations import read_relation
from rag_eval_pipeline.sources.source_files import SourceFiles
from rag_eval_pipeline.workspace import BenchmarkPaths

SAMPLE_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its type in SQL and its first value that is not null, cut short; None if all are null."""

    name: str
    type: str
    sample: str | None


@dataclass(frozen=True, slots=True)
class RelationSchema:
    """The columns of a relation, as the SQL of a benchmark sees them."""

    name: str
    rows: int
    columns: list[Column]
    notes: list[str]


def read_schemas(paths: BenchmarkPaths) -> Iterator[RelationSchema]:
    """Yield the relations of a benchmark, whose mapping need not be right yet."""
    origins = SourceFiles(paths)
    for name, source in read_sources(paths).items():
        relation = read_relation(paths, source, source_columns=name == SOURCE, files=origins)
        rows, samples = 0, dict.fromkeys(relation.schema.names)
        for batch in relation.batches():
            rows += batch.num_rows
            for column in [column for column, sample in samples.items() if sample is None]:
                values = batch.column(column).drop_null()
                samples[column] = shortened(repr(values[0].as_py()), SAMPLE_CHARACTERS) if len(values) else None
        kinds = sql_types(relation.schema)
        columns = list(map(Column, samples, kinds, samples.values()))
        yield RelationSchema(name, rows, columns, relation.all_notes)
