"""Lab room: what DPFactors is measured by: ``python -m lowkey.bench.factors NAME [--quick] --out DIR``.

| name | what |
|---|---|
| look-alike | epsilon 1, 5, 20 on the MovieLens-10M look-alike, next to DPBias and a DPALS tuned on another draw of it |
| ablation | each lever switched off once, on the same data (``--quick``: MovieLens 1M) |
| planted-20k | the noiseless setting of the DPALS paper |
| wang | the noisy setting of the DPLMC paper (section 6), squared error against the true matrix |

Rows are appended to ``DIR/NAME.jsonl`` and are not run again. The numbers are not private: for public data only.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from lowkey.bench import compare
from lowkey.bench.tables import Cell, as_markdown
from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.methods.registry import estimator

Lines = list[list[str]]
DELTA = 1e-5
SWITCHES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "exact items' side (noise_aware=False)": {"noise_aware": False},
    "equal weights (weight_power=0)": {"weight_power": 0.0},
    "last round alone (averaged=1)": {"averaged": 1},
    "first bound for all (falling_bound=False)": {"falling_bound": False},
    "spectral start (start='spectral')": {"start": "spectral"},
    "half the rounds (n_iter=4)": {"n_iter": 4},
    "rank 20, whatever the noise": {"rank": 20},
}
# DPALS is tuned over these on another draw of the data: an oracle that no private run has.
ALS_GRID: dict[str, tuple[Any, ...]] = {"rank": (4, 8), "n_iter": (2, 4), "reg": (10.0, 100.0), "bias_share": (0.1, 0.3)}
WANG_EPSILONS = (2.0, 5.0, 10.0, 20.0)


def look_alike(quick: bool, out: Path) -> Lines:
    """RMSE, mean and standard error; DPALS with the settings that were best at epsilon = 1 on another draw."""
    results, epsilons, draws = out / "look-alike.jsonl", (1.0, 5.0, 20.0), 1 if quick else 3
    rows = compare.run(compare.tasks("look-alike", ["factors", "bias"], epsilons, draws), results, _told)
    grid = [dict(zip(ALS_GRID, values, strict=True)) for values in product(*ALS_GRID.values())]
    tried = [task for chosen in grid[:: 4 if quick else 1] for task in _with_settings("als", chosen, [1.0], split_seed=1)]
    tuned = min(compare.run(tried, results, _told), key=lambda row: row["rmse"])["settings"]
    rows += compare.run(_with_settings("als", tuned, epsilons, draws), results, _told)
    lines = [["look-alike, RMSE", *(f"eps {e:g}" for e in epsilons)]]
    names = {"factors": "DPFactors", "bias": "DPBias", "als": f"DPALS, tuned on another draw: {tuned}"}
    for method, name in names.items():
        mine = [row for row in rows if row["method"] == method]
        lines.append([name, *(Cell([r for r in mine if r["epsilon"] == e], "rmse").text() for e in epsilons)])
    return lines


def ablation(quick: bool, out: Path) -> Lines:
    """Every lever that has a switch; bias first, joint clipping and the shared matrix are the shape of the method."""
    data, epsilons, draws = ("ml-1m", (1.0,), 2) if quick else ("look-alike", (1.0, 5.0), 2)
    lines = [[f"{data}, RMSE", *(f"eps {e:g}" for e in epsilons)]]
    for name, settings in SWITCHES.items():
        if settings.get("start") == "spectral" and data == "look-alike":
            continue  # a Gram matrix of 8,000 items would drown
        todo = _with_settings("factors", settings, epsilons, draws, data=data)
        rows = compare.run(todo, out / "ablation.jsonl", _told)
        lines.append([name, *(Cell([r for r in rows if r["epsilon"] == e], "rmse").text() for e in epsilons)])
    rows = compare.run(compare.tasks(data, ["bias"], epsilons, draws), out / "ablation.jsonl", _told)
    return [*lines, ["DPBias", *(Cell([r for r in rows if r["epsilon"] == e], "rmse").text() for e in epsilons)]]


def planted(quick: bool, out: Path) -> Lines:
    epsilons, draws = ((1.0,), 1) if quick else ((1.0, 5.0), 3)
    rows = compare.run(compare.tasks("planted-20k", ["factors"], epsilons, draws), out / "planted-20k.jsonl", _told)
    cells = (Cell([row for row in rows if row["epsilon"] == e], "rmse").text(5) for e in epsilons)
    return [["planted-20k, RMSE", *(f"eps {e:g}" for e in epsilons)], ["DPFactors", *cells]]


def wang(quick: bool, out: Path) -> Lines:
    """Mean over all cells of (estimate - truth)^2; every method is told the true rank, as in the paper."""
    found: dict[tuple[str, float], list[float]] = {}
    zero: list[float] = []
    with open(out / "wang.jsonl", "a") as file:
        for draw in range(1 if quick else 3):
            ratings, histories, truth = wang_setting(draw)
            zero.append(float(np.mean(truth**2)))
            for name, epsilon in product(("factors", "als", "lmc"), WANG_EPSILONS):
                kind: Any = estimator(name)
                model = kind(epsilon=epsilon, delta=DELTA, rank=5).fit(ratings)
                error = float(np.mean((model.predict(histories) - truth) ** 2))
                found.setdefault((name, epsilon), []).append(error)
                row = {"data": "wang", "method": name, "epsilon": epsilon, "draw": draw, "squared_error": error}
                file.write(json.dumps(row) + "\n")
                _told(row)
    lines = [["wang, squared error", *(f"eps {e:g}" for e in WANG_EPSILONS)]]
    for name in ("factors", "als", "lmc"):
        cells = (found[name, e] for e in WANG_EPSILONS)
        lines.append([estimator(name).__name__, *(f"{np.mean(c):.4f}" for c in cells)])
    return [*lines, ["the zero model", *(f"{np.mean(zero):.4f}" for _ in WANG_EPSILONS)]]


def wang_setting(
    seed: int, n_users: int = 10_000, n_items: int = 100, rank: int = 5, noise_variance: float = 1.0
) -> tuple[Ratings, scipy.sparse.csr_array, np.ndarray]:
    """Gaussian factors, each side scaled to a largest row of 2; r m ln m cells seen, with noise. Also the true matrix.

    No entry exceeds 4, which is taken for the public range: noisy ratings are cut to it.
    """
    rng = np.random.default_rng([seed, 2023])
    sides = [rng.standard_normal((n, rank)) for n in (n_users, n_items)]
    users, items = (2.0 * side / np.linalg.norm(side, axis=1).max() for side in sides)
    truth = users @ items.T
    seen = rng.random(truth.shape) < rank * math.log(n_users) / n_items
    noisy = np.clip(truth + math.sqrt(noise_variance) * rng.standard_normal(truth.shape), -4.0, 4.0)
    rows = scipy.sparse.csr_array((noisy[seen], np.nonzero(seen)), shape=truth.shape)
    return Ratings.from_csr(rows, Domain(n_items, (-4.0, 4.0), expected_users=n_users)), rows, truth


EXPERIMENTS = {"look-alike": look_alike, "ablation": ablation, "planted-20k": planted, "wang": wang}


def _with_settings(
    method: str, settings: dict[str, Any], epsilons: Any, draws: int = 1, data: str = "look-alike", **shared: Any
) -> list[compare.Task]:
    return compare.tasks(data, [method], epsilons, draws, {method: settings}, delta=DELTA, **shared)


def _told(row: dict[str, Any]) -> None:
    shown = ("method", "epsilon", "settings", "rmse", "squared_error", "fit_seconds")
    print({name: row[name] for name in shown if name in row}, flush=True)


def _rows(lines: Lines) -> Iterator[str]:
    yield as_markdown(lines)
    yield "delta = 1e-05, add-remove, exact accounting; computed on public data: these numbers are not private."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=EXPERIMENTS)
    parser.add_argument("--quick", action="store_true", help="fewer draws, smaller data")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the rows and the table")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(_rows(EXPERIMENTS[given.name](given.quick, given.out)))
    (given.out / f"{given.name}.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
