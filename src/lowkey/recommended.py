"""Public room: what answers look like: a small table for one history, a frame for many; and the facts of a model."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.price import at_most

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
