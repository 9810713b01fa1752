"""Public room: a release's arrays in the formats of other tools: none is left out, and the recipe to use them is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from lowkey.errors import refuse
from lowkey.model import Model
from lowkey.serving.compact import thin_weights, weighted
from lowkey.serving.rule import LinearRule
from lowkey.serving.rules import RULES, RUNGS_PER_OCTAVE

THIN_RANK = 128
Written = tuple[list[str], str]  # the files, and how to search them

LINEAR = (
    "A score is the inner product of an item's vector with (user vector, 1); the user vector is model.transform(history)."
)
SIGNS = "The probability of a like grows with the inner product of an item's vector and model.transform(history)."
WEIGHTS = (
    "Low-rank form of the item weights, rank {rank}: {error:.1%} of their size is lost. The query is the sum of the "
    "query_part of one's items; a score is its inner product with an item's vector. Leave one's own items out. Items "
    "without a vector come after all others."
)


LISTS = (
    "Low-rank form of the item weights, rank {rank}: {error:.1%} of their size is lost. Of one's items take those with a "
    "query_part{liked}, k of them: the query is (the sum of their query_part, 1, k, u); a score is its inner product with "
    "an item's vector. Of the {rungs} numbers of u all are 0 but two that sum to 1: with x = {per_octave} log2(k), number "
    "floor(x), counted from 0, is 1 + floor(x) - x, and the next is the rest. Leave one's own items out."
)


def write_npy(model: Model, out: Path) -> Written:
    """One file per array, and items.npy with the ids."""
    out.mkdir(exist_ok=True)
    ids = model.domain.ids(np.arange(model.domain.n_items))
    # Text as fixed-width text: an object array would be a pickle.
    np.save(out / "items.npy", ids.astype(str) if ids.dtype == object else ids, allow_pickle=False)
    for name, array in model.arrays.items():
        np.save(out / f"{name}.npy", array, allow_pickle=False)
    return ["items.npy", *(f"{name}.npy" for name in model.arrays)], ""


def write_parquet(model: Model, out: Path) -> Written:
    """items.parquet has a row per item, with its vector where there is one; every other array has a file of its own."""
    vectors, recipe = search_vectors(model)
    out.mkdir(exist_ok=True)
    n_items = model.domain.n_items
    columns = {"item": model.domain.item_ids}
    others = {name: array for name, array in model.arrays.items() if len(array) != n_items or not array.size}
    columns |= {name: _column(array) for name, array in model.arrays.items() if name not in others}
    pyarrow.parquet.write_table(pa.table(columns | vectors), out / "items.parquet", compression="zstd")
    for name, array in others.items():
        if array.size:  # an empty one (factors of rank 0) has nothing to write
            pyarrow.parquet.write_table(pa.table({name: _column(array)}), out / f"{name}.parquet", compression="zstd")
    return ["items.parquet", *(f"{name}.parquet" for name, array in others.items() if array.size)], recipe


def write_usearch(model: Model, out: Path) -> Written:
    """items.usearch, an index by inner product; its keys are the rows of items.parquet."""
    try:
        from usearch.index import Index
    except ImportError:
        refuse("--to usearch", got="no usearch", needed="the package", try_="pip install 'lowkey[usearch]', or --to npy")
    written, recipe = write_parquet(model, out)
    column = pyarrow.parquet.read_table(out / "items.parquet")["vector"].combine_chunks()
    keys = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    vectors = np.array(column.drop_null().to_pylist(), np.float32)
    index = Index(ndim=vectors.shape[1], metric="ip", dtype="f32")
    index.add(keys, vectors)
    index.save(str(out / "items.usearch"))
    return [*written, "items.usearch"], recipe


def search_vectors(model: Model) -> tuple[dict[str, pa.Array], str]:
    """Columns for search by inner product, and the recipe."""
    if issubclass(RULES[model.rule], LinearRule):
        return {"vector": _column(model.item_vectors().astype(np.float32))}, LINEAR
    if model.rule == "signs":
        return {"vector": _column(model.arrays["item_factors"].astype(np.float32))}, SIGNS
    head = model.arrays["head"]
    left, right = thin_weights(model.arrays, min(THIN_RANK, len(head)))
    exact = weighted(model.arrays)
    rest = exact - left @ right.T
    np.fill_diagonal(rest, 0.0)  # an item has no weight on itself, in either form
    error = float(np.linalg.norm(rest) / max(float(np.linalg.norm(exact)), 1e-300))
    n_items, facts = model.domain.n_items, {"rank": left.shape[1], "error": error}
    queries = {"query_part": _scattered(left.astype(np.float32), head, n_items)}
    if model.rule != "lists":
        return queries | {"vector": _scattered(right.astype(np.float32), head, n_items)}, WEIGHTS.format(**facts)
    usual, rank = model.arrays["usual"], left.shape[1]
    vectors = np.zeros((n_items, rank + 2 + usual.shape[1]), np.float32)  # weights, popularity, that of the others, usual
    vectors[:, rank : rank + 2] = model.arrays["popularity"][:, None]
    vectors[head, rank + 1] = 0.0
    vectors[head, :rank], vectors[head, rank + 2 :] = right, usual
    facts |= {"rungs": usual.shape[1], "per_octave": RUNGS_PER_OCTAVE}
    liked = model.settings["liked"]
    facts["liked"] = "" if liked is None else f" and a rating of {liked:g} or more"
    return queries | {"vector": _column(vectors)}, LISTS.format(**facts)


def _column(array: NDArray[Any]) -> pa.Array:
    if array.ndim < 2:
        return pa.array(array)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1])


def _scattered(rows: NDArray[Any], at: NDArray[Any], n_items: int) -> pa.Array:
    """The rows at their places, null elsewhere."""
    places = np.full(n_items, -1, np.int64)
    places[at] = np.arange(len(at))
    return _column(rows).take(pa.array(places, mask=places < 0))


WRITERS = {"npy": write_npy, "parquet": write_parquet, "usearch": write_usearch}
