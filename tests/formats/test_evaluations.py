"""Evaluations of the specification's documents are read as their models, keep every value, and are written equal."""

import json
from datetime import UTC, datetime

import pydantic
import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import (
    ComparisonEvaluation,
    Evaluation,
    EvaluationBatch,
    EvaluationConfig,
    EvaluationStatus,
    FactualAccuracyEvaluation,
    HumanModelEvaluation,
    LengthEvaluation,
    QualityEvaluation,
    RelevanceEvaluation,
    TemporalEvaluation,
    ToxicityEvaluation,
    batch_status,
    read_evaluation,
)
from rag_eval_pipeline.formats.fields import Moment, Number, Offset, Open, Score, Share

STAMP = "2024-01-15T10:30:45.123456Z"
IDS = {"evaluation_id": "e1", "target_event_id": "evt_1", "timestamp": STAMP}
SCORED = IDS | {"evaluator_name": "coherence", "score": 0.85}

# Evaluation Data Models, the examples.
DOCUMENTS = {
    QualityEvaluation: """{"evaluation_id": "eval_quality_001", "evaluator_name": "quality", "score": 0.876,
        "explanation": "High quality response with good relevance and accuracy",
        "dimensions": {"relevance": 0.85, "coherence": 0.92, "clarity": 0.78, "completeness": 0.88, "accuracy": 0.95}}""",
    FactualAccuracyEvaluation: """{"evaluation_id": "eval_fact_001", "evaluator_name": "factual_accuracy", "score": 0.75,
        "explanation": "Most facts are correct but population figure is outdated",
        "factual_claims": [{"claim": "Paris is the capital of France", "verified": true, "confidence": 0.99}],
        "citation_accuracy": 0.8, "hallucination_detected": false}""",
    ToxicityEvaluation: """{"evaluation_id": "eval_toxic_001", "evaluator_name": "toxicity", "score": 0.05,
        "explanation": "Content is safe with minimal profanity",
        "toxicity_categories": {"hate_speech": 0.02, "harassment": 0.01, "violence": 0.03, "profanity": 0.05},
        "overall_toxicity": 0.05, "content_warnings": []}""",
    RelevanceEvaluation: """{"evaluation_id": "eval_rel_001", "evaluator_name": "relevance", "score": 0.88,
        "explanation": "Response directly addresses the question with comprehensive information",
        "query_intent_match": 0.92, "topic_alignment": 0.85, "information_completeness": 0.87}""",
    LengthEvaluation: """{"evaluation_id": "eval_len_001", "evaluator_name": "length", "score": 0.9,
        "explanation": "Response length is appropriate for the question complexity",
        "character_count": 543, "word_count": 87, "sentence_count": 6,
        "expected_length_range": {"min_words": 50, "max_words": 150}, "length_appropriateness": "appropriate"}""",
    ComparisonEvaluation: """{"evaluation_id": "eval_ab_001", "evaluator_name": "ab_test_comparison", "score": 0.65,
        "explanation": "Variant A preferred in 65% of comparisons",
        "comparison_data": {"variant_a_event_id": "evt_variant_a", "variant_b_event_id": "evt_variant_b",
            "preference_score": 0.65, "confidence_interval": [0.58, 0.72], "sample_size": 1000,
            "statistical_significance": true}}""",
    HumanModelEvaluation: """{"evaluation_id": "eval_human_ai_001", "evaluator_name": "human_ai_comparison",
        "human_evaluation": {"annotator_id": "human_123", "score": 0.8,
            "explanation": "Good response but could be more concise"},
        "ai_evaluation": {"model": "gpt-4", "score": 0.85, "explanation": "High quality response with good structure"},
        "agreement_score": 0.92, "discrepancy_analysis": "Minor difference in verbosity assessment"}""",
    TemporalEvaluation: """{"evaluation_id": "eval_temporal_001", "evaluator_name": "temporal_quality",
        "current_score": 0.85, "historical_scores": [0.78, 0.82, 0.85], "trend": "improving", "change_rate": 0.02,
        "stability_score": 0.91}""",
}  # fmt: skip


