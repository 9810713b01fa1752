"""Vault room: file formats, each turned into the named Arrow columns; text files in text_files.py.

A Parquet file can also be read as a stream of small tables, in one type throughout. `streamed` decides whether it is: when
asked to, or when it would not fit comfortably in memory.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from lowkey.data.columns import ColumnNames
from lowkey.data.ids import is_text, plain_values
from lowkey.data.sources import Remote
from lowkey.data.text_files import (
    COMPRESSED,
    TEXT_FORMATS,
    USUAL,
    Text,
    check_footer,
    check_growth,
    check_present,
    opened,
    read_json_lines,
    read_text,
)
from lowkey.errors import InputError, refuse, without_values

BATCH_ROWS = 1 << 20
BUFFER_BYTES = 1 << 22  # read ahead in a column; without it a whole row group's column is read at once
HELD_BYTES_PER_ROW = 48  # an estimate of the peak while a file is read into memory
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
FORMATS = ("parquet", *TEXT_FORMATS, "jsonl", "arrow")
_ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".inter": "inter",
    ".dat": "ratings.dat",
    "u.data": "u.data",
    ".base": "u.data",  # the training and test halves of MovieLens 100K: u1.base, ua.test
    ".test": "u.data",
}


def format_of(path: Any, format: str | None) -> str:
    """The format asked for, or the one that the file's name says."""
    if format is not None:
        if format not in FORMATS:
            refuse("format", got="another word", needed=" | ".join(FORMATS), try_="format='csv'")
        return format
    if path.is_dir():
        return "parquet"
    name = path.name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    for ending, known in _ENDINGS.items():
        if name.endswith(ending):
            return known
    raise InputError(
        what="format",
        got=f"a file name that does not tell, {path.name!r}",
        needed=" | ".join(FORMATS),
        try_="format='csv'",
    )


def read_columns(
    path: Any, format: str, names: ColumnNames, item_kind: pa.DataType | None, text: Text = USUAL
) -> dict[str, Any]:
    """The named columns of a file. `item_kind` is the catalogue's type of id, None for a private catalogue."""
    if format in TEXT_FORMATS:
        return read_text(path, TEXT_FORMATS[format].as_written(text), names, item_kind)
    if text != USUAL:
        refuse("text", got=f"options of text files for the format {format}", needed="a text file", try_="leaving them out")
    if format == "jsonl":
        return read_json_lines(path, names)
    return _read_arrow(path, names) if format == "arrow" else _read_parquet(path, names)


def parquet_files(path: Any) -> list[Any]:
    """The Parquet files of a path, in order: itself, or those in the folder and below."""
    if not path.is_dir():
        return [path]
    if isinstance(path, Remote):
        inside = [(file, Path(file.path[len(path.path) :].lstrip("/"))) for file in path.inside()]
    else:
        inside = [(file, file.relative_to(path)) for file in sorted(path.rglob("*"))]
    files = [file for file, below in inside if below.suffix in (".parquet", ".pq") and not _hidden(below)]
    if not files:
        refuse("folder", got="no Parquet file in it", needed="files that end in .parquet", try_="another folder")
    return files


def _hidden(inside: Path) -> bool:
    return any(part[0] in "._" for part in inside.parts)


def unreadable(path: Any, kind: str = "Parquet") -> InputError:
    return InputError(
        what=f"{kind} file {path.name!r}",
        got=f"something that cannot be read as {kind}",
        needed=f"a whole {kind} file",
        try_="format='csv' or another, if it is one",
    )


def sound(read: Any) -> Any:
    """A table, batch or column as read. Arrow believes a damaged file, whose indices and offsets may point anywhere."""
    read.validate(full=True)
    return read


def mixed_files() -> InputError:
    return InputError(
        what="folder",
        got="files whose columns have different types",
        needed="the same type in every file",
        try_="casting them to one type",
    )


def _read_parquet(path: Any, names: ColumnNames) -> dict[str, Any]:
    read = lambda file: without_values(lambda: _read_one_parquet(file, names), unreadable(path))
    pieces = [read(file) for file in parquet_files(path)]
    whole = without_values(lambda: pa.concat_tables(pieces, promote_options="permissive"), mixed_files())
    return {name: whole.column(name) for name in names.as_list()}


def _read_one_parquet(file: Any, names: ColumnNames) -> pa.Table:
    with pyarrow.parquet.ParquetFile(opened(file)) as parquet:
        schema = parquet.schema_arrow
        check_footer(file, parquet.metadata)
    check_present(names.as_list(), schema.names, sure_header=True)
    text = [name for name in (names.user, names.item) if is_text(schema.field(name).type)]
    with pyarrow.parquet.ParquetFile(opened(file), read_dictionary=text) as parquet:
        return sound(parquet.read(columns=names.as_list()))


def _read_arrow(path: Any, names: ColumnNames) -> dict[str, Any]:
    """Arrow's own format, which is Feather's too: a file, or a stream."""

    def read() -> pa.Table:
        pieces: list[Any] = []
        with opened(path) as source:
            try:
                reader: Any = pyarrow.ipc.open_file(source)
                batches = (reader.get_batch(at) for at in range(reader.num_record_batches))
            except pa.ArrowInvalid:
                source.seek(0)
                batches = reader = pyarrow.ipc.open_stream(source)
            check_present(names.as_list(), reader.schema.names, sure_header=True)
            for batch in batches:
                pieces.append(batch.select(names.as_list()))
                check_growth(path, sum(piece.nbytes for piece in pieces))
            table = pa.Table.from_batches(pieces, schema=pa.schema([reader.schema.field(name) for name in names.as_list()]))
        return sound(table)

    table = without_values(read, unreadable(path, "Arrow"))
    return {name: table.column(name) for name in names.as_list()}


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
