"""Public room: the four places where one-bit completion can be noised, each a plan and a loop that posts exactly that.

Whatever comes back from the billboard is public: solvers, tolerances, step lengths and projections after it are free.

Paper: Li et al. 2021, Algorithms 1 to 4. Deviates: docs/one-bit.md derives the sound calibrations; with
``published=True`` the noise is the paper's and the price is the one that really holds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lowkey.data.positions import Positions
from lowkey.kernels.one_bit import ClampedGradient, Minimiser, PublishedMinimiser, Responses, Signs
from lowkey.kernels.sweep import Sweep
from lowkey.linalg.links import FlippedSignLoss, Link, Loss, ResponseLoss
from lowkey.linalg.lowrank import shrunk_values
from lowkey.linalg.norms import Intersection, NuclearBall
from lowkey.linalg.spectral_gradient import Problem, minimise
from lowkey.privacy.mechanisms import Gaussian, Laplace, Mechanism, NoNoise, RandomizedResponse
from lowkey.privacy.noise import log_ratio
from lowkey.privacy.plan import Line, Plan, Request

Array = NDArray[np.float64]
Post = Callable[[Sweep, dict[str, Any]], tuple[Array, float]]  # sweep and post; what came back, and its noise's std


@dataclass(frozen=True)
class Setting:
    """The public facts of a fit."""

    positions: Positions
    link: Link
    threshold: float
    unit: Literal["rating", "user"]
    signs: int  # how many values one unit of privacy has at most
    epsilon: float
    delta: float | None
    published: bool
    entry_bound: float
    radius: float
    n_iter: int
    gradient_bound: float
    ridge: float
    tol: float
    max_iter: int
    flipped: float = 0.0  # the share of signs that were flipped before they came here
    init_seed: int = 0

    @property
    def size(self) -> int:
        return len(self.positions.cells)

    @property
    def norm(self) -> Literal["l1", "l2"]:
        return "l1" if self.delta is None else "l2"

    def shared(self) -> dict[str, Any]:
        return {"threshold": self.threshold, "signs": self.signs, "unit": self.unit, "norm": self.norm}

    def pure(self, size: int, times: int = 1) -> float:
        """The epsilon of each of ``times`` pure posts of ``size`` numbers, with the sampler's rounding paid for."""
        return (self.epsilon - 2.0 * log_ratio(size * times, 0.0)) * (1.0 - 1e-12) / times

    def noise(self, size: int, times: int = 1) -> Mechanism:
        """Laplace for pure epsilon, Gaussian with exact accounting for (epsilon, delta)."""
        if self.delta is None:
            return Laplace(1.0 / self.pure(size, times))
        request = Request("only", size, 1.0, times)
        mechanism = Plan.calibrated("one line", [request], epsilon=self.epsilon, delta=self.delta).lines[0].mechanism
        assert isinstance(mechanism, Gaussian)
        return mechanism

    def solve(self, loss: Loss) -> Array:
        shape, cells = self.positions.shape, self.positions.cells
        problem = Problem(shape, cells, loss, self.radius, self.entry_bound)
        return minimise(problem, tol=self.tol, max_iter=self.max_iter, svd_tol=1e-3).matrix


class Perturbation(ABC):
    """``lines`` is the plan; ``run`` posts it and returns the completed score matrix, (n_users, n_items)."""

    @abstractmethod
    def lines(self, setting: Setting) -> list[Line]: ...

    @abstractmethod
    def run(self, setting: Setting, post: Post) -> Array: ...

    def caveats(self, setting: Setting) -> tuple[str, ...]:
        return ()


class InputPerturbation(Perturbation):
    """Randomized response on every sign, then the likelihood of the flipped signs (Algorithm 1).

    p1 = p2 = 1/(1 + e^epsilon) in both calibrations: Theorem 1's condition for p1 != p2 is not sufficient.
    """

    def lines(self, setting: Setting) -> list[Line]:
        epsilon = setting.pure(setting.size) / setting.signs
        return [Line("signs", RandomizedResponse(epsilon, setting.signs), setting.size, note="randomized response")]

    def run(self, setting: Setting, post: Post) -> Array:
        (line,) = self.lines(setting)
        assert isinstance(line.mechanism, RandomizedResponse)
        signs, _ = post(Signs(**setting.shared()), {})
        return setting.solve(FlippedSignLoss(setting.link, signs, line.mechanism.flip_probability))


class NoPerturbation(Perturbation):
    """The non-private solver: the signs as they are."""

    def lines(self, setting: Setting) -> list[Line]:
        return [Line("signs", NoNoise(), setting.size)]

    def run(self, setting: Setting, post: Post) -> Array:
        signs, _ = post(Signs(**setting.shared()), {})
        return setting.solve(FlippedSignLoss(setting.link, signs, setting.flipped))


