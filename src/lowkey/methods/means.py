"""Public room: means from noisy sums and noisy counts, damped by what is known of the noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def damped_means(
    sums: NDArray[np.float64], counts: NDArray[np.float64], sum_std: float, count_std: float, residual_variance: float
) -> NDArray[np.float64]:
    """Empirical-Bayes means: each noisy mean is pulled to zero as far as its own uncertainty says.

    With count c, the mean y = sum/c has variance v = residual_variance/c + sum_std^2/c^2 around a true mean of variance
    t^2, so its best linear estimate is y t^2/(t^2 + v). t^2 is estimated from the same noisy numbers, by E y^2 = t^2 + v,
    on the items whose count stands clear of the noise. The others get almost nothing.
    """
    clear = np.maximum(counts, max(3.0 * count_std, 1.0))
    means = sums / clear
    variances = residual_variance / clear + (sum_std / clear) ** 2
    weights = 1.0 / (variances + residual_variance / 10.0) ** 2
    prior = np.sum(weights * (means**2 - variances)) / np.sum(weights)
    # Means vary at least a little: a floor keeps a lucky negative estimate from erasing everything.
    prior = max(float(prior), 1e-3 * residual_variance)
    return means * prior / (prior + variances)
