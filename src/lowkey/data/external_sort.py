"""Vault room: from a stream of rows in any order to parts of whole users on disk, in memory that does not grow.

Two passes. Rows are first dealt to buckets by the leading bits of the user's key, so that all rows of a user meet in one
bucket, in the order of the input. Then each bucket, which fits in memory, is grouped and checked like any other table. The
users come out in the order of their keys; nothing depends on the number of buckets.
"""

# pyright: reportAttributeAccessIssue=false
# (pyarrow.compute makes its functions when it is imported)

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowkey.data.assemble import group_by_user, settle
from lowkey.data.axes import EVERY, Axes
from lowkey.data.columns import (
    ColumnNames,
    catalogue_positions,
    check_known,
    choose_rows,
    read_values,
    refuse_foreign_items,
    refuse_no_rows,
    tidy_columns,
)
from lowkey.data.domain import Domain, Scale
from lowkey.data.ids import second_keys, user_keys
from lowkey.data.scratch import Scratch
from lowkey.data.stored import StoredRows, write_part

BUCKET_ROWS = 1 << 22  # sorting a bucket takes about 60 bytes a row
MOST_BUCKETS = 512
Progress = Callable[[float], None]  # the part that is done, 0 to 1

# A user is two keys, 128 bits together: rows of two people whose first keys collide must not be taken for one person's.
RECORD = np.dtype([("key", "u8"), ("twin", "u8"), ("item", "i4"), ("value", "f4")])


class ExternalSort:
    """Rows in, `StoredRows` out. Items are numbered by whoever calls: -1 leaves an entry out and keeps its user."""

    def __init__(self, scratch: Scratch, n_rows: int, names: ColumnNames, scale: Scale, duplicates: str) -> None:
        self.scratch, self.names, self.scale, self.duplicates = scratch, names, scale, duplicates
        self.bits = bucket_bits(n_rows)
        self.known = False  # whether any item had a place
        self._dealt = Scratch(scratch.place)  # the unsorted copy: batch by batch, each in the order of its buckets
        self._batches: list[tuple[int, npt.NDArray[np.int64]]] = []  # where a batch is, and where its buckets end

    def deal(self, batches: Iterable[tuple[Any, npt.NDArray[np.int32], npt.NDArray[np.float32] | None]]) -> None:
        """First pass. A batch is the column of users, the items and the values."""
        for users, items, values in batches:
            self.known = self.known or bool(items.max() >= 0)
            self._append(_records(users, items, values))
        if not self._batches:
            refuse_no_rows()

    def parts(self, renumber: npt.NDArray[np.int32] | None, progress: Progress) -> StoredRows:
        """Second pass. `renumber` gives items their final numbers, if the first ones were for the time being."""
        written: list[int] = []
        for at in range(1 << self.bits):
            records = self._bucket(at)
            if len(records):
                written.append(self._write(records, renumber))
            progress((at + 1) / (1 << self.bits))
        self._dealt.close()
        return StoredRows(self.scratch, written)

    def _bucket(self, at: int) -> npt.NDArray[Any]:
        spans = [(where, int(ends[at - 1]) if at else 0, int(ends[at])) for where, ends in self._batches]
        records, filled = np.empty(sum(b - a for _, a, b in spans), RECORD), 0
        for where, a, b in spans:
            self._dealt.read(where + RECORD.itemsize * a, records[filled : filled + b - a])
            filled += b - a
        return records

    def _append(self, records: npt.NDArray[Any]) -> None:
        # shifted twice, as a shift by all 64 bits is not defined
        where = (records["key"] >> np.uint64(1) >> np.uint64(63 - self.bits)).astype(np.uint16)
        order = np.argsort(where, kind="stable")  # of 16 bits, by radix; stable keeps the order of a user's rows
        ends = np.cumsum(np.bincount(where, minlength=1 << self.bits))
        self._batches.append((self._dealt.append([records[order]]), ends))

    def _write(self, records: npt.NDArray[Any], renumber: npt.NDArray[np.int32] | None) -> int:
        codes, keys = _users(records)
        items = records["item"] if renumber is None else renumber[records["item"]]
        values = None if self.scale.rating_range is None else np.ascontiguousarray(records["value"])
        ranks = np.arange(len(keys), dtype=np.int32)
        rows = group_by_user(codes, ranks, np.ascontiguousarray(items), values, len(keys))
        return write_part(self.scratch, *settle(*rows, self.scale, self.duplicates, self.names.rating), keys)


