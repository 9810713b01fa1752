"""How fast the secure noise is: cryptographic, rounded to the grid, added to a private sum; next to NumPy's own normals.

Ours goes through the mechanism, as every post does: draw, add to int64 grid units, turn into real numbers, all in the
memory of the sum. NumPy fills a buffer with ``standard_normal`` from PCG64, which is neither secure nor on a grid.
One thread each, in turns, best of several; processor time, so that a busy machine does not favour either.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")  # before NumPy is loaded

import numpy as np

from lowkey.privacy.mechanisms import Gaussian, Laplace, Mechanism, SymmetricGaussian
from lowkey.privacy.noise import NoiseSource
from lowkey.privacy.sums import Grid, Sensitivity, Statistic, symmetric_shape
from lowkey_lab.speed import told

TARGETS = {"Gaussian": 0.5, "Laplace": 0.4}
GRID = Grid(-26)
L1, L2 = Sensitivity.of_l1_vectors(1.0), Sensitivity.of_acute_vectors(1.0)


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    noise, plain = NoiseSource(), np.random.Generator(np.random.PCG64(1))
    order = int((2 * options.numbers) ** 0.5)
    posts: list[tuple[str, Mechanism, Statistic]] = [
        ("Gaussian", Gaussian(20.3), Statistic("x", (options.numbers,), GRID, L2, 1)),
        ("symmetric Gaussian", SymmetricGaussian(20.3), Statistic("x", symmetric_shape(order), GRID, L2, 1, "symmetric")),
        ("Laplace", Laplace(20.3), Statistic("x", (options.numbers,), GRID, L1, 1)),
    ]
    buffer = np.empty(options.numbers)
    sums = [np.zeros(statistic.shape, np.int64) for _, _, statistic in posts]
    best = dict.fromkeys(("PCG64", *(name for name, _, _ in posts)), np.inf)
    for _ in range(options.repeats + 1):  # the first round compiles and touches the memory
        found = {"PCG64": seconds(lambda: plain.standard_normal(out=buffer)) / buffer.size}
        for (name, mechanism, statistic), units in zip(posts, sums, strict=True):
            work = lambda m=mechanism, s=statistic, u=units: m.apply(u, s, "add-remove", noise)
            found[name] = seconds(work) / statistic.size
        best = {name: min(best[name], found[name]) for name in best}
    print(f"{options.numbers:,} numbers, one thread, best of {options.repeats + 1}, processor time")
    print(f"{'':<34}{'million/s':>10}{'of NumPy':>10}")
    print(f"{'NumPy standard_normal, PCG64':<34}{1e-6 / best['PCG64']:>10.1f}")
    for name, _, _ in posts:
        print(f"{'ours, ' + name:<34}{1e-6 / best[name]:>10.1f}{best['PCG64'] / best[name]:>10.2f}")
    for name, target in TARGETS.items():
        told(f"{name} noise / NumPy's normals", best["PCG64"] / best[name], target, at_least=True)


if __name__ == "__main__":
    main()
