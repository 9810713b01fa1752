"""Public room: the head of a catalogue, by posted counts: the items that get second moments, and how they weigh."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain

SMALLEST_HEAD, LARGEST_HEAD = 100, 4096
WEIGHT_POWER = 0.3  # binary: an item weighs posted count^-0.3 in a row

Array = NDArray[np.float64]


def clear_size(domain: Domain, counts: Array, std: float) -> int:
    """How many items stand clear of the noise of their posted counts, within limits."""
    clear = int(np.sum(counts >= _clear_count(domain, counts, std)))
    return min(max(clear, SMALLEST_HEAD), LARGEST_HEAD, domain.n_items)


def most_counted(counts: Array, size: int) -> NDArray[np.int64]:
    """The ``size`` items with the highest counts, in the order of the catalogue."""
    return np.sort(np.argsort(-counts, kind="stable")[:size])


def places(head: NDArray[np.int64], n_items: int) -> NDArray[np.int32]:
    """What the kernels of second moments are told: of every item its place in the head, or -1."""
    slots = np.full(n_items, -1, np.int32)
    slots[head] = np.arange(len(head), dtype=np.int32)
    return slots


def _clear_count(domain: Domain, counts: Array, std: float) -> float:
    """The posted count from which an item belongs to the head.

    Ratings: clear of the noise, as the fit weighs every entry by what it knows. Binary: half way, in logarithms,
    between the noise and a typical item (times 4.5, by experiment): a rule that stays put when users and noise grow
    together; EASE weighs all items alike, so items that are mostly noise would cost more than they bring.
    """
    if domain.kind == "ratings":
        return 3.0 * std
    typical = max(float(counts.mean()), std / np.sqrt(len(counts)))
    return 4.5 * float(np.sqrt(std * typical))
