"""Evaluations of the specification's documents are read as their models, keep every value, and are written equal."""

import itertools
import json
import re
from datetime import UTC, datetime

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import (
    ComparisonEvaluation,
    CustomEvaluation,
    Evaluation,
    EvaluationBatch,
    EvaluationConfig,
    FactualAccuracyEvaluation,
    HumanModelEvaluation,
    LengthEvaluation,
    MultiEvaluationResult,
    QualityEvaluation,
    RelevanceEvaluation,
    RetryConfig,
    TemporalEvaluation,
    ToxicityEvaluation,
    new_evaluation_id,
    read_evaluation,
)

NOW = datetime(2024, 1, 15, 10, 30, 45, 123456, UTC)
STAMP = "2024-01-15T10:30:45.123456Z"
IDS = {"evaluation_id": "e1", "target_event_id": "evt_1", "timestamp": STAMP}
SCORED = IDS | {"evaluator_name": "coherence", "score": 0.85}

# The specification's documents, as they stand there.
DOCUMENTS = {
    QualityEvaluation: """{
        "evaluation_id": "eval_quality_001",
        "evaluator_name": "quality",
        "score": 0.876,
        "explanation": "High quality response with good relevance and accuracy",
        "dimensions": {"relevance": 0.85, "coherence": 0.92, "clarity": 0.78, "completeness": 0.88, "accuracy": 0.95}
    }""",
    FactualAccuracyEvaluation: """{
        "evaluation_id": "eval_fact_001",
        "evaluator_name": "factual_accuracy",
        "score": 0.75,
        "explanation": "Most facts are correct but population figure is outdated",
        "factual_claims": [{"claim": "Paris is the capital of France", "verified": true, "confidence": 0.99}],
        "citation_accuracy": 0.8,
        "hallucination_detected": false
    }""",
    ToxicityEvaluation: """{
        "evaluation_id": "eval_toxic_001",
        "evaluator_name": "toxicity",
        "score": 0.05,
        "explanation": "Content is safe with minimal profanity",
        "toxicity_categories": {"hate_speech": 0.02, "harassment": 0.01, "violence": 0.03, "profanity": 0.05},
        "overall_toxicity": 0.05,
        "content_warnings": []
    }""",
    RelevanceEvaluation: """{
        "evaluation_id": "eval_rel_001",
        "evaluator_name": "relevance",
        "score": 0.88,
        "explanation": "Response directly addresses the question with comprehensive information",
        "query_intent_match": 0.92,
        "topic_alignment": 0.85,
        "information_completeness": 0.87
    }""",
    LengthEvaluation: """{
        "evaluation_id": "eval_len_001",
        "evaluator_name": "length",
        "score": 0.9,
        "explanation": "Response length is appropriate for the question complexity",
        "character_count": 543,
        "word_count": 87,
        "sentence_count": 6,
        "expected_length_range": {"min_words": 50, "max_words": 150},
        "length_appropriateness": "appropriate"
    }""",
    CustomEvaluation: """{
        "evaluation_id": "eval_med_001",
        "evaluator_name": "medical_accuracy",
        "score": 0.85,
        "explanation": "Medically sound advice with appropriate caveats",
        "medical_fields": {
            "diagnosis_accuracy": 0.9,
            "treatment_appropriateness": 0.8,
            "contraindication_awareness": 0.95,
            "disclaimer_present": true
        },
        "risk_level": "low",
        "regulatory_compliance": true,
        "citations_medical_literature": 3
    }""",
    ComparisonEvaluation: """{
        "evaluation_id": "eval_ab_001",
        "evaluator_name": "ab_test_comparison",
        "score": 0.65,
        "explanation": "Variant A preferred in 65% of comparisons",
        "comparison_data": {
            "variant_a_event_id": "evt_variant_a",
            "variant_b_event_id": "evt_variant_b",
            "preference_score": 0.65,
            "confidence_interval": [0.58, 0.72],
            "sample_size": 1000,
            "statistical_significance": true
        }
    }""",
    HumanModelEvaluation: """{
        "evaluation_id": "eval_human_ai_001",
        "evaluator_name": "human_ai_comparison",
        "human_evaluation": {
            "annotator_id": "human_123",
            "score": 0.8,
            "explanation": "Good response but could be more concise"
        },
        "ai_evaluation": {
            "model": "gpt-4",
            "score": 0.85,
            "explanation": "High quality response with good structure"
        },
        "agreement_score": 0.92,
        "discrepancy_analysis": "Minor difference in verbosity assessment"
    }""",
    TemporalEvaluation: """{
        "evaluation_id": "eval_temporal_001",
        "evaluator_name": "temporal_quality",
        "current_score": 0.85,
        "historical_scores": [0.78, 0.82, 0.85],
        "trend": "improving",
        "change_rate": 0.02,
        "stability_score": 0.91
    }""",
}
MULTI = """{
    "target_event_id": "evt_12345",
    "evaluations": [
        {"evaluator_name": "factual_accuracy", "score": 0.92},
        {"evaluator_name": "relevance", "score": 0.88},
        {"evaluator_name": "toxicity", "score": 0.05}
    ],
    "summary_score": 0.89,
    "summary_method": "weighted_average",
    "weights": {"factual_accuracy": 0.5, "relevance": 0.3, "toxicity": 0.2}
}"""


