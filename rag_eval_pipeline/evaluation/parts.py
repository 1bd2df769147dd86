"""Everything that one results file is made of, read from an evaluation's folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from rag_eval_pipeline.evaluation.judged_results import JudgedShares
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.question_documents import question_clusters
from rag_eval_pipeline.evaluation.responses_file import read_responses
from rag_eval_pipeline.evaluation.runs import Evaluation
from rag_eval_pipeline.evaluation.scores_file import QueryScores, read_scores
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.metrics.question_scores import overall_scores
from rag_eval_pipeline.systems.answer import RagAnswer


@dataclass(frozen=True)
class Parts:
    """A value per question each, in the dataset's order."""

    queries: Sequence[EvaluationQuery]
    answers: Sequence[RagAnswer]
    retrieval: Sequence[QueryScores]
    citations: Sequence[QueryScores]
    answer_scores: Sequence[QueryScores]
    judged: Sequence[QueryScores]

    @classmethod
    def read(cls, evaluation: Evaluation, pair: Pair) -> Self:
        """The parts of an evaluation that has all of them.

        Raises:
            InputError: `bad_responses`, `bad_scores`.
        """
        return cls(
            queries=pair.queries,
            answers=read_responses(evaluation.responses),
            retrieval=read_scores(evaluation.scores("retrieval_scores")),
            citations=read_scores(evaluation.scores("citation_scores")),
            answer_scores=read_scores(evaluation.scores("answer_scores")),
            judged=read_scores(evaluation.scores("judge_scores")),
        )

    @cached_property
    def clusters(self) -> Mapping[str, str]:
        """Question -> its documents."""
        return question_clusters(self.queries)

    @cached_property
    def shares(self) -> JudgedShares:
        """The judge's counts over all answers."""
        return JudgedShares(self.judged, self.clusters)

    @cached_property
    def overall(self) -> list[QueryScores]:
        """The overall citation score, which rests on several parts; failed where one of them failed."""
        return [
            _overall(answer, (citations, judged))
            for answer, citations, judged in zip(self.answers, self.citations, self.judged, strict=True)
        ]


def _overall(answer: RagAnswer, rooms: Sequence[QueryScores]) -> QueryScores:
    if failed := [room.reason for room in rooms if room.outcome == "failed"]:
        return QueryScores(answer.query_id, "failed", failed[0])
    if answer.status != "ok":
        return QueryScores(answer.query_id, "failed", answer.status)
    scores = overall_scores({name: score for room in rooms for name, score in room.scores.items()})
    return QueryScores(answer.query_id, "scored" if scores else "skipped", None if scores else "no_parts", scores)
