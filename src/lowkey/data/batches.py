"""Vault room: the named columns of Parquet files as a stream of small tables, in one type throughout.

`streamed` decides whether a file is read so: when asked to, or when it would not fit comfortably in memory.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from lowkey.data.columns import ColumnNames
from lowkey.data.decoded import check_footer
from lowkey.data.formats import mixed_files, parquet_files, sound, unreadable
from lowkey.data.ids import is_text, plain_values
from lowkey.data.text_files import check_present
from lowkey.errors import refuse, without_values

BATCH_ROWS = 1 << 20
BUFFER_BYTES = 1 << 22  # read ahead in a column; without it a whole row group's column is read at once
HELD_BYTES_PER_ROW = 48  # an estimate of the peak while a file is read into memory
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def streamed(file: Any, format: str, names: ColumnNames, out_of_core: bool | None) -> ParquetBatches | None:
    """The batches of a file that is to be read out of core, None for one that is read into memory."""
    troubles = {
        f"a file in the format {format}": format != "parquet",
        "a file that is elsewhere": not isinstance(file, Path),
        "a time column, whose order needs all rows": names.time is not None,
    }
    trouble = next((words for words, there in troubles.items() if there), None)
    if out_of_core is False or (out_of_core is None and trouble):
        return None
    if trouble:
        refuse("out_of_core", got=trouble, needed="local Parquet, which can be read in pieces", try_="converting it first")
    batches = ParquetBatches(file, names)
    too_large = HELD_BYTES_PER_ROW * batches.n_rows > memory_bytes() / 2
    return batches if out_of_core or too_large else None


def memory_bytes() -> float:
    """What this process may have: the machine's memory, or a lower limit that was set on it."""
    limits = [float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    limits += [float(soft)] if soft != resource.RLIM_INFINITY else []
    for name in CGROUP_LIMITS:
        try:
            limits.append(float(Path(name).read_text()))
        except (OSError, ValueError):  # no such file, or the word "max"
            continue
    return min(limits)


class ParquetBatches:
    """A file, or a folder of files. `n_rows` comes from the footers: nothing is read before it is asked for."""

    def __init__(self, path: Path, names: ColumnNames) -> None:
        self.path, self.names = path, names
        self._files = parquet_files(path)
        footers = [without_values(lambda file=file: self._footer(file), unreadable(path)) for file in self._files]
        self.n_rows = sum(rows for rows, _ in footers)
        schemas = [schema for _, schema in footers]
        self.schema: Any = without_values(lambda: pa.unify_schemas(schemas, promote_options="permissive"), mixed_files())

    def _footer(self, file: Path) -> tuple[int, Any]:
        with pyarrow.parquet.ParquetFile(file) as parquet:
            schema = parquet.schema_arrow
            check_footer(file, parquet.metadata)
            check_present(self.names.as_list(), schema.names, sure_header=True)
            fields = [pa.field(name, plain_values(schema.field(name).type)) for name in self.names.as_list()]
            return parquet.metadata.num_rows, pa.schema(fields)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The columns of the next rows, in file order. Text ids come as dictionaries."""
        text = [name for name in (self.names.user, self.names.item) if is_text(self.schema.field(name).type)]
        for file in self._files:
            stream, broken = self._stream(file, text), unreadable(self.path)
            while batch := without_values(lambda: next(stream, None), broken):  # noqa: B023 (called at once)
                yield {name: self._column(batch, name) for name in self.names.as_list()}

    def _stream(self, file: Path, text: list[str]) -> Iterator[Any]:
        with pyarrow.parquet.ParquetFile(file, read_dictionary=text, buffer_size=BUFFER_BYTES) as parquet:
            for batch in parquet.iter_batches(BATCH_ROWS, columns=self.names.as_list()):
                if batch.num_rows:
                    yield sound(batch)

    def _column(self, batch: Any, name: str) -> pa.ChunkedArray:
        column, kind = batch.column(name), self.schema.field(name).type
        if plain_values(column.type) != kind:
            column = without_values(lambda: column.cast(kind), mixed_files())  # an error of Arrow's would quote the cell
        return pa.chunked_array([column])