@pytest.mark.parametrize("model", DOCUMENTS, ids=lambda model: model.__name__)
def test_evaluation_of_the_specification_is_read_as_its_model_and_loses_nothing(model):
    document = json.loads(DOCUMENTS[model])

    # The examples leave out the event; times become UTC.
    evaluation = read_evaluation(
        document | {"target_event_id": "evt_1", "timestamp": "2024-01-15T12:30:45.123456+02:00"}
    )

    assert type(evaluation) is model
    assert evaluation.status == "completed"
    written = json.loads(evaluation.model_dump_json(exclude_none=True))
    claims = [claim | {"sources": []} for claim in document.get("factual_claims", [])]
    expected = document | ({"factual_claims": claims} if claims else {})
    assert written == expected | {"target_event_id": "evt_1", "timestamp": STAMP, "status": "completed"}


@pytest.mark.parametrize("missing", ["evaluation_id", "target_event_id", "timestamp", "evaluator_name"])
def test_evaluation_requires_ids_time_and_evaluator(missing):
    with pytest.raises(pydantic.ValidationError, match=missing):
        read_evaluation({key: value for key, value in SCORED.items() if key != missing})


MODELS = {
    #                                              own fields                                       evaluator      model
    "none":                                      ({},                                               "quality",     Evaluation),
    "those of quality under another name":       ({"dimensions": {"a": 1}},                         "mine",        QualityEvaluation),
    "a flag that is derived":                    ({"factual_claims": [], "hallucination_detected": True}, "facts", FactualAccuracyEvaluation),
    "null means absent":                         ({"risk": None},                                   "mine",        Evaluation),
}  # fmt: skip


@pytest.mark.parametrize(("own", "name", "model"), MODELS.values(), ids=MODELS)
def test_evaluation_model_follows_from_the_fields(own, name, model):
    assert type(read_evaluation(SCORED | own | {"evaluator_name": name})) is model


REFUSED = {
    "a misspelt field of a built-in evaluator":  {"evaluator_name": "toxicity", "overal_toxicity": 0.1, "toxicity_categories": {}},
    "a failure with a score":                    {"status": "failed"},
    "a toxicity above one":                      {"toxicity_categories": {"violence": 1.1}, "overall_toxicity": 0.1},
    "a word count that is a float":              json.loads(DOCUMENTS[LengthEvaluation]) | {"word_count": 87.0},
    "a field that no model has":                 {"risk": "low"},
    "no object":                                 None,
}  # fmt: skip


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_evaluation_is_refused(change):
    with pytest.raises(pydantic.ValidationError):
        read_evaluation(None if change is None else SCORED | change)


STATES = {
    #                             content                                        status
    "a score of zero":          ({"score": 0.0},                                 "completed"),
    "an error":                 ({"error": {"type": "E", "message": "m"}},       "failed"),
    "nothing yet":              ({"metadata": {"model": "m"}},                   "pending"),
    "a stated one":             ({"status": "skipped"},                          "skipped"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "status"), STATES.values(), ids=STATES)
def test_evaluation_status_follows_from_the_content_unless_stated(content, status):
    assert read_evaluation(IDS | {"evaluator_name": "mine"} | content).status == status


BATCHES = {"": "pending", "pending": "pending", "pending completed": "processing", "pending failed": "processing",
           "failed": "failed", "failed skipped": "completed", "completed failed": "completed"}  # fmt: skip


@pytest.mark.parametrize(("states", "expected"), BATCHES.items())
def test_batch_status(states, expected):
    assert batch_status(EvaluationStatus(state) for state in states.split()) == expected


HALLUCINATIONS = {
    #                                            verified                 expected
    "a refuted claim beside an unchecked one": ([None, False],            True),
    "no claims":                               ([],                       False),
    "unchecked claims":                        ([True, None],             None),
}  # fmt: skip


