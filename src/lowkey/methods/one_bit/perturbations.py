"""Public room: the four places where one-bit completion can be noised, each a plan and a loop that posts exactly that.

Whatever comes back from the billboard is public: solvers, tolerances, step lengths and projections after it are free.

Paper: Li et al. 2021, Algorithms 1 to 4. Deviates: docs/one-bit.md derives the calibrations, which are sound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from lowkey.kernels.one_bit import ClampedGradient, Minimiser, Responses, Signs
from lowkey.linalg.links import FlippedSignLoss, ResponseLoss
from lowkey.linalg.lowrank import shrunk_values
from lowkey.linalg.norms import Intersection, NuclearBall
from lowkey.methods.curator import Curator
from lowkey.methods.one_bit.settings import OneBitSettings
from lowkey.privacy.mechanisms import NoNoise
from lowkey.privacy.plan import Line
from lowkey.privacy.randomized_response import RandomizedResponse

Array = NDArray[np.float64]


class Perturbation(ABC):
    """``lines`` is the plan; ``run`` posts it and returns the completed score matrix, (n_users, n_items)."""

    @abstractmethod
    def lines(self, settings: OneBitSettings) -> list[Line]: ...

    @abstractmethod
    def run(self, settings: OneBitSettings, curator: Curator) -> Array: ...

    def caveats(self, settings: OneBitSettings) -> tuple[str, ...]:
        return ()


class InputPerturbation(Perturbation):
    """Randomized response on every sign, then the likelihood of the flipped signs (Algorithm 1).

    p1 = p2 = 1/(1 + e^epsilon): Theorem 1's condition for p1 != p2 is not sufficient.
    """

    def lines(self, settings: OneBitSettings) -> list[Line]:
        noise = RandomizedResponse(settings.pure(settings.size) / settings.signs, settings.signs)
        return [Line("signs", noise, settings.size, note="randomized response")]

    def run(self, settings: OneBitSettings, curator: Curator) -> Array:
        (line,) = self.lines(settings)
        assert isinstance(line.mechanism, RandomizedResponse)
        signs = curator.ask(Signs(**settings.shared()))["signs"]
        return settings.solve(FlippedSignLoss(settings.link, signs, line.mechanism.flip_probability))


class NoPerturbation(Perturbation):
    """The non-private solver: the signs as they are."""

    def lines(self, settings: OneBitSettings) -> list[Line]:
        return [Line("signs", NoNoise(), settings.size)]

    def run(self, settings: OneBitSettings, curator: Curator) -> Array:
        signs = curator.ask(Signs(**settings.shared()))["signs"]
        return settings.solve(FlippedSignLoss(settings.link, signs, settings.flipped))


class ObjectivePerturbation(Perturbation):
    """Noise on b = (1 + Y)/2, through which alone the signs enter the loss: the objective is made of what was posted."""

    def lines(self, settings: OneBitSettings) -> list[Line]:
        return [Line("responses", settings.noise(settings.size), settings.size)]

    def run(self, settings: OneBitSettings, curator: Curator) -> Array:
        responses = curator.ask(Responses(**settings.shared()))["responses"]
        return settings.solve(ResponseLoss(settings.link, responses, 0.0))


class GradientPerturbation(Perturbation):
    """``n_iter`` noisy clamped gradients (Algorithm 3). Nothing but the posted gradients decides the steps.

    A constant step made of public facts, and the average of the iterates of the last half.
    """

    def lines(self, settings: OneBitSettings) -> list[Line]:
        return [Line("gradient", settings.noise(settings.size, settings.n_iter), settings.size, settings.n_iter)]

    def run(self, settings: OneBitSettings, curator: Curator) -> Array:
        shape, cells = settings.positions.shape, settings.positions.cells
        region = Intersection(NuclearBall(settings.radius, tol=1e-3), settings.entry_bound)
        matrix, average = np.zeros(shape), np.zeros(shape)
        step = 1.0 / settings.link.most_curvature / max(len(cells) / (shape[0] * shape[1]), 1e-12)
        for k in range(settings.n_iter):
            gradient = curator.ask(self.sweep(settings, matrix.ravel()[cells]))["gradient"]
            target = matrix.copy()
            target.ravel()[cells] -= step * gradient
            matrix = region.project(target, matrix, step, 0.9, 20).point
            if 2 * k >= settings.n_iter:
                average += matrix
        kept = settings.n_iter - (settings.n_iter + 1) // 2
        return matrix if kept < 1 else average / kept

    def sweep(self, settings: OneBitSettings, scores: Array) -> ClampedGradient:
        return ClampedGradient(
            **settings.shared(),
            link=settings.link,
            gradient_bound=settings.gradient_bound,
            entry_bound=settings.entry_bound,
            scores=scores,
        )


class OutputPerturbation(Perturbation):
    """Noise on the minimiser of a strongly convex objective, solved to a certificate (Algorithm 4, mended).

    Afterwards the singular values are shrunk by the known noise.
    """

    def lines(self, settings: OneBitSettings) -> list[Line]:
        size = settings.positions.n_users * settings.positions.n_items
        return [Line("minimiser", settings.noise(size), size)]

    def run(self, settings: OneBitSettings, curator: Curator) -> Array:
        posts = curator.ask(self.sweep(settings))
        noisy, noise_std = posts["minimiser"], posts.stds["minimiser"]
        left, values, right = np.linalg.svd(noisy, full_matrices=False)
        # The largest value of noise alone strays above the bulk's edge by a few parts in d^(2/3): that is no signal.
        edge = noise_std * (math.sqrt(noisy.shape[0]) + math.sqrt(noisy.shape[1]))
        clear = values > edge * (1.0 + 3.0 * min(noisy.shape) ** (-2.0 / 3.0))
        smooth = (left * (shrunk_values(values, noise_std, noisy.shape) * clear)) @ right
        return np.clip(smooth, -settings.entry_bound, settings.entry_bound)

    def sweep(self, settings: OneBitSettings) -> Minimiser:
        return Minimiser(
            **settings.shared(),
            link=settings.link,
            entry_bound=settings.entry_bound,
            radius=settings.radius,
            ridge=settings.ridge,
        )


PERTURBATIONS: dict[str, Perturbation] = {
    "input": InputPerturbation(),
    "objective": ObjectivePerturbation(),
    "gradient": GradientPerturbation(),
    "output": OutputPerturbation(),
}
