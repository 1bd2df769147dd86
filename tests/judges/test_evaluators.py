"""Evaluators over judged answers, the statistics of a batch, and evaluations that compare."""

from datetime import UTC, datetime

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import Evaluation, EvaluationBatch, EvaluationConfig
from rag_eval_pipeline.judges.evaluators import (
    Event,
    LengthOptions,
    evaluate_events,
    evaluation_performance,
    evaluation_quality,
    evaluations_path,
    length_score,
)
from rag_eval_pipeline.judges.judgement import Case, CitedText, Claim, Judgement, Support
from rag_eval_pipeline.judges.trust_card import ConfusionRecord, KappaRecord, TaskTrust, TrustCard
from rag_eval_pipeline.monitoring.ab_comparisons import compare_systems, compare_with_people, evaluate_over_time

NOW = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
FAILED = {"status": "failed", "error": {"type": "E", "message": "m"}}


def event(answer="Ada.", judgement=None, event_id="e", citations=()):
    return Event(event_id, Case("q", "Who?", ("Ada",), False, answer, citations), judgement)


def batch(*events, evaluators=("length",), **configs):
    config = EvaluationConfig(evaluators=evaluators, evaluator_configs=configs)
    return evaluate_events(events, config, evaluation_id="run_1", now=NOW)


def evaluated(one, name, **options):
    (found,) = batch(one, evaluators=(name,), **({name: options} if options else {})).evaluations
    return found


def evaluation(name="quality", score=None, event="evt", **more):
    given = {"evaluation_id": "x", "target_event_id": event, "evaluator_name": name, "score": score}
    return Evaluation.model_validate(given | {"timestamp": NOW} | more)


# --- length ---

RANGE = {"min_words": 10, "max_words": 40}
BEST = RANGE | {"optimal_words": 20}
LENGTHS = {
    #                                    words  options  score
    "half of the least":                (5,     RANGE,   5 / 10),
    "the best":                         (20,    BEST,    1.0),
    "between the best and the most":    (30,    BEST,    1 - 0.5 * 10 / 20),
    "above the most":                   (80,    BEST,    0.5 * 40 / 80),
}  # fmt: skip


@pytest.mark.parametrize(("words", "options", "score"), LENGTHS.values(), ids=LENGTHS)
def test_length_score(words, options, score):
    assert length_score(words, LengthOptions(**options)) == score


COUNTED = {
    #                                       text                                              characters words sentences
    "citations count for nothing":         ("It opened in 1887 [a b.pdf:1:0-9]. It is long.", 30,        7,    2),
    "Thai characters carry their marks":   ("ที่นี่",                                          6,         2,    1),
}  # fmt: skip


@pytest.mark.parametrize(("text", "characters", "words", "sentences"), COUNTED.values(), ids=COUNTED)
def test_length_counts(text, characters, words, sentences):
    found = evaluated(event(text), "length")

    assert (found.character_count, found.word_count, found.sentence_count) == (characters, words, sentences)


def test_length_verdict():
    counts = (2, 3, 5, 6)
    found = [evaluated(event("word " * count), "length", min_words=3, max_words=5) for count in counts]

    verdicts = [one.length_appropriateness for one in found]
    assert verdicts == ["too_short", "appropriate", "appropriate", "too_long"]


# --- factual accuracy and ratings ---

ANSWER = "It opened in 1887 [a.pdf:1:0-9]. It is long. It is red."
CITATIONS = (CitedText("a.pdf", "It opened in 1887.", 18, 31),)
JUDGEMENT = Judgement(
    query_id="q",
    status="completed",
    claims=(
        Claim(0, 32, (0,), Support("not_found", 0.25), Support("supported", 0.75)),
        Claim(33, 44, (), None, Support("conflicting", 0.25)),
        Claim(45, 55, (), None, None),
    ),
    citation_support=(Support("not_found", 0.25),),
    ratings={
        "quality": 0.6, "quality/clarity": 0.75, "quality/accuracy": 0.45, "toxicity": 0.6,
        "toxicity/harassment": 0.6, "toxicity/profanity": 0.25, "relevance": 0.75, "relevance/query_intent_match": 1.0,
        "relevance/topic_alignment": 0.5, "relevance/information_completeness": 0.75, "groundedness": 1.0,
    },
    model="m-1",
)  # fmt: skip


def test_factual_accuracy_of_judged_claims():
    found = evaluated(event(ANSWER, JUDGEMENT, citations=CITATIONS), "factual_accuracy")

    assert [(claim.claim, claim.verified, claim.confidence, claim.sources) for claim in found.factual_claims] == [
        ("It opened in 1887.", True, 0.75, ("a.pdf", "retrieved contexts")),
        ("It is long.", False, 0.75, ("retrieved contexts",)),
        ("It is red.", None, None, ()),
    ]
    assert (found.score, found.confidence, found.citation_accuracy) == (0.5, 0.75, 0.0)
    assert found.hallucination_detected is True
    assert found.explanation == "1 of 2 checked claims supported, 1 not checked"
    assert found.metadata == {"evaluator_model": "m-1"}


