"""Ways to run one evaluator on one event, with a clock and ids that are known."""

from datetime import UTC, datetime
from itertools import count

import pytest

from rag_eval_pipeline.formats.evaluations import EvaluationConfig
from rag_eval_pipeline.judges.evaluators.running import ORDINARY, run_evaluators

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def now():
    return NOW


@pytest.fixture
def new_id():
    """eval_1, eval_2, ..."""
    numbers = count(1)
    return lambda: f"eval_{next(numbers)}"


@pytest.fixture
def evaluated(new_id):
    """`await evaluated(name, event, means=..., **options)`: the one evaluation."""

    async def evaluated(name, event, *, means=ORDINARY, **options):
        config = EvaluationConfig(evaluators=(name,), evaluator_configs={name: options} if options else {})
        batch = await run_evaluators([event], config, now=NOW, new_id=new_id, means=means)
        (evaluation,) = batch.evaluations
        return evaluation

    return evaluated
