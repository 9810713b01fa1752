"""The gate: closed sums, plans that cost what was asked, and a billboard that books before it opens."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from lowkey.errors import BudgetError, ClosedError, InputError, PlanError
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.guarantee import Unit
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.mechanisms import Gaussian, Laplace, NoNoise, SymmetricGaussian
from lowkey.privacy.noise import NoiseSource, SeededNoise, log_ratio
from lowkey.privacy.plan import Line, Plan, Request
from lowkey.privacy.price import price
from lowkey.privacy.randomized_response import RandomizedResponse
from lowkey.privacy.sums import Grid, Sensitivity, Statistic, Unreleased

EPSILONS = [0.01, 0.1, 1.0, 5.0, 20.0, 1000.0]
STATISTIC = Statistic("sums", (5,), Grid(-26), Sensitivity.of_vectors(2.0), 1 << 28)
SECRET = 31_415_926


def closed(statistic: Statistic = STATISTIC) -> Unreleased:
    return Unreleased(statistic, np.full(statistic.shape, SECRET))


def a_plan(times: int = 2, epsilon: float = 1.0, **fields: Any) -> Plan:
    return Plan.calibrated("Test", [Request("sums", 5, 1.0, times=times)], epsilon=epsilon, delta=1e-6, **fields)


# A closed sum ----------------------------------------------------------------------------------------------------------
LOOKS: list[Callable[[Any], Any]] = [
    np.asarray, np.sum, np.array, lambda u: np.add(u, 1), lambda u: np.multiply(np.ones(5), u), lambda u: u + 1,
    lambda u: 1 + u, lambda u: u - 1, lambda u: 1 - u, lambda u: u * 2, lambda u: 2 * u, lambda u: u / 2, lambda u: 2 / u,
    lambda u: u @ np.ones(5), lambda u: np.ones(5) @ u, operator.neg, operator.abs, lambda u: u**2, lambda u: u // 2,
    lambda u: u % 2, float, int, complex, bool, operator.index, iter, len, list, lambda u: u[0], lambda u: u < 1,
    lambda u: u > 1, lambda u: u <= 1, lambda u: u >= 1, pickle.dumps, memoryview, lambda u: u.__dict__, round, sorted,
    lambda u: next(u), lambda u: 1 in u,
]  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
def test_no_ordinary_look_opens_a_sum(look: Callable[[Any], Any]) -> None:
    with pytest.raises((ClosedError, TypeError, AttributeError)) as caught:
        look(closed())
    assert str(SECRET) not in str(caught.value)


def test_equality_and_copies_are_those_of_the_object_and_not_of_its_value() -> None:
    one, other = closed(), closed()
    assert one == one
    assert one != other
    assert copy.copy(one) is copy.deepcopy(one) is one


def test_a_sum_shows_its_description_only() -> None:
    for text in (repr(closed()), str(closed()), f"{closed()}", repr([closed()])):
        assert "sums" in text
        assert str(SECRET) not in text


def test_a_sum_opens_once() -> None:
    billboard = Billboard(noise=SeededNoise(1))
    billboard.begin(a_plan())
    unreleased = closed()
    billboard.post(unreleased)
    with pytest.raises(ClosedError, match="second post"):
        billboard.post(unreleased)


def test_a_sum_must_have_its_shape_and_type() -> None:
    for units in (np.zeros(4, np.int64), np.zeros(5), np.zeros((5, 1), np.int64)):
        with pytest.raises(TypeError):
            Unreleased(STATISTIC, units)


# Plans -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-9, 1e-15])
@pytest.mark.parametrize("size", [1, 10_000, 10**8])
def test_booked_is_at_most_asked_and_hardly_less(epsilon: float, delta: float, size: int) -> None:
    """Point 2 of the ground floor, for uneven shares and repeated posts, also of 10^8 numbers each."""
    requests = [
        Request("means", size, 0.3, times=3),
        Request("gram", size, 0.65, mechanism=SymmetricGaussian),
        Request("counts", 7, 0.05, times=2),
    ]
    plan = Plan.calibrated("Test", requests, epsilon=epsilon, delta=delta)
    assert 0.999 * epsilon <= plan.price.epsilon <= epsilon
    # As the ledger books it: post by post.
    posts = [Line(line.name, line.mechanism, line.size) for line in plan.lines for _ in range(line.times)]
    assert 0.999 * epsilon <= price(posts, delta).epsilon <= epsilon
    # The shares are shares of mu^2.
    mu_squared = plan.price.mu**2
    for line, request in zip(plan.lines, requests, strict=True):
        assert line.times * line.mechanism.mu**2 / mu_squared == pytest.approx(request.share, rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_whole_fit_books_at_most_what_was_asked(epsilon: float) -> None:
    """Through a ledger whose total is exactly what the plan was asked for: every reservation fits."""
    billboard = Billboard(Ledger(total=(epsilon, 1e-6)), noise=SeededNoise(2))
    billboard.begin(a_plan(times=7, epsilon=epsilon))
    for _ in range(7):
        billboard.post(closed())
    assert 0.999 * epsilon <= billboard.guarantee.epsilon <= epsilon
    with pytest.raises(BudgetError):
        billboard.begin(a_plan(times=1, epsilon=0.01))


def test_the_resolution_of_the_noise_is_in_the_price() -> None:
    """The booked epsilon is above that of ideal Gaussians by twice log_ratio, for so many draws."""
    from lowkey.privacy.accounting import gaussian_epsilon

    for size in (10, 10**8, 10**11):
        line = Line("sums", Gaussian(2.0), size)
        extra = 2.0 * log_ratio(size, 0.5)
        assert price([line], 1e-6).epsilon >= gaussian_epsilon(0.5, 1e-6) + extra
    assert price([Line("x", Laplace(2.0), 10)], 0.0).epsilon == pytest.approx(0.5, rel=1e-9)
    assert price([Line("x", RandomizedResponse(0.5), 10)], 0.0).epsilon >= 0.5


def test_an_exact_post_has_no_epsilon() -> None:
    plan = Plan.calibrated("Test", [Request("sums", 5, 1.0)], epsilon=1.0, delta=1e-6, mu=math.inf)
    assert plan.guarantee().epsilon == math.inf
    assert "NOT PRIVATE" in plan.guarantee().sentence()
    assert price([Line("a", NoNoise(), 3), Line("b", Gaussian(9.0), 3)], 1e-6).epsilon == math.inf


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 1e-6), (math.inf, 1e-6), (math.nan, 1e-6), (1.0, 0.0),
                                                (1.0, 1.0), (1.0, -0.1), (1.0, math.nan)])  # fmt: skip
def test_senseless_budgets_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(InputError):
        Plan.calibrated("Test", [Request("sums", 5, 1.0)], epsilon=epsilon, delta=delta)


def test_two_lines_of_one_name_are_refused() -> None:
    with pytest.raises(PlanError, match="twice"):
        Plan.calibrated("Test", [Request("a", 5, 0.5), Request("a", 5, 0.5)], epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("epsilon", [*EPSILONS, 0.001])
def test_the_sentence_is_the_best_guess_of_anybody(epsilon: float) -> None:
    """Phi(mu/2) for Gaussian posts, (e^eps + delta)/(1 + e^eps) for others; rounded up, also where e^eps overflows."""
    gaussian = a_plan(epsilon=epsilon).guarantee()
    pure = Plan("Test", (Line("signs", RandomizedResponse(epsilon), 5),), 1e-6).guarantee()
    for guarantee, best in (
        (gaussian, stats.norm.cdf(gaussian.mu / 2.0)),
        (pure, 1.0 - (1.0 - 1e-6) / (1.0 + math.exp(min(pure.epsilon, 700.0)))),
    ):
        (said,) = re.findall(r"at most ([\d.]+) %", guarantee.sentence())
        assert 100.0 * best <= float(said) < 100.0 * best + 0.1 + 1e-9


# The billboard ---------------------------------------------------------------------------------------------------------
def test_only_what_was_planned_can_be_posted() -> None:
    billboard = Billboard(noise=SeededNoise(1))
    with pytest.raises(PlanError, match="not in the plan"):
        billboard.post(closed())
    billboard.begin(a_plan(times=1))
    other = Statistic("others", (5,), STATISTIC.grid, STATISTIC.sensitivity, 1)
    longer = Statistic("sums", (6,), STATISTIC.grid, STATISTIC.sensitivity, 1)
    for statistic in (other, longer):
        with pytest.raises(PlanError, match="not in the plan"):
            billboard.post(closed(statistic))
    assert not billboard.ledger.spent()
    billboard.post(closed())
    with pytest.raises(PlanError, match="all used"):
        billboard.post(closed())
    assert len(billboard.ledger.spent()) == 1


def test_posts_are_read_only() -> None:
    billboard = Billboard(noise=SeededNoise(1))
    billboard.begin(a_plan())
    posted = billboard.post(closed())
    with pytest.raises(ValueError, match="read-only"):
        posted[0] = 0.0


class BrokenNoise(NoiseSource):
    def rounded_gaussian(self, scale: float, size: int) -> np.ndarray:
        raise MemoryError


def test_a_reservation_comes_before_the_noise_and_counts() -> None:
    """The noise source fails: nothing was posted, and the price is spent all the same."""
    billboard = Billboard(noise=BrokenNoise())
    billboard.begin(a_plan(times=1))
    with pytest.raises(MemoryError):
        billboard.post(closed())
    kinds = [record["kind"] for record in billboard.ledger.records]
    assert kinds == ["open", "plan", "reserve"]
    assert 0.999 <= billboard.guarantee.epsilon <= 1.0
    with pytest.raises(PlanError, match="all used"):
        billboard.post(closed())


class LookingNoise(NoiseSource):
    """Looks into the ledger at the moment when noise is drawn."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger, self.seen = ledger, list[str]()

    def rounded_gaussian(self, scale: float, size: int) -> np.ndarray:
        assert self.ledger.path is not None
        self.seen.append(self.ledger.path.read_text().splitlines()[-1])
        return super().rounded_gaussian(scale, size)


