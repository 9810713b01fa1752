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
from html import escape
from typing import Any, NamedTuple, TypedDict

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import InputError, refuse, without_values
from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.price import at_most

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
    """Ratings within their range, where a stored float32 of its end is that end, as in ``Ratings``; counts of 1 or more,
    taken up to the largest that counts."""
    limits = domain.rating_range
    if limits is None:
        return values
    if domain.feedback == "counts":
        values = np.minimum(values, limits[1])
    low, high = min(limits[0], float(np.float32(limits[0]))), max(limits[1], float(np.float32(limits[1])))
    if not ((values >= low) & (values <= high)).all():
        refuse(
            "a history",
            got="a rating outside the range, or not a number",
            needed=f"{limits[0]:g} to {limits[1]:g}",
            try_="the scale that the model was trained on",
        )
    return np.clip(values, *limits)


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


MOST_SHOWN = 50


class Recommendations(tuple[Any, ...]):
    """What is recommended to one history. ``ids, scores = …`` takes it apart; printed, or in a notebook, it is a table.

    ``ignored`` is how many ids of the history the catalogue does not have; ``to_arrow()`` and ``to_pandas()`` give the
    table (item, score, rank) to other libraries.
    """

    ignored: int

    def __new__(cls, ids: NDArray[Any], scores: NDArray[np.float64], ignored: int = 0) -> Recommendations:
        made = super().__new__(cls, (ids, scores))
        made.ignored = ignored
        return made

    @property
    def ids(self) -> NDArray[Any]:
        return self[0]

    @property
    def scores(self) -> NDArray[np.float64]:
        return self[1]

    def to_arrow(self) -> Any:
        return answer_table(None, self.ids[None], self.scores[None], None)

    def to_pandas(self) -> Any:
        return self.to_arrow().to_pandas()

    def _rows(self) -> list[tuple[str, str, str]]:
        shown = zip(self.ids[:MOST_SHOWN].tolist(), self.scores[:MOST_SHOWN].tolist(), strict=True)
        return [(str(rank), str(item), f"{score:.4g}") for rank, (item, score) in enumerate(shown, 1)]

    def _notes(self) -> list[str]:
        more = [f"… and {len(self.ids) - MOST_SHOWN} more"] if len(self.ids) > MOST_SHOWN else []
        return [*more, *([f"{self.ignored} unknown items of the history were ignored"] if self.ignored else [])]

    def __repr__(self) -> str:
        rows = [("rank", "item", "score"), *self._rows()]
        widths = [max(len(row[at]) for row in rows) for at in range(3)]
        lines = [f"{row[0]:>{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}" for row in rows]
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        head = "<tr><th>rank</th><th>item</th><th>score</th></tr>"
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows())
        return f"<table>{head}{body}</table>" + "".join(f"<p>{escape(note)}</p>" for note in self._notes())


def answer_table(users: Any, ids: NDArray[Any], scores: NDArray[np.float64], ignored: NDArray[np.int64] | None) -> Any:
    """(user, item, score, rank), and how many ids of the user's history were left out, if that was asked for."""
    import pyarrow as pa

    n_rows, n = ids.shape
    columns: dict[str, Any] = {}
    if users is not None:
        listed = users if isinstance(users, pa.Array) else pa.array(users)
        columns["user"] = listed.take(pa.array(np.repeat(np.arange(n_rows), n)))
    columns |= {"item": pa.array(ids.ravel()), "score": scores.ravel(), "rank": np.tile(np.arange(1, n + 1), n_rows)}
    if ignored is not None:
        columns["ignored"] = np.repeat(ignored, n)
    return pa.table(columns)


def in_kind(table: Any, like: Any) -> Any:
    """An Arrow table as a frame of the kind of ``like``, a lazy one lazy."""
    if like is None:
        return table
    import narwhals as nw

    known: Any = nw.from_native(like)
    if known.implementation.is_duckdb():
        return nw.from_arrow(table, backend="pyarrow").lazy(backend="duckdb").to_native()
    frame: Any = nw.from_arrow(table, backend=known.implementation)
    return (frame.lazy() if isinstance(known, nw.LazyFrame) else frame).to_native()


def facts_of(method: str, domain: Domain, guarantee: Guarantee) -> dict[str, str]:
    """The method, the guarantee and the items, in words."""
    promise = f"epsilon = {at_most(guarantee.epsilon, 4)}, delta = {guarantee.delta:g}"
    held = guarantee.sentence().startswith("NOT PRIVATE")
    return {
        "method": method,
        "guarantee": guarantee.sentence().partition(":")[0] if held else f"{promise}, protects {guarantee.unit.protected}",
        "items": f"{domain.n_items:,} items, {domain.scale}",
    }


def facts_table(facts: dict[str, str]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{rows}</table>"
