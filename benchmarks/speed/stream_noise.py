"""How noisy each of T releases is, over a single one at the same total price: split, tree, square root, optimum.

The root mean square and the maximum over the T releases, for running sums and for sums that forget. ``scaled`` is the
square root with every column brought to norm 1 by itself. The optimum is also shown as it is used, in whole numbers of
2^-24 with a thousandth to spare.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before NumPy is loaded

import numpy as np

from lowkey.privacy import factorisations as f
from lowkey.privacy.stream import Schedule
from lowkey_lab.factorisations import split, square_root, tree_noise

TARGET = 2.1  # rms at T = 52, running sums
HORIZONS = (12, 52, 104, 365)
AGAIN = ((52, 13), (52, 26), (104, 13), (104, 52))


def shown(noise: np.ndarray) -> str:
    return f"{np.sqrt(np.mean(noise**2)):7.3f} {noise.max():7.3f}"


def main() -> None:
    print("rms and maximum noise over a single release's")
    names = ("split", "tree", "square root", "scaled", "optimum", "as used")
    print(f"{'T':>4} {'half-life':>10}  " + "  ".join(f"{name:>15}" for name in names) + "   seconds")
    failed = False
    for horizon in HORIZONS:
        for half_life in (None, horizon / 2.0):
            target = f.wanted(horizon, half_life)
            root = square_root(target)
            start = time.perf_counter()
            best = f.optimal(horizon, half_life)
            seconds = time.perf_counter() - start
            used = Schedule.optimal("bench", horizon, half_life).noise
            tree = shown(tree_noise(horizon)) if half_life is None else "-"
            by_decoder = [shown(f.noise(f.decoder(target, c))) for c in (split(target), root, f.unit_columns(root), best)]
            cells = [by_decoder[0], tree, *by_decoder[1:], shown(used)]
            print(f"{horizon:>4} {half_life or '-':>10}  " + "  ".join(f"{c:>15}" for c in cells) + f"   {seconds:7.2f}")
            failed |= horizon == 52 and half_life is None and bool(np.sqrt(np.mean(used**2)) > TARGET)
    print("\nspeaking again after so many releases: running sums, and windows in which everybody counts once")
    print(f"{'T':>4} {'again':>6}  {'running sums':>15}  {'windows':>15}")
    for horizon, again in AGAIN:
        sums = (Schedule.optimal("bench", horizon, None, window, again).noise for window in (None, again))
        print(f"{horizon:>4} {again:>6}  " + "  ".join(f"{shown(noise):>15}" for noise in sums))
    print("\nthe last release, as many people every week: decoded, and the average in which they are loudest")
    for horizon in HORIZONS:
        schedule = Schedule.optimal("bench", horizon)
        loudest = horizon / np.linalg.norm(schedule.encoder.sum(axis=1))
        print(f"{horizon:>4} {schedule.noise[-1]:>7.3f} {loudest:>7.3f}")
    sys.exit(f"rms at T = 52 is above {TARGET}" if failed else 0)


if __name__ == "__main__":
    main()
