"""Public room: whose recommendations are asked for: one history, or many in any form, as CSR rows; and the answer's form.

| given | answered with |
|---|---|
| ``{item: value}``, ids, or a frame without ``user=`` | ``Recommendations``: ids and scores, shown as a table |
| a list or a dict of such histories | an Arrow table (user, item, score, rank) |
| a frame of any kind that narwhals knows, with ``user=`` | a frame of that kind |
| CSR rows | two arrays, (rows, n) each |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import InputError, refuse, without_values
from lowkey.recommended import Recommendations, answer_table, in_kind

Histories = Any  # a scipy.sparse.csr_array; its stubs say too little to check anything
NO_NUMBERS = {"what": "a history", "got": "ratings that are not numbers", "needed": "numbers", "try_": "{item id: 4.0}"}


class Columns(TypedDict, total=False):
    """The columns of a frame of histories, and what `from_frame` may be told of such a frame as well."""

    user: str
    item: str
    rating: str
    time: str
    duplicates: str
    missing: str


class Asked(NamedTuple):
    """CSR rows; how many ids of each were left out; whose they are (None: one history, or bare rows); in what form."""

    rows: Histories
    ignored: NDArray[np.int64]
    users: Any = None
    like: Any = None

    def answer(self, ids: NDArray[Any], scores: NDArray[np.float64], counted: bool) -> Any:
        """The ids and scores of the best items, (rows, n) each, in the form that was asked in."""
        if self.like is Recommendations:
            return Recommendations(ids[0], scores[0], int(self.ignored[0]))
        if self.users is None:
            return ids, scores
        return in_kind(answer_table(self.users, ids, scores, self.ignored if counted else None), self.like)


def asked(domain: Domain, X: Any, unknown: str = "error", columns: Columns | None = None) -> Asked:
    """Whatever form it has: ids of the catalogue (others refused, or left out and counted), values within the range."""
    if unknown not in ("error", "ignore"):
        refuse("unknown", got="another word", needed="'error' or 'ignore'", try_="unknown='ignore'")
    if scipy.sparse.issparse(X):
        return Asked(_matrix(domain, X), np.zeros(X.shape[0], np.int64))
    if _is_frame(X):
        return _frame(domain, X, unknown, columns or {})
    if columns:
        refuse("columns", got="no frame", needed="a frame that has them", try_="leaving user=, item= and rating= out")
    histories = list(X.values()) if isinstance(X, Mapping) else X
    if not _many(histories):
        row, ignored = one_row(domain, X, unknown)
        return Asked(row, np.array([ignored]), like=Recommendations)
    rows = [one_row(domain, history, unknown) for history in histories]
    users = list(X) if isinstance(X, Mapping) else list(range(len(rows)))
    return Asked(scipy.sparse.vstack([row for row, _ in rows], format="csr"), np.array([i for _, i in rows]), users)


def one_row(domain: Domain, history: Any, unknown: str = "error") -> tuple[Histories, int]:
    """One history as one row, and how many of its ids were left out."""
    ids, values = (list(history), None) if not isinstance(history, Mapping) else (list(history), list(history.values()))
    if values is None and domain.feedback == "ratings":
        refuse("a history", got="ids without ratings", needed="{item id: rating}", try_="recommend({id: 4.0})")
    positions = domain.positions(ids) if ids else np.zeros(0, np.int32)
    known = positions >= 0
    if unknown == "error" and not known.all():
        refuse("a history", got="ids that the catalogue does not have", needed="known ids", try_="unknown='ignore'")
    data = np.ones(len(ids))
    if values is not None and domain.rating_range is not None:
        data = without_values(lambda: np.asarray(values, np.float64), InputError(**NO_NUMBERS))
    positions, data = positions[known], data[known]
    if len(np.unique(positions)) < len(positions):  # two spellings of one id, or a repeat
        refuse("a history", got="the same item twice", needed="each item once", try_="keeping the last")
    order = np.argsort(positions)
    cells = (in_range(domain, data[order]), positions[order], np.array([0, len(positions)]))
    return scipy.sparse.csr_array(cells, shape=(1, domain.n_items)), int((~known).sum())


def in_range(domain: Domain, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ratings within their range; counts of 1 or more, taken up to the largest that counts."""
    limits = domain.rating_range
    if limits is None:
        return values
    if domain.feedback == "counts":
        values = np.minimum(values, limits[1])
    if not ((values >= limits[0]) & (values <= limits[1])).all():
        refuse(
            "a history",
            got="a rating outside the range, or not a number",
            needed=f"{limits[0]:g} to {limits[1]:g}",
            try_="the scale that the model was trained on",
        )
    return values


def _matrix(domain: Domain, X: Any) -> Histories:
    if X.shape[1] != domain.n_items:
        refuse(
            "histories",
            got=f"{X.shape[1]} columns",
            needed=f"{domain.n_items}, one per item",
            try_="columns in the order of the catalogue",
        )
    rows: Histories = without_values(lambda: scipy.sparse.csr_array(X, dtype=np.float64), InputError(**NO_NUMBERS))
    fine = in_range(domain, rows.data)
    return rows if fine is rows.data else scipy.sparse.csr_array((fine, rows.indices, rows.indptr), shape=rows.shape)


def _is_frame(X: Any) -> bool:
    """A table of any library: they all say their columns, which no history of ours does."""
    return not isinstance(X, Mapping | list | tuple | np.ndarray) and hasattr(type(X), "columns")


def _many(histories: Any) -> bool:
    """Whether these are histories, and not the ids of one."""
    inner = Mapping | list | tuple | set | np.ndarray
    return isinstance(histories, list | tuple) and len(histories) > 0 and all(isinstance(h, inner) for h in histories)


def _frame(domain: Domain, frame: Any, unknown: str, columns: Columns) -> Asked:
    from lowkey.data.frames import frame_histories  # a single answer need not wait for the readers

    found = frame_histories(frame, domain, dict(columns), unknown)
    rows = scipy.sparse.csr_array(found.csr, shape=(len(found.ignored), domain.n_items))
    return Asked(rows, found.ignored, found.users, Recommendations if found.users is None else frame)
