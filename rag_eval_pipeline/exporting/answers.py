"""One evaluation's answers to a dataset, checked to be answers to this very dataset and corpus."""

from collections.abc import Iterator
from dataclasses import dataclass

from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.responses_file import read_responses
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, Evaluation, load_evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.scores_file import read_scores, written_for
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.systems.answer import RagAnswer
from rag_eval_pipeline.workspace import NAME, Workspace


@dataclass(frozen=True, slots=True)
class Answers:
    """What one system said, in the dataset's order.

    Args:
        evaluation_id: The evaluation.
        system: Whose answers.
        given: Query id -> terminal answer, failed ones too; questions beyond a system's limit have none.
        scores: Query id -> measure -> score, of every score file that belongs to the evaluation.
    """

    evaluation_id: str
    system: str
    given: dict[str, RagAnswer]
    scores: dict[str, dict[str, float]]

    def of(self, query: EvaluationQuery) -> RagAnswer | None:
        """The answer to a question; None when it failed or was not asked."""
        answer = self.given.get(query.query_id)
        return answer if answer is not None and answer.status == "ok" else None

    @property
    def failed(self) -> int:
        """Questions that were asked and got no answer."""
        return sum(answer.status != "ok" for answer in self.given.values())

    def notes(self) -> Iterator[str]:
        """What a reader of the files must know."""
        if self.failed:
            yield f"{self.failed} of {len(self.given)} questions got no answer; theirs is absent, not empty"


def find_answers(workspace: Workspace, evaluation: str, stamp: Stamp, dataset: EvaluationDataset) -> Answers:
    """The answers of an evaluation.

    Args:
        workspace: Where.
        evaluation: An evaluation's id, or a system's name for its newest evaluation of this benchmark.
        stamp: Of the benchmark's conversion.
        dataset: That the conversion made.

    Raises:
        InputError: `no_evaluation`, `other_benchmark`, `not_answered`, `stale_evaluation`, `foreign_answers`, or a
            fault of a file.
    """
    found = _find(workspace, evaluation, stamp.benchmark)
    record = found.record
    if record.benchmark != stamp.benchmark:
        raise InputError("other_benchmark", found.folder, f"an evaluation of {stamp.benchmark}", found=record.benchmark)
    found.require_answered()
    if (record.fingerprints.dataset, record.fingerprints.corpus) != (
        stamp.dataset_fingerprint,
        stamp.corpus_fingerprint,
    ):
        raise InputError(
            "stale_evaluation", found.folder, f"answers to the present dataset and corpus of {stamp.benchmark}",
            hint=f"Evaluate again: rag-eval evaluate {stamp.benchmark} --system {record.system}",
        )  # fmt: skip
    answers = read_responses(found.responses)
    asked = [query.query_id for query in dataset.queries[: record.limit]]
    if [answer.query_id for answer in answers] != asked:
        raise InputError(
            "foreign_answers", found.responses, "one answer a question, in the dataset's order",
            hint="Evaluate the pair again.",
        )  # fmt: skip
    return Answers(
        evaluation_id=record.evaluation_id,
        system=record.system,
        given={answer.query_id: answer for answer in answers},
        scores=_scores(found),
    )


def _find(workspace: Workspace, evaluation: str, benchmark: str) -> Evaluation:
    if (workspace.runs / evaluation / "evaluation.json").is_file():
        return load_evaluation(workspace, evaluation)
    newest = newest_evaluation(workspace, benchmark, evaluation) if NAME.fullmatch(evaluation) else None
    if newest is None:
        pointers = (workspace.runs / "by_pair" / benchmark).glob("*.json")
        known = ", ".join(sorted(pointer.stem for pointer in pointers)) or "none"
        raise InputError(
            "no_evaluation", workspace.runs, f"an evaluation's id, or a system that was evaluated on {benchmark}",
            found=evaluation, hint=f"Systems evaluated on it: {known}.",
        )  # fmt: skip
    return newest


def _scores(evaluation: Evaluation) -> dict[str, dict[str, float]]:
    scores: dict[str, dict[str, float]] = {}
    for kind in SCORE_FILES:
        path = evaluation.scores(kind)
        if written_for(path) == evaluation.record.evaluation_id:
            for row in read_scores(path):
                scores.setdefault(row.query_id, {}).update(row.scores)
    return scores
