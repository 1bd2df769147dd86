"""Evaluators over judged answers, summaries on one scale, and evaluations that compare."""

from datetime import UTC, datetime
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import Evaluation, EvaluationBatch, EvaluationConfig, HumanEvaluation
from rag_eval_pipeline.judges.evaluators import (
    SCALES,
    Event,
    LengthOptions,
    Scale,
    compare_systems,
    compare_with_human,
    confidence_band,
    development,
    evaluate_events,
    evaluate_over_time,
    evaluation_performance,
    evaluation_quality,
    evaluations_path,
    length_score,
    normalised,
    summarise_events,
    summary_score,
)
from rag_eval_pipeline.judges.judgement import Case, CitedText, Claim, Judgement, Support

NOW = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
FAILED = {"status": "failed", "error": {"type": "E", "message": "m"}}


def event(answer="Ada.", judgement=None, event_id="e", citations=()):
    return Event(event_id, Case("q", "Who?", ("Ada",), False, answer, citations), judgement)


def batch(*events, evaluators=("length",), **configs):
    numbers = count(1)
    config = EvaluationConfig(evaluators=evaluators, evaluator_configs=configs)
    return evaluate_events(
        events, config, evaluation_id="run_1", now=NOW, new_id=lambda: f"eval_{next(numbers)}"
    )  # fmt: skip


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
    "inside":                           (10,    RANGE,   1.0),
    "half of the least":                (5,     RANGE,   5 / 10),
    "twice the most":                   (80,    RANGE,   40 / 80),
    "nothing":                          (0,     RANGE,   0.0),
    "the best":                         (20,    BEST,    1.0),
    "between the best and the most":    (30,    BEST,    1 - 0.5 * 10 / 20),
    "between the least and the best":   (15,    BEST,    1 - 0.5 * 5 / 10),
    "at the least":                     (10,    BEST,    0.5),
    "below the least":                  (5,     BEST,    0.5 * 5 / 10),
    "above the most":                   (80,    BEST,    0.5 * 40 / 80),
}  # fmt: skip


@pytest.mark.parametrize(("words", "options", "score"), LENGTHS.values(), ids=LENGTHS)
def test_length_score(words, options, score):
    assert length_score(words, LengthOptions(**options)) == score


COUNTED = {
    #                                       text                                              characters words sentences
    "citations count for nothing":         ("It opened in 1887 [a b.pdf:1:0-9]. It is long.", 30,        7,    2),
    "a number and a compound are words":   ("3.5 m of well-known e-mail",                     26,        5,    1),
    "Thai characters carry their marks":   ("ที่นี่",                                          6,         2,    1),
    "words without spaces are characters": ("東京です。",                                       5,         4,    1),
}  # fmt: skip


@pytest.mark.parametrize(("text", "characters", "words", "sentences"), COUNTED.values(), ids=COUNTED)
def test_length_counts(text, characters, words, sentences):
    found = evaluated(event(text), "length")

    assert (found.character_count, found.word_count, found.sentence_count) == (characters, words, sentences)


@pytest.mark.parametrize(
    ("words", "verdict"), [(2, "too_short"), (3, "appropriate"), (5, "appropriate"), (6, "too_long")]
)
def test_length_verdict(words, verdict):
    assert evaluated(event("word " * words), "length", min_words=3, max_words=5).length_appropriateness == verdict


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


def test_factual_accuracy_of_a_judgement():
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
    "a refusal without a judge":   ("I don't know.",    None,                                                     0,      "no judge: nothing was checked"),
    "no support judge":            ("It opened.",       Judgement("q", "completed", claims=(Claim(0, 10, ()),)),  1,      "none of 1 claims checked"),
    "a refusal":                   ("I don't know.",    Judgement("q", "completed"),                              0,      "the answer claims nothing"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "judgement", "claims", "explanation"), UNCHECKED.values(), ids=UNCHECKED)
def test_factual_accuracy_without_support_has_no_score(answer, judgement, claims, explanation):
    found = evaluated(event(answer, judgement), "factual_accuracy")

    assert (found.status, found.score, len(found.factual_claims)) == ("completed", None, claims)
    assert (found.explanation, {claim.verified for claim in found.factual_claims} <= {None}) == (explanation, True)


