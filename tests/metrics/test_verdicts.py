"""A verdict is one word and one sentence; it says "regressed" of real drops only, and "cannot tell" where it cannot."""

from dataclasses import replace

import pytest

from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.verdicts import verdict
from tests.verdict_examples import DROP

RISE = replace(
    DROP, estimate=0.031, adjusted_interval=Interval(0.006, 0.056), confidence_interval=Interval(0.016, 0.046)
)
SMALL = replace(
    DROP, estimate=0.001, adjusted_interval=Interval(-0.015, 0.017), confidence_interval=Interval(-0.008, 0.011),
    p_value=0.4, p_corrected=1.0,
)  # fmt: skip
UNCLEAR = replace(
    DROP, estimate=-0.012, adjusted_interval=Interval(-0.046, 0.022), confidence_interval=Interval(-0.034, 0.010),
    p_value=0.075, p_corrected=0.9,
)  # fmt: skip
SURE = "p = 0.002 after correction for 12 metrics, 0.01 is needed"
FELL = f"EM fell 3.1 points (adjusted interval −5.6 to −0.6), {SURE}"
ROSE = f"EM rose 3.1 points (adjusted interval +0.6 to +5.6), {SURE}"
OPEN = "Inconclusive: −1.2 points (adjusted interval −4.6 to +2.2), p = 0.9 after correction for 12 metrics, 0.01 is needed"
REACH = "At best this benchmark detects drops of 2.2 points."

