"""Agreement is counted in characters on intervals, each question once; what cannot be compared has a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.agreement import (
    AgreementRules,
    blind_sample,
    citation_agreement,
    krippendorff_alpha,
    score_agreement,
)
from rag_eval_pipeline.formats.ground_truth import DIMENSIONS, GroundTruth


def cites(annotator, query, *spans, file_name="a.pdf"):
    return {
        "annotation_id": f"{annotator}_{query}",
        "query_id": query,
        "annotator_id": annotator,
        "citations": [
            {"file_name": file_name, "start_char": start, "end_char": end, "text": "x"} for start, end in spans
        ],
    }


def judges(annotator, query, score, *, answer="An answer.", overall=None):
    return {
        "annotation_id": f"{annotator}_{query}_{answer}",
        "query_id": query,
        "annotator_id": annotator,
        "answer_text": answer,
        "quality_scores": dict.fromkeys(DIMENSIONS, score),
        "overall_score": overall,
    }


def truth(*annotations):
    return GroundTruth.model_validate({"dataset_id": "d", "version": "1.0.0", "annotations": annotations})


def pair(*spans_of_two):
    one, other = spans_of_two
    return truth(cites("ann", "q", *one), cites("bob", "q", *other))


CASES = {
    #                                       ann                  bob                  expected
    "the same characters":                ([(0, 10)],          [(0, 10)],           1.0),
    "half of them":                       ([(0, 10)],          [(0, 5)],            0.5),
    "a third in common":                  ([(100, 200)],       [(150, 250)],        50 / 150),
    "touching spans share nothing":       ([(0, 5)],           [(5, 10)],           0.0),
    "one span in two parts is the same":  ([(0, 10)],          [(0, 4), (4, 10)],   1.0),
    "a character marked twice, once":     ([(0, 10)],          [(0, 6), (4, 10)],   1.0),
    "one cites, the other does not":      ([(0, 10)],          [],                  0.0),
    "a gap between":                      ([(0, 4), (6, 10)],  [(2, 8)],            4 / 10),
    "spans of a whole library":           ([(0, 10**12)],      [(0, 10**12 // 2)],  0.5),
}  # fmt: skip


@pytest.mark.parametrize(("one", "other", "expected"), CASES.values(), ids=CASES)
def test_jaccard_of_two(one, other, expected):
    agreement = citation_agreement(pair(one, other))

    assert agreement.jaccard == expected
    assert (agreement.n_queries, agreement.n_pairs) == (1, 1)


def test_the_same_places_of_two_documents_share_nothing():
    agreement = citation_agreement(truth(cites("ann", "q", (0, 9)), cites("bob", "q", (0, 9), file_name="b.pdf")))

    assert agreement.jaccard == 0.0


def test_each_question_counts_once_however_many_pairs_it_has():
    agreement = citation_agreement(
        truth(
            # Three annotators: pairs 1, 0.5, 0.5, mean 2/3.
            cites("ann", "q1", (0, 10)), cites("bob", "q1", (0, 10)), cites("cid", "q1", (0, 5)),
            # Two annotators: 0. Mean of the questions 1/3; the mean of the four pairs would be 1/2.
            cites("ann", "q2", (0, 10)), cites("bob", "q2", (20, 30)),
            # One annotator: not compared.
            cites("ann", "q3", (0, 10)),
        )
    )  # fmt: skip

    assert agreement.jaccard == pytest.approx(1 / 3, abs=1e-15)
    assert agreement.verdict == "recalibrate"
    assert (agreement.n_queries, agreement.n_pairs, agreement.n_too_few) == (2, 4, 1)
    assert agreement.worst == (("q2", 0.0), ("q1", pytest.approx(2 / 3)))


def test_two_who_both_cite_nothing_agree_without_a_score():
    both = citation_agreement(pair([], []))
    beside = citation_agreement(
        truth(cites("ann", "q1"), cites("bob", "q1"), cites("ann", "q2", (0, 4)), cites("bob", "q2", (0, 2)))
    )

    assert (both.jaccard, both.verdict, both.reason, both.n_nothing_cited) == (None, None, "nothing_cited", 1)
    assert (beside.jaccard, beside.n_queries, beside.n_nothing_cited) == (0.5, 1, 1)


@pytest.mark.parametrize("annotations", [[], [cites("ann", "q", (0, 4))], [judges("ann", "q", 1), judges("bob", "q", 1)]])  # fmt: skip
def test_without_two_annotators_there_is_no_verdict(annotations):
    agreement = citation_agreement(truth(*annotations))

    assert (agreement.jaccard, agreement.verdict, agreement.reason) == (None, None, "too_few_annotators")


VERDICTS = {
    #                                              shared of 1000   verdict
    "above the target":                          (851,             "meets_target"),
    "at the target, which has to be exceeded":   (850,             "below_target"),
    "between":                                   (801,             "below_target"),
    "at the threshold":                          (800,             "below_target"),
    "below it":                                  (799,             "recalibrate"),
}  # fmt: skip


@pytest.mark.parametrize(("shared", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_verdict(shared, verdict):
    assert citation_agreement(pair([(0, 1000)], [(0, shared)])).verdict == verdict


ON_THE_LINE = {
    # (0.763 + 0.937) / 2 is 0.85; as floats 0.8500000000000001, which is above the target.
    "the target": (763, 937),
    # (0.601 + 0.8 + 0.999) / 3 is 0.8; as floats 0.7999999999999999, which is below the threshold.
    "the threshold": (601, 800, 999),
}


@pytest.mark.parametrize("shares", ON_THE_LINE.values(), ids=ON_THE_LINE)
def test_the_last_bit_of_a_mean_decides_nothing(shares):
    pairs = [(cites("ann", f"q{n}", (0, 1000)), cites("bob", f"q{n}", (0, n))) for n in shares]

    assert citation_agreement(truth(*(annotation for two in pairs for annotation in two))).verdict == "below_target"


def test_the_rules_are_the_callers():
    rules = AgreementRules(target=0.4, recalibrate_below=0.2, min_annotators=3)
    two = [cites("ann", "q", (0, 10)), cites("bob", "q", (0, 5))]
    three = [*two, cites("cid", "q", (0, 5))]  # 0.5, 0.5, 1

    assert citation_agreement(truth(*two), rules=rules).reason == "too_few_annotators"
    assert citation_agreement(truth(*three), rules=rules).verdict == "meets_target"


def test_two_annotations_of_one_question_by_one_annotator_are_refused():
    again = cites("ann", "q", (0, 5)) | {"annotation_id": "again"}

    with pytest.raises(InputError, match="'again'.*'ann_q'") as caught:
        citation_agreement(truth(cites("ann", "q", (0, 10)), again))
    assert caught.value.code == "duplicate_annotation"

    with pytest.raises(InputError) as caught:
        score_agreement(truth(judges("ann", "q", 1), judges("ann", "q", 0.5)))
    assert caught.value.code == "duplicate_annotation"


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda s: (s[0], s[0] + s[1])), max_size=5)


@given(one=SPANS, other=SPANS)
def test_intervals_give_what_sets_of_characters_give(one, other):
    a = {char for start, end in one for char in range(start, end)}
    b = {char for start, end in other for char in range(start, end)}

    agreement = citation_agreement(pair(one, other))

    assert agreement.jaccard == (len(a & b) / len(a | b) if a | b else None)
    assert agreement.jaccard == citation_agreement(pair(other, one)).jaccard


def by_dimension(*annotations):
    return {scores.dimension: scores for scores in score_agreement(truth(*annotations))}


def test_scores_agree_by_distance_and_by_order():
    # Units (0, 0) (0.5, 1): n = 4, values 0 0 0.5 1, sum 1.5, sum of squares 1.25.
    # Interval: observed 2 * 0.25 = 0.5; expected 2 * (4 * 1.25 - 2.25) / 3 = 5.5 / 3; 1 - 1.5 / 5.5 = 8 / 11
    # Ordinal: middle ranks 1 1 2.5 3.5, sum 8, squares 20.5; observed 2 * 1; expected 2 * (82 - 64) / 3 = 12; 10 / 12
    scores = by_dimension(judges("ann", "q1", 0), judges("bob", "q1", 0), judges("ann", "q2", 0.5), judges("bob", "q2", 1))  # fmt: skip

    assert list(scores) == [*DIMENSIONS, "overall_score"]
    assert scores["accuracy"].interval.value == pytest.approx(8 / 11, abs=1e-15)
    assert scores["accuracy"].ordinal.value == pytest.approx(10 / 12, abs=1e-15)
    # Nobody gave an overall score.
    assert scores["overall_score"].interval.reason == "nothing_to_compare"


def test_judgements_of_different_answers_are_not_compared():
    scores = by_dimension(judges("ann", "q", 0, answer="A"), judges("bob", "q", 1, answer="B"))

    assert scores["clarity"].interval.reason == "nothing_to_compare"


def test_scores_that_are_all_alike_say_nothing_about_agreement():
    scores = by_dimension(judges("ann", "q", 0.9, overall=0.9), judges("bob", "q", 0.9, overall=0.9))

    assert (scores["clarity"].interval.value, scores["clarity"].interval.reason) == (None, "no_variation")


# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", C: four observers, twelve units, missing data.
OBSERVERS = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]
PUBLISHED = [[int(value) for value in unit if value != "."] for unit in zip(*OBSERVERS, strict=True)]
ALPHAS = {
    #                                units               level       value   reason
    "published, nominal":           (PUBLISHED,          "nominal",  0.743,  None),
    "published, ordinal":           (PUBLISHED,          "ordinal",  0.815,  None),
    "published, interval":          (PUBLISHED,          "interval", 0.849,  None),
    # n = 8, a 5 times, b 3 times: observed 2, expected (64 - 25 - 9) / 7; 1 - 14 / 30
    "worked out":                   ([[0, 0], [0, 0], [1, 1], [0, 1]], "nominal", 0.533, None),
    "systematic disagreement":      ([[1, 2], [2, 1]],   "nominal",  -0.5,   None),
    "truths as values":             ([[True, True], [False, False]], "nominal", 1.0, None),
    "no units":                     ([],                 "nominal",  None,   "nothing_to_compare"),
    "one value per unit":           ([[1], [2]],         "nominal",  None,   "nothing_to_compare"),
    "one value where two meet":     ([[1, 1], [2]],      "interval", None,   "no_variation"),
}  # fmt: skip


@pytest.mark.parametrize(("units", "level", "value", "reason"), ALPHAS.values(), ids=ALPHAS)
def test_alpha(units, level, value, reason):
    alpha = krippendorff_alpha(units, level)

    assert (None if alpha.value is None else round(alpha.value, 3), alpha.reason) == (value, reason)


def test_alpha_counts_units_with_two_values():
    assert krippendorff_alpha(PUBLISHED, "nominal")[2:] == (11, 40)  # the last unit has one value


def test_blind_sample_is_a_tenth_rounded_up_and_depends_on_ids_and_seed():
    ids = [f"q{number}" for number in range(70)]

    sample = blind_sample(ids)

    assert len(sample) == 7
    assert [one for one in ids if one in sample] == sample
    assert set(blind_sample(ids[::-1])) == set(sample) != set(blind_sample(ids, seed=1))
    assert blind_sample(["a"]) == ["a"]
    with pytest.raises(ValueError, match="share"):
        blind_sample(ids, share=0)
