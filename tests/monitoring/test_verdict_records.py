"""A verdict's words have its numbers, and say why there is none."""

import pytest

from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.monitoring.verdict_records import Verdict, flip_sentence, format_p
from tests.verdict_examples import DROP, FIRST, RISE, SINGLE, SMALL, UNCLEAR, replace

P_VALUES = {
    0.008: "p = 0.008", 0.00996: "p = 0.00996", 0.0104: "p = 0.0104", 0.01: "p = 0.01", 0.0004: "p = 0.0004",
    3.14e-9: "p = 3e-9", 1e-13: "p < 1e-12",
}  # fmt: skip
BUDGET = "1e-5 is needed so that 12 pairs raise at most one false alarm in two years"
FELL = "EM fell 6.0 points (adjusted interval −10.4 to −2.3): 14 questions fell and 2 rose"
SURE = f"{FELL}, in both runs; p = 3e-9 after correction for 12 metrics, {BUDGET}"
FLAGGED = f"{FELL}; p = 0.0012 after correction for 12 metrics, 0.01 is needed"
OPEN = "Inconclusive: −1.2 points (adjusted interval −4.6 to +2.2), p = 0.9 after correction for 12 metrics, 0.01 is needed for a rerun; n = 200"
NO_PAIRS = dict.fromkeys(("estimate", "adjusted_interval", "confidence_interval", "p_value", "p_corrected"))
LOW = {"higher_is_better": False}
GROUPS = {"n": 40, "is_clustered": True, "needed_units": 10}
SOME = {"n": 190, "n_missing": 10}

VERDICTS = {
    # evidence, confirmation, kind, how the sentence begins
    "a drop that waits for its rerun": (
        FIRST, "pending", "regressed", f"{FLAGGED} for a rerun; n = 200; not yet seen again in a rerun."
    ),
    "that its rerun has confirmed": (DROP, "confirmed", "regressed", f"{SURE}; n = 200."),
    "all units moved alike": (
        replace(DROP, adjusted_interval=Interval(-0.06, -0.06), confidence_interval=Interval(-0.08, -0.04)), "confirmed",
        "regressed", "EM fell 6.0 points (95 % −8.0 to −4.0): 14 questions fell",
    ),
    "that waits for another": (
        replace(DROP, p_corrected=0.0004), "pending", "regressed",
        f"{FELL}, in both runs; p = 0.0004 after correction for 12 metrics, {BUDGET}; n = 200; another rerun will decide.",
    ),
    "in three runs": (replace(DROP, runs=3), "confirmed", "regressed", f"{FELL}, in three runs; p = 3e-9"),
    "not seen again": (
        replace(DROP, p_corrected=0.3), "not_confirmed", "inconclusive",
        f"Inconclusive: {FELL}, in both runs; p = 0.3 after correction for 12 metrics, {BUDGET}; n = 200; a rerun did not "
        "confirm it.",
    ),
    "no further than a reference run": (
        replace(DROP, is_beyond=False, runs=4), "not_confirmed", "inconclusive",
        f"Inconclusive: {FELL}, in four runs; p = 3e-9 after correction for 12 metrics, {BUDGET}; n = 200; three reruns did "
        "not confirm it, and a reference run is as far from the others.",
    ),
    "known since an earlier night": (
        FIRST, "confirmed", "regressed", f"{FLAGGED} for a rerun; n = 200; confirmed on an earlier night."
    ),
    "of two evaluations": (SINGLE, "no_rerun", "regressed", f"{FLAGGED}; n = 200; without a rerun."),
    "a rise": (
        RISE, "confirmed", "improved",
        "EM rose 6.0 points (adjusted interval +2.3 to +10.4): 14 questions rose and 2 fell, in both runs; p = 3e-9",
    ),
    "a rise of what should be low": (replace(RISE, **LOW), "confirmed", "regressed", "EM rose 6.0 points"),
    "as many rose": (
        replace(DROP, fell=20, rose=18), "confirmed", "changed",
        "EM fell 6.0 points (adjusted interval −10.4 to −2.3): 20 questions fell and 18 rose, in both runs, so its "
        "answers changed both ways; p = 3e-9",
    ),
    "by many small steps": (
        replace(DROP, fell=0, rose=0, runs=3), "confirmed", "regressed",
        "EM fell 6.0 points (adjusted interval −10.4 to −2.3): no single question is beyond all of its reference runs, in "
        "three runs; p = 3e-9",
    ),
    "of a deterministic system": (
        replace(FIRST, is_certain=True, p_value=None, p_corrected=None), "not_needed", "regressed",
        "EM fell 6.0 points: 14 questions fell and 2 rose; 200 questions compared; n = 200; from a deterministic system.",
    ),
    "sure but too small to matter": (
        replace(SMALL, estimate=-0.009, confidence_interval=Interval(-0.015, -0.003), p_corrected=0.002), "pending",
        "equivalent",
        "Any change is smaller than 2 points (95 % −1.5 to −0.3); p = 0.002 after correction for 12 metrics, 0.01 is "
        "needed for a rerun; below the minimum effect of 1 point; n = 200.",
    ),
    "neither": (UNCLEAR, "pending", "inconclusive", f"{OPEN}. At best this benchmark detects drops of 2.0 points."),
    "at 0 before and now": (
        replace(UNCLEAR, metric="exact_match", estimate=0.0, baseline_mean=0.0, current_mean=0.0), "pending", "inconclusive",
        "0 before and now, so that it cannot fall: an answer in sentences equals no gold answer; read F1 and the judge.",
    ),
    "neither, of what should be low": (
        replace(UNCLEAR, **LOW), "pending", "inconclusive", f"{OPEN}. At best this benchmark detects rises of 2.0 points.",
    ),
    "the p that just misses is not rounded to what is needed": (
        replace(UNCLEAR, p_corrected=0.01003, n_metrics=1), "pending", "inconclusive",
        "Inconclusive: −1.2 points (adjusted interval −4.6 to +2.2), p = 0.01003 after correction for 1 metric, 0.01 is",
    ),
    "an interval that ends close to 0 keeps its sign": (
        replace(DROP, adjusted_interval=Interval(-0.056, -0.0003)), "confirmed", "regressed",
        "EM fell 6.0 points (adjusted interval −5.6 to −0.0)",
    ),
    "missing scores would change nothing": (
        replace(DROP, p_if_missing=4e-9, estimate_if_missing=-0.057, **SOME), "confirmed", "regressed",
        f"{SURE}; 10 questions without a score would change nothing; n = 190.",
    ),
    "missing scores could overturn it": (
        replace(DROP, p_if_missing=2e-4, estimate_if_missing=-0.031, **SOME), "confirmed", "withheld",
        "Withheld: 10 questions without a score could overturn it: unchanged at best, they leave −3.1 points, p = 0.0002; "
        "−6.0 points (adjusted interval −10.4 to −2.3), p = 3e-9",
    ),
    "nothing was scored": (
        replace(DROP, n=0, n_missing=200, **NO_PAIRS), "pending", "withheld",
        "Withheld: 200 questions without a score, and none with one.",
    ),
    "too few questions": (
        replace(UNCLEAR, n=29, smallest_drop=4 / 29), "pending", "no_verdict",
        "No verdict: 29 questions, 30 are needed; −1.2 points (adjusted interval −4.6 to +2.2), p = 0.9 after correction "
        "for 12 metrics, 0.01 is needed for a rerun; n = 29. At best this benchmark detects drops of 13.8 points.",
    ),
    "too few documents for any drop": (
        replace(UNCLEAR, n_units=9, smallest_drop=None, **GROUPS), "pending", "inconclusive",
        f"{OPEN.replace('200', '40')}, in 9 groups that share a document or conversation. This benchmark cannot detect drops of "
        "any size: it has 9 groups, and 10 must change.",
    ),
    "what questions that share documents can show": (
        replace(UNCLEAR, n_units=20, smallest_drop=0.3, **GROUPS), "pending", "inconclusive",
        f"{OPEN.replace('200', '40')}, in 20 groups that share a document or conversation. "
        "At best this benchmark detects drops of 30.0 points, in 10 of its 20 groups.",
    ),
    "a metric by its label": (
        replace(DROP, metric="page/ndcg@10"), "confirmed", "regressed", "nDCG@10 by page fell 6.0 points",
    ),
}  # fmt: skip


