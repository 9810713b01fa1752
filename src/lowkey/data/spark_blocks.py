"""Vault room: what the executors of a Spark cluster make of users' rows: blocks of whole users, one in a row of a frame."""

# pyright: reportAttributeAccessIssue=false
# (pyarrow.compute makes its functions when it is imported)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowkey.data.axes import PartOfAxes
from lowkey.data.columns import ColumnNames, choose_rows, to_rows
from lowkey.data.domain import Domain
from lowkey.data.ids import tidy_text
from lowkey.data.ratings import Block, HeldRows
from lowkey.data.spark_errors import in_words
from lowkey.errors import LowkeyError

BLOCK_USERS = 1 << 14
# axes: what a partition shows of both columns' ids; times: of the entries; state: what the users keep between passes. Each
# may be empty.
CELLS = ("axes", "offsets", "items", "ratings", "keys", "times", "state")
BLOCK_COLUMNS = "refused string, known boolean, " + ", ".join(f"{name} binary" for name in CELLS)
BLOCK_SCHEMA = pa.schema([("refused", pa.string()), ("known", pa.bool_()), *((name, pa.binary()) for name in CELLS)])


@dataclass(frozen=True)
class TidyIds:
    """On an executor: text ids in their one spelling, and none where nothing is left of one."""

    name: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            at = batch.schema.get_field_index(self.name)
            ids = tidy_text(batch.column(at), f"column {self.name!r}")
            ids = pc.if_else(pc.equal(ids, ""), pa.scalar(None, ids.type), ids)
            yield batch.set_column(at, batch.schema.field(at), ids)


@dataclass(frozen=True)
class GroupByUser:
    """On an executor: all rows of some users, in any order, as blocks."""

    names: ColumnNames
    domain: Domain
    duplicates: str
    unknown_items: str
    check_axes: bool = False

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        table = partition_of(batches)
        if table is None:
            return
        if self.names.rating is not None and self.duplicates != "error":
            table = table.sort_by(self.names.rating)  # rows arrive in any order, and a sum of floats depends on it
        columns = {name: table.column(name) for name in self.names.as_list()}
        del table
        choose_rows(columns, self.names)
        if not len(columns[self.names.user]):
            return
        axes = PartOfAxes(self.domain.n_items) if self.check_axes else None
        try:
            rows, known = to_rows(columns, self.names, self.domain, self.duplicates, self.unknown_items, axes)
        except LowkeyError as refusal:
            # An answer rather than a failure: Spark would run the task again, and log it each time.
            yield one_row(BLOCK_SCHEMA, refused=in_words(refusal))
            return
        for at, block in enumerate(rows.blocks(BLOCK_USERS)):
            shown = axes.packed() if axes is not None and at == 0 else None
            yield block_row(block, self.domain.rating_range is not None, known=known, axes=shown)


@dataclass(frozen=True)
class OverItems:
    """On an executor: blocks over other items, as `Rows.over` has it."""

    places: npt.NDArray[np.int32]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for at in range(batch.num_rows):
                rows = held_rows(batch, at)
                yield block_row(rows.over(self.places).whole(), batch.column("ratings")[at].is_valid)


def partition_of(batches: Iterator[Any]) -> pa.Table | None:
    """On an executor: all rows of its users; None without any."""
    from pyspark import TaskContext

    pieces = [batch for batch in batches if batch.num_rows]
    if not pieces:
        return None
    table, context = pa.Table.from_batches(pieces), TaskContext.get()
    if context is None or not pc.all(pc.equal(table["lowkey place"], context.partitionId())).as_py():
        # A user in two partitions would count twice, and move a sum by twice its sensitivity.
        raise TypeError("Spark did not bring each user's rows together in one partition")
    return table


def block_row(block: Block, valued: bool, **cells: Any) -> Any:
    """A block as a row of the frame; `valued`: whether its values are more than ones."""
    arrays = {"offsets": block.offsets, "items": block.items, "ratings": block.values, "keys": block.keys}
    stored = {name: array.tobytes() for name, array in arrays.items() if valued or name != "ratings"}
    return one_row(BLOCK_SCHEMA, **stored, **cells)


def one_row(schema: pa.Schema, row: Any = None, **cells: Any) -> Any:
    """A batch of one row: the cells given, the others from ``row`` if there is one, else empty."""

    def column(field: pa.Field) -> Any:
        if field.name in cells:
            return pa.array([cells[field.name]], field.type)
        if row is not None and field.name in row.schema.names:
            return row.column(field.name).cast(field.type)
        return pa.nulls(1, field.type)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)


def held_rows(batch: Any, at: int) -> HeldRows:
    """On an executor: one block of the frame. Copied, as compiled loops want aligned arrays."""

    def array(name: str, kind: Any) -> Any:
        cell = batch.column(name)[at]
        return np.frombuffer(cell.as_buffer(), kind).copy() if cell.is_valid else None

    offsets, items = array("offsets", np.int64), array("items", np.int32)
    return HeldRows(offsets, items, array("ratings", np.float32), array("keys", np.uint64))
