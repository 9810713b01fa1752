"""Private selection, exactly: the chance that a key which one user alone holds is named, from the mechanism's own cut."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from lowkey.kernels.bounding import shrink_factor, to_units
from lowkey.kernels.catalogue import Holders
from lowkey.methods.catalogue import PrivateCatalogue
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.mechanisms import Gaussian, ThresholdedGaussian
from lowkey.privacy.noise import NoiseSource, SeededNoise
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.sums import Selection, UnreleasedHistogram

CAP = 1000


class OneNoise(NoiseSource):
    """The same draw for everybody, and the scale that was asked for."""

    def __init__(self, draw: int) -> None:
        super().__init__()
        self.draw, self.scale = draw, 0.0

    def rounded_gaussian(self, scale: float, size: int) -> np.ndarray:
        self.scale = scale
        return np.full(size, self.draw)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
@pytest.mark.parametrize("max_items", [1, 40])
def test_a_lone_key_is_named_with_the_chance_that_was_booked(epsilon: float, adjacency: Any, max_items: int) -> None:
    """For every number of lone keys; under replace-one twice, for the user who left and for the one who came."""
    selection = PrivateCatalogue(epsilon, 1e-6, adjacency, max_items=max_items, max_catalogue=CAP)
    (line,) = selection.plan().lines
    mechanism, statistic = line.mechanism, Holders(max_items, CAP).statistics[0]
    assert isinstance(mechanism, ThresholdedGaussian)
    worst = mp.mpf(0)
    for m in range(1, max_items + 1):
        units = int(to_units(shrink_factor(float(m), 1.0), statistic.grid.step))

        def named(draw: int, units: int = units) -> bool:
            return not math.isnan(mechanism.apply(np.array([units]), statistic, adjacency, OneNoise(draw))[0])

        low, high = 0, 1 << 62  # the smallest draw that lifts the key over the threshold
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if named(middle) else (middle, high)
        probe = OneNoise(0)
        mechanism.apply(np.array([units]), statistic, adjacency, probe)
        with mp.workdps(40):
            passes = mp.ncdf(-(mp.mpf(high) - mp.mpf(0.5)) / mp.mpf(probe.scale))  # of noise rounded to the grid
            worst = max(worst, 1 - (1 - passes) ** m)
    sides = 1 if adjacency == "add-remove" else 2
    assert sides * worst <= mechanism.own_delta
    assert sides * worst >= 0.99 * mechanism.own_delta  # and no more is paid than needed
    # The noise on the counts is that of its price.
    std = probe.scale * statistic.grid.step
    assert std == pytest.approx(mechanism.noise_multiplier * statistic.sensitivity.under(adjacency), rel=1e-12)


def histogram(keys: list[str], sums: list[float]) -> UnreleasedHistogram:
    statistic = Holders(5, CAP).statistics[0]
    return UnreleasedHistogram(statistic, (np.array(sums) / statistic.grid.step).astype(np.int64), np.array(keys, object))


def posted(closed: UnreleasedHistogram, seed: int = 1) -> Selection:
    billboard = Billboard(noise=SeededNoise(seed))
    billboard.begin(Plan("Test", (Line("catalogue", ThresholdedGaussian(2.0, 15.0, 5), CAP),), 1e-6))
    return billboard.post(closed)


def test_what_comes_out_is_sorted_by_key_and_above_the_threshold() -> None:
    """The order in which keys came up in the data is private."""
    found = posted(histogram(["pear", "apple", "secret", "fig"], [100.0, 90.0, 1.0, 80.0]))
    assert found.keys.tolist() == ["apple", "fig", "pear"]
    assert (found.sums >= 15.0).all()
    assert found.sums == pytest.approx([90.0, 80.0, 100.0], abs=20.0)
    for array in (found.keys, found.sums):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


def test_a_histogram_shows_neither_keys_nor_how_many_there_are() -> None:
    closed = histogram(["pear", "apple", "secret"], [1.0, 2.0, 3.0])
    for text in (repr(closed), str(closed)):
        assert "secret" not in text
        assert "3" not in text.replace("1000", "")
        assert str(CAP) in text  # the public cap stands for the number of keys
    assert closed.statistic.shape == (CAP,)


def test_the_selections_delta_is_taken_from_the_total() -> None:
    from lowkey.errors import PlanError

    mechanism = ThresholdedGaussian(2.0, 11.0, 5)
    own = mechanism.own_delta  # about 7e-7
    line = Line("catalogue", mechanism, CAP)
    whole, less = Plan("Test", (line,), 1e-6 + own).price.epsilon, Plan("Test", (line,), 1e-6).price.epsilon
    gaussian = Plan("Test", (Line("catalogue", Gaussian(2.0), CAP),), 1e-6).price.epsilon
    assert whole == pytest.approx(gaussian, rel=1e-9)
    assert less > whole
    with pytest.raises(PlanError, match="used up"):
        _ = Plan("Test", (line,), own / 2.0).price


def test_a_key_that_nobody_adds_to_does_not_exist() -> None:
    """Noise on nothing could pass as well as noise on something, and would name a key that was not paid for."""
    keys = [f"nothing {i}" for i in range(50_000)]
    closed = histogram([*keys, "pear"], [0.0] * len(keys) + [100.0])
    assert closed._keys.tolist() == ["pear"]
    assert posted(closed).keys.tolist() == ["pear"]
    assert (closed.statistic.shape, closed.statistic.max_keys) == ((CAP,), 5)
