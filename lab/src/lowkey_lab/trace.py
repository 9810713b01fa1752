"""Lab room: the experiments of trace regression on Gaussian designs. Every function returns rows that JSON can hold.

``python -m lowkey_lab.trace --quick`` prints the tables, with fitted slopes and their standard errors;
``--figures folder`` draws them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.data.trace import cells
from lowkey.methods.trace.baseline import TraceRegression
from lowkey.methods.trace.method import DPTraceRegression
from lowkey.privacy.accounting import gaussian_mu
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import SeededNoise

Row = dict[str, Any]
DELTA = 1e-5


class Problem(NamedTuple):
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    coef: NDArray[np.float64]
    rank: int
    error_std: float

    @property
    def sigma_1(self) -> float:
        return float(np.linalg.norm(self.coef, 2))

    def error(self, coef: NDArray[np.float64]) -> float:
        return float(np.linalg.norm(coef - self.coef))


def gaussian_problem(
    n: int, d: int, rank: int, error_std: float, *, seed: int, smallest: float = 1.0, condition: float = 1.0
) -> Problem:
    """Standard Gaussian X, d x d; the singular values of M fall from condition * smallest to smallest."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((d, rank)))[0] for _ in range(2))
    coef = (left * np.linspace(condition, 1.0, rank) * smallest) @ right.T
    X = rng.standard_normal((n, d, d))
    return Problem(X, X.reshape(n, -1) @ coef.ravel() + error_std * rng.standard_normal(n), coef, rank, error_std)


def private(problem: Problem, epsilon: float, *, noise: bool = True, **settings: Any) -> DPTraceRegression:
    """A private fit; ``noise=False`` runs the very same clipped descent without its noise."""
    known = {"error_std": problem.error_std, "max_singular_value": problem.sigma_1}
    model = DPTraceRegression(problem.rank, epsilon, DELTA, **{**known, **settings})
    billboard = Billboard() if noise else Billboard(noise=SeededNoise(0, factor=0.0))
    return model.fit(problem.X, problem.y, billboard=billboard)


def parts(problem: Problem, epsilon: float, **settings: Any) -> Row:
    """The error of a private fit, of the non-private twin, and the part that the privacy noise alone makes."""
    fitted = private(problem, epsilon, **settings).coef_
    bare = private(problem, epsilon, noise=False, **settings).coef_
    twin = TraceRegression(problem.rank).fit(problem.X, problem.y).coef_
    return {
        "n": len(problem.y),
        "d": problem.coef.shape[0],
        "rank": problem.rank,
        "epsilon": epsilon,
        "mu": gaussian_mu(epsilon, DELTA),
        "private_error": problem.error(fitted),
        "nonprivate_error": problem.error(twin),
        "privacy_part": float(np.linalg.norm(fitted - bare)),
    }


def over_n_and_epsilon(quick: bool = False, first: int = 3000, steps: int = 5, d: int = 12) -> list[Row]:
    """Five sizes over two decades, several epsilons, repeated."""
    sizes = [round(first * 10 ** (k / 2)) for k in range(steps)]
    rows: list[Row] = []
    for n in sizes:
        for seed in range(2 if quick else 5):
            problem = gaussian_problem(n, d, 2, 0.3, seed=seed)
            rows += [{**parts(problem, epsilon), "seed": seed} for epsilon in (2.0, 4.0, 8.0)]
    return rows


def over_rank_and_dimension(quick: bool = False) -> list[Row]:
    """Error against rank and d, at one n and epsilon."""
    rows: list[Row] = []
    shapes = [(12, r) for r in (1, 2, 3, 4)] + [(d, 2) for d in (8, 16, 24, 32)]
    for d, rank in shapes:
        for seed in range(2 if quick else 5):
            rows.append({**parts(gaussian_problem(40_000, d, rank, 0.3, seed=seed), 4.0), "seed": seed})
    return rows


def convergence(quick: bool = False) -> list[Row]:
    """Error after every step, for private and non-private fits."""
    problem = gaussian_problem(20_000 if quick else 50_000, 30, 3, 0.1, seed=0)
    rows: list[Row] = []
    fits = {f"epsilon = {epsilon:g}": private(problem, epsilon, n_iter=10) for epsilon in (1.0, 4.0, 16.0)}
    fits["non-private"] = TraceRegression(3, n_iter=10).fit(problem.X, problem.y)
    for name, model in fits.items():
        rows += [{"fit": name, "step": i, "error": problem.error(p.matrix())} for i, p in enumerate(model.path_)]
    return rows