def counting():
    numbers = itertools.count(1)
    return lambda: f"eval_{next(numbers)}"


def complete(document, **options):
    """Add the ids and times that the specification's examples leave out."""
    value = json.loads(document)
    new_id = counting()
    for item in value.get("evaluations", [value]):
        options = {"evaluation_id": None, "timestamp": NOW.isoformat(), **options}
        item |= {name: given for name, given in options.items() if given is not None and item.get(name) is None}
        if item.get("evaluation_id") is None:
            item["evaluation_id"] = new_id()
    return value


@pytest.mark.parametrize("model", DOCUMENTS, ids=lambda model: model.__name__)
def test_each_document_of_the_specification_is_read_as_its_model_and_loses_nothing(model):
    document = json.loads(DOCUMENTS[model])

    evaluation = read_evaluation(complete(DOCUMENTS[model], target_event_id="evt_1"))

    assert type(evaluation) is model
    assert evaluation.status == "completed"
    written = json.loads(evaluation.model_dump_json(exclude_none=True))
    claims = [claim | {"sources": []} for claim in document.get("factual_claims", [])]
    expected = document | ({"factual_claims": claims} if claims else {})
    assert written == expected | {"target_event_id": "evt_1", "timestamp": STAMP, "status": "completed"}


def test_several_evaluators_of_one_event_inherit_it():
    result = MultiEvaluationResult.model_validate(complete(MULTI))

    assert {type(evaluation) for evaluation in result.evaluations} == {Evaluation}
    assert {evaluation.target_event_id for evaluation in result.evaluations} == {"evt_12345"}
    assert [evaluation.evaluation_id for evaluation in result.evaluations] == ["eval_1", "eval_2", "eval_3"]
    # Stated scores stay as stated; what follows from them is computed elsewhere.
    assert result.summary_score == 0.89


def test_an_evaluation_of_another_event_is_refused():
    stranger = SCORED | {"target_event_id": "evt_2"}

    with pytest.raises(pydantic.ValidationError, match="'evt_1', but 'e1' is of 'evt_2'"):
        MultiEvaluationResult.model_validate({"target_event_id": "evt_1", "evaluations": [stranger]})


@pytest.mark.parametrize("missing", ["evaluation_id", "target_event_id", "timestamp", "evaluator_name"])
def test_an_evaluation_is_complete_before_it_is_one(missing):
    with pytest.raises(pydantic.ValidationError, match=missing):
        read_evaluation({key: value for key, value in SCORED.items() if key != missing})


def test_a_new_id_has_the_form_of_the_specification_and_is_new():
    one, other = new_evaluation_id(), new_evaluation_id()

    assert re.fullmatch(r"eval_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", one)
    assert one != other


MODELS = {
    #                                              own fields                                       evaluator      model
    "none":                                      ({},                                               "quality",     Evaluation),
    "those of quality under another name":       ({"dimensions": {"a": 1}},                         "mine",        QualityEvaluation),
    "a field nobody knows":                      ({"risk": "low"},                                  "mine",        CustomEvaluation),
    "a built-in field beside one's own":         ({"dimensions": {"a": 1}, "risk": 1},              "mine",        CustomEvaluation),
    "a flag that is derived":                    ({"factual_claims": [], "hallucination_detected": True}, "facts", FactualAccuracyEvaluation),
    "null, which is as good as absent":          ({"risk": None},                                   "mine",        Evaluation),
}  # fmt: skip


@pytest.mark.parametrize(("own", "name", "model"), MODELS.values(), ids=MODELS)
def test_the_fields_decide_the_model(own, name, model):
    assert type(read_evaluation(SCORED | own | {"evaluator_name": name})) is model


