"""Lab room: one model against held-out ratings, and without its noise. The numbers come from users' data: not private."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from lowkey.errors import refuse
from lowkey.evaluation.metrics import better_of_two, coverage, mae, ndcg_at_k, recall_at_k, rmse
from lowkey.linalg.topn import top_n
from lowkey.methods.base import Recommender, Settings
from lowkey.privacy.plan import Plan

CHUNK_NUMBERS = 1 << 23  # scores held at a time: 64 MB


def evaluate(
    model: Any,
    histories: Any,
    held_out: Any,
    k: int = 20,
    relevant_from: float | None = None,
    slices: Mapping[str, npt.NDArray[np.bool_]] | None = None,
) -> dict[str, float]:
    """RMSE and MAE (where the model predicts ratings), better of two, Recall@k, NDCG@k and coverage, by name.

    ``model`` is a fitted estimator or a loaded release. Relevant are the held-out items, or those of them rated
    ``relevant_from`` or more; items of the history are never recommended. ``slices`` are sets of items: RMSE and Recall@k
    are also taken over each alone. NOT PRIVATE: for public data only.
    """
    model = getattr(model, "model_", model)
    n_items = model.domain.n_items
    if histories.shape != held_out.shape or histories.shape[1] != n_items:
        refuse("histories", got="other rows or columns than held_out", needed="one row per user in both", try_="a Split")
    if not 1 <= k <= n_items:
        refuse("k", got=f"{k}", needed=f"1 to {n_items}, the size of the catalogue", try_="k=10")
    held_out = scipy.sparse.csr_array(held_out)
    relevant = held_out if relevant_from is None else _at_least(held_out, relevant_from)
    predicted = np.empty(held_out.nnz)
    lists = np.full((held_out.shape[0], k), -1, np.int64)
    step = max(1, CHUNK_NUMBERS // n_items)
    for low in range(0, held_out.shape[0], step):
        rows = slice(low, min(low + step, held_out.shape[0]))
        history = histories[rows]
        scores = model.scores(history)
        entries = slice(held_out.indptr[rows.start], held_out.indptr[rows.stop])
        owner = np.repeat(np.arange(rows.stop - rows.start), np.diff(held_out.indptr[rows.start : rows.stop + 1]))
        predicted[entries] = model.as_ratings(scores[owner, held_out.indices[entries]])
        positions, best = top_n(model.ranked(scores), k, scipy.sparse.csr_array(history))
        lists[rows] = np.where(np.isfinite(best), positions, -1)  # -inf: a seen item that filled up a short list
    figures: dict[str, float] = {}
    if model.settings.get("rating_range") is not None and held_out.nnz:  # otherwise scores are no ratings
        figures = {"rmse": rmse(predicted, held_out.data), "mae": mae(predicted, held_out.data)}
    if model.domain.kind == "ratings":
        figures["better of two"] = better_of_two(predicted, held_out)
    figures |= {
        f"recall@{k}": recall_at_k(lists, relevant),
        f"ndcg@{k}": ndcg_at_k(lists, relevant),
        "coverage": coverage(lists, n_items),
    }
    for name, members in (slices or {}).items():
        inside = members[held_out.indices]
        if "rmse" in figures and inside.any():
            figures[f"rmse, {name}"] = rmse(predicted[inside], held_out.data[inside])
        figures[f"recall@{k}, {name}"] = recall_at_k(lists, _chosen(relevant, members[relevant.indices]))
    return figures


def _at_least(rows: Any, threshold: float) -> scipy.sparse.csr_array:
    return _chosen(rows, rows.data >= threshold)


def _chosen(rows: Any, chosen: npt.NDArray[np.bool_]) -> scipy.sparse.csr_array:
    before = np.concatenate([[0], np.cumsum(chosen)])
    return scipy.sparse.csr_array((rows.data[chosen], rows.indices[chosen], before[rows.indptr]), shape=rows.shape)


def exact_twin(kind: type[Any]) -> type[Any]:
    """The same method, with the settings that its budget gives it, and exact posts. NOT PRIVATE."""

    def plan(self: Recommender, settings: Settings) -> Plan:
        return kind.plan_of(self, replace(settings, budget=replace(settings.budget, mu=math.inf)))

    return type(f"Exact{kind.__name__}", (kind,), {"__init__": kind.__init__, "plan_of": plan})
