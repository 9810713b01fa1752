"""Public room: the released model: the item side, how to use it, and the ledger of what it cost. No user is in it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.histories import Columns, Histories, Recommendations, asked, facts_of, facts_table
from lowkey.linalg.topn import ByNorm, top_n
from lowkey.model_items import NEW_SHARE, limit_new, most_new, with_items
from lowkey.origin import Origin
from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.ledger import Ledger
from lowkey.serving.rule import LinearRule, Rule
from lowkey.serving.rules import RULES
from lowkey.threads import one_blas_thread

CHUNK_NUMBERS = 1 << 24  # scores held at a time: 128 MB
MANY_ITEMS, FEW_ROWS = 50_000, 8  # few users among many items are answered without a look at all of them


@dataclass(frozen=True)
class Explanation:
    """score = base + offset + the parts' values, on the scale of ``by``, before it is clipped or goes through a link.

    ``base`` is what somebody new gets, ``offset`` how this user rates at large, ``parts`` what each item of theirs adds.
    """

    item: Any
    by: str
    base: float
    offset: float
    parts: tuple[tuple[Any, float], ...]

    @property
    def score(self) -> float:
        return self.base + self.offset + sum(value for _, value in self.parts)


@dataclass(frozen=True, repr=False)
class Model:
    """What a fit leaves behind and a release folder holds. ``arrays`` are public: they are made from posts alone.

    Examples
    --------
    >>> model = lk.load("release")  # doctest: +SKIP
    >>> model.recommend({"film 7": 5.0}, n=10)  # doctest: +SKIP
    """

    method: str
    rule: str
    arrays: Mapping[str, NDArray[Any]]
    settings: Mapping[str, Any]
    domain: Domain
    ledger: Ledger
    origin: Origin | None = None  # what it was made from, where that is small

    @property
    def guarantee(self) -> Guarantee:
        return self.ledger.guarantee()

    def __repr__(self) -> str:
        return f"Model({', '.join(facts_of(self.method, self.domain, self.guarantee).values())})"

    def _repr_html_(self) -> str:
        return facts_table(facts_of(self.method, self.domain, self.guarantee))

    @cached_property
    def _rule(self) -> Rule:
        return RULES[self.rule](self.arrays, self.settings, self.domain.n_items)

    def histories(self, X: Any) -> Histories:
        """CSR rows as they are; one history ({item id: value}, or ids) as one row; a list of them as many."""
        return asked(self.domain, X).rows

    def _chunks(self, rows: Histories) -> list[slice]:
        step = max(1, CHUNK_NUMBERS // self.domain.n_items)
        return [slice(low, min(low + step, rows.shape[0])) for low in range(0, rows.shape[0], step)]

    def as_ratings(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Scores within the rating range, where the model predicts ratings. Ranking is by the scores themselves:
        clipped, many of a happy user's items would tie."""
        limits = self.settings.get("rating_range")
        return scores if limits is None else np.clip(scores, *limits)

    def ranked(self, scores: NDArray[Any]) -> NDArray[Any]:
        """What items are ranked by: the scores, or, of expected ratings, popularity and a part of them."""
        ranking = self.arrays.get("ranking")
        if ranking is None:
            return scores
        return scores * scores.dtype.type(self._ranking_scale) + ranking.astype(scores.dtype)

    @property
    def _ranking_scale(self) -> float:
        return float(self.settings.get("ranking_scale", 0.0))

    def scores(self, X: Any) -> NDArray[np.float64]:
        """(n_rows, n_items): of expected ratings, before they are clipped to the scale."""
        rows = self.histories(X)
        scores, score = np.empty(rows.shape), self._rule.scorer(rows)
        for part in self._chunks(rows):
            scores[part] = score(part)
        return scores

    def transform(self, X: Any) -> NDArray[np.float64]:
        """User factors: the local step, computed from each row alone."""
        return self._rule.transform(self.histories(X))

    def item_vectors(self) -> NDArray[np.float64]:
        """(n_items, width + 1), for search by inner product: (transform, 1) . vector is what items are ranked by."""
        if not isinstance(self._rule, LinearRule):
            refuse(
                "item vectors",
                got=f"a {self.method} release, whose scores are no inner products",
                needed="a model of factors",
                try_="recommend, or export --to npy",
            )
        vectors = self._rule.item_vectors
        if "ranking" in self.arrays:
            vectors = vectors * self._ranking_scale
            vectors[:, -1] += self.arrays["ranking"]
        return vectors

    def predict(self, X: Any, items: Any = None) -> NDArray[np.float64]:
        """Expected ratings (or scores): (n_rows, n_items) for CSR rows, or of ``items`` by id for one history."""
        wanted = asked(self.domain, X)
        rows = wanted.rows
        if items is not None:
            positions = self.domain.positions(items)
            if (positions < 0).any():
                refuse("items", got="ids that the catalogue does not have", needed="known ids", try_="dropping them first")
            score = self._rule.scorer(rows)
            chosen = [score(part)[:, positions] for part in self._chunks(rows)]
            scores = self.as_ratings(np.vstack([np.zeros((0, len(positions))), *chosen]))
            return scores[0] if wanted.like is Recommendations else scores
        return self.as_ratings(self.scores(rows))

    def recommend(
        self,
        X: Any,
        n: int = 10,
        *,
        items: Any = None,
        exclude: Any = (),
        exclude_seen: bool = True,
        unknown: str = "error",
        new_share: float = NEW_SHARE,
        **columns: Unpack[Columns],
    ) -> Any:
        """The ``n`` best items for one history, or for many: only of ``items``, if given, and none of ``exclude``.

        For one history, ids and scores, (n,) each, that look like a table; for CSR rows two arrays, (n_rows, n) each; for a
        frame whose columns are named (``user=``, ``item=``, ``rating=``) a frame of the same kind with user, item, score
        and rank; for a list or a dict of histories an Arrow table of these. ``unknown="ignore"`` leaves out ids that the
        catalogue does not have, and says how many: ``.ignored``, or a column of that name.

        Items that ``add_items`` brought are ranked by their score less a standard deviation of what is not known of them,
        and are at most ``new_share`` of a list.
        """
        wanted = asked(self.domain, X, unknown, columns)
        ids, scores = self._best(wanted.rows, n, self._barred(items, exclude), exclude_seen, new_share)
        return wanted.answer(ids, scores, counted=unknown == "ignore")

    def _best(
        self, rows: Histories, n: int, barred: NDArray[np.bool_] | None, exclude_seen: bool, new_share: float
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Ranked in single precision, as other libraries do: the noise is far above what it rounds away."""
        seen = rows if exclude_seen else None
        left = self._left(seen, barred)
        if self.n_new:
            known = np.zeros(self.domain.n_items, bool) if barred is None else barred.copy()
            known[-self.n_new :] = True
            left = min(left, self._left(seen, known) + most_new(n, new_share))
        if not 1 <= n <= left:
            needed = f"1 to {left}: the catalogue without what was seen or left out"
            refuse("n", got=f"{n}", needed=needed, try_="a smaller n, or exclude_seen=False")
        if rows.shape[0] <= FEW_ROWS and self._by_norm is not None:
            users = self._rule.transform(rows) * (self._ranking_scale if "ranking" in self.arrays else 1.0)
            return self._shown(*self._by_norm.best_of(users, n, seen, barred))
        positions, best = np.empty((rows.shape[0], n), np.int64), np.empty((rows.shape[0], n))
        score = self._rule.scorer(rows, np.float32)

        def fill(part: slice) -> None:
            scores = self.ranked(score(part))
            if barred is not None:
                scores[:, barred] = -np.inf
            if self.n_new:
                unknown = np.asarray(self.settings["new_items"]) * (
                    self._ranking_scale if "ranking" in self.arrays else 1.0
                )
                limit_new(scores, unknown, n, new_share)
            positions[part], best[part] = top_n(scores, n, rows[part] if exclude_seen else None)

        chunks = self._chunks(rows)
        if len(chunks) < 2:  # one user asks: threads would take longer to start than the answer
            list(map(fill, chunks))
        else:
            # A thread per chunk beats BLAS on all threads for one after the other: the scan runs beside the product.
            with one_blas_thread(), ThreadPoolExecutor(get_num_threads()) as pool:
                list(pool.map(fill, chunks))
        return self._shown(positions, best)

    def _shown(self, positions: NDArray[np.int64], best: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.domain.ids(positions), best if "ranking" in self.arrays else self.as_ratings(best)

    @cached_property
    def _by_norm(self) -> ByNorm | None:
        """Of many items whose scores are inner products, in an order that lets most of them be left out."""
        rule = self._rule
        if self.domain.n_items < MANY_ITEMS or self.n_new or not isinstance(rule, LinearRule):
            return None
        return ByNorm(rule.design, self.ranked(rule.item_prior))

    def _known(self, what: str, ids: Any) -> NDArray[np.int32]:
        positions = self.domain.positions(list(ids))
        if (positions < 0).any():
            refuse(what, got="ids that the catalogue does not have", needed="known ids", try_="dropping them")
        return positions

    def _barred(self, items: Any, exclude: Any) -> NDArray[np.bool_] | None:
        """(n_items,): what may not be recommended to anybody; None if all may."""
        if items is None and len(exclude) == 0:
            return None
        barred = np.full(self.domain.n_items, items is not None)
        if items is not None:
            barred[self._known("items", items)] = False
        barred[self._known("exclude", exclude)] = True
        return barred

    def _left(self, seen: Histories | None, barred: NDArray[np.bool_] | None) -> int:
        """How many items can be recommended to everybody."""
        left = self.domain.n_items - (0 if barred is None else int(barred.sum()))
        if seen is None:
            return left
        counted = np.ones(seen.nnz, np.int64) if barred is None else (~barred)[seen.indices].astype(np.int64)
        ends = np.concatenate([[0], np.cumsum(counted)])[seen.indptr]
        return left - int(np.diff(ends).max(initial=0))

    def explain(self, history: Any, item: Any) -> Explanation:
        """Why an item gets its score: what each item of the history adds to it, the largest first."""
        rows, at = self.histories(history), int(self._known("item", [item])[0])
        if rows.shape[0] != 1:
            refuse("a history", got=f"{rows.shape[0]} rows", needed="one", try_="rows[[0]]")
        base, offset, parts = self._rule.explain(rows, at)
        order = np.argsort(-np.abs(parts), kind="stable")
        named = zip(self.domain.ids(rows.indices[order]).tolist(), parts[order].tolist(), strict=True)
        return Explanation(self.domain.ids([at]).tolist()[0], self._rule.scale, base, offset, tuple(named))

    def similar_items(self, item: Any, n: int = 10) -> Recommendations:
        """The ids of the ``n`` items most like this one, and how alike they are: the cosine of their factors, or for a
        model of item weights what having the one adds to the other."""
        at = int(self._known("item", [item])[0])
        alike = self._rule.alike(at)
        if alike is None:
            refuse("similar items", got="an item of which the release says nothing but its place",
                   needed="an item with factors or weights", try_="another item, or recommend")  # fmt: skip
        alike[at] = -np.inf
        left = int(np.isfinite(alike).sum())
        if not 1 <= n <= left:
            refuse("n", got=f"{n}", needed=f"1 to {left}: the items that can be compared", try_="a smaller n")
        positions, best = top_n(alike[None], n)
        return Recommendations(self.domain.ids(positions[0]), best[0].astype(np.float64))

    @property
    def n_new(self) -> int:
        """How many items are known by their features alone: the last ones of the catalogue."""
        return len(self.settings.get("new_items", ()))

    def add_items(self, ids: Any, features: Any) -> Model:
        """A model that knows these items too, by their features (a table, one row each, in the order of ``ids``): free."""
        return with_items(self, ids, features)

    def release(
        self,
        folder: str | Path,
        *,
        about: Mapping[str, str] | None = None,
        sign: str | Path | None = None,
        force: bool = False,
    ) -> Path:
        """Write the folder that may be published; ``about`` is what its curator says, ``sign`` a secret key's file.

        ``force`` is needed where delta is not below one over the domain's expected users.
        """
        from lowkey.release.signing import Signer
        from lowkey.release.writing import write_release

        return write_release(self, folder, about, None if sign is None else Signer(Path(sign)), force)