REFUSED = {
    "a misspelt field of a built-in evaluator":  {"evaluator_name": "toxicity", "overal_toxicity": 0.1, "toxicity_categories": {}},
    "a confidence above one":                    {"confidence": 1.2},
    "a score that is a list":                    {"score": [1]},
    "an infinite score":                         {"score": float("inf")},
    "a version of two parts":                    {"evaluator_version": "v1.2"},
    "a negative duration":                       {"duration_ms": -1},
    "a state of batches":                        {"status": "processing"},
    "a failure with a score":                    {"status": "failed"},
    "a score that was skipped":                  {"status": "skipped"},
    "a completed evaluation with an error":      {"status": "completed", "error": {"type": "E", "message": "m"}},
    "an empty id":                               {"evaluation_id": ""},
    "a time without a zone":                     {"timestamp": "2024-01-15T10:30:45"},
    "a toxicity above one":                      {"toxicity_categories": {"violence": 1.1}, "overall_toxicity": 0.1},
    "a word count that is a float":              json.loads(DOCUMENTS[LengthEvaluation]) | {"word_count": 87.0},
    "a range of words that is reversed":         json.loads(DOCUMENTS[LengthEvaluation]) | {"expected_length_range": {"min_words": 2, "max_words": 1}},
    "an interval beside the score":              {"comparison_data": {"variant_a_event_id": "a", "variant_b_event_id": "b", "preference_score": 0.5, "confidence_interval": [0.6, 0.7], "sample_size": 1}},
    "an infinity among own fields":              {"risk": {"value": float("nan")}},
    "no object":                                 None,
}  # fmt: skip


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_refused(change):
    with pytest.raises(pydantic.ValidationError):
        read_evaluation(None if change is None else SCORED | change)


STATES = {
    #                             content                                        status
    "a score":                  ({"score": 0.0},                                 "completed"),
    "a score of false":         ({"score": False},                               "completed"),
    "only an explanation":      ({"explanation": "Fine."},                       "completed"),
    "only fields of its own":   ({"risk": "low"},                                "completed"),
    "an error":                 ({"error": {"type": "E", "message": "m"}},       "failed"),
    "nothing yet":              ({"metadata": {"model": "m"}},                   "pending"),
    "a stated one":             ({"status": "skipped"},                          "skipped"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "status"), STATES.values(), ids=STATES)
def test_the_state_follows_from_the_content_unless_stated(content, status):
    assert read_evaluation(IDS | {"evaluator_name": "mine"} | content).status == status


HALLUCINATIONS = {
    #                                            verified                 expected
    "a refuted claim":                         ([True, False],            True),
    "a refuted claim beside an unchecked one": ([None, False],            True),
    "nothing but borne-out claims":            ([True, True],             False),
    "no claims":                               ([],                       False),
    "unchecked claims":                        ([True, None],             None),
}  # fmt: skip


@pytest.mark.parametrize("stated", [{}, {"hallucination_detected": False}, {"hallucination_detected": True}])
@pytest.mark.parametrize(("verified", "expected"), HALLUCINATIONS.values(), ids=HALLUCINATIONS)
def test_a_hallucination_is_any_claim_that_sources_do_not_bear_out(verified, expected, stated):
    claims = [{"claim": "c", "verified": verdict, "correct_value": "2.16 million"} for verdict in verified]

    evaluation = read_evaluation(SCORED | {"evaluator_name": "factual_accuracy", "factual_claims": claims} | stated)

    assert evaluation.hallucination_detected is expected
    assert json.loads(evaluation.model_dump_json())["hallucination_detected"] is expected


def test_a_custom_evaluation_needs_fields_of_its_own():
    with pytest.raises(pydantic.ValidationError, match="Evaluation"):
        CustomEvaluation.model_validate(SCORED)
    with pytest.raises(pydantic.ValidationError, match="QualityEvaluation"):
        CustomEvaluation.model_validate(SCORED | {"dimensions": {"a": 1}})


def test_a_later_zone_is_written_as_utc():
    evaluation = read_evaluation(SCORED | {"timestamp": "2024-01-15T12:30:45.123456+02:00"})

    assert json.loads(evaluation.model_dump_json())["timestamp"] == STAMP


def test_a_batch_as_in_the_specification(tmp_path):
    metadata = {
        "batch_size": 100,
        "created_at": "2024-01-15T10:30:45Z",
        "evaluator_versions": {"factual_accuracy": "v2.1.0", "quality": "v1.2.0"},
        "processing_time_ms": 5432.1,
        "queue": {"name": "night"},
    }
    batch = {"batch_id": "b", "evaluations": [SCORED], "batch_metadata": metadata, "status": "processing"}
    path = tmp_path / "batch.json"
    path.write_text(json.dumps(batch))

    read = EvaluationBatch.read(path)
    read.write(path)

    assert EvaluationBatch.read(path) == read
    assert json.loads(path.read_text())["batch_metadata"] == metadata


