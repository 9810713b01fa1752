"""Lab room: the experiments of Li et al. 2021 (one-bit completion), its mechanisms as published and their sound forms.

`python -m lowkey_lab.one_bit --quick` prints the tables from a few draws; without it, from as many as the paper has.
`--out folder` also writes the rows as JSON and draws the figures. Rows are plain dictionaries.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.linalg.links import link_of
from lowkey.methods.one_bit.method import DPOneBit, OneBit
from lowkey_lab.published.one_bit import PublishedOneBit, TunedOneBit
from lowkey_lab.pyplot import pyplot

Row = dict[str, Any]
PERTURBATIONS = ("input", "objective", "gradient", "output")
DELTA = 1e-5
TOL = 2e-3  # the error is then within 1 % of the exact optimum's


def rank_one(side: int, ratio: float, link: str, seed: int, bound: float = 1.0) -> tuple[np.ndarray, Ratings]:
    """The paper's synthetic data: M of rank 1 scaled to |M| <= bound (by the largest |entry|, correction d), and signs."""
    rng = np.random.default_rng(seed)
    truth = np.outer(rng.uniform(-0.5, 0.5, side), rng.uniform(-0.5, 0.5, side))
    truth *= bound / np.abs(truth).max()
    cells = np.flatnonzero(rng.random(side * side) < ratio)
    signs = np.where(rng.random(len(cells)) < link_of(link).probability(truth.ravel()[cells]), 1.0, -1.0)
    rows = scipy.sparse.csr_array((signs, (cells // side, cells % side)), shape=(side, side))
    return truth, Ratings.from_csr(rows, Domain(items=side, rating_range=(-1.0, 1.0)))


def variants(epsilon: float, link: str, **settings: Any) -> Iterator[tuple[str, str, DPOneBit]]:
    """(calibration, perturbation, estimator): the published four, the sound four, and the sound ones with a delta.

    Input perturbation is the same in both calibrations and is listed once.
    """
    for perturbation in PERTURBATIONS:
        yield (
            "published",
            perturbation,
            PublishedOneBit(epsilon, None, perturbation=perturbation, link=link, **settings),
        )
    for perturbation in PERTURBATIONS[1:]:
        yield "sound", perturbation, TunedOneBit(epsilon, None, perturbation=perturbation, link=link, **settings)
    for perturbation in PERTURBATIONS[1:]:
        yield "sound, delta", perturbation, TunedOneBit(epsilon, DELTA, perturbation=perturbation, link=link, **settings)


def relative_error(truth: np.ndarray, scores: np.ndarray) -> float:
    """The paper's ARE."""
    return float(np.sum((scores - truth) ** 2) / np.sum(truth**2))


def synthetic(
    draws: int, epsilons: Iterable[float], ratios: Iterable[float] = (0.15,), links: Iterable[str] = ("logistic", "probit"),
    side: int = 100, calibrations: Iterable[str] = ("published", "sound", "sound, delta"),
) -> list[Row]:  # fmt: skip
    """Average relative error over draws of signs, noise and M."""
    rows: list[Row] = []
    for link in links:
        for ratio in ratios:
            errors: dict[tuple[str, str, float], list[float]] = {}
            held: dict[tuple[str, str, float], float] = {}
            for seed in range(draws):
                truth, ratings = rank_one(side, ratio, link, seed)
                runs = [("non-private", "none", math.inf, OneBit(link=link, tol=TOL))]
                runs += [(c, p, e, m) for e in epsilons for c, p, m in variants(e, link, tol=TOL) if c in calibrations]
                for calibration, perturbation, epsilon, estimator in runs:
                    key = (calibration, perturbation, epsilon)
                    errors.setdefault(key, []).append(relative_error(truth, estimator.complete(ratings)))
                    held[key] = estimator.guarantee_.epsilon
            for (calibration, perturbation, epsilon), values in errors.items():
                rows.append(
                    {
                        "experiment": "synthetic",
                        "link": link,
                        "ratio": ratio,
                        "calibration": calibration,
                        "perturbation": perturbation,
                        "epsilon": epsilon,
                        "epsilon_held": held[calibration, perturbation, epsilon],
                        "are": float(np.mean(values)),
                        "se": float(np.std(values) / math.sqrt(len(values))),
                        "draws": draws,
                    }
                )
    return rows


def data_folder() -> Path:
    return Path(os.environ.get("LOWKEY_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))


def movielens_split(fold: int) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array, Domain]:
    table = pq.read_table(data_folder() / f"ml-100k-u{fold}.parquet")
    user, item, rating, split = (table[name].to_numpy() for name in ("user", "item", "rating", "split"))
    shape = (943, 1682)
    train, test = (
        scipy.sparse.csr_array((rating[split == s], (user[split == s] - 1, item[split == s] - 1)), shape=shape)
        for s in (0, 1)
    )
    return train, test, Domain(items=1682, rating_range=(1.0, 5.0))


def restaurants_split(repeat: int) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array, Domain]:
    table = pq.read_table(data_folder() / "rc.parquet")
    users, user = np.unique(table["user"].to_numpy(), return_inverse=True)
    items, item = np.unique(table["item"].to_numpy(), return_inverse=True)
    rating = table["rating"].to_numpy()
    held_out = np.random.default_rng(repeat).permutation(len(rating)) < len(rating) // 5
    shape = (len(users), len(items))
    train, test = (scipy.sparse.csr_array((rating[s], (user[s], item[s])), shape=shape) for s in (~held_out, held_out))
    return train, test, Domain(items=len(items), rating_range=(0.0, 2.0))


def accuracy(scores: np.ndarray, test: scipy.sparse.csr_array, threshold: float, middle: float = 0.0) -> float:
    """How many held-out signs the scores get right."""
    cells = test.tocoo()
    return float(np.mean((scores[cells.row, cells.col] > middle) == (cells.data > threshold)))


def real(
    name: str,
    splits: Iterable[int],
    epsilons: Iterable[float],
    link: str = "logistic",
    calibrations: Iterable[str] = ("published", "sound", "sound, delta"),
    users: int | None = None,
    **settings: Any,
) -> list[Row]:
    """Accuracy on held-out signs: of the trained rows (as in the paper) and of the released model after folding in.

    ``users`` takes only so many rows, for a quick look.
    The paper does not give its radius, its bound or its number of gradient steps for real data: alpha = 1 as for synthetic
    data, the rank of the radius that ``main`` states, and one gradient step: noisy copies of one gradient add nothing.
    """
    open_split = {"ml-100k": movielens_split, "rc": restaurants_split}[name]
    threshold = {"ml-100k": 3.5, "rc": 1.5}[name]
    found: dict[tuple[str, str, float], list[tuple[float, float, float]]] = {}
    for split in splits:
        train, test, domain = open_split(split)
        train, test = train[:users], test[:users]
        ratings = Ratings.from_csr(train, domain)
        positive = float(np.mean(test.data > threshold))
        found.setdefault(("majority", "none", math.inf), []).append((max(positive, 1 - positive), math.nan, 0.0))
        shared = {name: value for name, value in settings.items() if name != "n_iter"}
        runs = [("non-private", "none", math.inf, OneBit(link=link, threshold=threshold, **shared))]
        runs += [
            (c, p, e, m)
            for e in epsilons
            for c, p, m in variants(e, link, threshold=threshold, **settings)
            if c in calibrations
        ]
        for calibration, perturbation, epsilon, estimator in runs:
            started = time.perf_counter()
            trained = accuracy(estimator.complete(ratings), test, threshold)
            spent = time.perf_counter() - started
            folded = accuracy(estimator.predict(train), test, threshold, middle=0.5)
            found.setdefault((calibration, perturbation, epsilon), []).append((trained, folded, spent))
            print(
                f"  {name} {split} {calibration} {perturbation} {epsilon:g}: {trained:.4f} {folded:.4f} {spent:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    return [
        {
            "experiment": name, "link": link, "calibration": calibration, "perturbation": perturbation, "epsilon": epsilon,
            "accuracy": float(np.mean([v[0] for v in values])), "folded": float(np.mean([v[1] for v in values])),
            "se": float(np.std([v[0] for v in values]) / math.sqrt(len(values))), "splits": len(values),
            "seconds": float(np.mean([v[2] for v in values])),
        }
        for (calibration, perturbation, epsilon), values in found.items()
    ]  # fmt: skip


def table(rows: list[Row], measure: str) -> str:
    """One line per mechanism, one column per epsilon."""
    lines: list[str] = []
    groups = dict.fromkeys((r["experiment"], r["link"], r.get("ratio")) for r in rows)
    for group in groups:
        mine = [r for r in rows if (r["experiment"], r["link"], r.get("ratio")) == group]
        epsilons = sorted({r["epsilon"] for r in mine if math.isfinite(r["epsilon"])})
        title = f"{group[0]}, {group[1]}" + ("" if group[2] is None else f", {group[2]:.0%} observed")
        lines += ["", f"{title}: {measure}", f"{'':<28}" + "".join(f"{f'eps {e:g}':>9}" for e in epsilons)]
        for kind in dict.fromkeys((r["calibration"], r["perturbation"]) for r in mine):
            cells = {r["epsilon"]: r[measure] for r in mine if (r["calibration"], r["perturbation"]) == kind}
            values = [cells.get(e, cells.get(math.inf, math.nan)) for e in epsilons]
            lines.append(f"{kind[0] + ' ' + kind[1]:<28}" + "".join(f"{v:>9.3f}" for v in values))
    return "\n".join(lines)


def draw(rows: list[Row], measure: str, path: Path) -> None:
    """One panel per link and observation ratio: published dashed, sound solid."""
    plt = pyplot()
    groups = list(dict.fromkeys((r["experiment"], r["link"], r.get("ratio")) for r in rows))
    columns = min(2, len(groups))  # readable at 800 pixels
    lines = math.ceil(len(groups) / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(max(6.8, 4.6 * columns), 3.9 * lines), squeeze=False)
    colours = dict(zip(PERTURBATIONS, ("#0072B2", "#009E73", "#D55E00", "#7A3E9D"), strict=True))
    styles = {"published": "--", "sound": "-", "sound, delta": ":"}
    for axis, group in zip(axes.flat, groups, strict=False):
        mine = [r for r in rows if (r["experiment"], r["link"], r.get("ratio")) == group]
        for kind in dict.fromkeys((r["calibration"], r["perturbation"]) for r in mine):
            line = sorted((r["epsilon"], r[measure]) for r in mine if (r["calibration"], r["perturbation"]) == kind)
            if kind[0] in styles:
                axis.plot(
                    *zip(*line, strict=True),
                    styles[kind[0]],
                    color=colours[kind[1]],
                    label=" ".join(kind),
                    linewidth=1.6,
                    marker="o" if kind[0] == "published" else "s",  # a mark, as there may be one epsilon only
                    markersize=4,
                )
            else:
                axis.axhline(
                    line[0][1], color="black" if kind[0] == "non-private" else "grey", linewidth=1.0, label=kind[0]
                )
        axis.set_title(f"{group[0]}, {group[1]}" + ("" if group[2] is None else f", {group[2]:.0%}"), fontsize=10)
        axis.set_xticks(sorted({r["epsilon"] for r in mine if math.isfinite(r["epsilon"])}))
        axis.set_xlabel("epsilon asked for")
        axis.set_ylabel({"are": "average relative error", "accuracy": "accuracy on held-out signs"}[measure])
        if measure == "are":
            axis.set_yscale("log")
    for axis in list(axes.flat)[len(groups) :]:
        axis.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3 if columns == 1 else 4, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.18 if lines == 1 else 0.1, 1, 1))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, one split")
    parser.add_argument("--only", choices=("synthetic", "delta", "ratios", "ml-100k", "rc"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    quick = given.quick
    epsilons = (1.0, 4.0, 10.0) if quick else (1.0, 2.0, 4.0, 7.0, 10.0)
    jobs = {
        "synthetic": lambda: synthetic(2 if quick else 40, epsilons, calibrations=("published", "sound")),
        "delta": lambda: synthetic(1 if quick else 10, (1.0, 4.0, 10.0), calibrations=("sound, delta",)),
        "ratios": lambda: synthetic(
            1 if quick else 10,
            (1.0, 5.0, 10.0),
            (0.2, 0.8) if quick else (0.2, 0.4, 0.6, 0.8),
            calibrations=("published", "sound"),
        ),
        "rc": lambda: real("rc", range(2 if quick else 10), (1.0, 4.0, 10.0), rank=0.1, n_iter=1),
        "ml-100k": lambda: real(
            "ml-100k", (1,) if quick else (1, 2, 3, 4, 5), (4.0,) if quick else (1.0, 4.0, 10.0), n_iter=1, tol=2e-2,
            max_iter=25,
        ),
    }  # fmt: skip
    for name, job in jobs.items():
        if given.only not in (None, name):
            continue
        rows = job()
        measures = ("are",) if name in ("synthetic", "delta", "ratios") else ("accuracy", "folded")
        for measure in measures:
            print(table(rows, measure), flush=True)
        if given.out is not None:
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / f"one-bit-{name}.json").write_text(json.dumps(rows, indent=1))
            if name != "delta":
                draw(rows, measures[0], given.out / f"one-bit-{name}.png")


if __name__ == "__main__":
    main()
