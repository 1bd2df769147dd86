"""Comparisons: two systems, a person and an evaluator, one evaluator over nights."""

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import Evaluation, HumanEvaluation
from rag_eval_pipeline.judges.evaluators.comparing import compare_systems, compare_with_human, evaluate_over_time
from rag_eval_pipeline.metrics.evaluation_scores import Scale


@pytest.fixture
def made(now, new_id):
    return {"now": now, "new_id": new_id}


def test_two_systems_question_by_question(made):
    a = {str(n): 0.9 for n in range(20)} | {"tie": 0.3, "failed": None, "a only": 1.0}
    b = {str(n): 0.5 for n in range(20)} | {"tie": 0.1 + 0.2, "failed": 0.5, "b only": 1.0}

    found = compare_systems(a, b, variant_a="run_a", variant_b="run_b", **made)

    assert found.comparison_data.preference_score == 20.5 / 21
    assert found.comparison_data.sample_size == 21
    assert found.comparison_data.statistical_significance is True
    assert found.metadata == {"ties": 1, "left_out": 3}
    assert (found.evaluation_id, found.evaluator_name, found.score) == ("eval_1", "ab_test_comparison", 20.5 / 21)
    assert found.explanation == "Variant A preferred in 98% of 21 comparisons"


def test_systems_without_a_common_question_are_not_compared(made):
    with pytest.raises(InputError) as error:
        compare_systems({"1": 1.0}, {"2": 1.0}, variant_a="a", variant_b="b", **made)

    assert error.value.code == "nothing_to_compare"


def evaluation(score, name="quality", now=None, **fields):
    return Evaluation(
        evaluation_id="x",
        target_event_id="e",
        evaluator_name=name,
        score=score,
        explanation="short",
        timestamp=now,
        **fields,
    )


PEOPLE = {
    #                            evaluator     human  score  scales                        agreement  said
    "the evaluator is kinder":  ("quality",    0.75,  1.0,   None,                         0.75,      "quality is 0.25 of its scale kinder than the person"),
    "it is stricter":           ("quality",    1.0,   0.5,   None,                         0.5,       "quality is 0.50 of its scale stricter than the person"),
    "lower is better":          ("toxicity",   0.5,   0.25,  None,                         0.75,      "toxicity is 0.25 of its scale kinder than the person"),
    "a scale of five":          ("stars",      5,     3,     {"stars": Scale(1, 5)},       0.5,       "stars is 0.50 of its scale stricter than the person"),
    "they agree":               ("quality",    0.5,   0.5,   None,                         1.0,       "none"),
    "truths need no scale":     ("own",        True,  False, None,                         0.0,       "own is 1.00 of its scale stricter than the person"),
    "no score":                 ("quality",    None,  0.5,   None,                         None,      "one of the two has no score"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "human", "score", "scales", "agreement", "said"), PEOPLE.values(), ids=PEOPLE)
def test_a_person_and_an_evaluator(name, human, score, scales, agreement, said, made):
    options = made if scales is None else made | {"scales": scales}
    found = compare_with_human(
        HumanEvaluation(annotator_id="p", score=human), evaluation(score, name, made["now"]), **options
    )

    assert (found.agreement_score, found.discrepancy_analysis) == (agreement, said)
    assert (found.target_event_id, found.ai_evaluation.model, found.ai_evaluation.score) == ("e", name, score)


def test_an_evaluators_model_is_named(made):
    own = evaluation(0.5, now=made["now"], metadata={"evaluator_model": "m-1"})

    assert compare_with_human(HumanEvaluation(annotator_id="p", score=0.5), own, **made).ai_evaluation.model == "m-1"


def test_scores_of_no_declared_scale_are_not_compared(made):
    with pytest.raises(InputError) as error:
        compare_with_human(HumanEvaluation(annotator_id="p", score=3), evaluation(4, "own", made["now"]), **made)

    assert error.value.code == "no_scale"


def test_an_evaluator_over_nights(made):
    found = evaluate_over_time("quality", [0.5, 0.6, 0.7, 0.8], target_event_id="b|s", **made)

    assert (found.current_score, found.historical_scores) == (0.8, (0.5, 0.6, 0.7, 0.8))
    assert found.change_rate == pytest.approx(0.1)
    assert (found.trend, found.evaluator_name) == ("improving", "temporal_quality")


def test_falling_toxicity_is_an_improvement(made):
    scores = [0.8, 0.7, 0.6, 0.5]
    found = evaluate_over_time("toxicity", scores, target_event_id="b|s", scale=Scale(better="lower"), **made)

    assert found.trend == "improving"


@pytest.mark.parametrize(("scores", "code"), [([], "no_scores"), ([0.5, 1.5], "score_out_of_range")])
def test_scores_that_are_none(scores, code, made):
    with pytest.raises(InputError) as error:
        evaluate_over_time("quality", scores, target_event_id="b|s", **made)

    assert error.value.code == code
