"""The parquet files of a run: `responses.parquet` with its answers, and one file of scores per score asset."""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Literal, NamedTuple, Self, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.evaluation_settings import COLUMNS
from rag_eval_pipeline.storage import parquet_files
from rag_eval_pipeline.storage.atomic_files import publishing
from rag_eval_pipeline.systems.base import RagAnswer

BATCH_ROWS = 1000  # some ten megabytes of answers with their passages
KEPT_BYTES = 64 << 20  # compressed; some 300,000 short answers, or 30,000 with ten passages each
PAGE = "page/"  # prefix of page-level measures
FAULTS = "faults"  # a column only where a metric failed

_FAULTS = pa.map_(pa.string(), pa.string())

_BATCH = msgspec.msgpack.Decoder(list[RagAnswer])

Item = TypeVar("Item")
Outcome = Literal["scored", "failed", "skipped"]
Flags = NDArray[np.bool_]  # one for each row
Values = NDArray[np.float64]

_PASSAGE = {
    "document": pa.string(), "page": pa.int64(), "text": pa.string(), "score": pa.float64(), "rank": pa.int64(),
    "start": pa.int64(), "end": pa.int64(), "kind": pa.string(), "source_id": pa.string(),
}  # fmt: skip
_CITATION = {
    "file_name": pa.string(),
    **dict.fromkeys(("start_char", "end_char", "page_number", "marker_start", "marker_end"), pa.int64()),
}
_USAGE = {
    "total_tokens": pa.int64(), "estimated_cost_usd": pa.float64(), "requests": pa.int64(),
    "prompt_tokens": pa.int64(), "completion_tokens": pa.int64(),
}  # fmt: skip
_RESPONSES = pa.schema(
    {
        "query_id": pa.string(),
        "status": pa.string(),
        "answer": pa.string(),
        "abstained": pa.bool_(),
        "contexts": pa.list_(pa.struct(_PASSAGE)),
        "citations": pa.list_(pa.struct(_CITATION)),
        "latency_ms": pa.float64(),
        "usage": pa.struct(_USAGE),
        "error": pa.string(),
        "reused_from": pa.string(),
        "error_code": pa.string(),
        "partial": pa.string(),
        "timings": pa.map_(pa.string(), pa.float64()),
        "raw_sha256": pa.string(),
        "model": pa.string(),
        "raw": pa.string(),
    }
)


@dataclass(frozen=True, slots=True)
class QueryScores:
    """One question's scores in one score asset.

    Args:
        outcome: `failed` when the system gave no answer, `skipped` when the measures do not apply.
        reason: Why not scored: the answer's status, or such as `impossible`, `no_contexts`, `no_gold_spans`.
        scores: A measure that is absent does not apply to this question though others do.
        faults: Measure -> why it alone failed: the error of a custom metric, or the answer's status.
    """

    query_id: str
    outcome: Outcome
    reason: str | None = None
    scores: dict[str, float] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)


class Answers:
    """The answers of a run; read or written once, they are kept compressed, unless they are very large."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: list[bytes] | None = None
        self._is_large = False

    def __iter__(self) -> Iterator[RagAnswer]:
        """Yield the answers in the dataset's order; raises `bad_responses`."""
        if self._kept is None:
            yield from chain.from_iterable(self._keep(_batches(iter_responses(self._path))))
        else:
            for part in self._kept:
                yield from _BATCH.decode(zlib.decompress(part))

    def once(self) -> Iterator[RagAnswer]:
        """Yield the same for the last time: they are not kept if they were not read before."""
        return iter_responses(self._path) if self._kept is None else iter(self)

    @classmethod
    def write(cls, path: Path, answers: Iterable[RagAnswer]) -> Self:
        """Publish answers, one row each, and return them."""
        written = cls(path)
        with publishing(path) as file, pq.ParquetWriter(file, _RESPONSES) as writer:
            for batch in written._keep(_batches(answers)):
                rows = [msgspec.to_builtins(answer) | {"timings": list(answer.timings.items())} for answer in batch]
                writer.write_table(pa.Table.from_pylist(rows, schema=_RESPONSES))
        return written

    def _keep(self, batches: Iterable[list[RagAnswer]]) -> Iterator[list[RagAnswer]]:
        """Yield the batches, and keep them when the last one has been yielded."""
        kept: list[bytes] = []
        size = 0
        for batch in batches:
            if not self._is_large:
                kept.append(zlib.compress(msgspec.msgpack.encode(batch), 1))
                size += len(kept[-1])
                if size > KEPT_BYTES:
                    self._is_large = True
                    kept.clear()
            yield batch
        if not self._is_large:
            self._kept = kept


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    pending = iter(items)
    return iter(lambda: list(islice(pending, BATCH_ROWS)), [])


