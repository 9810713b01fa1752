"""Lab room: DP-RGrad as printed: the private start (Algorithm 1) and the Riemannian descent (Algorithm 2), line by line.

Paper: Zha 2024, which numbers no lines: its statements are counted here. Letters: X measurements, y responses, M the
matrix, Lambda_i covariances with eigenvalues between C_l and C_u (``least`` and ``covariance``; X and Lambda_i^-1 X are
given), Delta^(1), Delta^(2), Delta_l sensitivities, l* ``n_iter``. The constants C_2 and C_3 are unknown and taken as 1.
Deviates: nowhere; E_Sigma is symmetric, as printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowkey_lab.printed.dpals import symmetric_noise
from lowkey_lab.printed.held import Held

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """``largest`` and ``smallest`` are sigma_1 and sigma_r of M, which the sensitivities contain; the step is eta."""

    rank: int
    epsilon: float
    delta: float
    largest: float
    smallest: float
    error_std: float
    covariance: float = 1.0
    step: float = 0.5
    protect: str = "records"
    least: float | None = None  # C_l; none: C_u, as for Lambda = covariance times the identity
    symmetric_core: bool = True  # as printed; False: independent noise, which hides all of the core


def fit(x: Array, y: Array, s: Settings, rng: np.random.Generator, white: Array | None = None) -> list[Array]:
    """Algorithm 2 from the start of Algorithm 1: M_0 and every M_l after it; ``white`` is Lambda_i^-1 X_i."""
    path = [start(x / s.covariance if white is None else white, y, s, rng)]  # 1: M_0
    n, (d1, d2), rounds = len(y), x.shape[1:], n_iter(len(y))
    spread = step_sensitivity(n, (d1, d2), s) * rounds / s.epsilon * math.sqrt(2.0 * math.log(1.25 * rounds / s.delta))
    for _ in range(rounds):  # 2: for l + 1 in [l*]
        m = path[-1]
        left, _, right = np.linalg.svd(m)
        u, v = left[:, : s.rank], right[: s.rank].T
        gradient = np.tensordot(x.reshape(n, -1) @ m.ravel() - y, x, axes=1) / n  # 4: G_l
        noise = spread * rng.standard_normal((d1, d2))  # 5: N_l
        path.append(truncated(m + tangent(noise - s.step * gradient, u, v), s.rank))  # 3: M_(l+1)
    return path  # 6


def start(white: Array, y: Array, s: Settings, rng: np.random.Generator) -> Array:
    """Algorithm 1."""
    (d1, d2), r = white.shape[1:], s.rank
    whole = np.tensordot(y, white, axes=1) / len(y)  # 1: L
    left, _, right = np.linalg.svd(whole)  # 1: its singular vectors
    first, second = start_sensitivities(len(y), s)
    third = math.sqrt(18.0 * math.log(3.0 / s.delta)) / s.epsilon
    u, v = (
        leading(basis @ basis.T + first * third * symmetric_noise(1, d, rng)[0], r)  # 2: U, 3: V
        for basis, d in ((left[:, :r], d1), (right[:r].T, d2))
    )
    noise = symmetric_noise(1, r, rng)[0] if s.symmetric_core else rng.standard_normal((r, r))
    core = u.T @ whole @ v + second * third * noise  # 4: Sigma
    return u @ core @ v.T  # 5


def n_iter(n: int) -> int:
    """l* = O(log n)."""
    return max(1, math.ceil(math.log(n)))


def start_sensitivities(n: int, s: Settings) -> tuple[float, float]:
    """Delta^(1) and Delta^(2) of Theorem 1; for responses those of Theorem 6, without the signal."""
    signal = math.sqrt(s.covariance * s.rank) * s.largest if s.protect == "records" else 0.0
    second = (signal + s.error_std) / math.sqrt(s.least or s.covariance) * math.sqrt(s.rank) / n * math.log(n)
    return second / s.smallest, second


def step_sensitivity(n: int, shape: tuple[int, int], s: Settings) -> float:
    """Delta_l of Theorem 3; for responses that of Theorem 7."""
    residual = s.error_std + (s.smallest * math.sqrt(s.covariance) if s.protect == "records" else 0.0)
    return s.step / n * residual * math.sqrt(s.covariance * s.rank * sum(shape) * math.log(n))


def held(s: Settings) -> Held:
    """Claimed (2 epsilon, 2 delta) for start and descent together."""
    reasons = ["the sensitivities hold with high probability under the Gaussian model, up to unknown constants"]
    if s.symmetric_core:
        reasons.append("E_Sigma is symmetric and the core is not: its antisymmetric part is published without noise")
    return Held(2.0 * s.epsilon, math.inf, "refuted" if s.symmetric_core else "none proven", reasons=tuple(reasons))


# Pieces -----------------------------------------------------------------------------------------------------------------
def tangent(g: Array, u: Array, v: Array) -> Array:
    """P_T: U U^T G + G V V^T - U U^T G V V^T."""
    left, right = u @ (u.T @ g), (g @ v) @ v.T
    return left + right - u @ (u.T @ right)


def truncated(m: Array, rank: int) -> Array:
    """SVD_r."""
    left, values, right = np.linalg.svd(m, full_matrices=False)
    return (left[:, :rank] * values[:rank]) @ right[:rank]


def leading(m: Array, rank: int) -> Array:
    """The left singular vectors of SVD_r of a symmetric matrix."""
    values, vectors = np.linalg.eigh(m)
    return vectors[:, np.argsort(-np.abs(values), kind="stable")[:rank]]
