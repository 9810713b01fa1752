"""Lab room: the synthetic trials of the DPLMC paper: its data, the hyper-parameters' grids, and one error per trial.

Paper: Wang, Zhao and Kolar 2023, section 6. Deviates: all methods under replace-one, with exact accounting at one delta
for start and descent together; the grids are thinned and searched in stages (``STAGES``), on one draw of data that no
trial uses. Rows are JSON lines: what a file already holds is not run again.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import lowkey as lk
from lowkey.privacy.accounting import gaussian_mu
from lowkey_lab.published.lmc import AS_PRINTED
from lowkey_lab.variants import varied

DELTA, N_ITEMS, LIMIT = 1e-5, 100, 4.0
METHODS = ("DPLMC", "DPALS", "DPFactors", "DPMoments")
VALIDATION = 1000  # the seed of the data that only choose settings
Settings = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One point of a figure. ``start`` is random or private; ``DPMoments`` has none, and is the same under both."""

    method: str
    start: str
    n_users: int
    rank: int
    noisy: bool
    epsilon: float

    def key(self, seed: int | str) -> str:
        return json.dumps([asdict(self), seed], sort_keys=True)


@dataclass(frozen=True)
class Planted:
    truth: NDArray[np.float64]
    csr: Any
    density: float

    @property
    def ratings(self) -> lk.Ratings:
        domain = lk.Domain(N_ITEMS, (-LIMIT, LIMIT), expected_users=self.csr.shape[0])
        return lk.Ratings.from_csr(self.csr, domain)

    def error(self, model: Any) -> float:
        """|X_hat - X|^2 / (n_users n_items), the paper's measure, over all cells and without the ratings' noise."""
        return float(np.mean((model.predict(self.csr) - self.truth) ** 2))


