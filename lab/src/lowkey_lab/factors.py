"""Lab room: what DPFactors is measured by: ``python -m lowkey_lab.factors NAME [--quick] --out DIR``.

| name | what |
|---|---|
| look-alike | epsilon 1, 5, 20 on the MovieLens-10M look-alike, next to DPBias and DPALS tuned on another draw of it |
| ablation | each lever switched off once, on the same data (``--quick``: MovieLens 1M; also ``lowkey bench --ablation``) |
| planted-20k | the noiseless setting of the DPALS paper |
| wang | the noisy setting of the DPLMC paper (section 6), squared error against the true matrix |
| ceiling | what a round could reach at best on the look-alike, were the truth told to the users (``factors_ceiling``) |

Rows are appended to ``DIR/NAME.jsonl`` and are not run again. The numbers are not private: for public data only.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.methods.registry import estimator
from lowkey_lab import compare, datasets
from lowkey_lab.factors_ceiling import ceilings
from lowkey_lab.synthetic import lookalike_ml10m
from lowkey_lab.tables import Cell, as_markdown

Lines = list[list[str]]
DELTA = 1e-5
SWITCHES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "hardly any item means (means_share=0.01)": {"means_share": 0.01},
    "exact items' side (noise_aware=False)": {"noise_aware": False},
    "biases weighed little (bias_weight=1)": {"bias_weight": 1.0},
    "items weighed alike (weight_power=0)": {"weight_power": 0.0},
    "last round alone (averaged=1)": {"averaged": 1},
    "first bound for all (falling_bound=False)": {"falling_bound": False},
    "random start (start='random')": {"start": "random"},
    "spectral start (start='spectral')": {"start": "spectral"},
    "start from moments (start='moments')": {"start": "moments"},
    "4 rounds": {"n_iter": 4},
    "8 rounds": {"n_iter": 8},
    "rank 8, whatever the noise": {"rank": 8},
    "rank 20, whatever the noise": {"rank": 20},
}
# DPALS is tuned over these on another draw of the data: an oracle that no private run has.
ALS_GRID: dict[str, tuple[Any, ...]] = {"rank": (4, 8), "n_iter": (2, 4), "reg": (10.0, 100.0), "bias_share": (0.1, 0.3)}
# As in its paper: no item means and no offsets, a user's rarest ratings alone, rounds alike.
PAPER = {"bias_share": 0.0, "offset_reg": None, "growth": 1.0, "residual_bound": 2.25}
PAPER_GRID: dict[str, tuple[Any, ...]] = {"rank": (2, 4), "n_iter": (1, 2, 4), "max_ratings": (50, 100, 200, 400)}
WANG_EPSILONS = (2.0, 5.0, 10.0, 20.0)


def look_alike(quick: bool, out: Path) -> Lines:
    """RMSE, mean and standard error; DPALS, ours and as in its paper, as was best at epsilon = 1 on another draw."""
    results, epsilons, draws = out / "look-alike.jsonl", (1.0, 5.0, 20.0), 1 if quick else 3
    todo = {f"DP{method.title()}": compare.tasks("look-alike", [method], epsilons, draws) for method in ("factors", "bias")}
    for name, fixed, choices in (("DPALS", {}, ALS_GRID), ("DPALS as in its paper", PAPER, PAPER_GRID)):
        grid = [{**fixed, **dict(zip(choices, values, strict=True))} for values in product(*choices.values())]
        tried = [task for chosen in grid[:: 4 if quick else 1] for task in _als(chosen, [1.0], split=1)]
        tuned = min(compare.run(tried, results, _told), key=lambda row: row["rmse"])["settings"]
        stated = ", ".join(f"{key}={tuned[key]:g}" for key in choices)
        todo[f"{name}, tuned on another draw: {stated}"] = _als(tuned, epsilons, draws)
    return _table("look-alike", epsilons, _run(todo, results))


def ablation(quick: bool, out: Path) -> Lines:
    data, epsilons = ("ml-1m", (1.0,)) if quick else ("look-alike", (1.0, 5.0))
    return ablation_lines(data, epsilons, 2, out / "ablation.jsonl")


def ablation_lines(data: str, epsilons: Sequence[float], draws: int, results: Path | None, **shared: Any) -> Lines:
    """Every lever that has a switch, thrown once; joint clipping is the shape of the method and has none."""
    todo = {
        name: compare.tasks(data, ["factors"], epsilons, draws, {"factors": settings}, **shared)
        for name, settings in SWITCHES.items()
        # a Gram matrix of 8,000 items would drown
        if data != "look-alike" or settings.get("start") not in ("spectral", "moments")
    }
    todo["DPBias"] = compare.tasks(data, ["bias"], epsilons, draws, **shared)
    return _table(data, epsilons, _run(todo, results))


def _run(todo: dict[str, list[compare.Task]], results: Path | None) -> dict[str, list[dict[str, Any]]]:
    """All at once, so that the data is made once."""
    rows = iter(compare.run([task for tasks in todo.values() for task in tasks], results, _told))
    return {name: list(islice(rows, len(tasks))) for name, tasks in todo.items()}


def _table(data: str, epsilons: Sequence[float], rows: dict[str, list[dict[str, Any]]]) -> Lines:
    cells = lambda mine: (Cell([row for row in mine if row["epsilon"] == e], "rmse").text() for e in epsilons)
    head = [f"{data}, RMSE", *(f"eps {e:g}" for e in epsilons)]
    return [head, *([name, *cells(mine)] for name, mine in rows.items())]


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


def ceiling(quick: bool, out: Path) -> Lines:
    epsilons = (1.0,) if quick else (1.0, 5.0, 20.0)
    found = ceilings(datasets.load("look-alike", 0), lookalike_ml10m(0).truth, epsilons, DELTA)
    head = ["look-alike, RMSE", *(f"eps {e:g}" for e in epsilons)]
    return [head, ["one round from the truth", *(f"{rmse:.4f}" for rmse in found)]]


EXPERIMENTS = {"look-alike": look_alike, "ablation": ablation, "planted-20k": planted, "wang": wang, "ceiling": ceiling}


def _als(settings: dict[str, Any], epsilons: Sequence[float], draws: int = 1, split: int = 0) -> list[compare.Task]:
    return compare.tasks("look-alike", ["als"], epsilons, draws, {"als": settings}, delta=DELTA, split_seed=split)


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
