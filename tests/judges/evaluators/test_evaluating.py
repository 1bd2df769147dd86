"""What became of a batch: summaries by event, figures over all, and a file that can be read again."""

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import EvaluationBatch, EvaluationConfig
from rag_eval_pipeline.judges.evaluators.evaluating import Summarising, evaluate_events, evaluations_path
from rag_eval_pipeline.judges.evaluators.evaluator import Evaluator
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.running import Means
from rag_eval_pipeline.judges.judgement import Case, CitedText
from rag_eval_pipeline.metrics.evaluation_scores import Scale

EVENTS = [Event("1", "?", "x"), Event("2", "?", "x"), Event("3", "?", None)]


def scored(name, score, **fields):
    return Evaluator(name, lambda event, options: score, version="1.0.0", **fields)


OWN = {
    "good": scored("good", 0.8, scale=Scale()),
    "toxicity": scored("toxicity", 0.25, scale=Scale(better="lower")),
    "stars": scored("stars", 3, scale=Scale(1, 5)),
    "unknown": scored("unknown", 0.1),
}


async def summaries(now, new_id, names, summarising):
    config = EvaluationConfig(evaluators=names)
    found = await evaluate_events(
        EVENTS, config, evaluation_id="eval_run_1", now=now, new_id=new_id, summarising=summarising,
        means=Means(evaluators=OWN),
    )  # fmt: skip
    return found.summaries


SUMMARIES = {
    #                              evaluators                         method              weights                      score
    "a mean":                     (("good", "toxicity"),              "simple_average",   None,                        (0.8 + 0.75) / 2),
    "the lowest":                 (("good", "toxicity"),              "minimum",          None,                        0.75),
    "weighed":                    (("good", "toxicity"),              "weighted_average", {"good": 3, "toxicity": 1},  (3 * 0.8 + 0.75) / 4),
    "on a scale of its own":      (("good", "stars"),                 "simple_average",   None,                        (0.8 + 0.5) / 2),
    "one of no declared scale":   (("good", "unknown"),               "simple_average",   None,                        0.8),
}  # fmt: skip


@pytest.mark.parametrize(("names", "method", "weights", "score"), SUMMARIES.values(), ids=SUMMARIES)
async def test_summaries(names, method, weights, score, now, new_id):
    found = await summaries(now, new_id, names, Summarising(method, weights))

    assert found == {"1": pytest.approx(score), "2": pytest.approx(score), "3": None}


async def test_an_evaluator_without_a_weight_is_refused(now, new_id):
    with pytest.raises(InputError) as error:
        await summaries(now, new_id, ("good", "stars"), Summarising("weighted_average", {"good": 1.0}))

    assert error.value.code == "missing_weight"


async def test_the_file_is_a_batch_with_its_figures(now, new_id, tmp_path):
    config = EvaluationConfig(evaluators=("good", "toxicity"))
    found = await evaluate_events(
        EVENTS, config, evaluation_id="eval_run_1", now=now, new_id=new_id, means=Means(evaluators=OWN)
    )  # fmt: skip

    path = found.write(tmp_path / "evaluations")
    read = EvaluationBatch.read(path)
    metadata = read.batch_metadata.model_dump()

    assert path == evaluations_path(tmp_path / "evaluations", "eval_run_1")
    assert path.name == "eval_run_1.evaluations.json"
    assert read == found.batch
    assert metadata["evaluation_performance"]["total_evaluations"] == 6
    assert metadata["evaluation_performance"]["successful_evaluations"] == 4
    assert metadata["evaluation_performance"]["skipped_evaluations"] == 2
    assert metadata["evaluation_quality"]["evaluator_agreement"] == pytest.approx(1 - 0.05)
    assert metadata["summary_scores"] == {"1": pytest.approx(0.775), "2": pytest.approx(0.775), "3": None}
    assert metadata["evaluator_versions"] == {"good": "1.0.0", "toxicity": "1.0.0"}


async def test_results_hold_the_weights_that_counted(now, new_id):
    config = EvaluationConfig(evaluators=("good", "toxicity"))
    found = await evaluate_events(
        EVENTS[:1], config, evaluation_id="x", now=now, new_id=new_id, means=Means(evaluators=OWN),
        summarising=Summarising("weighted_average", {"good": 3, "toxicity": 1, "of_nobody": 9}),
    )  # fmt: skip

    (result,) = found.results
    assert (result.target_event_id, result.summary_method) == ("1", "weighted_average")
    assert result.weights == {"good": 0.75, "toxicity": 0.25}
    assert [evaluation.evaluator_name for evaluation in result.evaluations] == ["good", "toxicity"]


def test_an_event_and_a_case_are_the_same_question():
    case = Case("q", "Who?", ("Ada",), False, "Ada.", (CitedText("a.pdf", None, 0, 1),), ("text",))

    assert Event.of(case).case == case
    assert Event.of(case, event_id="run/q").event_id == "run/q"
