"""Distribution functions are scipy's to 1e-12."""

import numpy as np
from scipy import special

from rag_eval_pipeline.metrics.distributions import log_factorials, normal_cdf, normal_quantile, student_quantile


def test_distributions_are_scipys():
    z, p = np.linspace(-37, 37, 149).reshape(1, 149), np.r_[0, 10.0 ** -np.arange(300), 0.975, 1]
    freedoms = np.r_[1, 1.15, 2.5, 7, 30, 199, 200, 1_000, 1e6]

    assert np.allclose(normal_cdf(z), special.ndtr(z), rtol=1e-12, atol=0)
    assert np.allclose(normal_quantile(p), special.ndtri(p), rtol=1e-12, atol=1e-15)
    # The quantiles of scipy 1.12 to 1.15 are less exact than its distribution function.
    quantiles = [student_quantile(one, 0.975) for one in freedoms]
    assert np.allclose(special.stdtr(freedoms, quantiles), 0.975, rtol=1e-13, atol=0)
    assert np.allclose(log_factorials(170), special.gammaln(np.arange(171) + 1), rtol=1e-12, atol=1e-15)