def test_the_reservation_is_on_disk_when_the_noise_is_drawn(tmp_path: Any) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    noise = LookingNoise(ledger)
    billboard = Billboard(ledger, noise=noise)
    billboard.begin(a_plan(times=1))
    billboard.post(closed())
    assert len(noise.seen) == 1
    assert '"kind": "reserve"' in noise.seen[0]
    assert '"kind": "commit"' in (tmp_path / "ledger.jsonl").read_text().splitlines()[-1]


def test_a_plan_beyond_the_total_fails_before_any_data() -> None:
    billboard = Billboard(Ledger(total=(1.0, 1e-6)), noise=SeededNoise(1))
    with pytest.raises(BudgetError, match="used up"):
        billboard.begin(a_plan(epsilon=1.01))
    assert billboard.plan is None


def test_test_noise_is_stamped() -> None:
    for noise, stamp in ((SeededNoise(1), True), (NoiseSource(), False)):
        billboard = Billboard(noise=noise)
        billboard.begin(a_plan())
        billboard.post(closed())
        assert ("NOT PRIVATE" in billboard.guarantee.sentence()) == stamp
        assert ("NOT PRIVATE" in str(billboard.guarantee)) == stamp
        again = Ledger.loads(billboard.ledger.dumps())
        assert again.guarantee().noise_is_private != stamp


