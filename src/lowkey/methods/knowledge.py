"""Public room: what is public of the items already, in the form that priors are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.features import FeatureMap, Table
from lowkey.data.public import Public
from lowkey.data.ratings import Block
from lowkey.engines.local import block_users, no_sums
from lowkey.errors import refuse
from lowkey.kernels.sweep import Sweep
from lowkey.methods.open_fit import OpenFit, open_fit

Array = NDArray[np.float64]
RIDGES = np.geomspace(1e-4, 1.0, 13)  # of the map to new items, in units of a column's mean square
BLOCK = 1 << 12  # public people at a time
MOST_COLUMNS = 60  # of features: beyond, their leading directions


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What public people's ratings and item features say, and what a plan says of them."""

    facts: tuple[str, ...] = ()
    features: Array | None = None  # (n_items, k): columns of mean 0 with a mean square of 1/k
    encoder: FeatureMap | None = None
    table: Table | None = None  # of features
    people: Any = None  # CSR rows of the public people, on the private catalogue and scale
    fit: OpenFit | None = None  # of them, for ratings

    @property
    def rank(self) -> int:
        """Of the public people's factors."""
        return 0 if self.fit is None else self.fit.means.shape[1] - 1

    @cached_property
    def effects(self) -> tuple[Array, Array] | None:
        """Public item effects by the ratings alone, and their variances: infinite for items without any."""
        if self.fit is None:
            return None
        whole = self.fit.precisions + np.diag(1.0 / self.fit.prior)
        own, prior = 1.0 / np.linalg.inv(whole)[:, 0, 0], 1.0 / self.fit.prior[0]  # precisions, whatever the factors are
        told = own - prior
        known = told > 1e-6 * prior
        told = np.where(known, told, 1.0)
        return np.where(known, self.fit.means[:, 0] * own / told, 0.0), np.where(known, 1.0 / told, np.inf)

    def ask(self, sweep: Sweep) -> dict[str, Any]:
        """The sums of a sweep over the public people: exact, and free."""
        assert self.people is not None
        sums = no_sums(sweep.statistics)
        step = block_users(sweep.statistics, BLOCK)
        for first in range(0, self.people.shape[0], step):
            rows = self.people[first : first + step]
            keys = np.arange(first, first + rows.shape[0], dtype=np.uint64)
            values = rows.data.astype(np.float32)
            sweep.run(Block(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), values, keys), None, sums)
        return {statistic.name: sums[statistic.name] * statistic.grid.step for statistic in sweep.statistics}

    def halves(self, sweep: Sweep) -> tuple[dict[str, Any], dict[str, Any]]:
        """The same of two halves of them: what these differ by is chance."""
        one, other = (replace(self, people=self.people[first::2]).ask(sweep) for first in (0, 1))
        return one, other

    def item_map(self, targets: Array, counts: Array) -> dict[str, Any]:
        """For the release: how features foretell effects and factors (n_items, d) of items that nobody has rated.

        Ridge regression over ratings, as those of a new item will be by its own readers; its ridge is the one that
        foretells items left out best. Empty without features.
        """
        if self.encoder is None or self.table is None:
            return {}
        columns = np.column_stack([np.ones(len(targets)), self.encoder.encode(self.table)])
        weights = counts / max(float(counts.sum()), 1e-300)
        normal, aim = (columns * weights[:, None]).T @ columns, (columns * weights[:, None]).T @ targets
        best: tuple[float, Array, Array] | None = None
        for ridge in RIDGES:
            penalty = np.diag(np.append(0.0, np.full(len(normal) - 1, ridge)))
            inverse = np.linalg.inv(normal + penalty)
            slopes = inverse @ aim
            leverage = weights * np.einsum("ni,ij,nj->n", columns, inverse, columns)
            rest = (targets - columns @ slopes) / np.maximum(1.0 - leverage, 0.05)[:, None]
            variances = weights @ rest**2
            if best is None or variances.sum() < best[0]:
                best = (float(variances.sum()), slopes, variances)
        assert best is not None
        return {"features": {**self.encoder.to_json(), "slopes": best[1].tolist(), "variances": best[2].tolist()}}


NOTHING = Knowledge()


def knowledge_of(public: Public, domain: Domain) -> Knowledge:
    """What ``public`` says of this catalogue."""
    if not isinstance(public, Public):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may not check
        refuse("public", got="something else", needed="a Public", try_="public=lk.Public(ratings=…, features=…)")
    rows, table = public.rows(domain), public.columns(domain)
    features = encoder = people = fit = None
    if rows is not None:
        people = rows
        fit = open_fit(rows) if domain.rating_range is not None and rows.nnz else None
    if table is not None:
        encoder = FeatureMap.of(table)
        features = _leading(encoder.encode(table))
    return Knowledge(public.facts(domain), features, encoder, table, people, fit)


def _leading(columns: Array) -> Array | None:
    """Around their means, and if they are many their leading directions; None if no column says anything.

    A rare tag stays small: scaled to the size of the others it would stand for the few items that have it.
    """
    if not columns.any():
        return None
    if columns.shape[1] > MOST_COLUMNS:
        left, values, _ = np.linalg.svd(columns, full_matrices=False)
        columns = left[:, :MOST_COLUMNS] * values[:MOST_COLUMNS]
    return columns / np.sqrt(float(np.sum(columns**2)) / len(columns))