def test_ratings_of_the_judge_have_the_fields_of_the_data_models():
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
    "rating not asked for": (Judgement("q", "completed", ratings={"groundedness": 1.0}),  "skipped", "needs the rating quality"),
    "rating not readable":  (Judgement("q", "completed", flags=("rating_failed:quality",)), "failed", "rating_failed"),
    "judge failed":         (Judgement("q", "failed", error="down", error_code="judge_dns"), "failed", "judge_dns"),
}  # fmt: skip


@pytest.mark.parametrize(("judgement", "status", "reason"), NOT_RATED.values(), ids=NOT_RATED)
def test_an_evaluator_without_its_rating(judgement, status, reason):
    found = evaluated(event(ANSWER, judgement), "quality")

    assert (found.status, found.score) == (status, None)
    assert reason in (found.explanation if status == "skipped" else found.error.code)


# --- batches ---


def test_a_batch_holds_evaluations_in_order_with_statistics_and_summaries(tmp_path):
    # Two words are too short by half for the second event: 2 / 4 = 0.5.
    options = {"length": {"min_words": 4}}
    events = [event(ANSWER, JUDGEMENT, "one"), event("Ada Thorne.", None, "two"), event(" ", None, "three")]
    found = batch(*events, evaluators=("length", "toxicity"), **options)
    path = evaluations_path(tmp_path, "run_1")
    found.write(path)

    assert EvaluationBatch.read(path) == found
    assert (path.name, found.batch_id, found.status) == ("run_1.evaluations.json", "run_1", "completed")
    assert [(e.evaluation_id, e.target_event_id, e.evaluator_name, str(e.status)) for e in found.evaluations] == [
        ("eval_1", "one", "length", "completed"), ("eval_2", "one", "toxicity", "completed"),
        ("eval_3", "two", "length", "completed"), ("eval_4", "two", "toxicity", "skipped"),
        ("eval_5", "three", "length", "skipped"), ("eval_6", "three", "toxicity", "skipped"),
    ]  # fmt: skip
    metadata = found.batch_metadata.model_dump()
    # Toxicity 0.6 counts as 0.4: (1 + 0.4) / 2.
    assert metadata["summary_scores"] == {"one": pytest.approx(0.7), "two": 0.5, "three": None}
    assert (metadata["batch_size"], metadata["evaluation_performance"]["skipped_evaluations"]) == (6, 3)
    assert metadata["evaluation_quality"]["evaluator_agreement"] == pytest.approx(0.4)
    assert metadata["evaluator_versions"].keys() == {"length", "toxicity"}


BAD = {
    "a misspelt evaluator": (("lenght",), {}, "unknown_evaluator"),
    "a function of your own": (("package.module:tone",), {}, "unknown_evaluator"),
    "options of another": (("length",), {"quality": {}}, "unknown_evaluator"),
    "options of none": (("length",), {"lenght": {}}, "unknown_evaluator"),
    "a misspelt option": (("length",), {"length": {"words": 3}}, "bad_format"),
    "an option of an evaluator without": (("quality",), {"quality": {"language": "en"}}, "bad_format"),
    "an optimum outside its range": (("length",), {"length": {"min_words": 5, "optimal_words": 4}}, "bad_format"),
}


@pytest.mark.parametrize(("names", "configs", "code"), BAD.values(), ids=BAD)
def test_a_bad_configuration_is_refused(names, configs, code):
    with pytest.raises(InputError) as error:
        batch(event(), evaluators=names, **configs)

    assert error.value.code == code


# --- scales and summaries ---

SCORES = {
    #                                     score        scale                                            expected
    "a share":                          (0.85,        Scale(),                                         0.85),
    "a share of something bad":         (0.05,        Scale(better="lower"),                           0.95),
    "four of five stars":               (4,           Scale(1, 5),                                     0.75),
    "no stars lost":                    (0,           Scale(0, 10, "lower"),                           1.0),
    "passed, whatever the range":       (True,        Scale(0, 10),                                    1.0),
    "passed, without a scale":          (True,        None,                                            1.0),
    "a hallucination, which is bad":    (True,        Scale(better="lower"),                           0.0),
    "a category":                       ("good",      Scale(0, 4, categories={"bad": 0, "good": 3}),   0.75),
}  # fmt: skip


