"""Lab room: the experiments of the private Frank-Wolfe paper: RMSE against epsilon, and published against exact noise.

Paper: Jain, Thakkar and Thakurta 2018, section 4 and Figure 2 (a) and (b). Deviates: Jester is part 1 of 3, and whole
users are held out. Run: python -m lowkey_lab.frank_wolfe [--quick] [--only noise|synthetic|jester] [--figure out.png]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import scipy.sparse

import lowkey as lk
from lowkey.data.synthetic import Synthetic
from lowkey.evaluation.metrics import rmse
from lowkey.evaluation.splits import hold_out_users
from lowkey_lab.published.grams import PublishedFrankWolfe
from lowkey_lab.pyplot import pyplot

EPSILONS = (0.1, 0.5, 1.0, 5.0, 20.0)
DELTA = 1e-6
Row = dict[str, Any]


def rank_one(n_users: int, n_items: int = 400, per_user: int = 80, seed: int = 0) -> Synthetic:
    """u v^T with entries of u and v uniform in -1..1, scaled to largest entry 1; ``per_user`` cells of each row are seen.

    ``truth["held_out"]`` is one more cell per user, with its value in ``truth["held_out_values"]``.
    """
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-1.0, 1.0, n_users), rng.uniform(-1.0, 1.0, n_items)
    u, v = u / np.abs(u).max(), v / np.abs(v).max()
    seen = np.empty((n_users, per_user), np.int32)
    held_out = np.empty(n_users, np.int32)
    for low in range(0, n_users, 10_000):  # the full matrix need not fit into memory
        draws = rng.random((min(10_000, n_users - low), n_items), np.float32)
        cells = np.argpartition(draws, per_user + 1, axis=1)[:, : per_user + 1]
        held_out[low : low + len(draws)] = cells[:, -1]
        seen[low : low + len(draws)] = np.sort(cells[:, :-1], axis=1)
    values = (u.astype(np.float32)[:, None] * v.astype(np.float32)[seen]).reshape(-1)
    offsets = np.arange(n_users + 1, dtype=np.int64) * per_user
    csr = scipy.sparse.csr_array((values, seen.reshape(-1), offsets), shape=(n_users, n_items))
    facts = {"items": n_items, "rating_range": (-1.0, 1.0), "feedback": "ratings", "expected_users": n_users}
    truth = {"nuclear_norm": float(np.linalg.norm(u) * np.linalg.norm(v)), "held_out": held_out}
    return Synthetic(csr, facts, {**truth, "held_out_values": u * v[held_out]})


def noise_rows(n_iter: int = 10, row_norm: float = 4.0) -> list[Row]:
    """Published noise beside ours, per epsilon: what it guarantees in truth, and the ratio of the standard deviations."""
    domain = lk.Domain(items=400, rating_range=(-1.0, 1.0), expected_users=500_000)
    rows: list[Row] = []
    for epsilon in EPSILONS:
        shared: dict[str, Any] = {"delta": DELTA, "n_iter": n_iter, "row_norm": row_norm}
        row: Row = {"asked epsilon": epsilon}
        for adjacency in ("add-remove", "replace-one"):
            published = PublishedFrankWolfe(epsilon, adjacency=adjacency, **shared).plan(domain)
            exact = lk.DPFrankWolfe(epsilon, adjacency=adjacency, **shared).plan(domain)
            root = math.sqrt(2.0) if adjacency == "replace-one" else 1.0
            # The last round, as rounds after the first are alike: residuals up to 2L there, up to L here.
            theirs = published.lines[-1].mechanism.noise_multiplier * 4.0 * row_norm**2 * root  # pyright: ignore
            ours = exact.lines[-1].mechanism.noise_multiplier * row_norm**2 * root  # pyright: ignore
            row[f"holds, {adjacency}"] = published.price.epsilon
            row[f"published / exact noise, {adjacency}"] = theirs / ours
        rows.append(row)
    return rows


def synthetic_rows(
    n_users: int,
    n_tested: int = 50_000,
    seed: int = 0,
    paper_steps: bool = False,
    epsilons: Sequence[float] = EPSILONS,
) -> list[Row]:
    """The paper's rank-one experiment. Bounds are public facts of made-up data, the same for every epsilon.

    ``paper_steps`` adds Frank-Wolfe with the steps 1/T and 2/(t + 1) towards the true nuclear norm.
    """
    data = rank_one(n_users, seed=seed)
    ratings, n_tested = data.ratings(), min(n_tested, n_users)
    histories, cells = data.csr[:n_tested], data.truth["held_out"][:n_tested]

    def score(model: Any) -> float:
        chunks = range(0, n_tested, 5_000)
        guesses = [model.predict(histories[low : low + 5_000]) for low in chunks]
        guess = np.concatenate(
            [g[np.arange(len(g)), cells[low : low + len(g)]] for low, g in zip(chunks, guesses, strict=True)]
        )
        return rmse(guess, data.truth["held_out_values"][:n_tested])

    own: dict[str, Any] = {"offset_reg": None, "row_norm": 4.0}  # no offsets in this data; |u| < 1 gives norms to 5.2
    private: dict[str, Any] = {
        "DPFrankWolfe": lambda e: lk.DPFrankWolfe(e, DELTA, n_iter=4, **own),
        "DPSVD": lambda e: lk.DPSVD(e, DELTA, rank=1, **own),
        "DPSVD, cleansing": lambda e: lk.DPSVD(
            e, DELTA, rank=1, cleansing=True, offset_reg=None, residual_bound=0.5, reg=1e-3
        ),
    }
    free: dict[str, Any] = {"FrankWolfe (not private)": lambda: lk.FrankWolfe(n_iter=4, offset_reg=None)}
    if paper_steps:
        for step in ("constant", "decreasing"):
            walk: dict[str, Any] = {"nuclear_norm": data.truth["nuclear_norm"], "step": step, "n_iter": 10}
            private[f"DPFrankWolfe, {step} step"] = lambda e, walk=walk: lk.DPFrankWolfe(e, DELTA, **own, **walk)
            free[f"FrankWolfe, {step} step (not private)"] = lambda walk=walk: lk.FrankWolfe(offset_reg=None, **walk)
    return _measure(private, free, ratings, score, epsilons)


def jester_rows(folder: Path, n_held_out: int = 2_000, seed: int = 0, epsilons: Sequence[float] = EPSILONS) -> list[Row]:
    """Jester part 1 on 0..5, ``n_held_out`` users who are not in the training data and show 80 % of their ratings."""
    table = pyarrow.parquet.read_table(folder / "jester.parquet").to_pydict()
    domain = lk.Domain(items=list(range(1, 101)), rating_range=(0.0, 5.0), expected_users=23_000)
    scaled = {"user": table["user"], "item": table["item"], "rating": (np.array(table["rating"]) + 10.0) / 4.0}
    ratings = lk.from_frame(pyarrow.table(scaled), domain, user="user", item="item", rating="rating")
    split = hold_out_users(ratings, n_held_out, seed=seed)
    where = split.held_out.tocoo()

    def score(model: Any) -> float:
        return rmse(model.predict(split.histories)[where.row, where.col], where.data)

    private = {
        "DPFrankWolfe": lambda e: lk.DPFrankWolfe(e, DELTA),
        "DPSVD": lambda e: lk.DPSVD(e, DELTA),
        "DPSVD, cleansing": lambda e: lk.DPSVD(e, DELTA, cleansing=True),
        "DPBias": lambda e: lk.DPBias(e, DELTA),
        "DPMoments": lambda e: lk.DPMoments(e, DELTA),
    }
    free = {"FrankWolfe (not private)": lk.FrankWolfe, "Bias (not private)": lk.Bias}
    return _measure(private, free, split.train, score, epsilons)


def _measure(
    private: dict[str, Callable[[float], Any]],
    free: dict[str, Callable[[], Any]],
    ratings: lk.Ratings,
    score: Callable[[Any], float],
    epsilons: Sequence[float],
) -> list[Row]:
    rows = [{"method": name, "epsilon": None, **_fitted(make(), ratings, score)} for name, make in free.items()]
    for name, make_at in private.items():
        rows += [{"method": name, "epsilon": e, **_fitted(make_at(e), ratings, score)} for e in epsilons]
    return rows


def _fitted(estimator: Any, ratings: lk.Ratings, score: Callable[[Any], float]) -> Row:
    begin = time.perf_counter()
    estimator.fit(ratings)
    return {"seconds": time.perf_counter() - begin, "rmse": score(estimator), "spent": str(estimator.guarantee_.epsilon)}


def table(rows: list[Row]) -> str:
    """Methods down, epsilons across."""
    lines = [f"{'RMSE at epsilon':<42}" + "".join(f"{e:>9g}" for e in EPSILONS)]
    for method in dict.fromkeys(row["method"] for row in rows):
        found = {row["epsilon"]: row["rmse"] for row in rows if row["method"] == method}
        cells = [found.get(e, found.get(None, math.nan)) for e in EPSILONS]
        lines.append(f"{method:<42}" + "".join(f"{cell:>9.4f}" for cell in cells))
    return "\n".join(lines)


def figure(results: dict[str, list[Row]], path: str) -> None:
    """RMSE against epsilon, one panel per data set, as Figure 2 of the paper."""
    plt = pyplot()
    panels = {name: rows for name, rows in results.items() if name != "noise"}
    methods = dict.fromkeys(row["method"] for rows in panels.values() for row in rows)
    colour = {method: f"C{index}" for index, method in enumerate(methods)}  # the same in every panel
    chart, axes = plt.subplots(1, len(panels), figsize=(6.0 * len(panels), 4.8), squeeze=False)
    for axis, (name, rows) in zip(axes[0], panels.items(), strict=True):
        for method in dict.fromkeys(row["method"] for row in rows):
            points = [(row["epsilon"], row["rmse"]) for row in rows if row["method"] == method]
            if points[0][0] is None:
                axis.axhline(points[0][1], linestyle="--", linewidth=1.2, color=colour[method], label=method)
            else:
                axis.plot(*zip(*points, strict=True), marker="o", markersize=4, color=colour[method], label=method)
        axis.set(xscale="log", xlabel="epsilon (user level, add/remove, delta = 1e-6)", ylabel="RMSE", title=name)
        axis.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        axis.minorticks_off()
        if name.startswith("synthetic"):
            axis.set_ylim(bottom=-0.001)
    handles = {label: line for axis in axes[0] for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    chart.legend(list(handles.values()), list(handles), loc="lower center", ncols=4, fontsize=9, frameon=False)
    chart.tight_layout(rect=(0.0, 0.04 + 0.04 * math.ceil(len(handles) / 4), 1.0, 1.0))
    chart.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="50,000 synthetic users in place of 500,000")
    parser.add_argument("--only", choices=("noise", "synthetic", "jester"))
    parser.add_argument("--figure", help="where to write the figure")
    parser.add_argument("--json", help="where to write the rows")
    options = parser.parse_args()
    folder = Path(os.environ.get("LOWKEY_DATA", "../shared/data"))
    n_users = 50_000 if options.quick else 500_000
    results: dict[str, list[Row]] = {}
    if options.only in (None, "noise"):
        results["noise"] = noise_rows()
        for row in results["noise"]:
            print("  ".join(f"{name} {value:.4g}" for name, value in row.items()))
    if options.only in (None, "synthetic"):
        name = f"synthetic rank one, {n_users:,} x 400"
        results[name] = synthetic_rows(n_users, paper_steps=options.quick)
        print(name, table(results[name]), sep="\n")
    if options.only in (None, "jester") and (folder / "jester.parquet").exists():
        results["Jester part 1, 0..5"] = jester_rows(folder)
        print("Jester part 1, 0..5", table(results["Jester part 1, 0..5"]), sep="\n")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    if options.figure:
        figure(results, options.figure)


if __name__ == "__main__":
    main()
