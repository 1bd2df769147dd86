"""A verdict's words have its numbers, and say why there is none."""

import pytest

from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.monitoring.verdict_records import Verdict, flip_sentence, format_p
from tests.verdict_examples import DROP, RISE, SMALL, UNCLEAR, replace

P_VALUES = {0.008: "p = 0.008", 0.00996: "p = 0.00996", 0.0104: "p = 0.0104", 0.01: "p = 0.01", 0.0004: "p < 0.001"}
SURE = "p = 0.002 after correction for 12 metrics, 0.01 is needed"
FELL = f"EM fell 3.1 points (adjusted interval −5.6 to −0.6), {SURE}"
ROSE = f"EM rose 3.1 points (adjusted interval +0.6 to +5.6), {SURE}"
OPEN = "Inconclusive: −1.2 points (adjusted interval −4.6 to +2.2), p = 0.9 after correction for 12 metrics, 0.01 is needed"
NO_PAIRS = {
    "estimate": None,
    "adjusted_interval": None,
    "confidence_interval": None,
    "p_value": None,
    "p_corrected": None,
}
LOW = {"higher_is_better": False}
GROUPS = {"n": 40, "is_clustered": True, "needed_units": 10}

VERDICTS = {
    # evidence, confirmation, kind, how the sentence begins
    "a confirmed drop": (DROP, "confirmed", "regressed", f"{FELL}; n = 500; seen again in a rerun."),
    "not seen again": (DROP, "not_confirmed", "inconclusive", f"Inconclusive: {FELL}; a rerun did not confirm it."),
    "a rise": (RISE, "confirmed", "improved", f"{ROSE}; n = 500; seen again in a rerun."),
    "a rise of what should be low": (replace(RISE, **LOW), "confirmed", "regressed", ROSE),
    "p below a thousandth": (
        replace(DROP, estimate=-0.05, adjusted_interval=Interval(-0.075, -0.025), p_corrected=0.0006),
        "not_needed", "regressed", "EM fell 5.0 points (adjusted interval −7.5 to −2.5), p < 0.001 after",
    ),
    "sure but too small to matter": (
        replace(SMALL, estimate=-0.009, confidence_interval=Interval(-0.015, -0.003), p_corrected=0.002), "pending",
        "equivalent",
        f"Any change is smaller than 2 points (95 % −1.5 to −0.3); {SURE}; below the minimum effect of 1 point.",
    ),
    "sure, too small to matter, and not surely small": (
        replace(DROP, estimate=-0.009, confidence_interval=Interval(-0.021, 0)), "pending", "inconclusive",
        f"Inconclusive: −0.9 points (adjusted interval −5.6 to −0.6), {SURE}; below the minimum effect of 1 point.",
    ),
    "neither": (UNCLEAR, "pending", "inconclusive", f"{OPEN}. At best this benchmark detects drops of 2.2 points."),
    "neither, of what should be low": (
        replace(UNCLEAR, **LOW), "pending", "inconclusive", f"{OPEN}. At best this benchmark detects rises of 2.2 points.",
    ),
    "the p that just misses is not rounded to what is needed": (
        replace(UNCLEAR, p_corrected=0.01003, n_metrics=1), "pending", "inconclusive",
        "Inconclusive: −1.2 points (adjusted interval −4.6 to +2.2), p = 0.01003 after correction for 1 metric, 0.01 is",
    ),
    "an interval that ends close to 0 keeps its sign": (
        replace(DROP, adjusted_interval=Interval(-0.056, -0.0003)), "confirmed", "regressed",
        "EM fell 3.1 points (adjusted interval −5.6 to −0.0)",
    ),
    "too much failed, however large the drop": (
        replace(DROP, coverage=0.9799, n=20), "pending", "withheld",
        f"Withheld: coverage 97.9 %, 98 % is needed; −3.1 points (adjusted interval −5.6 to −0.6), {SURE}.",
    ),
    "nothing was scored": (
        replace(DROP, coverage=0.0, n=0, **NO_PAIRS), "pending", "withheld",
        "Withheld: coverage 0.0 %, 98 % is needed.",
    ),
    "too few questions": (
        replace(UNCLEAR, n=29, smallest_drop=11 / 29), "pending", "no_verdict",
        "No verdict: 29 questions, 30 are needed; −1.2 points (adjusted interval −4.6 to +2.2), p = 0.9 after correction "
        "for 12 metrics, 0.01 is needed. At best this benchmark detects drops of 37.9 points.",
    ),
    "too few documents for any drop": (
        replace(UNCLEAR, n_units=9, smallest_drop=None, **GROUPS), "pending", "inconclusive",
        f"{OPEN}; n = 40 in 9 groups by document. This benchmark cannot detect drops of any size: 9 groups by document, "
        "of which 10 must change.",
    ),
    "what questions that share documents can show": (
        replace(UNCLEAR, n_units=20, is_short_of_runs=True, smallest_drop=0.3, **GROUPS), "pending", "inconclusive",
        f"{OPEN}; n = 40 in 20 groups by document, because fewer than 3 runs are pinned. "
        "At best this benchmark detects drops of 30.0 points, in 10 of its 20 groups by document.",
    ),
    "documents share noise": (
        replace(DROP, design_effect=1.64), "confirmed", "regressed",
        f"{FELL}; n = 500 questions, design effect 1.6 within documents; seen again in a rerun.",
    ),
    "a metric by its label": (
        replace(DROP, metric="page/ndcg@10"), "confirmed", "regressed", "nDCG@10 by page fell 3.1 points",
    ),
    "a rise that bad luck of the baseline would show": (
        replace(RISE, confidence_interval=Interval(-0.001, 0.063)), "pending", "inconclusive",
        f"Inconclusive: +3.1 points (adjusted interval +0.6 to +5.6), {SURE}; bad luck of the baseline would show it as "
        "well (95 % −0.1 to +6.3).",
    ),
}  # fmt: skip