def test_fits_compose_on_one_ledger() -> None:
    """Two fits at mu each are sqrt(2) mu together, and different adjacencies do not mix."""
    ledger = Ledger()
    for _ in range(2):
        billboard = Billboard(ledger, noise=SeededNoise(1))
        billboard.begin(a_plan(times=1))
        billboard.post(closed())
    one = a_plan(times=1).price.mu
    assert ledger.guarantee().mu == pytest.approx(math.sqrt(2.0) * one, rel=1e-12)
    assert ledger.guarantee().epsilon > 1.3
    with pytest.raises(InputError, match="do not compose"):
        Billboard(ledger).begin(a_plan(unit=Unit(neighbours="replace-one")))


def test_the_ledger_says_what_was_posted() -> None:
    billboard = Billboard(noise=SeededNoise(1))
    billboard.begin(a_plan(unit=Unit(neighbours="replace-one")))
    posted = billboard.post(closed())
    reserve, commit = billboard.ledger.records[-2:]
    multiplier = billboard.plan.lines[0].mechanism.noise_multiplier  # type: ignore[union-attr]
    assert reserve["statistic"]["sensitivity"] == 4.0
    assert reserve["statistic"]["noise_std"] == pytest.approx(4.0 * multiplier)
    import hashlib

    assert commit["sha256"] == hashlib.sha256(posted.tobytes()).hexdigest()
    assert str(SECRET) not in billboard.ledger.dumps()