def records_against_responses(
    quick: bool = False, scales: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), n: int = 40_000, d: int = 16
) -> list[Row]:
    """Error against sigma_r with the error's standard deviation fixed: falling bound, constant bound."""
    rows: list[Row] = []
    for smallest in scales:
        for seed in range(2 if quick else 5):
            problem = gaussian_problem(n, d, 2, 0.25, seed=seed, smallest=smallest)
            constant = math.hypot(problem.error_std, smallest)  # as the paper's Delta_l: error_std and sigma_r together
            kinds: dict[str, Row] = {
                "sound": {},
                "sound, constant bound": {"residual_bound": constant},
            }
            for kind, settings in kinds.items():
                for protect in ("records", "responses"):
                    error = problem.error(private(problem, 4.0, protect=protect, **settings).coef_)
                    row = {"sigma_r": smallest, "kind": kind, "protect": protect, "seed": seed, "error": error}
                    rows.append(row)
    return rows


def start_and_descent(quick: bool = False) -> list[Row]:
    """Spectral start alone, with the whole budget and with its share, and what the descent makes of it."""
    rows: list[Row] = []
    for n in (5000, 10_000, 20_000, 40_000, 80_000) if quick else (5000, 15_000, 50_000, 100_000):
        problem = gaussian_problem(n, 30 if quick else 50, 3, 0.1, seed=1)
        size = float(np.linalg.norm(problem.coef))
        fitted = private(problem, 1.0)
        twin = TraceRegression(3).fit(problem.X, problem.y)
        rows.append(
            {
                "n": n,
                "start_alone": problem.error(private(problem, 1.0, n_iter=0).coef_) / size,
                "start_share": problem.error(fitted.path_[0].matrix()) / size,
                "descent": problem.error(fitted.coef_) / size,
                "nonprivate_start": problem.error(twin.path_[0].matrix()) / size,
                "nonprivate": problem.error(twin.coef_) / size,
            }
        )
    return rows


def headline(quick: bool = False) -> list[Row]:
    """epsilon = 1, delta = 1e-5, 50 x 50, rank 3, n = 50,000, error_std = 0.1 sigma_r, relative errors."""
    rows: list[Row] = []
    for condition in (1.0, 3.0):
        for seed in range(1 if quick else 3):
            problem = gaussian_problem(50_000, 50, 3, 0.1, seed=seed, condition=condition)
            size = float(np.linalg.norm(problem.coef))
            twin = problem.error(TraceRegression(3).fit(problem.X, problem.y).coef_) / size
            row: Row = {"condition": condition, "seed": seed, "nonprivate": twin, "target": 1.5 * twin + 0.05}
            for name, settings in {
                "records": {},
                "records_loose": {"max_singular_value": 2.0 * problem.sigma_1},
                "responses": {"protect": "responses"},
                "one_shot": {"n_iter": 0},
            }.items():
                row[name] = problem.error(private(problem, 1.0, **settings).coef_) / size
            rows.append(row)
    return rows


def completion(quick: bool = False) -> list[Row]:
    """Matrix completion, one record = one rating: a weaker unit than a user. Root mean square error on all cells."""
    rng = np.random.default_rng(0)
    d1, d2, rank, error_std = 100, 60, 2, 0.3
    coef = rng.standard_normal((d1, rank)) @ rng.standard_normal((rank, d2))
    rows: list[Row] = []
    for n in (100_000, 400_000) if quick else (100_000, 400_000, 1_600_000):
        X = cells(rng.integers(0, d1, n), rng.integers(0, d2, n), (d1, d2))
        y = X.inner(coef) + error_std * rng.standard_normal(n)
        rms: Callable[[Any], float] = lambda model: float(np.sqrt(np.mean((model.coef_ - coef) ** 2)))
        covariance = 1.0 / (d1 * d2)  # of a cell drawn uniformly
        row: Row = {"n": n, "zero": float(np.sqrt(np.mean(coef**2))), "unit": "record (one rating)"}
        row["nonprivate"] = rms(TraceRegression(rank, covariance).fit(X, y))
        for epsilon in (1.0, 4.0):
            # Leverages differ and responses are not Gaussian: the clipped descent is slower than the default expects.
            known: Row = {"error_std": error_std, "covariance": covariance, "n_iter": 25}
            known["max_singular_value"] = float(np.linalg.norm(coef, 2))
            row[f"epsilon_{epsilon:g}"] = rms(DPTraceRegression(rank, epsilon, DELTA, **known).fit(X, y))
        rows.append(row)
    return rows