@pytest.mark.parametrize(("score", "scale", "expected"), SCORES.values(), ids=SCORES)
def test_normalised(score, scale, expected):
    assert normalised(score, scale, "e") == expected


NO_MEANING = {
    #                                          score     scale                            code
    "a number on no scale":                  (0.5,      None,                            "no_scale"),
    "an undeclared category":                ("fine",   Scale(categories={"good": 1}),   "unknown_category"),
    "a category where none is declared":     ("fine",   Scale(),                         "unknown_category"),
    "a number outside the scale":            (1.01,     Scale(),                         "score_out_of_range"),
    "a category outside the scale":          ("good",   Scale(categories={"good": 3}),   "score_out_of_range"),
}  # fmt: skip


@pytest.mark.parametrize(("score", "scale", "code"), NO_MEANING.values(), ids=NO_MEANING)
def test_a_score_without_a_meaning_is_refused(score, scale, code):
    with pytest.raises(InputError) as caught:
        normalised(score, scale, "mine")

    assert (caught.value.code, caught.value.file) == (code, "mine")


# The specification's example: toxicity 0.05 is good.
THREE = [evaluation("factual_accuracy", 0.92), evaluation("relevance", 0.88), evaluation("toxicity", 0.05)]
WEIGHTS = {"factual_accuracy": 0.5, "relevance": 0.3, "toxicity": 0.2}
METHODS = {
    # 0.5 * 0.92 + 0.3 * 0.88 + 0.2 * (1 - 0.05) = 0.46 + 0.264 + 0.19
    "weighted_average": 0.914,
    # (0.92 + 0.88 + 0.95) / 3 = 2.75 / 3
    "simple_average": 2.75 / 3,
    # Relevance; toxicity's 0.05 would be the least of the raw scores.
    "minimum": 0.88,
}


@pytest.mark.parametrize(("method", "expected"), METHODS.items())
def test_summary_of_the_specifications_example(method, expected):
    summary = summary_score(THREE, method, weights=WEIGHTS)

    assert summary.value == pytest.approx(expected, abs=1e-15)
    assert (summary.coverage, summary.left_out, summary.reason) == (1.0, {}, None)


def test_weights_are_shared_among_those_that_completed():
    # Relevance failed: (0.46 + 0.19) / 0.7
    scored = [THREE[0], evaluation("relevance", **FAILED), THREE[2]]
    summary = summary_score(scored, "weighted_average", weights=WEIGHTS)

    assert summary.value == pytest.approx(0.65 / 0.7, abs=1e-15)
    assert summary.weights == pytest.approx({"factual_accuracy": 5 / 7, "toxicity": 2 / 7})
    assert (summary.coverage, summary.left_out) == (pytest.approx(0.7), {"relevance": "failed"})


def test_nothing_that_completed_is_no_summary():
    rest = [evaluation(**FAILED), evaluation("length", status="skipped"), evaluation("own", explanation="x")]

    nothing = summary_score(rest, "simple_average")
    weightless = summary_score(THREE[:1], "weighted_average", weights={"factual_accuracy": 0})

    assert (nothing.value, nothing.reason, nothing.coverage) == (None, "nothing_completed", 0.0)
    assert nothing.left_out == {"quality": "failed", "length": "skipped", "own": "no_score"}
    assert (weightless.value, weightless.reason, weightless.coverage) == (None, "no_weight", None)


REFUSED = {
    "an evaluator without a weight":   ((THREE, "weighted_average", {"relevance": 1}),               "missing_weight"),
    "no weights":                      ((THREE, "weighted_average", None),                           "missing_weight"),
    "a negative weight":               ((THREE, "weighted_average", WEIGHTS | {"toxicity": -0.2}),   "bad_weight"),
    "a weight that is no number":      ((THREE, "weighted_average", WEIGHTS | {"toxicity": float("nan")}), "bad_weight"),
    "an evaluator twice":              ((THREE[:1] * 2, "simple_average", None),                     "duplicate_evaluator"),
    "a custom method":                 ((THREE, "custom", None),                                     "unknown_method"),
    "an evaluator without a scale":    (([evaluation("mine", 0.5)], "simple_average", None),         "no_scale"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "code"), REFUSED.values(), ids=REFUSED)
