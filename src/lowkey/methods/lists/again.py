"""Public room: how much of lists' weights their noise has drowned: from the posts, by adding as much noise once more.

What is heard of people is taken for all there is. From it weights are made twice, as from a crowd of this size: without
noise, and with as much as the posts hold; and told is how much less well the second foretell what people take. All of it
is made of posts and of public random numbers.
Paper: ours, after Efron and Tibshirani 1993 (parametric bootstrap).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from lowkey.methods.lists.weights import ease_weights, ridged_inverse
from lowkey.methods.moments.ease import CleanGram, cleaned_values

LARGEST_TRIED = 1000  # items of the head, as time grows with their cube
RIDGES = (1.0, 3.0, 9.0)  # without noise the best of these is the measure, as who knows the people may choose

Array = NDArray[np.float64]


def heard_again(gram: Array, clean: CleanGram, shares: Array, noise_std: float, users: float) -> float:
    """0 to 1: of what weights without noise would foretell, what weights with this much noise foretell."""
    n, people, known = len(shares), gram.copy(), np.maximum(shares, 1e-12)
    np.fill_diagonal(people, (clean.vectors**2) @ clean.values)
    # Chance alone gives an entry the variance users shares_i shares_j, on average users/n^2.
    values, basis = eigh(people, overwrite_a=True)
    values = np.maximum(cleaned_values(values, math.hypot(noise_std, math.sqrt(users) / n)), 0.0)
    # Of a large head every so many items are tried. Tastes are less by that part, and all else is made so, too.
    tried = np.argsort(-known, kind="stable")[:: math.ceil(n / LARGEST_TRIED)]
    part, known, basis = len(tried) / n, known[tried], basis[tried]
    people, own, noise_std = (basis * values) @ basis.T, part * clean.own, math.sqrt(part) * noise_std
    rng, chance = np.random.default_rng(0), part**3 * users  # of a sum of fewer, smaller squares
    crowd = people + _symmetric(rng, len(tried)) * np.sqrt(part * users * np.outer(known, known))
    noisy = _cleaned(crowd + _symmetric(rng, len(tried)) * noise_std, noise_std, own)
    crowd = _cleaned(crowd, 0.0, own)
    exact = max(_foretold(people, own, ridged_inverse(crowd, known, 0.0, chance, ridge)) for ridge in RIDGES)
    found = _foretold(people, own, ridged_inverse(noisy, known, noise_std, chance, 1.0))
    return min(found / exact, 1.0) if exact > 0.0 else 0.0


def agreement_without_noise(clean: CleanGram, shares: Array, users: float) -> float:
    """The first number of the post ``taste_fit`` over the users, of weights without noise, if what is heard were all."""
    weights = ease_weights(ridged_inverse(clean, np.maximum(shares, 1e-12), 0.0, users, 1.0))
    people = (clean.vectors * clean.values) @ clean.vectors.T
    return float(np.sum(people * weights))  # the diagonal of the weights is 0


def _symmetric(rng: np.random.Generator, n: int) -> Array:
    drawn = rng.standard_normal((n, n))
    drawn = (drawn + drawn.T) / math.sqrt(2.0)
    np.fill_diagonal(drawn, 0.0)  # it is filled in from the rest, whatever was posted
    return drawn


def _cleaned(gram: Array, std: float, own: float) -> CleanGram:
    seen, basis = eigh(gram, overwrite_a=True)
    clean = cleaned_values(seen, std)
    return CleanGram(clean[clean > 0.0], basis[:, clean > 0.0], own, 1.0)


def _foretold(people: Array, own: float, inverse: Array) -> float:
    """The squared error that the weights take away, times what is best for them."""
    weights = ease_weights(inverse)
    agree = float(np.sum(people * weights))
    square = float(np.sum(weights * (people @ weights))) + own * float(np.sum(weights**2))
    return max(agree, 0.0) ** 2 / max(square, 1e-300)
