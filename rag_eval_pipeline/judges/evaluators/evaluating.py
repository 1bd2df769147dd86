"""Events of a finished evaluation to `<evaluation_id>.evaluations.json`: a batch with its figures and summaries."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rag_eval_pipeline.formats.evaluations import (
    BatchMetadata,
    EvaluationBatch,
    EvaluationConfig,
    MultiEvaluationResult,
    SummaryMethod,
    new_evaluation_id,
)
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.finding import find_evaluators
from rag_eval_pipeline.judges.evaluators.results import figures, results_by_event, scales_of
from rag_eval_pipeline.judges.evaluators.running import ORDINARY, Means, run_evaluators
from rag_eval_pipeline.judges.evaluators.shared_judge import SharedJudge

ENDING = ".evaluations.json"


@dataclass(frozen=True, slots=True)
class Summarising:
    """How an event's scores become one.

    Args:
        method: As the specification names it.
        weights: By evaluator's name, for `weighted_average`.
    """

    method: SummaryMethod = "simple_average"
    weights: Mapping[str, float] | None = None


PLAIN_MEAN = Summarising()


@dataclass(frozen=True, slots=True)
class EventEvaluations:
    """What became of evaluating events.

    Args:
        batch: As it is written; `batch_metadata` holds performance, quality and the summary score of each event.
        results: One an event.
    """

    batch: EvaluationBatch
    results: tuple[MultiEvaluationResult, ...]

    @property
    def summaries(self) -> dict[str, float | None]:
        """Event -> summary score; None where nothing was completed."""
        return {result.target_event_id: result.summary_score for result in self.results}

    def write(self, folder: Path) -> Path:
        """Publishes the batch as `<batch_id>.evaluations.json` in a folder."""
        path = evaluations_path(folder, self.batch.batch_id)
        self.batch.write(path)
        return path


async def evaluate_events(
    events: Iterable[Event],
    config: EvaluationConfig,
    *,
    evaluation_id: str,
    now: datetime,
    new_id: Callable[[], str] = new_evaluation_id,
    summarising: Summarising = PLAIN_MEAN,
    means: Means = ORDINARY,
) -> EventEvaluations:
    """Runs evaluators on events and sums up.

    Args:
        events: Of one evaluation.
        config: What is run and how.
        evaluation_id: Whose events; the batch's id.
        now: Aware.
        new_id: Called once an evaluation.
        summarising: How an event's scores become one.
        means: What it is done with.

    Raises:
        InputError: Those of `run_evaluators` and `results_by_event`.
    """
    batch = await run_evaluators(events, config, now=now, new_id=new_id, batch_id=evaluation_id, means=means)
    scales = scales_of(find_evaluators(config, SharedJudge(None), means.evaluators))
    results = tuple(results_by_event(batch, summarising.method, weights=summarising.weights, scales=scales))
    metadata = batch.batch_metadata.model_dump() | figures(batch, scales=scales)
    metadata["summary_method"] = summarising.method
    metadata["summary_scores"] = {result.target_event_id: result.summary_score for result in results}
    whole = EvaluationBatch(
        batch_id=batch.batch_id,
        evaluations=batch.evaluations,
        batch_metadata=BatchMetadata.model_validate(metadata),
        status=batch.status,
    )
    return EventEvaluations(whole, results)


def evaluations_path(folder: Path, evaluation_id: str) -> Path:
    """`<evaluation_id>.evaluations.json` in a folder."""
    return folder / f"{evaluation_id}{ENDING}"