def read_responses(path: Path) -> list[RagAnswer]:
    """Return the answers of a run; raises `bad_responses`."""
    return list(iter_responses(path))


def iter_responses(path: Path) -> Iterator[RagAnswer]:
    """Yield the answers of a run with one batch in memory at a time; raises `bad_responses`."""
    try:
        with parquet_files.open_parquet(path) as table:
            for batch in table.iter_batches(BATCH_ROWS):
                for row in batch.to_pylist():
                    yield msgspec.convert({**row, "timings": dict(row.get("timings") or ())}, RagAnswer)
    except (FileNotFoundError, pa.ArrowException, msgspec.ValidationError) as error:
        raise damaged("bad_responses", path, "the answers of an evaluation", error) from error


class AnswerText(NamedTuple):
    """An answer without its passages and citations, which are nearly all of a file."""

    query_id: str
    status: str
    abstained: bool
    answer: str | None
    error: str | None


def iter_texts(path: Path) -> Iterator[AnswerText]:
    """Yield the answers of a run without what they rest on; raises `bad_responses`."""
    try:
        for row in parquet_files.iterate_rows(path, columns=AnswerText._fields):
            yield AnswerText(**row)
    except (FileNotFoundError, pa.ArrowException, TypeError) as error:
        raise damaged("bad_responses", path, "the answers of an evaluation", error) from error


class ScoreTable:
    """The rows of one score asset, kept by column."""

    def __init__(self, table: pa.Table) -> None:
        names = [name for name in table.column_names if table[name].null_count < len(table) or name in COLUMNS]
        self._table = table.select(names)

    @classmethod
    def of(cls, rows: Iterable[QueryScores], measures: Sequence[str]) -> Self:
        """Return the table of rows with some measures."""
        return cls(_table(rows, measures))

    @classmethod
    def of_all(cls, rows: Sequence[QueryScores]) -> Self:
        """Return the table of rows with every measure that one of them has."""
        return cls.of(rows, list(dict.fromkeys(name for row in rows for name in row.scores)))

    @classmethod
    def joined(cls, parts: Sequence["ScoreTable"]) -> Self:
        """Return the rows of all parts, whose measures may differ."""
        return cls(pa.concat_tables([part._table for part in parts], promote_options="default").combine_chunks())

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[QueryScores]:
        for batch in self._table.to_batches(BATCH_ROWS):
            for row in batch.to_pylist():
                yield QueryScores(
                    row["query_id"],
                    row["outcome"],
                    row["reason"],
                    {name: value for name, value in row.items() if name not in COLUMNS and value is not None},
                    dict(row.get(FAULTS) or ()),
                )

    @property
    def query_ids(self) -> tuple[str, ...]:
        """The id of each row's question."""
        return tuple(self._table["query_id"].to_pylist())

    @property
    def measures(self) -> list[str]:
        """The measures that any row has, in the order in which the rows name them."""
        found = [name for name in self._table.column_names if name not in COLUMNS]
        first = {name: pc.index(self._table[name].is_valid(), True).as_py() for name in found}
        return sorted(found, key=first.__getitem__)

    def values(self, measure: str) -> tuple[Values, Flags]:
        """Return the scores of the rows that have a measure, and which rows these are."""
        if measure not in self._table.column_names:
            return np.empty(0), np.zeros(len(self), np.bool_)
        column = self._table[measure]
        if column.null_count:
            return column.drop_null().to_numpy(), column.is_valid().to_numpy()
        return (column.chunk(0) if column.num_chunks == 1 else column).to_numpy(), np.ones(len(self), np.bool_)

    def faulty(self, measure: str | None = None) -> Flags:
        """Return which rows have a fault of a measure, or of any."""
        if FAULTS not in self._table.column_names:
            return np.zeros(len(self), np.bool_)
        faults = (dict(row or ()) for batch in self._table[FAULTS].chunks for row in batch.to_pylist())
        return np.array([bool(row) if measure is None else measure in row for row in faults], np.bool_)

    def where(self, chosen: Flags) -> "ScoreTable":
        """Return some of the rows."""
        return self if chosen.all() else ScoreTable(self._table.filter(pa.array(chosen)))

    def only(self, measures: Iterable[str]) -> "ScoreTable":
        """Return the rows with some of their measures."""
        wanted = {*measures, *COLUMNS}
        return ScoreTable(self._table.select([name for name in self._table.column_names if name in wanted]))

    def ordered(self, measures: Sequence[str]) -> pa.Table:
        """Return all columns, with those of the measures in this order."""
        return self._table.select([*COLUMNS[:3], *measures, *({FAULTS} & {*self._table.column_names})])

    def reasons(self) -> Counter[str]:
        """Count the reasons of the rows that have one."""
        counts = self._table["reason"].drop_null().value_counts().to_pylist()
        return Counter({one["values"]: one["counts"] for one in counts})

    def has(self, outcome: Outcome) -> Flags:
        """Return which rows have an outcome."""
        flags: Flags = pc.equal(self._table["outcome"], outcome).to_numpy()
        return flags