def stored_rows(
    batches: Any,
    scratch: Scratch,
    domain: Domain,
    duplicates: str,
    unknown_items: str,
    progress: Progress,
    axes: Axes | None = None,
) -> StoredRows:
    """`batches` (a `ParquetBatches`) as rows over the catalogue of a domain."""
    names = batches.names
    sort = ExternalSort(scratch, batches.n_rows, names, domain.scale, duplicates)

    def numbered() -> Any:
        for table in _watched(batches, progress):
            tidy_columns(table, names)
            items = catalogue_positions(table[names.item], domain)
            if axes is not None:
                axes.see(items, catalogue_positions(table[names.user], domain), EVERY)
            check_known(items, names, unknown_items)
            yield table[names.user], items, read_values(table, names)

    sort.deal(numbered())
    if axes is not None:
        axes.check(names.user, names.item)
    if not sort.known:
        refuse_foreign_items(names)
    return sort.parts(None, lambda done: progress(0.5 + 0.5 * done))


def stored_uncatalogued(
    batches: Any, scratch: Scratch, scale: Scale, duplicates: str, progress: Progress
) -> tuple[pa.Array, StoredRows]:
    """As `stored_rows`, where the catalogue is private: the ids that occur, sorted, and the rows over their numbers."""
    names = batches.names
    sort = ExternalSort(scratch, batches.n_rows, names, scale, duplicates)
    seen: list[Any] = []  # the ids so far, in the order in which they came up

    def numbered() -> Any:
        for table in _watched(batches, progress):
            tidy_columns(table, names)
            column = table[names.item]
            ids = pc.unique(column)
            ids = ids.dictionary.take(ids.indices) if pa.types.is_dictionary(ids.type) else ids
            known = seen[0] if seen else ids.slice(0, 0)
            seen[:] = [pa.concat_arrays([known, ids.filter(pc.invert(pc.is_in(ids, value_set=known)))])]
            plain = column.cast(ids.type) if pa.types.is_dictionary(column.type) else column
            codes = pc.index_in(plain, value_set=seen[0]).combine_chunks().to_numpy(zero_copy_only=False)
            yield table[names.user], codes.astype(np.int32, copy=False), read_values(table, names)

    sort.deal(numbered())
    order = pc.sort_indices(seen[0]).to_numpy(zero_copy_only=False)
    renumber = np.empty(len(order), np.int32)
    renumber[order] = np.arange(len(order), dtype=np.int32)
    rows = sort.parts(renumber, lambda done: progress(0.5 + 0.5 * done))
    return seen[0].take(pa.array(order)), rows


def bucket_bits(n_rows: int) -> int:
    buckets = min(MOST_BUCKETS, max(1, -(-n_rows // BUCKET_ROWS)))
    return (buckets - 1).bit_length()


def _watched(batches: Any, progress: Progress) -> Any:
    done = 0
    for table in batches:
        done += len(table[batches.names.user])
        choose_rows(table, batches.names)
        if len(table[batches.names.user]):
            yield table
        progress(0.5 * done / batches.n_rows)


def _records(
    users: pa.ChunkedArray, items: npt.NDArray[np.int32], values: npt.NDArray[np.float32] | None
) -> npt.NDArray[Any]:
    records = np.empty(len(items), RECORD)
    keys, twins = _keys_of(users)
    records["key"], records["twin"], records["item"] = keys, twins, items
    records["value"] = 1.0 if values is None else values  # a row without a count counts one
    return records


def _keys_of(users: pa.ChunkedArray) -> tuple[Any, Any]:
    """Both keys of every row. An integer's first key is a bijection of it, so a second one adds nothing."""
    if pa.types.is_integer(users.type):
        return user_keys(users.combine_chunks()), np.uint64(0)
    encoded = users.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = pc.dictionary_encode(encoded)
    codes, ids = encoded.indices.to_numpy(), encoded.dictionary
    return user_keys(ids)[codes], second_keys(ids)[codes]


def _users(records: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
    """The place of every row's user, and the users' keys, in the order of (key, twin)."""
    keys = np.ascontiguousarray(records["key"])
    encoded = pc.dictionary_encode(pa.array(keys))
    distinct, codes = encoded.dictionary.to_numpy(), encoded.indices.to_numpy()
    twins = np.empty(len(distinct), np.uint64)
    twins[codes] = records["twin"]
    if not np.array_equal(twins[codes], records["twin"]):  # a collision of 64 bits: look at all 128
        pairs, codes = np.unique(records[["key", "twin"]], return_inverse=True)
        return codes.astype(np.int32), np.ascontiguousarray(pairs["key"])
    ranks = np.empty(len(distinct), np.int32)
    order = np.argsort(distinct)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return ranks[codes], distinct[order]
