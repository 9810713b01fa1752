"""A billboard that keeps the raw bytes of every sum, and the rows of the conformance table as a table of ratings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from estimators import base_rows

import lowkey as lk
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.plan import Line
from lowkey.privacy.sums import Unreleased

COLUMNS = {"user": "user", "item": "item", "rating": "rating"}


class KeepingBillboard(lk.Billboard):
    """Keeps the raw bytes of every sum."""

    def __init__(self, ledger: Any = None) -> None:
        super().__init__(ledger, noise=SeededNoise(9))
        self.opened: list[tuple[str, bytes]] = []

    def _release(self, unreleased: Unreleased, line: Line) -> tuple[Any, str]:
        self.opened.append((line.name, np.array(unreleased._units).tobytes()))
        return super()._release(unreleased, line)


def base_table(domain: lk.Domain, n_users: int, seed: int = 0) -> pa.Table:
    """The users 1000, 1001, … of the conformance table (those with any rating), their rows in random order."""
    rows = base_rows(domain, n_users)
    counts = [len(items) for items, _ in rows]
    users = np.repeat(np.arange(1000, 1000 + n_users), counts)
    items = domain.ids(np.concatenate([items for items, _ in rows]))
    values = np.concatenate([values for _, values in rows])
    order = np.random.default_rng(seed).permutation(len(users))
    return pa.table({"user": users[order], "item": pa.array(items[order]), "rating": values[order]})