def test_summary_is_refused(arguments, code):
    evaluations, method, weights = arguments

    with pytest.raises(InputError) as caught:
        summary_score(evaluations, method, weights=weights)
    assert caught.value.code == code


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.data())
def test_a_summary_lies_between_the_least_and_the_greatest(scores, data):
    names = [name for name in SCALES if name != "toxicity"][: len(scores)]
    scores = scores[: len(names)]
    weights = {name: data.draw(st.floats(0.01, 100)) for name in names}
    evaluations = [evaluation(name, score) for name, score in zip(names, scores, strict=True)]

    values = [summary_score(evaluations, method, weights=weights).value for method in METHODS]

    assert all(min(scores) - 1e-12 <= value <= max(scores) + 1e-12 for value in values)
    assert values[2] == min(scores)


def test_results_of_events_hold_the_weights_that_counted():
    scored = [evaluation("length", 0.5, "a"), evaluation("own", 7, "a"), evaluation("length", 1.0, "b")]

    first, second = summarise_events(scored, "weighted_average", weights={"length": 3})

    assert (first.summary_score, second.summary_score) == (0.5, 1.0)
    assert (first.weights, len(first.evaluations)) == ({"length": 1.0}, 2)


# --- statistics ---


def test_performance_worked_out():
    summary = evaluation_performance(
        [
            evaluation(score=1, duration_ms=100, cost_usd=0.01),
            evaluation(score=1, duration_ms=200),
            evaluation(score=1),
            evaluation(**FAILED, duration_ms=30_000, cost_usd=0.02),
            evaluation(status="skipped"),
            evaluation(),
        ]
    )

    counts = (summary.total_evaluations, summary.successful_evaluations, summary.failed_evaluations)
    assert (*counts, summary.skipped_evaluations, summary.pending_evaluations) == (6, 3, 1, 1, 1)
    # 3 / (3 + 1): what was skipped or is not done has neither succeeded nor failed.
    assert summary.success_rate == 0.75
    # Between 100 and 200, at 95 % of the way: 195. The failure's time is the time-out's.
    assert (summary.average_duration_ms, summary.p95_duration_ms) == (150.0, 195.0)
    assert (summary.total_cost_usd, summary.n_without_cost, summary.n_without_duration) == (0.03, 2, 1)


def test_statistics_of_nothing_are_none():
    performance, quality = evaluation_performance([]), evaluation_quality([])

    assert (performance.success_rate, performance.average_duration_ms, performance.total_cost_usd) == (None, None, None)
    assert (quality.evaluator_agreement, quality.confidence_distribution) == (None, None)


def test_agreement_and_correlation_compare_normalised_scores():
    # Quality 0.2 0.4 0.9; toxicity 0.8 0.6 0.1, lower is better: 0.2 0.4 0.9.
    scores = {"a": (0.2, 0.8), "b": (0.4, 0.6), "c": (0.9, 0.1)}
    quality = evaluation_quality(
        evaluation(name, score, event)
        for event, pair in scores.items()
        for name, score in zip(("quality", "toxicity"), pair, strict=True)
    )

    correlation = quality.inter_evaluator_correlation["quality_vs_toxicity"]
    assert (quality.evaluator_agreement, correlation.value, correlation.n) == (pytest.approx(1), pytest.approx(1), 3)


def test_agreement_is_the_mean_over_pairs_of_evaluators():
    evaluations = [
        # quality and relevance share two events: 1 - 0.2 and 1 - 0.4, mean 0.7
        evaluation("quality", 0.5, "a"), evaluation("relevance", 0.7, "a"),
        evaluation("quality", 0.5, "b"), evaluation("relevance", 0.9, "b"),
        # length and relevance share one: 1 - 0.1; length and quality none. Mean of the pairs 0.8
        evaluation("length", 0.6, "c"), evaluation("relevance", 0.7, "c"),
        # A repeated evaluation counts by its mean: (0.5 + 0.6 + 0.4) / 3 = 0.5 stays quality's score of a.
        evaluation("quality", 0.6, "a"), evaluation("quality", 0.4, "a"),
        evaluation("quality", event="c", **FAILED),
    ]  # fmt: skip

    quality = evaluation_quality(evaluations)

    assert quality.evaluator_agreement == pytest.approx(0.8)
    assert {name: (c.value, c.n, c.reason) for name, c in quality.inter_evaluator_correlation.items()} == {
        "length_vs_relevance": (None, 1, "too_few_events"),
        "quality_vs_relevance": (None, 2, "too_few_events"),
    }


