"""One evaluation's answers, checked to be answers to the exported dataset and corpus."""

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
    """The answers of one system, in the dataset's order.

    Args:
        given: Query id -> final answer, failed ones included; questions beyond a system's limit have none.
        scores: Query id -> metric -> score, from every score file that belongs to the evaluation.
    """

    evaluation_id: str
    system: str
    given: dict[str, RagAnswer]
    scores: dict[str, dict[str, float]]

    def of(self, query: EvaluationQuery) -> RagAnswer | None:
        """Return the answer to a question; None if it failed or was not asked."""
        answer = self.given.get(query.query_id)
        return answer if answer is not None and answer.status == "ok" else None

    @property
    def failed(self) -> int:
        """The number of questions that were asked and got no answer."""
        return sum(answer.status != "ok" for answer in self.given.values())

    @property
    def abstained(self) -> int:
        """The number of refusals."""
        return sum(answer.abstained for answer in self.given.values())

    @property
    def passage_scores(self) -> int:
        """The number of retrieved passages with a score."""
        return sum(passage.score is not None for answer in self.given.values() for passage in answer.contexts)

    def notes(self) -> Iterator[str]:
        """Yield what a reader of the files has to know."""
        if self.failed:
            yield f"{self.failed} of {len(self.given)} questions got no answer; their answers are absent, not empty"


def find_answers(workspace: Workspace, evaluation: str, stamp: Stamp, dataset: EvaluationDataset) -> Answers:
    """Return the answers of an evaluation.

    Args:
        workspace: The workspace.
        evaluation: An evaluation's id, or a system's name for its newest evaluation of this benchmark.
        stamp: The stamp of the benchmark's conversion.
        dataset: The dataset that the conversion wrote.

    Raises:
        InputError: `no_evaluation`, `other_benchmark`, `not_answered`, `stale_evaluation`, `foreign_answers`, or an
            error of a file.
    """
    found = _find_evaluation(workspace, evaluation, stamp.benchmark)
    record, prints = found.record, found.record.fingerprints
    if record.benchmark != stamp.benchmark:
        raise InputError("other_benchmark", found.folder, f"an evaluation of {stamp.benchmark}", found=record.benchmark)
    found.require_answered()
    if (prints.dataset, prints.corpus) != (stamp.dataset_fingerprint, stamp.corpus_fingerprint):
        expected = f"answers to the current dataset and corpus of {stamp.benchmark}"
        hint = f"Evaluate again: rag-eval evaluate {stamp.benchmark} --system {record.system}"
        raise InputError("stale_evaluation", found.folder, expected, hint=hint)
    answers = read_responses(found.responses)
    if [answer.query_id for answer in answers] != [query.query_id for query in dataset.queries[: record.limit]]:
        expected = "one answer per question, in the dataset's order"
        raise InputError("foreign_answers", found.responses, expected, hint="Evaluate the pair again.")
    given = {answer.query_id: answer for answer in answers}
    return Answers(record.evaluation_id, record.system, given, _read_scores(found))


def _find_evaluation(workspace: Workspace, evaluation: str, benchmark: str) -> Evaluation:
    if (workspace.runs / evaluation / "evaluation.json").is_file():
        return load_evaluation(workspace, evaluation)
    newest = newest_evaluation(workspace, benchmark, evaluation) if NAME.fullmatch(evaluation) else None
    if newest is not None:
        return newest
    pointers = (workspace.runs / "by_pair" / benchmark).glob("*.json")
    hint = f"Systems evaluated on it: {', '.join(sorted(pointer.stem for pointer in pointers)) or 'none'}."
    expected = f"an evaluation's id, or a system that was evaluated on {benchmark}"
    raise InputError("no_evaluation", workspace.runs, expected, found=evaluation, hint=hint)


def _read_scores(evaluation: Evaluation) -> dict[str, dict[str, float]]:
    scores: dict[str, dict[str, float]] = {}
    for kind in SCORE_FILES:
        path = evaluation.scores(kind)
        if written_for(path) == evaluation.record.evaluation_id:
            for row in read_scores(path):
                scores.setdefault(row.query_id, {}).update(row.scores)
    return scores
