"""Lab room: users who try to move a sum as far as they can: a gallery, and users aligned with the posts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lowkey.data.domain import Domain
from lowkey.testing.cases import Row, as_row
from lowkey.testing.watching import Record, arrays_in

LOW, HIGH = 0, 9  # the ends of the ten levels of a rating


def gallery(domain: Domain, rows: list[Row]) -> dict[str, Row]:
    """Users of a kind that has broken a bound somewhere before."""
    n = domain.n_items
    position = np.arange(n)
    levels = {
        "empty": np.full(n, -1),
        "one rating, low": np.where(position == 3, LOW, -1),
        "one rating, high": np.where(position == n - 1, HIGH, -1),
        "two ratings, far apart": np.where(position == 0, LOW, np.where(position == 1, HIGH, -1)),
        "everything, all low": np.full(n, LOW),
        "everything, all high": np.full(n, HIGH),
        "everything, alternating": np.where(position % 2, HIGH, LOW),
        "everything, all but one low": np.where(position == 5, HIGH, LOW),
        "half, all high": np.where(position < n // 2, HIGH, -1),
        "a few, alternating": np.where(position < 5, np.where(position % 2, HIGH, LOW), -1),
        "a ladder": np.where(position < 10, position, -1),
    }
    users = {name: as_row(domain, values) for name, values in levels.items()}
    heavy = max(rows, key=lambda row: len(row[0]))
    light = min((row for row in rows if len(row[0])), key=lambda row: len(row[0]))
    return {**users, "a double of a heavy user": heavy, "a double of a light user": light}


def aligned(domain: Domain, known: Record) -> Iterator[tuple[str, Row]]:
    """Users built from the posts: high where a posted or learned direction is positive, low or nothing where not."""
    for source, direction in _directions(domain, known):
        positive = direction > np.median(direction)
        yield f"along {source}", as_row(domain, np.where(positive, HIGH, LOW))
        yield f"against {source}", as_row(domain, np.where(positive, LOW, HIGH))
        yield f"on the positive side of {source}", as_row(domain, np.where(positive, HIGH, -1))
        top = np.argsort(np.abs(direction))[-3:]
        few = np.full(domain.n_items, -1)
        few[top] = np.where(direction[top] > 0, HIGH, LOW)
        yield f"on the peaks of {source}", as_row(domain, few)


def _directions(domain: Domain, known: Record) -> Iterator[tuple[str, np.ndarray]]:
    n = domain.n_items
    arrays_ = {f"post {i}": np.asarray(entry.posted) for i, entry in enumerate(known.entries)}
    arrays_ |= {f"the model's {name}": np.asarray(array) for name, array in known.model.arrays.items()}
    for call_at, call in enumerate(known.calls):
        arrays_ |= {f"{name} of sweep {call_at}": array for name, array in arrays_in(call.sweep)}
    for source, array in arrays_.items():
        if array.size == n * (n + 1) // 2 and array.ndim == 1:
            full = np.zeros((n, n))
            full[np.triu_indices(n)] = array
            array = full + np.triu(full, 1).T
        if array.size == 0 or n not in array.shape or array.dtype.kind != "f":
            continue
        table = np.moveaxis(array, array.shape.index(n), 0).reshape(n, -1).astype(np.float64)
        left = np.linalg.svd(table, full_matrices=False)[0]
        for column in range(min(2, left.shape[1])):
            yield f"direction {column} of {source}", left[:, column]
