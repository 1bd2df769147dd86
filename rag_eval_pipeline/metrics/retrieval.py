"""Retrieval scores: a run's rankings against qrels, one score a query and measure.

Every score equals trec_eval bit for bit, tie-breaking included; `tests/metrics/test_retrieval.py` compares them with
its output. Scores are per query; means, coverage and intervals are made from them in `statistics`, never here. What has
no score is listed with its cause instead of becoming 0.0.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.measures import RelevantRanks, parse_measure


@dataclass(frozen=True, slots=True)
class RunScores:
    """The scores of one run, and the queries that have none.

    Args:
        scores: Query -> measure -> score, in byte order of the query ids: the order in which trec_eval adds them up.
        skipped: Judged queries without a relevant document: nothing can be found, so nothing is scored. trec_eval
            counts them as 0 in its means.
        failed: Queries with relevant documents that the run does not contain. A query that retrieved nothing stands
            in the run with an empty ranking and scores 0.0.
        unjudged: Queries of the run that the qrels do not contain.
    """

    scores: dict[str, dict[str, float]]
    skipped: tuple[str, ...]
    failed: tuple[str, ...]
    unjudged: tuple[str, ...]

    def values(self, measure: str) -> list[float]:
        """One measure's scores, in the order of `scores`."""
        name = parse_measure(measure).name
        return [by_measure[name] for by_measure in self.scores.values()]


def rank_by_score(scored: Iterable[tuple[str, float]]) -> list[str]:
    """Documents in rank order as trec_eval sorts them: higher score first, equal scores by document id, descending.

    Args:
        scored: (document id, score), in any order; a rank that came with them is ignored.

    Raises:
        InputError: `bad_score` for NaN, `duplicate_document` for a document that occurs twice.
    """
    ranking = []
    # Python compares code points; that is the byte order of UTF-8, which trec_eval's strcmp uses.
    for document, score in sorted(scored, key=lambda item: (item[1], item[0]), reverse=True):
        if math.isnan(score):
            raise InputError("bad_score", "run", f"a number as the score of {document!r}", found=score)
        ranking.append(document)
    check_distinct(ranking)
    return ranking


def check_distinct(ranking: Sequence[str]) -> None:
    """Refuse a ranking that holds a document twice: recall could exceed 1.

    Raises:
        InputError: `duplicate_document`.
    """
    seen = set()
    for document in ranking:
        if document in seen:
            raise InputError(
                "duplicate_document",
                "run",
                "each document at most once in a ranking",
                found=document,
                hint="Passages of one document are reduced with reduce_to_documents.",
            )
        seen.add(document)


def reduce_to_documents(passages: Iterable[str]) -> list[str]:
    """Documents in the order of their best passage.

    Args:
        passages: The document of each passage, in rank order.
    """
    return list(dict.fromkeys(passages))


def relevant_ranks(ranking: Sequence[str], relevant: Mapping[str, int]) -> RelevantRanks | None:
    """Where the relevant documents of one query stand.

    Args:
        ranking: Documents in rank order, each once.
        relevant: Document -> grade. 1 and more is relevant; 0, negative and absent are not.

    Returns:
        None when no document is relevant.

    Raises:
        InputError: `duplicate_document`.
    """
    check_distinct(ranking)
    ideal = tuple(sorted((grade for grade in relevant.values() if grade >= 1), reverse=True))
    if not ideal:
        return None
    graded = [(rank, relevant.get(document, 0)) for rank, document in enumerate(ranking, start=1)]
    found = [(rank, grade) for rank, grade in graded if grade >= 1]
    return RelevantRanks(tuple(rank for rank, _ in found), tuple(grade for _, grade in found), ideal)


def score_query(
    ranking: Sequence[str], relevant: Mapping[str, int], measures: Iterable[str]
) -> dict[str, float] | None:
    """The scores of one query.

    Args:
        ranking: Documents in rank order, each once; empty when the system retrieved nothing, which scores 0.0.
        relevant: Document -> grade, 1 and more is relevant.
        measures: Names as `parse_measure` takes them.

    Returns:
        Measure name -> score in [0, 1]. None when the query has no relevant document (an impossible question, or only
        grades below 1): it is skipped, not a zero.

    Raises:
        InputError: `duplicate_document`, `unknown_measure`.
    """
    parsed = [parse_measure(name) for name in measures]
    ranks = relevant_ranks(ranking, relevant)
    return None if ranks is None else {measure.name: measure.score(ranks) for measure in parsed}


def score_run(
    qrels: Mapping[str, Mapping[str, int]], run: Mapping[str, Sequence[str]], measures: Sequence[str]
) -> RunScores:
    """The scores of every query of a run.

    Args:
        qrels: Query -> document -> grade.
        run: Query -> documents in rank order (`rank_by_score` makes them from scores).
        measures: Names as `parse_measure` takes them.

    Raises:
        InputError: `duplicate_document`, `unknown_measure`.
    """
    scores: dict[str, dict[str, float]] = {}
    skipped = []
    failed = []
    for query in sorted(qrels):
        by_measure = score_query(run.get(query, ()), qrels[query], measures)
        if by_measure is None:
            skipped.append(query)
        elif query not in run:
            failed.append(query)
        else:
            scores[query] = by_measure
    return RunScores(scores, tuple(skipped), tuple(failed), tuple(sorted(run.keys() - qrels.keys())))
