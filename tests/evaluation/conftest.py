"""A pair of the railway benchmark, its evaluation, and what an evaluation makes of answers written by hand."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml

from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import score_all
from rag_eval_pipeline.evaluation.publishing import publish
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.systems.base import RagAnswer

RAILWAY = "skarn-railway"  # 40 questions, eight of them impossible
OBSERVATORY = "cairnmoor-observatory"  # 16 questions
NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)


def change_yaml(path, **changes):
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


def change_defaults(workspace, **changes):
    change_yaml(workspace.defaults_config, **changes)


@pytest.fixture
def pair(workspace):
    return load_pair(workspace, RAILWAY, "embedded")


@pytest.fixture
def evaluation(workspace, pair):
    return load_evaluation(workspace, ask(workspace, pair, now=NIGHT).evaluation_id)


def failed(query_id):
    return RagAnswer(query_id, "error", None, False, (), (), 5.0, error="connection refused")


def answered(query_id, text="x", *, abstained=False, contexts=(), citations=()):
    return RagAnswer(query_id, "ok", text, abstained, tuple(contexts), tuple(citations), 1.0)


@pytest.fixture
def results_of(workspace, evaluation, pair):
    """The results of some hand-written answers; every other question got none."""

    def results(answers):
        reloaded = replace(pair)  # whose corpus is read again
        given = {answer.query_id: answer for answer in answers}
        evaluation.write_answers(given.get(q.query_id) or failed(q.query_id) for q in pair.queries)
        publish(workspace, evaluation, reloaded, score_all(workspace, evaluation, reloaded), now=NIGHT)
        return EvaluationResults.read(workspace.results_file(evaluation.record.evaluation_id))

    return results