@lru_cache(maxsize=2)
def planted(n_users: int, rank: int, noisy: bool, seed: int) -> Planted:
    """Gaussian rows, each side scaled to a largest norm of 2; rank n_users ln(n_users) cells, all alike likely.

    Ratings get noise of variance 1 if ``noisy`` and are cut to -4..4, which is what a product of such rows can reach.
    """
    rng = np.random.default_rng([seed, n_users, rank])
    users, items = rng.standard_normal((n_users, rank)), rng.standard_normal((N_ITEMS, rank))
    users, items = (2.0 * side / np.linalg.norm(side, axis=1).max() for side in (users, items))
    truth = users @ items.T
    count = min(round(rank * n_users * math.log(n_users)), truth.size)
    cells = np.sort(rng.choice(truth.size, count, replace=False))
    values = truth.ravel()[cells] + (rng.standard_normal(count) if noisy else 0.0)
    entries = (np.clip(values, -LIMIT, LIMIT).astype(np.float32), (cells // N_ITEMS, cells % N_ITEMS))
    return Planted(truth, scipy.sparse.csr_array(entries, shape=truth.shape), count / truth.size)


# The candidates ---------------------------------------------------------------------------------------------------------
def first_guess(cell: Cell) -> Settings:
    """Where a search starts. The ridge of a user's side is searched too, by the methods that have one."""
    return {
        "DPLMC": {"n_iter": 20, "step": 0.3, "norm": 2.0, "reg": 1.0 if cell.noisy else 0.05},
        "DPALS": {"n_iter": 2, "max_ratings": 45, "residual_bound": 1.0 if cell.noisy else 0.5}
        | {"user_reg": 5.0 if cell.noisy else 1.0},
        "DPFactors": {"n_iter": 8},
        "DPMoments": {"residual_bound": 1.0 if cell.noisy else 0.5, "reg": 1.0},
    }[cell.method] | ({"start_share": 0.1} if cell.start == "private" else {})


# The paper: T in 10, 15, .. 60, step in 0.05, .. 0.3, alpha_1 = alpha_2 in 2, .. 6 with G = alpha_1 alpha_2 for DPLMC; T in
# 1, .. 5 and at most 30, .. 60 ratings for DPALS. Each stage is a product; its best point is where the next one begins.
PAPER = 0.0  # stands for the paper's own split between start and descent
STAGES: dict[str, list[dict[str, tuple[float, ...]]]] = {
    "DPLMC": [
        {"n_iter": (10, 20, 40, 60), "step": (0.1, 0.3)},
        {"norm": (2.0, 3.0)},
        {"reg": (0.02, 0.1, 0.5, 1.0, 2.0, 5.0)},
        {"start_share": (PAPER, 0.1, 0.3)},
    ],
    "DPALS": [
        {"n_iter": (1, 2, 3, 5), "max_ratings": (30, 45, 60)},
        {"residual_bound": (0.3, 0.5, 1.0, 1.5)},
        {"user_reg": (0.2, 1.0, 2.0, 5.0, 10.0, 20.0)},
        {"start_share": (PAPER, 0.1, 0.3)},
    ],
    "DPFactors": [{"n_iter": (4, 8, 12)}, {"start_share": (PAPER, 0.1, 0.3)}],
    "DPMoments": [{"residual_bound": (0.3, 0.5, 0.7, 1.0, 1.3)}, {"reg": (0.3, 1.0, 3.0)}],
}


def paper_share(epsilon: float) -> float:
    """The paper gives the start epsilon = 1 of 5, 10 or 20 and 0.2 of 2: as a share of mu^2."""
    return (gaussian_mu(0.2 if epsilon <= 2.0 else 1.0, DELTA) / gaussian_mu(epsilon, DELTA)) ** 2


def estimator(cell: Cell, settings: Settings, density: float) -> Any:
    """The method of a cell; ratings have no item means and no offsets, and the methods that can leave them out do."""
    budget: Settings = {"epsilon": cell.epsilon, "delta": DELTA, "adjacency": "replace-one", "rank": cell.rank}
    given = dict(settings)
    start: Settings = {"start": "random" if cell.start == "random" else "spectral"}
    if cell.method == "DPMoments":
        return lk.DPMoments(**budget, **given)
    if cell.method == "DPFactors":
        return varied(lk.DPFactors, **budget, **given, **start)
    if cell.method == "DPALS":
        bare: Settings = {"bias_share": 0.0, "offset_reg": None, "serving_reg": given["user_reg"]}
        return varied(lk.DPALS, **budget, **given, **start, **bare)
    norm = given.pop("norm")
    bounds: Settings = {"user_norm": norm, "item_norm": norm, "residual_norm": norm * norm, "density": density}
    return varied(lk.DPLMC, **budget, **given, **bounds, **AS_PRINTED, start=cell.start)


# The trials -------------------------------------------------------------------------------------------------------------
def one_error(cell: Cell, settings: Settings, seed: int) -> float:
    data = planted(cell.n_users, cell.rank, cell.noisy, seed)
    return data.error(estimator(cell, settings, data.density).fit(data.ratings))


def tuned(cell: Cell, quick: bool) -> Row:
    """The settings with the least error on the validation draw, stage by stage; ``quick`` keeps the first guess."""
    best, least, tried = first_guess(cell), math.inf, 0
    for stage in [] if quick else STAGES[cell.method]:
        if "start_share" in stage and cell.start == "random":
            continue
        for point in _points(stage):
            candidate = {**best, **point}
            if candidate.get("start_share") == PAPER:
                candidate["start_share"] = paper_share(cell.epsilon)
            if candidate == best and least < math.inf:
                continue
            error = one_error(cell, candidate, VALIDATION)
            tried += 1
            if error < least:
                best, least = candidate, error
    return {"settings": best, "validation_error": least if least < math.inf else None, "tried": tried}


def _points(stage: dict[str, tuple[float, ...]]) -> Iterator[Settings]:
    for values in itertools.product(*stage.values()):
        yield dict(zip(stage, values, strict=True))


def run(cells: Iterable[Cell], trials: int, quick: bool, results: Path | None = None) -> list[Row]:
    """Every cell: its settings first, then its trials. With ``results``, resume from and append to that file."""
    done = {row["key"]: row for row in _read(results)}
    rows: list[Row] = []
    for cell in cells:
        chosen = done.get(cell.key("tuned")) or {"key": cell.key("tuned"), **asdict(cell), **tuned(cell, quick)}
        _keep(chosen, done, results)
        for seed in range(trials):
            key = cell.key(seed)
            if key not in done:
                error = one_error(cell, chosen["settings"], seed)
                row = {"key": key, **asdict(cell), "trial": seed, "error": error, "settings": chosen["settings"]}
                _keep(row, done, results)
            rows.append(done[key])
    return rows


def _read(path: Path | None) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path is not None and path.exists() else []


def _keep(row: Row, done: dict[str, Row], results: Path | None) -> None:
    if row["key"] in done:
        return
    done[row["key"]] = row
    if results is not None:
        results.parent.mkdir(parents=True, exist_ok=True)
        with open(results, "a") as file:
            file.write(json.dumps(row) + "\n")