def write_scores(path: Path, rows: Iterable[QueryScores], measures: Sequence[str], *, evaluation_id: str) -> ScoreTable:
    """Publish scores with one column per measure; absent scores are null."""
    table = rows.ordered(measures) if isinstance(rows, ScoreTable) else _table(rows, measures)
    with publishing(path) as file:
        pq.write_table(table.replace_schema_metadata({"evaluation_id": evaluation_id}), file)
    return ScoreTable(table)


def _table(rows: Iterable[QueryScores], measures: Sequence[str]) -> pa.Table:
    """Return rows as a table, with a column of faults if one has any; memory holds a part of the rows at a time."""
    tables, has_faults = [_part([], measures)], False
    for part in _batches(rows):
        tables.append(_part(part, measures))
        has_faults = has_faults or any(row.faults for row in part)
    table = pa.concat_tables(tables).combine_chunks()
    return table if has_faults else table.drop_columns([FAULTS])


def _part(rows: Sequence[QueryScores], measures: Sequence[str]) -> pa.Table:
    return pa.table(
        {
            "query_id": pa.array([row.query_id for row in rows], pa.string()),
            "outcome": pa.array([row.outcome for row in rows], pa.string()),
            "reason": pa.array([row.reason for row in rows], pa.string()),
            **{name: pa.array([row.scores.get(name) for row in rows], pa.float64()) for name in measures},
            FAULTS: pa.array([list(row.faults.items()) for row in rows], _FAULTS),
        }
    )


def read_scores(path: Path) -> ScoreTable:
    """Return the scores of a file in its order; raises `bad_scores`."""
    try:
        return ScoreTable(parquet_files.read_table(path))
    except (FileNotFoundError, KeyError, pa.ArrowException) as error:
        raise damaged("bad_scores", path, "the scores of an evaluation", error) from error


def scored_evaluation_id(path: Path) -> str | None:
    """Return the id of the evaluation whose scores a file holds; None if it is missing or damaged."""
    if not path.exists():
        return None
    try:
        with path.open("rb") as file:
            metadata = pq.read_schema(file).metadata or {}
    except pa.ArrowException:
        return None  # the scores are then computed again
    name = metadata.get(b"evaluation_id")
    return name.decode() if name else None


def damaged(code: str, path: Path, expected: str, error: Exception) -> InputError:
    """Return the error of a damaged file of an evaluation."""
    return InputError(code, path, expected, found=str(error).splitlines()[0], hint="Evaluate the pair again.")