@pytest.mark.fault(67)
@pytest.mark.parametrize(("evidence", "confirmation", "kind", "sentence"), VERDICTS.values(), ids=VERDICTS)
def test_verdict_and_its_sentence(evidence, confirmation, kind, sentence):
    decided = Verdict.of(evidence, confirmation=confirmation)

    assert decided.kind == kind
    assert decided.sentence.startswith(sentence)
    assert Verdict.model_validate_json(decided.model_dump_json()) == decided


def test_verdict_has_a_confirmation_only_if_flagged():
    assert (Verdict.of(UNCLEAR, confirmation="confirmed").confirmation, Verdict.of(DROP).confirmation) == (
        None,
        "pending",
    )


REASONS = {
    "withheld": (replace(DROP, coverage=0.97999), "coverage 97.9 %, 98 % is needed"),
    "no_verdict": (replace(UNCLEAR, n=29), "29 questions, 30 are needed"),
    "regressed": (DROP, None),
}


@pytest.mark.parametrize(("kind", "evidence", "reason"), [(kind, *row) for kind, row in REASONS.items()], ids=REASONS)
def test_verdict_has_a_reason_if_there_is_none(kind, evidence, reason):
    found = Verdict.of(evidence)

    assert (found.kind, found.reason) == (kind, reason)


def test_flip_sentence():
    shown = "10.0 % of the answers differ between two runs of the unchanged system"
    assert flip_sentence(0.10) == f"{shown}."
    assert flip_sentence(0.12).startswith(f"{shown.replace('10.0', '12.0')}; above 10 %")
    assert "is not known" in flip_sentence(None)


@pytest.mark.parametrize(("p_value", "text"), P_VALUES.items())
def test_p_that_is_not_what_is_needed_is_not_shown_as_it(p_value, text):
    assert format_p(p_value, 0.01) == text
