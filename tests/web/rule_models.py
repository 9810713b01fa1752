"""A model for every rule and every branch of one, at a size where mistakes show: 1,500 items, rank 16; made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

import lowkey as lk
from lowkey.methods.lists.weights import usual_scores
from lowkey.model import Model

N_ITEMS, RANK, ROUNDS = 1500, 16, 12
SMALL_HEAD, HEAD = 500, 1200  # the weights of the second (1,200 x 1,200) are too large to be sent whole
STARS = (0.5, 5.0)


def rule_models() -> dict[str, Model]:
    rng = np.random.default_rng(24)
    factors = rng.normal(size=(N_ITEMS, RANK)) / np.sqrt(1.0 + np.arange(RANK))
    bias = rng.normal(0.0, 0.4, N_ITEMS)
    directions = np.linalg.qr(rng.normal(size=(N_ITEMS, ROUNDS)))[0]
    stars = {"center": 2.75, "rating_range": list(STARS), "offset_reg": 3.0}
    likes = {"center": 0.0, "rating_range": None, "offset_reg": None}
    replay = {**stars, "row_norm": 6.0}
    steps = {"gains": rng.uniform(20.0, 60.0, ROUNDS), "decays": rng.uniform(0.8, 1.0, ROUNDS)}
    both = {"item_factors": factors, "item_bias": bias}
    takes = {"taken": np.cos(np.arange(RANK * RANK)).reshape(RANK, RANK) * 0.4, "taken_middle": factors.mean(axis=0) + 0.1}
    made: dict[str, tuple[str, dict[str, Any], dict[str, Any], tuple[float, float] | None]] = {
        "factors": ("factors", both, {**stars, "reg": 2.0}, STARS),
        "factors, ranked": (
            "factors", {**both, "ranking": 4.0 + 3.0 * bias}, {**stars, "reg": 2.0, "ranking_scale": 0.4}, STARS
        ),
        "factors, taken": ("factors", {**both, **takes}, {**stars, "reg": 2.0}, STARS),
        "likes, taken": ("factors", {**both, **takes}, {**likes, "reg": 1.0, "unobserved_weight": 0.02}, None),
        "factors, no offset": ("factors", both, {**stars, "offset_reg": None, "reg": 0.5}, STARS),
        "factors of likes": ("factors", both, {**likes, "reg": 1.0, "unobserved_weight": 0.02}, None),
        "bias": ("factors", {"item_factors": factors[:, :0], "item_bias": bias}, {**stars, "reg": 1.0}, STARS),
        "item weights": ("item-weights", item_weights(rng, SMALL_HEAD), {}, None),
        "item weights, thin": ("item-weights", item_weights(rng, HEAD), {}, None),
        "item weights, in bytes": ("item-weights", item_weights(rng, HEAD, ridge=6.0, noise=0.05), {}, None),
        "lists": ("lists", list_weights(rng, SMALL_HEAD), {"liked": None, "rating_range": None}, None),
        "lists of what is liked": ("lists", list_weights(rng, SMALL_HEAD), {"liked": 3.5, "rating_range": None}, STARS),
        "signs": ("signs", {"item_factors": factors}, {"link": "logistic", "threshold": 3.0, "reg": 1.0}, STARS),
        "signs, probit": ("signs", {"item_factors": factors}, {"link": "probit", "threshold": 3.0, "reg": 1.0}, STARS),
        "replay": ("replay", {"item_factors": directions, **steps}, replay, STARS),
        "replay, refitted": (
            "replay", {"item_factors": directions, "ridge": rng.uniform(0.01, 0.1, ROUNDS)}, replay, STARS
        ),
        "projection": ("projection", {"item_factors": directions}, {**stars, "scaling": 15.0}, STARS),
        "projection, own scale": ("projection", {"item_factors": directions}, {**stars, "scaling": None}, STARS),
    }  # fmt: skip
    return {name: made_up(rule, arrays, settings, limits) for name, (rule, arrays, settings, limits) in made.items()}


def item_weights(rng: np.random.Generator, size: int, ridge: float = 3.0, noise: float = 0.0) -> dict[str, Any]:
    """EASE on a made-up Gram matrix of rank 24 with a ridge, which is how the method makes its own."""
    tastes = rng.normal(size=(size, 24)) / np.sqrt(1.0 + np.arange(24))
    drawn = rng.normal(0.0, noise, (size, size))
    inverse = np.linalg.inv(tastes @ tastes.T + drawn + drawn.T + ridge * np.eye(size))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    counts = rng.uniform(1.0, 3.0, size)
    return {
        "head": np.sort(rng.permutation(N_ITEMS)[:size]),
        "input_weights": counts**-0.3,
        "item_weights": weights,
        "output_weights": counts**0.15,
        "tail_scores": rng.uniform(-2.0, -1.0, N_ITEMS),
    }


def list_weights(rng: np.random.Generator, size: int) -> dict[str, Any]:
    """Popularity of every item, and EASE's weights of the head."""
    arrays = item_weights(rng, size)
    del arrays["tail_scores"]
    popularity = rng.pareto(1.5, N_ITEMS) + 0.1
    popularity /= popularity[arrays["head"]].sum()
    ones = np.ones(size)
    usual = usual_scores(popularity[arrays["head"]], arrays["item_weights"])
    return {**arrays, "input_weights": ones, "output_weights": ones, "usual": usual, "popularity": popularity}


def made_up(rule: str, arrays: Any, settings: Any, limits: tuple[float, float] | None) -> Model:
    ids = [f"film {i}" for i in range(N_ITEMS)]
    domain = lk.Domain(items=ids, rating_range=limits, feedback="binary" if limits is None else "ratings")
    return Model("made up", rule, arrays, settings, domain, None)  # type: ignore[arg-type]


def histories(model: Model, n: int, seed: int = 0) -> Any:
    """From nothing to 320 items, most of them short, with half stars."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.geometric(0.04, n) - 1, 320)
    lengths[:3] = (0, 1, 320)
    columns = np.concatenate([rng.permutation(N_ITEMS)[:length] for length in lengths])
    binary = model.domain.rating_range is None
    values = np.ones(len(columns)) if binary else rng.integers(1, 11, len(columns)) / 2.0
    rows = scipy.sparse.csr_array((values, columns, np.concatenate([[0], np.cumsum(lengths)])), shape=(n, N_ITEMS))
    rows.sort_indices()
    return rows


MODELS_OF_FORMATS = ("factors", "bias", "item weights", "lists", "signs", "replay", "replay, refitted", "projection")
