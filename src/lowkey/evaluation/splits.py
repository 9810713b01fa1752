"""Lab room: training and held-out parts of a data set. Opens the ratings: only for data that you treat as public."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from lowkey.data.ratings import Ratings
from lowkey.errors import refuse


class Split(NamedTuple):
    """``train`` to fit on; for every tested user a history (what the model may see) and what is held out."""

    train: Ratings
    histories: Any  # CSR, one row per tested user
    held_out: Any  # CSR, the same rows


def split_ratings(ratings: Ratings, test: float = 0.1, seed: int = 0) -> Split:
    """Every rating is held out with chance ``test``. A user's history is what stays, which is also trained on."""
    _check_share("test", test)
    rows = ratings._open_csr()
    held = np.random.default_rng(seed).random(rows.nnz) < test
    kept = _entries(rows, ~held)
    return Split(Ratings.from_csr(kept, ratings.domain, keys=ratings._open_keys()), kept, _entries(rows, held))


def hold_out_users(ratings: Ratings, users: float = 0.1, fold_in: float = 0.8, seed: int = 0) -> Split:
    """Some users are left out of training: a share of them if ``users`` is below 1, else that many.

    Each of them shows a ``fold_in`` share of the own ratings as history (rounded down; a user with one rating shows
    none of it), and the rest is held out. This is how the model meets people who were not in its data.
    """
    _check_share("fold_in", fold_in)
    rows: Any = ratings._open_csr()
    keys = ratings._open_keys()
    wanted = round(users * rows.shape[0]) if 0 < users < 1 else int(users)
    if not 1 <= wanted < rows.shape[0]:
        refuse("users", got=f"{users:g}", needed="a share below 1, or fewer users than there are", try_="users=0.1")
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows.shape[0])
    out, stay = np.sort(order[:wanted]), np.sort(order[wanted:])
    train = Ratings.from_csr(rows[stay], ratings.domain, keys=keys[stay])
    return Split(train, *_shown_and_held(rows[out], fold_in, rng))


def fold_in_rows(ratings: Ratings, fold_in: float = 0.8, seed: int = 0) -> tuple[Any, Any]:
    """Every user's ratings as a history and a held-out part, for users whom a model has not seen."""
    _check_share("fold_in", fold_in)
    return _shown_and_held(ratings._open_csr(), fold_in, np.random.default_rng(seed))


def _shown_and_held(rows: Any, fold_in: float, rng: np.random.Generator) -> tuple[Any, Any]:
    """Each row's entries in random order: the first of them are the history."""
    counts = np.diff(rows.indptr)
    owner = np.repeat(np.arange(rows.shape[0]), counts)
    place = np.empty(rows.nnz, np.int64)
    place[np.lexsort((rng.random(rows.nnz), owner))] = np.arange(rows.nnz)
    shown = place - rows.indptr[owner] < np.floor(fold_in * counts)[owner]
    return _entries(rows, shown), _entries(rows, ~shown)


def _entries(rows: Any, chosen: npt.NDArray[np.bool_]) -> scipy.sparse.csr_array:
    """The chosen entries of a CSR array, in the same shape; explicit zeros stay entries."""
    before = np.concatenate([[0], np.cumsum(chosen)])
    return scipy.sparse.csr_array((rows.data[chosen], rows.indices[chosen], before[rows.indptr]), shape=rows.shape)


def _check_share(name: str, share: float) -> None:
    if not 0.0 < share < 1.0:
        refuse(name, got=f"{share:g}", needed="a share between 0 and 1", try_=f"{name}=0.1")