UNCHECKED = {
    #                               answer              judgement                                                 claims  explanation
    "no judge":                    ("It opened. [1]",   None,                                                     1,      "no judge: nothing was checked"),
    "no support judge":            ("It opened.",       Judgement("q", "completed", claims=(Claim(0, 10, ()),)),  1,      "none of 1 claims checked"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "judgement", "claims", "explanation"), UNCHECKED.values(), ids=UNCHECKED)
def test_factual_accuracy_without_support_has_no_score(answer, judgement, claims, explanation):
    found = evaluated(event(answer, judgement), "factual_accuracy")

    assert (found.status, found.score, len(found.factual_claims)) == ("completed", None, claims)
    assert (found.explanation, {claim.verified for claim in found.factual_claims} <= {None}) == (explanation, True)


def test_rating_evaluators_have_the_fields_of_the_data_models():
    found = batch(event(ANSWER, JUDGEMENT), evaluators=("quality", "toxicity", "relevance")).evaluations

    quality, toxicity, relevance = found
    assert (quality.score, quality.dimensions) == (0.6, {"clarity": 0.75, "accuracy": 0.45})
    assert quality.explanation == "lowest: accuracy 0.45"
    assert (toxicity.overall_toxicity, toxicity.content_warnings) == (0.6, ("harassment",))
    assert toxicity.toxicity_categories == {"harassment": 0.6, "profanity": 0.25}
    assert (relevance.score, relevance.query_intent_match, relevance.topic_alignment) == (0.75, 1.0, 0.5)
    assert {one.metadata["evaluator_model"] for one in found} == {"m-1"}


NOT_RATED = {
    #                        judgement                                                     status     explanation or code
    "no judge":             (None,                                                        "skipped", "needs the rating quality"),
    "rating not readable":  (Judgement("q", "completed", flags=("rating_failed:quality",)), "failed", "rating_failed"),
    "judge failed":         (Judgement("q", "failed", error="down", error_code="judge_dns"), "failed", "judge_dns"),
}  # fmt: skip


@pytest.mark.parametrize(("judgement", "status", "reason"), NOT_RATED.values(), ids=NOT_RATED)
def test_rating_evaluator_without_its_rating(judgement, status, reason):
    found = evaluated(event(ANSWER, judgement), "quality")

    assert (found.status, found.score) == (status, None)
    assert reason in (found.explanation if status == "skipped" else found.error.code)


# --- batches ---


def test_batch_has_evaluations_in_order_with_statistics_and_summaries(tmp_path):
    # Two words are too short by half for the second event: 2 / 4 = 0.5.
    options = {"length": {"min_words": 4}}
    events = [event(ANSWER, JUDGEMENT, "one"), event("Ada Thorne.", None, "two"), event(" ", None, "three")]
    found = batch(*events, evaluators=("length", "toxicity"), **options)
    path = evaluations_path(tmp_path, "run_1")
    found.write(path)

    assert EvaluationBatch.read(path) == found
    assert (path.name, found.batch_id, found.status) == ("run_1.evaluations.json", "run_1", "completed")
    assert [(e.target_event_id, e.evaluator_name, str(e.status)) for e in found.evaluations] == [
        ("one", "length", "completed"), ("one", "toxicity", "completed"),
        ("two", "length", "completed"), ("two", "toxicity", "skipped"),
        ("three", "length", "skipped"), ("three", "toxicity", "skipped"),
    ]  # fmt: skip
    assert len({e.evaluation_id for e in found.evaluations}) == 6
    # The time that a judgement took is not the time that it takes to read its rating.
    assert [e.duration_ms is not None for e in found.evaluations] == [True, False, True, False, False, False]
    metadata = found.batch_metadata.model_dump()
    # Toxicity 0.6 counts as 0.4: (1 + 0.4) / 2.
    assert metadata["summary_scores"] == {"one": pytest.approx(0.7), "two": 0.5, "three": None}
    assert (metadata["batch_size"], metadata["evaluation_performance"]["skipped_evaluations"]) == (6, 3)
    assert metadata["evaluation_quality"]["evaluator_agreement"] == pytest.approx(0.4)
    assert metadata["evaluator_versions"].keys() == {"length", "toxicity"}


BAD = {
    "a misspelt evaluator": (("lenght",), {}, "unknown_evaluator"),
    "an option of an evaluator without": (("quality",), {"quality": {"language": "en"}}, "bad_format"),
    "an optimum outside its range": (("length",), {"length": {"min_words": 5, "optimal_words": 4}}, "bad_format"),
}


