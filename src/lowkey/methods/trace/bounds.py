"""Public room: the rule that turns public facts into clipping bounds, step length and number of steps.

Facts: n records, X of shape (d1, d2) with known covariance (largest eigenvalue L), rank r, the standard deviation sigma
of the regression errors, and an upper bound s1 on the singular values of the coefficients. None is taken from the data.

Why a bound of one standard deviation (WIDTH = 1). For Gaussian X and a residual e = <X, E> + noise of standard deviation
s, Stein's identity gives E[clip(e, R) X] = P(|e| <= R) Lambda E: clipping does not bend the direction, it only shortens
the step, by a known factor. The noise that R costs, divided by that factor, is proportional to R/(s P(|e| <= R)): 1.25
as R -> 0, 1.46 at R = s, 1.73 at 1.5 s, 3.0 at 3 s, while a sum clipped at R = s keeps 90 % of its efficiency. And with
the step 1/(L P(one deviation)) = 1.46/L the iteration contracts also where residuals turn out smaller than expected
and nothing is clipped (by 0.46), so a generous s1 or sigma costs accuracy but not convergence.

The expected error falls with the steps, and the residual bound with it: R_l = sqrt(sigma^2 + L error_l^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtr

from lowkey.linalg.lowrank import tangent_size
from lowkey.methods.trace.whitening import Whitener

WIDTH = 1.0  # residual bound in standard deviations of the expected residual
UNCLIPPED = float(2.0 * ndtr(WIDTH) - 1.0)  # share of a Gaussian within the bound
FALL = 0.5  # the expected error is at least halved by a step, until it meets the noise
CAUTION = 1.5  # on the predicted error of the start
FEWEST, MOST = 3, 12


@dataclass(frozen=True)
class TraceFacts:
    """Public facts of one fit, and what follows from them."""

    n_records: int
    shape: tuple[int, int]
    rank: int
    error_std: float
    max_singular_value: float
    whitener: Whitener

    @property
    def largest_error(self) -> float:
        """No estimate with singular values within the bound is expected to be further off than zero is."""
        return math.sqrt(self.rank) * self.max_singular_value

    def residual_bound(self, error: float) -> float:
        """For an estimate that is ``error`` off in Frobenius norm; with error = ``largest_error`` the response bound."""
        return WIDTH * math.hypot(self.error_std, math.sqrt(self.whitener.largest) * error)

    @property
    def whitened_bound(self) -> float:
        """The root mean square of |Lambda^-1 X|_F, around which a Gaussian's norm is concentrated."""
        return math.sqrt(self.whitener.inverse_trace)

    @property
    def projection_bound(self) -> float:
        """A bound on the root mean square of the projection of X on a tangent space."""
        return math.sqrt(self.whitener.largest * tangent_size(self.shape, self.rank))

    @property
    def step(self) -> float:
        """On the mean of the clipped gradients."""
        return 1.0 / (self.whitener.largest * UNCLIPPED)

    @property
    def default_steps(self) -> int:
        """As many halvings as lead from the size of the responses to that of their errors, and one more."""
        if self.error_std == 0.0:
            return MOST
        signal = math.sqrt(self.whitener.largest) * self.largest_error
        return min(MOST, max(FEWEST, 1 + math.ceil(math.log2(max(1.0, signal / self.error_std)))))

    def start_error(self, noise_std: float) -> float:
        """Expected after the start, of which every entry has this much privacy noise (debiased, per record)."""
        sampling = self.residual_bound(self.largest_error) / UNCLIPPED / math.sqrt(self.n_records * self.whitener.smallest)
        spread = math.sqrt(tangent_size(self.shape, self.rank))
        return min(self.largest_error, CAUTION * spread * math.hypot(noise_std, sampling))

    def next_error(self, error: float, noise_std: float) -> float:
        """Expected after a step from ``error`` with this much privacy noise on every coordinate of the step."""
        sampling = self.step * self.residual_bound(error) * math.sqrt(self.whitener.largest / self.n_records)
        floor = math.sqrt(tangent_size(self.shape, self.rank)) * math.hypot(noise_std, sampling)
        return min(self.largest_error, max(FALL * error, floor))

    def start_scale(self, clipped_norm: float) -> float:
        """What to multiply a clipped start of this Frobenius norm with.

        For a Gaussian design it is P(|y| <= R) M in expectation, y having variance sigma^2 + L |M|^2. The norm m P is
        increasing in m = |M|, so it is inverted by bisection, up to the largest norm that is possible.
        """
        low, high = 0.0, self.largest_error
        bound = self.residual_bound(self.largest_error)
        for _ in range(60):
            middle = (low + high) / 2.0
            deviation = self.residual_bound(middle) / WIDTH
            share = 2.0 * float(ndtr(bound / deviation)) - 1.0
            low, high = (middle, high) if middle * share < clipped_norm else (low, middle)
        return high / clipped_norm if clipped_norm > 0.0 else 1.0


@dataclass(frozen=True)
class ExactFacts(TraceFacts):
    """For the non-private twin, which looks at its data: bounds that no record reaches, so that nothing is clipped."""

    largest_response: float = math.inf

    def residual_bound(self, error: float) -> float:
        return 8.0 * self.largest_response

    @property
    def whitened_bound(self) -> float:
        return math.inf

    @property
    def projection_bound(self) -> float:
        return math.inf

    @property
    def step(self) -> float:
        return 1.0 / self.whitener.largest

    def start_scale(self, clipped_norm: float) -> float:
        return 1.0