def test_a_constant_evaluator_correlates_with_nothing():
    evaluations = [evaluation("quality", score, e) for e, score in zip("abc", (0.1, 0.2, 0.3), strict=True)]
    evaluations += [evaluation("length", 0.1, e) for e in "abc"]

    assert evaluation_quality(evaluations).inter_evaluator_correlation["length_vs_quality"].reason == "constant"


def test_scores_without_a_declared_scale_are_counted_not_compared():
    evaluations = [evaluation("mine", 7), evaluation("flag", True), evaluation("quality", 1.0)]

    without = evaluation_quality(evaluations)
    declared = evaluation_quality(evaluations, scales={**SCALES, "mine": Scale(1, 10)})

    assert (without.n_without_scale, list(without.inter_evaluator_correlation)) == (1, ["flag_vs_quality"])
    assert declared.n_without_scale == 0


@pytest.mark.parametrize(
    ("confidence", "band"), [(0.8, "high"), (0.79, "medium"), (0.5, "medium"), (0.49, "low")], ids=str
)
def test_confidence_band(confidence, band):
    assert confidence_band(confidence) == f"{band}_confidence"


def test_confidence_is_distributed_over_those_that_state_it():
    stated = [evaluation(score=1, confidence=confidence) for confidence in (0.9, 0.8, 0.6, 0.1)]

    quality = evaluation_quality([*stated, evaluation(score=1), evaluation(**FAILED, confidence=0.1)])

    bands = {"high_confidence": 0.5, "medium_confidence": 0.25, "low_confidence": 0.25}
    assert (quality.confidence_distribution, quality.n_without_confidence) == (bands, 1)


# --- comparisons ---


def test_two_systems_are_compared_question_by_question():
    a = {str(n): 0.9 for n in range(20)} | {"tie": 0.3, "failed": None, "a only": 1.0}
    b = {str(n): 0.5 for n in range(20)} | {"tie": 0.1 + 0.2, "failed": 0.5, "b only": 1.0}

    found = compare_systems(a, b, variant_a="run_a", variant_b="run_b", now=NOW)

    assert (found.comparison_data.preference_score, found.comparison_data.sample_size) == (20.5 / 21, 21)
    assert found.comparison_data.statistical_significance is True
    assert (found.metadata, found.evaluator_name) == ({"ties": 1, "left_out": 3}, "ab_test_comparison")
    assert found.explanation == "Variant A preferred in 98% of 21 comparisons"


PREFERENCES = {
    #                                     wins of A, ties, wins of B   share   significant
    "even":                             ((5, 0, 5),                    0.5,    False),
    "few, though most prefer A":        ((3, 0, 1),                    0.75,   False),
    "all prefer B":                     ((0, 0, 10),                   0.0,    True),
    "most of many":                     ((650, 0, 350),                0.65,   True),
    "a tie is half a win":              ((1, 2, 1),                    0.5,    False),
    "nothing but ties decide nothing":  ((0, 10, 0),                   0.5,    None),
}  # fmt: skip


@pytest.mark.parametrize(("counts", "share", "significant"), PREFERENCES.values(), ids=PREFERENCES)
def test_preference_is_significant_if_its_interval_leaves_a_half_out(counts, share, significant):
    won, tied, lost = counts
    a = {str(n): score for n, score in enumerate([1.0] * won + [0.5] * tied + [0.0] * lost)}

    data = compare_systems(a, dict.fromkeys(a, 0.5), variant_a="a", variant_b="b", now=NOW).comparison_data

    assert (data.preference_score, data.statistical_significance) == (share, significant)
    if counts == (650, 0, 350):  # Wilson's
        assert data.confidence_interval == pytest.approx((0.620, 0.679), abs=5e-4)


def test_systems_without_a_common_question_are_not_compared():
    with pytest.raises(InputError) as error:
        compare_systems({"1": 1.0}, {"2": 1.0}, variant_a="a", variant_b="b", now=NOW)

    assert error.value.code == "nothing_to_compare"