SENTENCES = {
    "a confirmed drop": (DROP, "confirmed", "regressed", f"{FELL}; n = 500; seen again in a rerun."),
    "a drop between two given sides": (DROP, "no_rerun", "regressed", f"{FELL}; n = 500; without a rerun."),
    "a drop that waits for its rerun": (
        DROP, "pending", "regressed", f"{FELL}; n = 500; not yet seen again in a rerun.",
    ),
    "a drop that the rerun did not show": (
        DROP, "not_confirmed", "inconclusive", f"Inconclusive: {FELL}; a rerun did not confirm it.",
    ),
    "a system that answers the same every night": (
        replace(DROP, p_corrected=0.0006), "not_needed", "regressed",
        "EM fell 3.1 points (adjusted interval −5.6 to −0.6), p < 0.001 after correction for 12 metrics, 0.01 is needed; "
        "n = 500; from a deterministic system.",
    ),
    "a drop before the baseline is whole": (
        DROP, "provisional", "regressed", f"{FELL}; n = 500; provisional until the baseline has its runs.",
    ),
    "a drop of a week": (DROP, "weekly", "regressed", f"{FELL}; n = 500; mean of seven nights."),
    "a rise": (RISE, "confirmed", "improved", f"{ROSE}; n = 500; seen again in a rerun."),
    "a rise of what should be low": (
        replace(RISE, metric="Failure rate", higher_is_better=False), "confirmed", "regressed",
        f"{ROSE.replace('EM', 'Failure rate')}; n = 500; seen again in a rerun.",
    ),
    "a scale of five steps is shown in points too": (
        replace(DROP, value_range=4.0, estimate=-0.2, adjusted_interval=Interval(-0.3, -0.1)), "confirmed",
        "regressed", f"EM fell 5.0 points (adjusted interval −7.5 to −2.5), {SURE}; n = 500; seen again in a rerun.",
    ),
    "surely small": (
        SMALL, "pending", "equivalent",
        "Any change is smaller than 2 points (95 % −0.8 to +1.1); p = 1 after correction for 12 metrics, 0.01 is needed.",
    ),
    "sure but too small to matter": (
        replace(SMALL, estimate=-0.009, confidence_interval=Interval(-0.015, -0.003), p_corrected=0.002), "pending",
        "equivalent",
        f"Any change is smaller than 2 points (95 % −1.5 to −0.3); {SURE}; below the minimum effect of 1 point.",
    ),
    "sure, too small to matter, and not surely small": (
        replace(DROP, estimate=-0.009, adjusted_interval=Interval(-0.017, -0.001), confidence_interval=Interval(-0.021, 0)),
        "pending", "inconclusive",
        f"Inconclusive: −0.9 points (adjusted interval −1.7 to −0.1), {SURE}; below the minimum effect of 1 point. {REACH}",
    ),
    "neither": (UNCLEAR, "pending", "inconclusive", f"{OPEN}. {REACH}"),
    "the p that just misses is not rounded to what is needed": (
        replace(UNCLEAR, p_corrected=0.01003, n_metrics=1), "pending", "inconclusive",
        "Inconclusive: −1.2 points (adjusted interval −4.6 to +2.2), p = 0.01003 after correction for 1 metric, 0.01 is "
        f"needed. {REACH}",
    ),
    "an interval that ends close to 0 keeps its sign": (
        replace(DROP, adjusted_interval=Interval(-0.056, -0.0003)), "confirmed", "regressed",
        f"EM fell 3.1 points (adjusted interval −5.6 to −0.0), {SURE}; n = 500; seen again in a rerun.",
    ),
    "too much failed, however large the drop": (
        replace(DROP, coverage=0.9799), "pending", "withheld",
        f"Withheld: coverage 97.9 %, 98 % is needed; −3.1 points (adjusted interval −5.6 to −0.6), {SURE}.",
    ),
    "nothing was scored": (
        replace(DROP, coverage=0.0, n_pairs=0, estimate=None, adjusted_interval=None, confidence_interval=None,
                p_value=None, p_corrected=None), "pending", "withheld",
        "Withheld: coverage 0.0 %, 98 % is needed.",
    ),
    "too few questions": (
        replace(UNCLEAR, n_pairs=29, n_units=29, smallest_drop=11 / 29), "pending", "no_verdict",
        "No verdict: 29 questions, 30 are needed; −1.2 points (adjusted interval −4.6 to +2.2), p = 0.9 after correction "
        "for 12 metrics, 0.01 is needed. At best this benchmark detects drops of 37.9 points.",
    ),
    "too few documents for any drop, though there are questions enough": (
        replace(UNCLEAR, n_pairs=40, n_units=9, is_clustered=True, smallest_drop=None, needed_units=10), "pending",
        "inconclusive",
        f"{OPEN}; n = 40 in 9 groups by document. This benchmark cannot detect drops of any size: 9 groups by document, "
        "of which 10 must change.",
    ),
    "what a set whose questions share documents can show": (
        replace(UNCLEAR, n_pairs=40, n_units=20, is_clustered=True, is_short_of_runs=True, smallest_drop=0.3,
                needed_units=10), "pending", "inconclusive",
        f"{OPEN}; n = 40 in 20 groups by document, because fewer than 3 runs are pinned. "
        "At best this benchmark detects drops of 30.0 points, in 10 of its 20 groups by document.",
    ),
    "a drop where questions share documents": (
        replace(DROP, n_units=80, is_clustered=True), "confirmed", "regressed",
        f"{FELL}; n = 500 in 80 groups by document; seen again in a rerun.",
    ),
    "a drop where documents share noise": (
        replace(DROP, design_effect=1.64), "confirmed", "regressed",
        f"{FELL}; n = 500 questions, design effect 1.6 within documents; seen again in a rerun.",
    ),
    "a drop where documents share hardly any": (
        replace(DROP, design_effect=1.2), "confirmed", "regressed", f"{FELL}; n = 500; seen again in a rerun.",
    ),
    "a metric of the registry by its short name": (
        replace(DROP, metric="page/ndcg@10"), "confirmed", "regressed",
        f"{FELL.replace('EM', 'nDCG@10 by page')}; n = 500; seen again in a rerun.",
    ),
    "a rise that a baseline of bad luck would show as well": (
        replace(RISE, confidence_interval=Interval(-0.001, 0.063)), "pending", "inconclusive",
        f"Inconclusive: +3.1 points (adjusted interval +0.6 to +5.6), {SURE}; bad luck of the baseline would show it as "
        f"well (95 % −0.1 to +6.3). {REACH}",
    ),
    "coverage is looked at before size": (
        replace(DROP, n_pairs=20, coverage=0.5), "pending", "withheld",
        f"Withheld: coverage 50.0 %, 98 % is needed; −3.1 points (adjusted interval −5.6 to −0.6), {SURE}.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("evidence", "confirmation", "kind", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_the_word_and_the_sentence(evidence, confirmation, kind, sentence):
    decided = verdict(evidence, confirmation=confirmation)

    assert (decided.kind, decided.sentence) == (kind, sentence)


def test_a_confirmation_belongs_to_a_flag():
    assert verdict(UNCLEAR, confirmation="confirmed").confirmation is None
    assert verdict(DROP).confirmation == "pending"
