"""The published evaluations of a pair whose scores are still there, in the order in which they began."""

import logging

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.runs import Evaluation, EvaluationRecord
from rag_eval_pipeline.workspace import Workspace

logger = logging.getLogger(__name__)


def published_evaluations(workspace: Workspace, benchmark: str, system: str) -> list[Evaluation]:
    """Those of one pair, oldest first; equal times in the order of their ids."""
    return all_published(workspace).get((benchmark, system), [])


def all_published(workspace: Workspace) -> dict[tuple[str, str], list[Evaluation]]:
    """Those of every pair: (benchmark, system) -> evaluations, oldest first.

    A record that cannot be read costs its own evaluation, and the log names it.
    """
    found: dict[tuple[str, str], list[Evaluation]] = {}
    for path in sorted(workspace.runs.glob("*/evaluation.json")):
        try:
            record = EvaluationRecord.read(path)
        except InputError as error:
            logger.warning("An evaluation is left aside: %s", error)
            continue
        if record.state == "published" and record.evaluation_id == path.parent.name:
            found.setdefault((record.benchmark, record.system), []).append(Evaluation(path.parent, record))
    for evaluations in found.values():
        evaluations.sort(key=lambda one: (one.record.opened_at, one.record.evaluation_id))
    return found
