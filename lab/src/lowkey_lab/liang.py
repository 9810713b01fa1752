"""Lab room: the MovieLens-20M split of Liang et al. 2018, draw for draw, so that figures compare with published ones.

Paper: Liang et al. 2018 (arXiv:1802.05814), section 4.1, and the notebook published with it: ratings from 4 on, users
with five or more of them, 10,000 users each for validation and test, items that occur in training, and a fifth of a
tested user's items held out. Deviates: nowhere; the draws are those of NumPy's old generator with the seed 98765.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

SEED = 98765


def liang_split(
    table: dict[str, np.ndarray], held_out_users: int = 10_000, relevant_from: float = 4.0, least: int = 5
) -> tuple[Any, Any, Any]:
    """(training rows, histories, held-out rows) of the test users, from columns user, item, rating in file order."""
    liked = table["rating"] >= relevant_from
    user, item = table["user"][liked], table["item"][liked]
    ids, counts = np.unique(user, return_counts=True)
    kept = np.isin(user, ids[counts >= least])
    user, item = user[kept], item[kept]
    ids = ids[counts >= least]
    order = ids[np.random.RandomState(SEED).permutation(len(ids))]
    training, tested = order[: -2 * held_out_users], order[-held_out_users:]
    in_training = np.isin(user, training)
    catalogue = np.unique(item[in_training])
    width = len(catalogue)
    wanted = np.isin(user, tested) & np.isin(item, catalogue)
    shown, held = _proportion(user[wanted], np.searchsorted(catalogue, item[wanted]), least)
    rows = np.unique(user[wanted])
    trained = _binary(np.searchsorted(np.sort(training), user[in_training]),
                      np.searchsorted(catalogue, item[in_training]), (len(training), width))  # fmt: skip
    histories, held_out = (_binary(np.searchsorted(rows, u), i, (len(rows), width)) for u, i in (shown, held))
    return trained, histories, held_out


Pairs = tuple[np.ndarray, np.ndarray]


def _proportion(user: np.ndarray, item: np.ndarray, least: int) -> tuple[Pairs, Pairs]:
    """A fifth of each user's items, rounded down, is held out; of users with fewer than ``least``, nothing."""
    rng = np.random.RandomState(SEED)
    order = np.argsort(user, kind="stable")  # users by id, a user's items in the order of the file
    user, item = user[order], item[order]
    out = np.zeros(len(user), bool)
    starts = np.flatnonzero(np.concatenate([[True], user[1:] != user[:-1]]))
    for start, stop in zip(starts, [*starts[1:], len(user)], strict=True):
        count = int(stop - start)
        if count >= least:
            out[start + rng.choice(count, size=int(0.2 * count), replace=False)] = True
    return (user[~out], item[~out]), (user[out], item[out])


def _binary(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Any:
    return scipy.sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