def test_a_configuration_as_in_the_specification_and_in_yaml(tmp_path):
    config = {
        "evaluators": ["factual_accuracy", "toxicity"],
        "evaluator_configs": {
            "factual_accuracy": {"reference_sources": ["wikipedia", "scholarly"], "confidence_threshold": 0.8},
            "toxicity": {"categories": ["hate_speech", "harassment"], "threshold": 0.1},
        },
        "parallel_execution": False,
        "timeout_ms": 30000,
        "retry_config": {"max_retries": 3, "backoff_multiplier": 2.0, "initial_delay_ms": 1000},
    }
    as_json, as_yaml = tmp_path / "c.json", tmp_path / "c.yaml"
    as_json.write_text(json.dumps(config))
    as_yaml.write_text(
        "evaluators: [factual_accuracy, toxicity]\n"
        "evaluator_configs:\n"
        "  factual_accuracy: {reference_sources: [wikipedia, scholarly], confidence_threshold: 0.8}\n"
        "  toxicity: {categories: [hate_speech, harassment], threshold: 0.1}\n"
        "parallel_execution: false\ntimeout_ms: 30000\nretry_config: {}\n"
    )

    assert EvaluationConfig.read(as_yaml) == EvaluationConfig.read(as_json)
    assert EvaluationConfig.read(as_json).model_dump() == config | {"evaluators": ("factual_accuracy", "toxicity")}
    # 1000, 1000 * 2, 1000 * 2 * 2
    assert RetryConfig().delays_ms == (1000, 2000, 4000)


BAD_CONFIGS = {
    "an evaluator twice": {"evaluators": ["a", "a"]},
    "no time at all": {"evaluators": ["a"], "timeout_ms": 0},
    "a text for a truth": {"evaluators": ["a"], "parallel_execution": "no"},
    "a shrinking pause": {"evaluators": ["a"], "retry_config": {"backoff_multiplier": 0.5}},
}


@pytest.mark.parametrize("config", BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_a_bad_configuration_is_named_with_its_file(config, tmp_path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(config))

    with pytest.raises(InputError, match=r"c\.json") as caught:
        EvaluationConfig.read(path)
    assert caught.value.code == "bad_format"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SHARE = st.floats(0, 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCORE = st.booleans() | st.integers() | FINITE | TEXT
OPEN = st.dictionaries(TEXT, SCORE | st.lists(SCORE, max_size=2) | st.dictionaries(TEXT, SCORE, max_size=2), max_size=3)
OWN = [
    st.just({}),
    st.fixed_dictionaries({"dimensions": st.dictionaries(NAME, FINITE, max_size=3)}),
    st.fixed_dictionaries(
        {"factual_claims": st.lists(st.fixed_dictionaries({"claim": TEXT, "verified": st.none() | st.booleans()}), max_size=3)}
    ),
    st.fixed_dictionaries({"toxicity_categories": st.dictionaries(NAME, SHARE, max_size=3), "overall_toxicity": SHARE}),
    st.fixed_dictionaries({"current_score": FINITE, "historical_scores": st.lists(FINITE, min_size=1, max_size=3)}),
    st.dictionaries(NAME.map(lambda name: f"own {name}"), SCORE | OPEN, min_size=1, max_size=3),
]  # fmt: skip
EVALUATIONS = st.builds(
    lambda base, own: base | own,
    st.fixed_dictionaries(
        {
            "evaluation_id": NAME,
            "target_event_id": NAME,
            "evaluator_name": st.just("mine"),
            "timestamp": st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat()),
            "score": SCORE,
            "confidence": st.none() | SHARE,
            "metadata": st.none() | OPEN,
            "cost_usd": st.none() | st.floats(0, 1e9),
        }
    ),
    st.one_of(OWN),
)


def kinds(value):
    """A value with the kind of each of its parts: 1, 1.0 and True are equal, and these are not."""
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    return [kinds(item) for item in value] if isinstance(value, list) else (type(value), value)


@given(evaluations=st.lists(EVALUATIONS, max_size=4), ending=st.sampled_from(["json", "json.gz"]))
def test_reading_gives_what_was_written(evaluations, ending, tmp_path_factory):
    path = tmp_path_factory.mktemp("evaluations") / f"batch.{ending}"
    batch = EvaluationBatch.model_validate({"batch_id": "b", "evaluations": evaluations, "status": "completed"})

    batch.write(path)
    again = EvaluationBatch.read(path)
    written = path.read_bytes()
    again.write(path)

    assert again == batch
    assert [kinds(a.model_dump()) for a in again.evaluations] == [kinds(b.model_dump()) for b in batch.evaluations]
    assert path.read_bytes() == written


@given(own=st.dictionaries(NAME.map(lambda name: f"own {name}"), OPEN, min_size=1, max_size=3))
def test_the_order_of_keys_makes_no_difference_to_the_bytes(own):
    there = read_evaluation(SCORED | own)
    back = read_evaluation(SCORED | {key: dict(reversed(own[key].items())) for key in reversed(own)})

    assert there == back
    assert there.model_dump_json() == back.model_dump_json()
