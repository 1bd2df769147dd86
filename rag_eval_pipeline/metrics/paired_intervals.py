"""The confidence interval of a paired difference, by question or by document; it never has a width of zero.

Two made-up units, one that rose by the whole range and one that fell by it, stand beside those that were seen: units
that all agree are evidence, not certainty. Where documents are counted the made-up ones are documents, of the size that
a question's document has on average, so that a large document among single questions is not passed over.
Simulated nights on which documents fell by exactly the margin were called equivalent in 60 % with single questions in
their place (20 documents of 25 questions; 6 to 14 % with 100 to 400 of 5), and are in none (in 0 to 5 %).
"""

import math
from collections.abc import Sequence

import numpy as np

from rag_eval_pipeline.metrics.clusters import Values, effective_clusters, number_units, sums_by_unit
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, Interval


def paired_interval(
    differences: Values,
    *,
    clusters: Sequence[str] | None = None,
    value_range: float = 1.0,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Student's interval of the mean difference with two pseudo-units, +range and -range.

    Args:
        differences: (questions,), without NaN; may be empty.
        clusters: A name a question; the spread is then taken between clusters.
        value_range: Largest minus smallest possible score.
        confidence: Of the interval.

    Source: Bonett and Price 2012 for the pseudo-questions; the ratio of sums, Cochran 1977, 6, with G / (G - 1) for
    clusters; Kish 1965, 11.7, for the number G that clusters of unequal size are worth.
    """
    from scipy.special import stdtrit

    units = number_units(clusters, differences.size)
    seen = sums_by_unit(np.ones(differences.size), units)
    worth = effective_clusters(seen) if seen.size else 0.0
    size = differences.size / worth if worth else 1.0
    sizes = np.append(seen, (size, size))
    sums = np.append(sums_by_unit(differences, units), (size * value_range, -size * value_range))
    n_units, n_questions = worth + 2, float(sizes.sum())
    centre = float(sums.sum()) / n_questions
    residuals = sums - centre * sizes
    variance = n_units / (n_units - 1) * float(residuals @ residuals) / n_questions**2
    half = float(stdtrit(n_units - 1, (1 + confidence) / 2)) * math.sqrt(variance)
    return Interval(centre - half, centre + half)