class ObjectivePerturbation(Perturbation):
    """Noise on b = (1 + Y)/2, through which alone the signs enter the loss: the objective is made of what was posted.

    Published: equation 5 puts H/2 on the gradient where the proof has H, so the logistic form costs 2 epsilon. For the
    probit link the noise is linear in x and the sign is not, and no epsilon is proven: it reads the signs in the clear.
    """

    def lines(self, setting: Setting) -> list[Line]:
        if not setting.published:
            return [Line("responses", setting.noise(setting.size), setting.size)]
        if setting.link.steepness(0.0) == 1.0:  # logistic
            return [Line("responses", Laplace(0.5 / setting.epsilon), setting.size, note="H/2, as in equation 5")]
        return [Line("responses", NoNoise(), setting.size, note="read in the clear: no proof covers the tilt")]

    def run(self, setting: Setting, post: Post) -> Array:
        responses, _ = post(Responses(**setting.shared()), {})
        tilt: Array | float = 0.0
        if isinstance(self.lines(setting)[0].mechanism, NoNoise):
            # Delta of section 4.2: 2 h'(0)/h(-alpha), and h' = slope * h
            zero, end = np.array(0.0), np.array(-setting.entry_bound)
            link = setting.link
            spread = 2.0 * link.slope(zero) * link.probability(zero) / link.probability(end)
            draws = np.random.default_rng(setting.init_seed).laplace(size=setting.size)
            tilt = draws * float(spread) / setting.epsilon / 2.0
        return setting.solve(ResponseLoss(setting.link, responses, tilt))

    def caveats(self, setting: Setting) -> tuple[str, ...]:
        if not setting.published:
            return ()
        return ("objective perturbation as published: noise H/2 (equation 5), where its proof assumes H",)


class GradientPerturbation(Perturbation):
    """``n_iter`` noisy clamped gradients (Algorithm 3). Nothing but the posted gradients decides the steps.

    Sound: a constant step made of public facts, and the average of the iterates of the last half. Published: spectral
    steps from the noisy gradients and the last iterate.
    """

    def lines(self, setting: Setting) -> list[Line]:
        return [Line("gradient", setting.noise(setting.size, setting.n_iter), setting.size, setting.n_iter)]

    def run(self, setting: Setting, post: Post) -> Array:
        shape, cells = setting.positions.shape, setting.positions.cells
        sweep = ClampedGradient(
            **setting.shared(),
            link=setting.link,
            gradient_bound=setting.gradient_bound,
            entry_bound=setting.entry_bound,
        )
        region = Intersection(NuclearBall(setting.radius, tol=1e-3), setting.entry_bound)
        matrix, average = np.zeros(shape), np.zeros(shape)
        step = 1.0 / setting.link.most_curvature / max(len(cells) / (shape[0] * shape[1]), 1e-12)
        before, moved = np.zeros(len(cells)), np.zeros(shape)
        for k in range(setting.n_iter):
            gradient, _ = post(sweep, {"scores": matrix.ravel()[cells]})
            if setting.published and k > 0:
                curved = float(np.dot(moved.ravel()[cells], gradient - before))
                if curved > 0.0:
                    step = min(float(np.vdot(moved, moved)) / curved, 1e4)
            target = matrix.copy()
            target.ravel()[cells] -= step * gradient
            new = region.project(target, matrix, step, 0.9, 20).point
            matrix, moved, before = new, new - matrix, gradient
            if 2 * k >= setting.n_iter:
                average += new
        kept = setting.n_iter - (setting.n_iter + 1) // 2
        return matrix if setting.published or kept < 1 else average / kept

    def caveats(self, setting: Setting) -> tuple[str, ...]:
        if not setting.published:
            return ()
        return ("gradient perturbation as published, with steps computed from noisy gradients; the paper is silent on it",)


class OutputPerturbation(Perturbation):
    """Noise on the minimiser of a strongly convex objective, solved to a certificate (Algorithm 4, mended).

    Afterwards the singular values are shrunk by the known noise. Published: no ridge, Laplace(2 alpha/epsilon) on
    every entry; that is (size x epsilon), as every entry may move.
    """

    def lines(self, setting: Setting) -> list[Line]:
        size = setting.positions.n_users * setting.positions.n_items
        if not setting.published:
            return [Line("minimiser", setting.noise(size), size)]
        (statistic,) = self.sweep(setting).statistics({"positions": setting.positions})
        scale = 2.0 * setting.entry_bound / setting.epsilon
        return [Line("minimiser", Laplace(scale / statistic.sensitivity.replace_one), size)]

    def sweep(self, setting: Setting) -> Minimiser:
        shared = {
            **setting.shared(),
            "link": setting.link,
            "entry_bound": setting.entry_bound,
            "radius": setting.radius,
        }
        if setting.published:
            return PublishedMinimiser(**shared, tol=setting.tol, max_iter=setting.max_iter)
        return Minimiser(**shared, ridge=setting.ridge)

    def run(self, setting: Setting, post: Post) -> Array:
        noisy, noise_std = post(self.sweep(setting), {})
        if setting.published:
            return noisy
        left, values, right = np.linalg.svd(noisy, full_matrices=False)
        # The largest value of noise alone strays above the bulk's edge by a few parts in d^(2/3): that is no signal.
        edge = noise_std * (math.sqrt(noisy.shape[0]) + math.sqrt(noisy.shape[1]))
        clear = values > edge * (1.0 + 3.0 * min(noisy.shape) ** (-2.0 / 3.0))
        smooth = (left * (shrunk_values(values, noise_std, noisy.shape) * clear)) @ right
        return np.clip(smooth, -setting.entry_bound, setting.entry_bound)

    def caveats(self, setting: Setting) -> tuple[str, ...]:
        if not setting.published:
            return ()
        return ("output perturbation as published bounds one entry where all may move: hence this epsilon",)


PERTURBATIONS: dict[str, Perturbation] = {
    "input": InputPerturbation(),
    "objective": ObjectivePerturbation(),
    "gradient": GradientPerturbation(),
    "output": OutputPerturbation(),
}