@pytest.mark.parametrize("stated", [{}, {"hallucination_detected": False}])
@pytest.mark.parametrize(("verified", "expected"), HALLUCINATIONS.values(), ids=HALLUCINATIONS)
def test_hallucination_is_derived_from_the_claims(verified, expected, stated):
    claims = [{"claim": "c", "verified": verdict} for verdict in verified]

    evaluation = read_evaluation(SCORED | {"evaluator_name": "factual_accuracy", "factual_claims": claims} | stated)

    assert evaluation.hallucination_detected is expected
    assert json.loads(evaluation.model_dump_json())["hallucination_detected"] is expected


def test_batch_of_the_specification_keeps_its_metadata(tmp_path):
    metadata = {
        "batch_size": 100, "created_at": "2024-01-15T10:30:45Z", "processing_time_ms": 5432.1,
        "evaluator_versions": {"factual_accuracy": "v2.1.0", "quality": "v1.2.0"}, "queue": {"name": "night"},
    }  # fmt: skip
    batch = {"batch_id": "b", "evaluations": [SCORED], "batch_metadata": metadata, "status": "processing"}
    path = tmp_path / "batch.json"
    path.write_text(json.dumps(batch))

    read = EvaluationBatch.read(path)
    read.write(path)

    assert EvaluationBatch.read(path) == read
    assert json.loads(path.read_text())["batch_metadata"] == metadata


CONFIG = {
    "evaluators": ["factual_accuracy", "toxicity"],
    "evaluator_configs": {
        "factual_accuracy": {"reference_sources": ["wikipedia", "scholarly"], "confidence_threshold": 0.8},
        "toxicity": {"categories": ["hate_speech", "harassment"], "threshold": 0.1},
    },
}  # fmt: skip


def test_evaluation_config_of_the_specification(tmp_path):
    (tmp_path / "c.yaml").write_text(json.dumps(CONFIG))

    assert EvaluationConfig.read(tmp_path / "c.yaml").model_dump() == CONFIG | {
        "evaluators": ("factual_accuracy", "toxicity")
    }


def test_evaluation_config_has_each_evaluator_once(tmp_path):
    (tmp_path / "c.json").write_text(json.dumps(CONFIG | {"evaluators": ["a", "a"]}))

    with pytest.raises(InputError, match=r"c\.json") as caught:
        EvaluationConfig.read(tmp_path / "c.json")
    assert caught.value.code == "bad_format"


@pytest.mark.parametrize("score", [True, 1, 1.0, 1e-300, "good"], ids=repr)
def test_batch_keeps_the_type_of_a_score(score, tmp_path):
    path = tmp_path / "batch.json"
    evaluation = SCORED | {"evaluator_name": "mine", "score": score, "metadata": {"open": [score]}}

    EvaluationBatch.model_validate({"batch_id": "b", "evaluations": [evaluation], "status": "completed"}).write(path)

    [read] = EvaluationBatch.read(path).evaluations
    for kept in (read.score, read.metadata["open"][0]):
        assert (type(kept), kept) == (type(score), score)


FIELDS = {
    #                                             type     value                            read
    "a time of another zone":                    (Moment,  "2024-01-15T12:30:45.5+02:00",   datetime(2024, 1, 15, 10, 30, 45, 500_000, UTC)),
    "a truth as an offset":                      (Offset,  True,                            None),
    "a negative offset":                         (Offset,  -1,                              None),
    "a truth as a number":                       (Number,  True,                            None),
    "NaN":                                       (Number,  float("nan"),                    None),
    "a share above one":                         (Share,   1.01,                            None),
    "a time without a zone":                     (Moment,  "2024-01-15T10:30:45",           None),
    "a number as a time":                        (Moment,  1705314645,                      None),
    "a lone surrogate in an open object":        (Open,    {"a": "\ud800"},                 None),
    "a key that is no text":                     (Open,    {"a": {1: 2}},                   None),
    "an infinite score":                         (Score,   float("-inf"),                   None),
    "a list as a score":                         (Score,   [1],                             None),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "expected"), FIELDS.values(), ids=FIELDS)
def test_field_reads_its_type_only(kind, value, expected):
    adapter = pydantic.TypeAdapter(kind)
    if expected is None:
        with pytest.raises(pydantic.ValidationError):
            adapter.validate_python(value)
    else:
        assert adapter.validate_python(value) == expected