@pytest.mark.fault(67)
@pytest.mark.parametrize(("evidence", "confirmation", "kind", "sentence"), VERDICTS.values(), ids=VERDICTS)
def test_verdict_and_its_sentence(evidence, confirmation, kind, sentence):
    decided = Verdict.of(evidence, confirmation=confirmation)

    assert decided.kind == kind
    assert decided.sentence.startswith(sentence)
    assert Verdict.model_validate_json(decided.model_dump_json()) == decided


@pytest.mark.parametrize(("evidence", "way", "other"), [(DROP, "lower", "higher"), (RISE, "higher", "lower")])
def test_two_systems_are_lower_or_higher_and_none_of_them_fell(evidence, way, other):
    sentence = Verdict.of(evidence, confirmation="no_rerun", is_one_system=False).sentence

    assert sentence.startswith(f"EM is 6.0 points {way} (adjusted interval ")
    assert f"): 14 questions {way} and 2 {other}, in both runs; p = 3e-9" in sentence


def test_verdict_has_a_confirmation_only_if_flagged():
    found = [
        Verdict.of(one, confirmation=how).confirmation for one, how in ((UNCLEAR, "confirmed"), (FIRST, "pending"))
    ]

    assert found == [None, "pending"]


def test_verdict_of_an_earlier_procedure_is_read():
    former = {"coverage": 1.0, "is_exact": True, "is_short_of_runs": False, "design_effect": 1.2}
    found = Verdict.of(DROP)

    assert Verdict.model_validate(found.model_dump() | former) == found


def test_flip_sentence():
    shown = "10.0 % of the answers differ between two runs of the unchanged system"
    assert flip_sentence(0.10) == f"{shown}."
    assert flip_sentence(0.12).startswith(f"{shown.replace('10.0', '12.0')}; above 10 %")
    assert "is not known" in flip_sentence(None)


@pytest.mark.parametrize(("p_value", "text"), P_VALUES.items())
def test_p_that_is_not_what_is_needed_is_not_shown_as_it(p_value, text):
    assert format_p(p_value, 0.01) == text