def slope(rows: Iterable[Row], x: Callable[[Row], float], y: str) -> tuple[float, float]:
    """Of log y in log x, by least squares over all rows, with its standard error."""
    rows = list(rows)
    a = np.log([x(row) for row in rows])
    b = np.log([row[y] for row in rows])
    a, b = a - a.mean(), b - b.mean()
    estimate = float(a @ b / (a @ a))
    residual = b - estimate * a
    return estimate, float(np.sqrt(residual @ residual / (len(rows) - 2) / (a @ a)))


def slopes(rows: Sequence[Row]) -> dict[str, tuple[float, float]]:
    """Of ``over_n_and_epsilon``. The non-private error does not depend on epsilon: it is taken once per data set."""
    once = [row for row in rows if row["epsilon"] == rows[0]["epsilon"]]
    return {
        "statistical part in n (about -1/2)": slope(once, lambda row: row["n"], "nonprivate_error"),
        "privacy part in n epsilon (about -1)": slope(rows, lambda row: row["n"] * row["epsilon"], "privacy_part"),
        "privacy part in n mu (-1)": slope(rows, lambda row: row["n"] * row["mu"], "privacy_part"),
    }


def averaged(rows: Iterable[Row], keys: Sequence[str], values: Sequence[str]) -> list[Row]:
    """Geometric means over the repetitions."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    means: list[Row] = []
    for group, members in groups.items():
        logs = {value: np.log([member[value] for member in members]) for value in values}
        means.append({**dict(zip(keys, group, strict=True)), **{v: float(np.exp(log.mean())) for v, log in logs.items()}})
    return means


ERRORS = ("private_error", "nonprivate_error", "privacy_part")
TABLES: dict[str, tuple[Callable[[bool], list[Row]], tuple[str, ...], tuple[str, ...]]] = {
    "n_and_epsilon": (over_n_and_epsilon, ("n", "epsilon"), ERRORS),
    "rank_and_d": (over_rank_and_dimension, ("d", "rank"), ERRORS),
    "convergence": (convergence, ("fit", "step"), ("error",)),
    "records_and_responses": (records_against_responses, ("sigma_r", "kind", "protect"), ("error",)),
    "start_and_descent": (start_and_descent, (), ()),
    "headline": (headline, (), ()),
    "completion": (completion, (), ()),
}


def table(rows: Sequence[Row]) -> str:
    """Rows as text, numbers in four digits."""
    show: Callable[[Any], str] = lambda v: f"{v:.4g}" if isinstance(v, float) else str(v)
    columns = list(rows[0])
    widths = [max(len(c), *(len(show(row[c])) for row in rows)) + 2 for c in columns]
    lines = ["".join(f"{c:>{w}}" for c, w in zip(columns, widths, strict=True))]
    lines += ["".join(f"{show(row[c]):>{w}}" for c, w in zip(columns, widths, strict=True)) for row in rows]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Trace regression on Gaussian designs.")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and smaller problems")
    parser.add_argument("--figures", type=Path, help="a folder for the figures (needs matplotlib)")
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="which tables; all by default")
    options = parser.parse_args(arguments)
    for name in options.tables or TABLES:
        make, keys, values = TABLES[name]
        rows = make(options.quick)
        print(f"\n{name}: {(make.__doc__ or '').strip()}")
        print(table(averaged(rows, keys, values) if keys else rows), flush=True)
        if name == "n_and_epsilon":
            for what, (estimate, error) in slopes(rows).items():
                print(f"slope of the {what}: {estimate:.3f} +- {error:.3f}")
        if options.figures:
            from lowkey_lab.trace_figures import FIGURES

            if name in FIGURES:
                options.figures.mkdir(parents=True, exist_ok=True)
                FIGURES[name](rows, options.figures / f"trace_{name}.svg")


if __name__ == "__main__":
    main()
