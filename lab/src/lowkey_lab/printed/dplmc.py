"""Lab room: DPLMC (Algorithm 1) and its private start (Algorithm 2) as printed, line by line, on dense arrays.

Paper: Wang, Zhao and Kolar 2023. Letters: Y ratings, U, V factors, p the observed share, eta ``step``, alpha_1, alpha_2,
G ``user_norm``, ``item_norm``, ``residual_norm``, T ``n_iter``, nu_1, nu_2, nu_0 ``noise_gram``, ``noise_gradient``,
``noise_start``. Deviates: nowhere; the random start, on which the paper is silent, is Gaussian of variance 1/rank.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey_lab.printed.dpals import clip as within
from lowkey_lab.printed.dpals import symmetric_noise
from lowkey_lab.printed.held import Held, gaussian_held

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """``step`` is eta itself; Theorem 5.2 has c/sigma_1, and the paper's grid is of c."""

    rank: int
    n_iter: int
    step: float
    user_norm: float
    item_norm: float
    residual_norm: float
    noise_gram: float
    noise_gradient: float


class Factors(NamedTuple):
    users: Array
    items: Array


def printed_noise(
    epsilon: float, delta: float, n_iter: int, balance: float, user_norm: float, residual_norm: float
) -> Array:
    """nu_1 and nu_2 of Theorem 5.1; ``balance`` is omega."""
    rounds = math.sqrt(n_iter * (math.log(1.0 / delta) + epsilon)) / epsilon
    gram = user_norm**2 * math.sqrt(8.0 / balance) * rounds
    return np.array([gram, 4.0 * user_norm * residual_norm / math.sqrt(1.0 - balance) * rounds])


def random_start(shape: tuple[int, int], rank: int, rng: np.random.Generator) -> Factors:
    u, v = (rng.standard_normal((side, rank)) / math.sqrt(rank) for side in shape)
    return Factors(u, v)


def private_start(
    y: Array, seen: Array, rank: int, bound: float, tau: float, noise: float, rng: np.random.Generator
) -> Factors:
    """Algorithm 2; ``noise`` is nu_0. U^0 is not projected: the paper does not."""
    p = seen.mean()
    y = within(y * seen, bound)  # 1
    n_items = y.shape[1]
    a = tau**2 / p**2 * (y.T @ y) + noise * symmetric_noise(1, n_items, rng)[0]  # 4
    values, vectors = np.linalg.eigh(a)
    top = np.argsort(-np.abs(values))[:rank]  # 5: singular values
    root = np.sqrt(np.abs(values[top]))
    return Factors(tau / p * (y @ vectors[:, top]) / root, vectors[:, top] * root)  # 6: V Sigma^(1/2); 10


def descent(y: Array, seen: Array, start: Factors, s: Settings, rng: np.random.Generator) -> Factors:
    """Algorithm 1; ``seen`` is the 0/1 mask of Omega."""
    p, (u, v) = seen.mean(), start  # p = |Omega|/(mn)
    rate = s.step / p
    for _ in range(s.n_iter):  # 1
        residual = (u @ v.T - y) * seen  # 2 to 6
        bounded = within(residual, s.residual_norm)  # 7
        r = u.T @ u - v.T @ v + s.noise_gram * symmetric_noise(1, s.rank, rng)[0]  # 8
        gradient = bounded.T @ u + s.noise_gradient * rng.standard_normal(v.shape)
        new_v = within(v - rate * gradient + s.step / 2.0 * v @ r, s.item_norm)  # 9 to 11
        u = within(u - rate * residual @ v - s.step / 2.0 * u @ r, s.user_norm)  # 12 to 16
        v = new_v
    return Factors(u, v)


def descent_mu(s: Settings) -> float:
    """Add/remove: U^T U moves by alpha_1^2 on its triangle, the gradient by G alpha_1."""
    gram, gradient = s.user_norm**2 / s.noise_gram, s.residual_norm * s.user_norm / s.noise_gradient
    return math.sqrt(s.n_iter * (gram**2 + gradient**2))


def held(s: Settings, delta: float, claimed: float, start_mu: float = 0.0) -> Held:
    """``start_mu`` is G^2 tau^2/(p^2 nu_0) of a private start, 0 for a random one; the random one is within alpha_1."""
    reasons = [
        "p = |Omega|/(mn) is data; here it is taken as public",
        "eta, alpha_1, alpha_2 and G are chosen off the data",
    ]
    reasons += [
        "booked 2 alpha_1^2 and 2 sqrt(2) G alpha_1 where, for replaced users, sqrt(2) alpha_1^2 and 2 G alpha_1 hold"
    ]
    if start_mu:
        reasons.append("U^0 of Algorithm 2 is not projected: the first round has no bound")
    mu = math.hypot(descent_mu(s), start_mu)
    return gaussian_held(mu, delta, claimed, tuple(reasons), "none proven" if start_mu else "proven")
