"""Rows of runs as columns, a piece at a time: whole queries come out, whatever the pieces cut."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.retrieval.documents import Documents
from rag_eval_pipeline.metrics.retrieval.runs import Run
from rag_eval_pipeline.metrics.retrieval.sums import Floats, Ints


class Returned(Exception):
    """A query that comes back after another one: the rows have to be gathered first."""


class Columns(NamedTuple):
    """Some rows of a run, in the file's order.

    Args:
        queries: The query of each stretch of rows with one query.
        starts: (stretches,) where each begins; the first at 0.
        documents: Arrow array of ids.
        scores: (rows,)
    """

    queries: list[str]
    starts: Ints
    documents: Any
    scores: Floats


def whole_queries(pieces: Iterable[Columns], source: str) -> Iterator[Run]:
    """Parts of a run, each with whole queries.

    Raises:
        Returned: A query comes back.
        InputError: What making a `Run` raises.
    """
    seen: set[str] = set()
    carried: Columns | None = None
    for piece in pieces:
        held = piece if carried is None else _joined(carried, piece)
        if len(held.queries) > 1:
            yield _run(held, len(held.queries) - 1, seen, source)
        carried = _last(held)
    if carried is not None:
        yield _run(carried, len(carried.queries), seen, source)


def gathered(pieces: Iterable[Columns], source: str) -> Run:
    """The whole run, with the rows of each query brought together; errors as `Run`."""
    import pyarrow as pa

    held = list(pieces)
    ids: dict[str, int] = {}
    codes = [np.repeat([ids.setdefault(query, len(ids)) for query in piece.queries], _lengths(piece)) for piece in held]
    code = np.concatenate(codes)
    order = np.argsort(code, kind="stable")
    documents = pa.concat_arrays([piece.documents for piece in held]).take(pa.array(order))
    scores = np.concatenate([piece.scores for piece in held])[order]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(code, minlength=len(ids)))))
    return Run(list(ids), offsets, Documents.named(documents), scores, source)


def _run(held: Columns, queries: int, seen: set[str], source: str) -> Run:
    names = held.queries[:queries]
    before = len(seen)
    seen.update(names)
    if len(seen) - before < len(names):
        raise Returned
    offsets = np.append(held.starts, held.scores.size)[: queries + 1]
    end = int(offsets[-1])
    return Run(names, offsets, Documents.named(held.documents.slice(0, end)), held.scores[:end], source)


def _last(held: Columns) -> Columns:
    start = int(held.starts[-1])
    return Columns(held.queries[-1:], np.zeros(1, np.int64), held.documents.slice(start), held.scores[start:])


def _joined(carried: Columns, piece: Columns) -> Columns:
    import pyarrow as pa

    rows = carried.scores.size
    queries, starts = piece.queries, piece.starts + rows
    if queries[0] == carried.queries[-1]:
        queries, starts = queries[1:], starts[1:]
    return Columns(
        [*carried.queries, *queries],
        np.concatenate((carried.starts, starts)),
        pa.concat_arrays([carried.documents, piece.documents]),
        np.concatenate((carried.scores, piece.scores)),
    )


def _lengths(piece: Columns) -> Ints:
    return np.diff(np.append(piece.starts, piece.scores.size))
