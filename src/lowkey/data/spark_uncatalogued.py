"""Vault room: rows on a Spark cluster over a catalogue that is not public: which ids occur is private, and stays closed."""

# pyright: reportAttributeAccessIssue=false
# (pyarrow.compute makes its functions when it is imported)

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from lowkey.data.columns import names_for, refuse_no_rows
from lowkey.data.domain import Domain, Scale
from lowkey.data.ids import refuse_missing
from lowkey.data.spark_blocks import GroupByUser
from lowkey.data.spark_errors import on_driver
from lowkey.data.spark_rows import chosen_columns, gathered, tidied, unordered_duplicates
from lowkey.data.uncatalogued import UncataloguedRatings
from lowkey.errors import quotes_nobody


@quotes_nobody
def uncatalogued_from_spark(
    frame: Any,
    *,
    user: str,
    item: str,
    rating: str | None = None,
    rating_range: tuple[float, float] | None = None,
    feedback: str = "ratings",
    partitions: int | None = None,
    duplicates: str | None = None,
) -> UncataloguedRatings:
    """As `from_spark`, where even the list of items is private. Its `with_items` leads to `Ratings`.

    The driver holds the ids that occur, closed, as it holds the sums over them.

    Parameters
    ----------
    frame, user, item, rating, partitions, duplicates
        As in `from_spark`.
    rating_range, feedback
        As in `Domain`.

    Examples
    --------
    >>> rows = lk.uncatalogued_from_spark(frame, user="who", item="film", feedback="binary")  # doctest: +SKIP
    >>> ids = lk.PrivateCatalogue(1.0, 1e-6).select(rows, board, engine=lk.SparkEngine(spark))  # doctest: +SKIP
    """
    scale = Scale(feedback, rating_range)
    duplicates = unordered_duplicates(scale, duplicates)
    names = names_for(scale, user, item, rating)
    frame = chosen_columns(frame, names)
    ids: Any = on_driver(lambda: tidied(frame.select(f"`{item}`"), item).distinct().toArrow().column(0).combine_chunks())
    if not len(ids):
        refuse_no_rows()
    if ids.null_count:
        refuse_missing(f"column {item!r}")
    domain = Domain(ids.take(pc.sort_indices(ids)), rating_range, feedback)
    rows, _ = gathered(frame, names, GroupByUser(names, domain, duplicates, "error"), partitions)
    return UncataloguedRatings.of(scale, domain.item_ids, rows)
