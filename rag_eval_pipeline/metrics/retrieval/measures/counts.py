"""Counts: how much there was to find, and how much was judged; no scores, but what scores are read with."""

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.registry import COUNT, Metric
from rag_eval_pipeline.metrics.retrieval.definition import LEVELS, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats, Ints, count_up


def queries(standings: Standings, _: Parameters) -> Ints:
    """1 for each query of the qrels."""
    return np.ones(standings.n, np.int64)


def retrieved(standings: Standings, _: Parameters) -> Ints:
    """Retrieved documents."""
    return standings.retrieved


def relevant(standings: Standings, _: Parameters) -> Ints:
    """Relevant documents, retrieved or not."""
    return standings.n_relevant


def relevant_retrieved(standings: Standings, _: Parameters) -> Ints:
    """Relevant documents that were retrieved."""
    return standings.n_found


def nonrelevant_retrieved(standings: Standings, _: Parameters) -> Ints:
    """Documents that were retrieved, judged, and found not relevant."""
    grade = standings.placed.grade
    return count_up(standings.placed.query[(grade >= 0) & (grade < standings.level)], standings.n)


def unjudged_at(standings: Standings, parameters: Parameters) -> Floats:
    """Share of the top k that nobody judged; where fewer were retrieved, the rest counts as judged."""
    judged = (standings.placed.grade >= 0) & (standings.placed.rank <= parameters.k)
    shown = np.minimum(standings.retrieved, parameters.k)
    return (shown - count_up(standings.placed.query[judged], standings.n)) / parameters.k


def relevance_string(standings: Standings, parameters: Parameters) -> NDArray[np.object_]:
    """The grades of the first documents in a row: `>` above 9, `-` outside the pool, `.` in the pool but unjudged."""
    length = int(parameters.numbers[0])
    strings = [["-"] * min(length, int(n)) for n in standings.retrieved]
    near = standings.placed.where(standings.placed.rank <= length)
    for query, rank, grade in zip(*(column.tolist() for column in near), strict=True):
        strings[query][rank - 1] = "." if grade < 0 else ">" if grade > 9 else str(grade)
    return np.array(["".join(string) for string in strings], dtype=object)


def _count(name: str, meaning: str) -> Metric:
    return Metric(
        name, meaning, f"trec_eval m_{name}.c", ("ranking", "relevant"), LEVELS, direction="neither", range=COUNT
    )


FAMILIES = (
    Family(
        _count("num_q", "Queries of the qrels."),
        queries,
        trec="num_q",
        summary="sum",
        printed="integer",
        shown="summary",
    ),
    Family(
        _count("num_ret", "Retrieved documents."),
        retrieved,
        trec="num_ret",
        summary="sum",
        printed="integer",
    ),
    Family(
        _count("num_rel", "Relevant documents, retrieved or not."),
        relevant,
        trec="num_rel",
        summary="sum",
        printed="integer",
    ),
    Family(
        _count("num_rel_ret", "Relevant documents that were retrieved."),
        relevant_retrieved,
        trec="num_rel_ret",
        summary="sum",
        printed="integer",
    ),
    Family(
        _count("num_nonrel_judged_ret", "Retrieved documents that were judged and are not relevant."),
        nonrelevant_retrieved,
        trec="num_nonrel_judged_ret",
        summary="sum",
        printed="integer",
    ),
    Family(
        Metric(
            name="unjudged@k",
            meaning="Share of the top k that nobody judged.",
            source="trec_eval 10 m_unjudged.c",
            needs=("ranking", "relevant", "judged_nonrelevant"),
            levels=LEVELS,
            direction="neither",
        ),
        unjudged_at,
        trec="unj",
        takes="cutoff",
        defaults=(5, 10, 20),
    ),
    Family(
        _count("relstring", "Grades of the first documents in a row."),
        relevance_string,
        trec="relstring",
        takes="numbers",
        defaults=(10,),
        summary="none",
        printed="text",
        shown="queries",
    ),
)