@pytest.mark.parametrize(("names", "configs", "code"), BAD.values(), ids=BAD)
def test_batch_refuses_a_bad_configuration(names, configs, code):
    with pytest.raises(InputError) as error:
        batch(event(), evaluators=names, **configs)

    assert error.value.code == code


# --- statistics ---


def test_evaluation_performance_worked_out():
    found = evaluation_performance(
        [
            evaluation(score=1, duration_ms=100, cost_usd=0.01),
            evaluation(score=1, duration_ms=200),
            evaluation(score=1),
            evaluation(**FAILED, duration_ms=30_000, cost_usd=0.02),
            evaluation(status="skipped"),
            evaluation(),
        ]
    )

    # 3 of 4 ended ones completed; between 100 and 200, at 95 % of the way: 195. The failure's time is the time-out's.
    assert found == {
        "total_evaluations": 6, "successful_evaluations": 3, "failed_evaluations": 1, "skipped_evaluations": 1,
        "pending_evaluations": 1, "success_rate": 0.75, "average_duration_ms": 150.0, "p95_duration_ms": 195.0,
        "total_cost_usd": 0.03, "n_without_duration": 1, "n_without_cost": 2,
    }  # fmt: skip


def pairs(one, other, scores):
    return [
        evaluation(name, score, f"{n}") for n, row in enumerate(scores) for name, score in zip((one, other), row, strict=True)
    ]  # fmt: skip


QUALITY = {
    #                                   evaluations                                                            agreement      r     reason
    "lower is better":                 (pairs("quality", "toxicity", [(0.2, 0.8), (0.4, 0.6), (0.9, 0.1)]),    1.0,           1.0,  None),
    "one of them is constant":         (pairs("length", "quality", [(0.1, 0.1), (0.1, 0.2), (0.1, 0.3)]),      0.9,           None, "constant"),
    "failed ones are left out":        ([*pairs("length", "quality", [(0.5, 0.7)]), evaluation("quality", event="1", **FAILED), evaluation("length", 0.5, "1")], 0.8, None, "too_few_events"),
}  # fmt: skip


@pytest.mark.parametrize(("evaluations", "agreement", "r", "reason"), QUALITY.values(), ids=QUALITY)
def test_evaluation_quality_of_two_evaluators(evaluations, agreement, r, reason):
    found = evaluation_quality(evaluations)

    ((_, correlation),) = found["inter_evaluator_correlation"].items()
    assert (found["evaluator_agreement"], correlation["value"]) == (pytest.approx(agreement), r and pytest.approx(r))
    assert correlation["reason"] == reason


def test_confidence_distribution_is_of_those_that_state_it():
    stated = [evaluation(score=1, event=f"{c}", confidence=c) for c in (0.8, 0.79, 0.5, 0.49)]

    found = evaluation_quality([*stated, evaluation(score=1), evaluation(**FAILED, confidence=0.1)])

    bands = {"high_confidence": 0.25, "medium_confidence": 0.5, "low_confidence": 0.25}
    assert (found["confidence_distribution"], found["n_without_confidence"]) == (bands, 1)
    nothing = evaluation_performance([]) | evaluation_quality([])
    names = ("success_rate", "average_duration_ms", "total_cost_usd", "evaluator_agreement", "confidence_distribution")
    assert {nothing[name] for name in names} == {None}


# --- comparisons ---


VARIANTS = {"variant_a": "run_a", "variant_b": "run_b", "metric": "f1", "benchmark": "skarn", "now": NOW}


def test_compare_systems_question_by_question():
    a = {str(n): 0.9 for n in range(20)} | {"tie": 0.3, "failed": None, "a only": 1.0}
    b = {str(n): 0.5 for n in range(20)} | {"tie": 0.1 + 0.2, "failed": 0.5, "b only": 1.0}

    found = compare_systems(a, b, **VARIANTS)

    assert (found.comparison_data.preference_score, found.comparison_data.sample_size) == (20.5 / 21, 21)
    assert found.comparison_data.statistical_significance is True
    stated = {"metric": "f1", "benchmark": "skarn", "ties": 1, "left_out": 3, "n_clusters": None}
    assert (found.metadata, found.evaluator_name) == (stated, "ab_test_comparison")
    assert found.explanation == "Variant A preferred in 98% of 21 comparisons by F1 on skarn"
    with pytest.raises(InputError) as error:
        compare_systems({"1": 1.0}, {"2": 1.0}, **VARIANTS)
    assert error.value.code == "nothing_to_compare"


