"""Changes that are large and sure enough to be run again, and what the rerun says of them.

A flag alone alerts nobody: the system is asked again, hours later, and the same change must show against the same
baseline. That second look does what a correction over all comparisons of a night would do, and costs less power.
"""

from collections.abc import Mapping
from typing import Literal

from rag_eval_pipeline.metrics.evidence import RULES, Evidence, Rules

Confirmation = Literal["pending", "confirmed", "not_confirmed", "not_needed", "no_rerun", "provisional", "weekly"]

ROUNDING = 1e-9  # a drop of exactly one point, averaged over fifths, comes out as 0.00999999999999999


def is_covered(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether enough pairs were scored for any verdict."""
    return evidence.coverage is not None and evidence.coverage >= rules.min_coverage


def is_large_enough(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether the mean moved by at least the minimum effect."""
    if evidence.estimate is None:
        return False
    return abs(evidence.estimate) >= rules.min_effect * evidence.value_range - ROUNDING


def is_no_luck_of_the_baseline(evidence: Evidence) -> bool:
    """Whether a change for the better is more than a baseline that had bad luck: its interval leaves out 0.

    Scores near the end of their scale that now and then slip leave many small differences for the better and, on a
    night on which nothing slips, none for the worse. Sign flips are sure of those (they ask for symmetry), night after
    night and in the rerun as well. A change for the worse is taken as the flips have it, as its rates were simulated.
    """
    if evidence.estimate is None or evidence.confidence_interval is None:
        return False
    is_better = (evidence.estimate > 0) == evidence.higher_is_better
    return not is_better or not evidence.confidence_interval.low <= 0 <= evidence.confidence_interval.high


def is_flagged(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether a change is large and sure enough to be run again."""
    return (
        is_covered(evidence, rules)
        and evidence.n_pairs >= rules.min_questions
        and evidence.p_corrected is not None
        and evidence.p_corrected <= rules.alpha / 2
        and is_large_enough(evidence, rules)
        and is_no_luck_of_the_baseline(evidence)
    )


def confirm(first: Evidence, rerun: Evidence, *, n_flagged: int, rules: Rules = RULES) -> Confirmation:
    """Whether a rerun against the same baseline shows the flagged change again.

    Args:
        first: The flagged evidence.
        rerun: The same metric in the rerun; its uncorrected p is used.
        n_flagged: Metrics that were flagged in this comparison; p is multiplied by it.
        rules: Alpha, minimum effect and coverage are used here.
    """
    if first.estimate is None or rerun.estimate is None or rerun.p_value is None:
        return "not_confirmed"
    seen_again = (
        first.estimate * rerun.estimate > 0
        and is_covered(rerun, rules)
        and rerun.p_value * n_flagged <= rules.alpha / 2
        and is_large_enough(rerun, rules)
        and is_no_luck_of_the_baseline(rerun)
    )
    return "confirmed" if seen_again else "not_confirmed"


def confirm_flags(
    first: Mapping[str, Evidence], rerun: Mapping[str, Evidence], *, rules: Rules = RULES
) -> dict[str, Confirmation]:
    """What a rerun says of every flagged metric of a comparison; of no other.

    Args:
        first: Evidence of the first look, by metric.
        rerun: Of the rerun against the same baseline; of the flagged metrics, others are passed over. A flagged
            metric that is missing is not confirmed.
        rules: The same in both looks.
    """
    flagged = [name for name, evidence in first.items() if is_flagged(evidence, rules)]
    found: dict[str, Confirmation] = {}
    for name in flagged:
        again = rerun.get(name)
        seen = None if again is None else confirm(first[name], again, n_flagged=len(flagged), rules=rules)
        found[name] = seen or "not_confirmed"
    return found
