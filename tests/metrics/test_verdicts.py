"""A verdict is one word and one sentence; it says "regressed" of real drops only, and "cannot tell" where it cannot."""

from dataclasses import replace

import pytest

from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.verdicts import verdict
from tests.verdict_examples import DROP

RISE = replace(DROP, estimate=0.031, confidence_interval=Interval(0.016, 0.046))
SMALL = replace(DROP, estimate=0.001, confidence_interval=Interval(-0.008, 0.011), p_value=0.4, p_corrected=1.0)
UNCLEAR = replace(DROP, estimate=-0.012, confidence_interval=Interval(-0.034, 0.010), p_value=0.1, p_corrected=0.9)

SENTENCES = {
    "a confirmed drop": (
        DROP, "confirmed", "regressed",
        "EM fell 3.1 points (95 % −4.6 to −1.6), n=500, corrected p=0.002, seen again in a rerun.",
    ),
    "a drop between two given sides": (
        DROP, "no_rerun", "regressed",
        "EM fell 3.1 points (95 % −4.6 to −1.6), n=500, corrected p=0.002, without a rerun.",
    ),
    "a drop that waits for its rerun": (
        DROP, "pending", "regressed",
        "EM fell 3.1 points (95 % −4.6 to −1.6), n=500, corrected p=0.002, not yet seen again in a rerun.",
    ),
    "a drop that the rerun did not show": (
        DROP, "not_confirmed", "inconclusive",
        "Cannot tell: EM fell 3.1 points (95 % −4.6 to −1.6), not confirmed by a rerun.",
    ),
    "a system that answers the same every night": (
        replace(DROP, p_corrected=0.0006), "not_needed", "regressed",
        "EM fell 3.1 points (95 % −4.6 to −1.6), n=500, corrected p<0.001, from a deterministic system.",
    ),
    "a drop before the baseline is whole": (
        DROP, "provisional", "regressed",
        "EM fell 3.1 points (95 % −4.6 to −1.6), n=500, corrected p=0.002, provisional until the baseline has its runs.",
    ),
    "a drop of a week": (
        DROP, "weekly", "regressed",
        "EM fell 3.1 points (95 % −4.6 to −1.6), n=500, corrected p=0.002, mean of seven nights.",
    ),
    "a rise": (
        RISE, "confirmed", "improved",
        "EM rose 3.1 points (95 % +1.6 to +4.6), n=500, corrected p=0.002, seen again in a rerun.",
    ),
    "a rise of what should be low": (
        replace(RISE, metric="Failure rate", higher_is_better=False), "confirmed", "regressed",
        "Failure rate rose 3.1 points (95 % +1.6 to +4.6), n=500, corrected p=0.002, seen again in a rerun.",
    ),
    "a scale of five steps is shown in points too": (
        replace(DROP, value_range=4.0, estimate=-0.2, confidence_interval=Interval(-0.3, -0.1)), "confirmed",
        "regressed", "EM fell 5.0 points (95 % −7.5 to −2.5), n=500, corrected p=0.002, seen again in a rerun.",
    ),
    "surely small": (SMALL, "pending", "equivalent", "Any change is smaller than 2 points (95 % −0.8 to +1.1)."),
    "sure but too small to matter": (
        replace(SMALL, estimate=-0.009, confidence_interval=Interval(-0.015, -0.003), p_corrected=0.001), "pending",
        "equivalent", "Any change is smaller than 2 points (95 % −1.5 to −0.3).",
    ),
    "neither": (
        UNCLEAR, "pending", "inconclusive",
        "Cannot tell: −1.2 (95 % −3.4 to +1.0); this set can show drops of 2.2 points or more.",
    ),
    "too much failed, however large the drop": (
        replace(DROP, coverage=0.9799), "pending", "withheld", "Cannot tell: coverage 97.9 %, 98 % is needed.",
    ),
    "too few questions": (
        replace(DROP, n_pairs=29, n_units=29, smallest_drop=11 / 29), "pending", "no_verdict",
        "No verdict: 29 questions, 30 are needed; this set can show drops of 37.9 points or more.",
    ),
    "too few documents for any drop, though there are questions enough": (
        replace(UNCLEAR, n_pairs=40, n_units=9, is_clustered=True, smallest_drop=None, needed_units=10), "pending",
        "inconclusive",
        "Cannot tell: −1.2 (95 % −3.4 to +1.0); this set cannot show drops of any size: 9 groups by document, of which "
        "10 must change.",
    ),
    "what a set whose questions share documents can show": (
        replace(UNCLEAR, n_pairs=40, n_units=20, is_clustered=True, smallest_drop=0.3, needed_units=10), "pending",
        "inconclusive",
        "Cannot tell: −1.2 (95 % −3.4 to +1.0); this set can show drops of 30.0 points or more, in 10 of its 20 groups "
        "by document.",
    ),
    "a drop where questions share documents": (
        replace(DROP, n_units=80, is_clustered=True), "confirmed", "regressed",
        "EM fell 3.1 points (95 % −4.6 to −1.6), n=500 in 80 groups by document, corrected p=0.002, seen again in a "
        "rerun.",
    ),
    "a metric of the registry by its short name": (
        replace(DROP, metric="page/ndcg@10"), "confirmed", "regressed",
        "nDCG@10 by page fell 3.1 points (95 % −4.6 to −1.6), n=500, corrected p=0.002, seen again in a rerun.",
    ),
    "a rise that a baseline of bad luck would show as well": (
        replace(RISE, confidence_interval=Interval(-0.001, 0.063)), "pending", "inconclusive",
        "Cannot tell: +3.1 (95 % −0.1 to +6.3); this set can show drops of 2.2 points or more.",
    ),
    "coverage is looked at before size": (
        replace(DROP, n_pairs=20, coverage=0.5), "pending", "withheld", "Cannot tell: coverage 50.0 %, 98 % is needed.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("evidence", "confirmation", "kind", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_the_word_and_the_sentence(evidence, confirmation, kind, sentence):
    decided = verdict(evidence, confirmation=confirmation)

    assert (decided.kind, decided.sentence) == (kind, sentence)


def test_a_confirmation_belongs_to_a_flag():
    assert verdict(UNCLEAR, confirmation="confirmed").confirmation is None
    assert verdict(DROP).confirmation == "pending"