PEOPLE = {
    #                                  evaluator     human  score  agreement  discrepancy
    "the evaluator is more lenient":  ("quality",    0.75,  1.0,   0.75,      "quality is 0.25 of its scale more lenient than the person"),
    "it is stricter":                 ("quality",    1.0,   0.5,   0.5,       "quality is 0.50 of its scale stricter than the person"),
    "lower is better":                ("toxicity",   0.5,   0.25,  0.75,      "toxicity is 0.25 of its scale more lenient than the person"),
    "a scale of five":                ("stars",      5,     3,     0.5,       "stars is 0.50 of its scale stricter than the person"),
    "they agree":                     ("quality",    0.5,   0.5,   1.0,       "none"),
    "truths need no scale":           ("own",        True,  False, 0.0,       "own is 1.00 of its scale stricter than the person"),
    "no score":                       ("quality",    None,  0.5,   None,      "one of the two has no score"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "human", "score", "agreement", "discrepancy"), PEOPLE.values(), ids=PEOPLE)
def test_a_person_and_an_evaluator_are_compared(name, human, score, agreement, discrepancy):
    person = HumanEvaluation(annotator_id="p", score=human)
    scales = {**SCALES, "stars": Scale(1, 5)}

    found = compare_with_human(person, evaluation(name, score), now=NOW, scales=scales)

    assert (found.agreement_score, found.discrepancy_analysis) == (agreement, discrepancy)
    assert (found.target_event_id, found.ai_evaluation.model, found.ai_evaluation.score) == ("evt", name, score)


def test_scores_of_no_declared_scale_are_not_compared_with_people():
    with pytest.raises(InputError) as error:
        compare_with_human(HumanEvaluation(annotator_id="p", score=3), evaluation("own", 4), now=NOW)

    assert error.value.code == "no_scale"


TRENDS = {
    #                                       scores                        lower is better   trend
    "rising":                             ([0.1, 0.2, 0.3, 0.41],        False,            "improving"),
    "falling":                            ([0.41, 0.3, 0.2, 0.1],        False,            "declining"),
    "falling toxicity":                   ([0.41, 0.3, 0.2, 0.1],        True,             "improving"),
    "rising toxicity":                    ([0.1, 0.2, 0.3, 0.41],        True,             "declining"),
    "up and down":                        ([0.1, 0.9, 0.2, 0.8],         False,            "no_clear_trend"),
    "nothing changes":                    ([0.3, 0.3, 0.3],              False,            "stable"),
    "two cannot show a trend":            ([0.1, 0.9],                   False,            None),
    "nor can two that are equal":         ([0.5, 0.5],                   False,            None),
    "one":                                ([0.5],                        False,            None),
    "none":                               ([],                           False,            None),
}  # fmt: skip


@pytest.mark.parametrize(("scores", "lower", "trend"), TRENDS.values(), ids=TRENDS)
def test_trend(scores, lower, trend):
    assert development(scores, is_lower_better=lower).trend == trend


def test_development_worked_out():
    # Mean 0.82, deviations -.07 .03 .04: slope ((0 - 1) * 0.75 + (2 - 1) * 0.86) / 2 = 0.055
    # stability: 1 - sqrt((.0049 + .0009 + .0016) / 2) / 0.82 = 1 - 0.0608276 / 0.82
    found = development([0.75, 0.85, 0.86])

    assert (found.change_rate, found.trend) == (pytest.approx(0.055), "no_clear_trend")
    assert found.stability_score == pytest.approx(1 - 0.0037**0.5 / 0.82)


def test_stability_needs_a_mean_above_zero():
    assert development([-0.5, 0.5, 0.0]).stability_score is None
    assert development([0.0, 0.0]).stability_score is None
    assert development([0.4, 0.4]).stability_score == 1.0


def test_a_score_over_nights():
    found = evaluate_over_time("quality", [0.5, 0.6, 0.7, 0.8], target_event_id="b|s", now=NOW)

    assert (found.current_score, found.historical_scores) == (0.8, (0.5, 0.6, 0.7, 0.8))
    assert (found.change_rate, found.trend) == (pytest.approx(0.1), "improving")
    assert found.evaluator_name == "temporal_quality"


@pytest.mark.parametrize(("scores", "code"), [([], "no_scores"), ([0.5, 1.5], "score_out_of_range")], ids=str)
def test_scores_over_nights_are_on_the_scale(scores, code):
    with pytest.raises(InputError) as error:
        evaluate_over_time("quality", scores, target_event_id="b|s", now=NOW)

    assert error.value.code == code