PREFERENCES = {
    #                                     wins of A, ties, wins of B   share   significant
    "even":                             ((5, 0, 5),                    0.5,    False),
    "most of many":                     ((650, 0, 350),                0.65,   True),
    "nothing but ties decide nothing":  ((0, 10, 0),                   0.5,    None),
}  # fmt: skip


@pytest.mark.parametrize(("counts", "share", "significant"), PREFERENCES.values(), ids=PREFERENCES)
def test_preference_is_significant_if_its_interval_leaves_out_a_half(counts, share, significant):
    won, tied, lost = counts
    a = {str(n): score for n, score in enumerate([1.0] * won + [0.5] * tied + [0.0] * lost)}

    data = compare_systems(a, dict.fromkeys(a, 0.5), **VARIANTS).comparison_data
    of_two = {name: f"document {int(name) // (len(a) // 2)}" for name in a}
    clustered = compare_systems(a, dict.fromkeys(a, 0.5), **VARIANTS, clusters=of_two).comparison_data

    assert (data.preference_score, data.statistical_significance) == (share, significant)
    assert not clustered.statistical_significance  # two documents that disagree show nothing
    if counts == (650, 0, 350):  # Wilson's
        assert data.confidence_interval == pytest.approx((0.620, 0.679), abs=5e-4)


VERDICTS = {
    #                        yes-yes  yes-no  no-yes  no-no   people  judge  agreement  discrepancy
    "equal verdicts":       ((30,     0,      0,      10),    0.75,   0.75,  1.0,       "none"),
    "equal shares of yes":  ((32,     8,      8,      0),     5 / 6,  5 / 6, 2 / 3,     "16 of 48 verdicts differ: yes by the judge alone 8, by people alone 8"),
    "never equal":          ((0,      60,     60,     0),     0.5,    0.5,   0.0,       "120 of 120 verdicts differ: yes by the judge alone 60, by people alone 60"),
    "a lenient judge":      ((10,     0,      5,      5),     0.5,    0.75,  0.75,      "5 of 20 verdicts differ: yes by the judge alone 5, by people alone 0"),
}  # fmt: skip


@pytest.mark.parametrize(("counts", "people", "judge", "agreement", "discrepancy"), VERDICTS.values(), ids=VERDICTS)
def test_people_and_judge_agree_by_their_verdicts_and_not_by_their_shares(
    counts, people, judge, agreement, discrepancy
):
    table = ConfusionRecord(**dict(zip(ConfusionRecord.model_fields, counts, strict=True)))
    trust = TaskTrust(
        task="correctness", n_labels=sum(counts), n_compared=sum(counts), kappa=KappaRecord(), kappa_sure=KappaRecord(),
        confusion=table, is_calibrated=False,
    )  # fmt: skip
    card = TrustCard(benchmark="b", judge="lexical", judge_fingerprint="f", labels_by="human", seed=1, tasks=(trust,))

    found = compare_with_people(card, trust, now=NOW)

    assert (found.human_evaluation.score, found.ai_evaluation.score) == pytest.approx((people, judge))
    assert (found.agreement_score, found.score) == pytest.approx((agreement, agreement))
    assert (found.discrepancy_analysis, found.target_event_id) == (discrepancy, "b|correctness")


TRENDS = {
    #                              scores                    trend             rate                    stability
    "rising":                     ([0.1, 0.2, 0.3, 0.41],    "improving",      0.103,                  1 - (0.053075 / 3) ** 0.5 / 0.2525),
    "falling":                    ([0.41, 0.3, 0.2, 0.1],    "declining",      -0.103,                 1 - (0.053075 / 3) ** 0.5 / 0.2525),
    # Mean 0.82, deviations -.07 .03 .04: slope ((0 - 1) * 0.75 + (2 - 1) * 0.86) / 2 = 0.055; squares sum up to .0074.
    "worked out":                 ([0.75, 0.85, 0.86],       "no_clear_trend", 0.055,                  1 - 0.0037**0.5 / 0.82),
    "nothing changes":            ([0.3, 0.3, 0.3],          "stable",         0.0,                    1.0),
    "two cannot show a trend":    ([0.2, 0.4],               None,             0.2,                    1 - 0.02**0.5 / 0.3),
    "one":                        ([0.5],                    None,             None,                   None),
}  # fmt: skip


@pytest.mark.parametrize(("scores", "trend", "rate", "stability"), TRENDS.values(), ids=TRENDS)
def test_evaluate_over_time(scores, trend, rate, stability):
    found = evaluate_over_time("words", scores, target_event_id="b|s", now=NOW)

    assert (found.trend, found.change_rate, found.stability_score) == pytest.approx((trend, rate, stability))
    assert (found.current_score, found.historical_scores) == (scores[-1], tuple(scores))
    assert found.evaluator_name == "temporal_words"
