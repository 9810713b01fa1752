"""One-bit completion, 1000 x 1000 with 15 % observed: seconds per iteration, in units of one truncated SVD.

    python benchmarks/speed/one_bit.py [side] [ratio]

The unit is SciPy's svds (ARPACK, its defaults) of the matrix that the last projection saw, at the rank of the solution.
Processor seconds on one thread, so that a busy machine does not blur the ratio.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np
import scipy.sparse.linalg
from threadpoolctl import threadpool_limits

from lowkey.linalg.links import FlippedSignLoss, link_of
from lowkey.linalg.spectral_gradient import Problem, minimise


def main(side: int = 1000, ratio: float = 0.15) -> None:
    rng = np.random.default_rng(0)
    truth = np.outer(rng.uniform(-0.5, 0.5, side), rng.uniform(-0.5, 0.5, side))
    truth /= np.abs(truth).max()
    cells = np.flatnonzero(rng.random(side * side) < ratio)
    print(f"{side} x {side}, {ratio:.0%} observed, radius {side}, bound 1")
    for name in ("logistic", "probit"):
        link = link_of(name)
        signs = np.where(rng.random(len(cells)) < link.probability(truth.ravel()[cells]), 1.0, -1.0)
        problem = Problem((side, side), cells, FlippedSignLoss(link, signs), float(side), 1.0)
        started = time.process_time()
        solved = minimise(problem, tol=1e-3)
        each = (time.process_time() - started) / solved.iterations
        rank = int(np.sum(np.linalg.svd(solved.matrix, compute_uv=False) > 1e-3))
        seen = solved.matrix - 4.0 / ratio * problem.gradient(solved.matrix)
        units = []
        for _ in range(3):
            started = time.process_time()
            scipy.sparse.linalg.svds(seen, k=rank)
            units.append(time.process_time() - started)
        unit = float(np.median(units))
        started = time.process_time()
        np.linalg.svd(seen)
        dense = time.process_time() - started
        print(
            f"{name:>9}: {solved.iterations} iterations, gap {solved.gap / len(cells) / math.log(2):.1e} of the loss at 0, "
            f"rank {rank}; {each:.2f} s an iteration = {each / unit:.1f} truncated SVDs of {unit:.2f} s "
            f"(a dense one: {dense:.2f} s); {solved.partial_svds} partial and {solved.dense_svds} dense in all"
        )


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, float(sys.argv[2]) if len(sys.argv) > 2 else 0.15)
