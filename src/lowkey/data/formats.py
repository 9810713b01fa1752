"""Vault room: file formats, each turned into the named Arrow columns.

Columns are named, never guessed. Formats without a header have the names their documentation gives them. Text
columns come as Arrow dictionaries: each distinct id is held once, however long.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from lowkey.data.columns import EXCHANGED, ColumnNames
from lowkey.data.decoded import COMPRESSED, check_footer, text_source
from lowkey.data.ids import is_text
from lowkey.errors import InputError, refuse, without_values

MOVIELENS_COLUMNS = ("userId", "movieId", "rating", "timestamp")
_TEXT_IDS = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class TextFormat:
    delimiter: str
    columns: tuple[str, ...] | None = None  # None: the first line names them
    quotes: bool = False
    typed_header: bool = False  # names such as user_id:token


TEXT_FORMATS = {
    "csv": TextFormat(",", quotes=True),
    "tsv": TextFormat("\t", quotes=True),
    "inter": TextFormat("\t", typed_header=True),
    "u.data": TextFormat("\t", MOVIELENS_COLUMNS),
    # Arrow splits at one character; between the two colons of '::' lies an empty column
    "ratings.dat": TextFormat(":", ("userId", "", "movieId", "", "rating", "", "timestamp")),
}
FORMATS = ("parquet", *TEXT_FORMATS)
_ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".inter": "inter",
    ".dat": "ratings.dat",
    "u.data": "u.data",
    ".base": "u.data",  # the training and test halves of MovieLens 100K: u1.base, ua.test
    ".test": "u.data",
}


def existing_path(path: Any, what: str) -> Path:
    found = Path(path)
    if not found.exists():
        refuse(what, got=f"{str(found)!r}, which does not exist", needed="a file", try_="another path")
    return found


def format_of(path: Path, format: str | None) -> str:
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


def read_columns(path: Path, format: str, names: ColumnNames, item_kind: pa.DataType | None) -> dict[str, Any]:
    """The named columns of a file. `item_kind` is the catalogue's type of id, None for a private catalogue."""
    if format == "parquet":
        return _read_parquet(path, names)
    return _read_text(path, TEXT_FORMATS[format], names, item_kind)


def check_present(asked: list[str], existing: list[str], *, sure_header: bool) -> None:
    """Refuse missing columns, with a list of those there are.

    In a file without a header the "names" are somebody's row, and in a damaged one some of them are. So of text files and
    frames only those names are shown that were asked for.
    """
    missing = [name for name in asked if name not in existing]
    twice = [name for name in asked if existing.count(name) > 1]
    if twice:
        refuse("columns", got=f"{twice[0]!r} more than once", needed="each name once", try_="renaming one")
    if not missing:
        return
    needed = "the names as the data has them"
    listed = ", ".join(repr(name) for name in existing if sure_header or name in asked)
    if sure_header:
        refuse("columns", got=f"no {missing[0]!r} among {listed}", needed=needed, try_="one of those")
    if listed:
        refuse("columns", got=f"no {missing[0]!r} beside {listed}", needed=needed, try_="a look at the first line")
    look = "a look at the first line: there may be no header, or another delimiter"
    refuse("columns", got="none of the names asked for", needed=needed, try_=look)


def parquet_files(path: Path) -> list[Path]:
    """The Parquet files of a path, in order: itself, or those in the folder and below."""
    if not path.is_dir():
        return [path]
    files = sorted(f for f in path.rglob("*") if f.suffix in (".parquet", ".pq") and not _hidden(f.relative_to(path)))
    if not files:
        refuse("folder", got="no Parquet file in it", needed="files that end in .parquet", try_="another folder")
    return files


def _hidden(inside: Path) -> bool:
    return any(part[0] in "._" for part in inside.parts)


def unreadable_parquet(path: Path) -> InputError:
    return InputError(
        what=f"Parquet file {path.name!r}",
        got="something that cannot be read as Parquet",
        needed="a whole Parquet file",
        try_="format='csv' or another, if it is one",
    )


def mixed_files() -> InputError:
    return InputError(
        what="folder",
        got="files whose columns have different types",
        needed="the same type in every file",
        try_="casting them to one type",
    )


def _read_parquet(path: Path, names: ColumnNames) -> dict[str, Any]:
    read = lambda file: without_values(lambda: _read_one_parquet(file, names), unreadable_parquet(path))
    pieces = [read(file) for file in parquet_files(path)]
    whole = without_values(lambda: pa.concat_tables(pieces, promote_options="permissive"), mixed_files())
    return {name: whole.column(name) for name in names.as_list()}


def _read_one_parquet(file: Path, names: ColumnNames) -> pa.Table:
    with pyarrow.parquet.ParquetFile(file) as parquet:
        schema = parquet.schema_arrow
        check_footer(file, parquet.metadata)
    check_present(names.as_list(), schema.names, sure_header=True)
    text = [name for name in (names.user, names.item) if is_text(schema.field(name).type)]
    with pyarrow.parquet.ParquetFile(file, read_dictionary=text) as parquet:
        return parquet.read(columns=names.as_list())


def _read_text(path: Path, layout: TextFormat, names: ColumnNames, item_kind: pa.DataType | None) -> dict[str, Any]:
    stored = _stored_names(path, layout, names)
    integers = item_kind is not None and pa.types.is_integer(item_kind)
    types = {stored[names.user]: _TEXT_IDS, stored[names.item]: item_kind if integers else _TEXT_IDS}
    if names.rating is not None:
        types[stored[names.rating]] = pa.float64()
    wrong = InputError(
        what=f"file {path.name!r}",
        got="lines that do not fit its columns",
        needed="numbers in the rating column, ids of the catalogue's kind, and the same columns in every line",
        try_=f"the right delimiter and column names, and {EXCHANGED}",
    )
    table = without_values(lambda: _parse_text(path, layout, types), wrong)
    return {name: table.column(stored[name]) for name in names.as_list()}


def _parse_text(path: Path, layout: TextFormat, types: dict[str, pa.DataType]) -> pa.Table:
    columns = None
    if layout.columns is not None:  # Arrow wants a name for the empty columns as well
        columns = [name or f"empty {at}" for at, name in enumerate(layout.columns)]
    return pyarrow.csv.read_csv(
        text_source(path),
        read_options=pyarrow.csv.ReadOptions(column_names=columns),
        parse_options=pyarrow.csv.ParseOptions(delimiter=layout.delimiter, quote_char='"' if layout.quotes else False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[""],  # a user may be called NA
            strings_can_be_null=True,
        ),
    )


def _stored_names(path: Path, layout: TextFormat, names: ColumnNames) -> dict[str, str]:
    """The column names as the file spells them, by the names asked for."""
    if layout.columns is not None:
        check_present(names.as_list(), [name for name in layout.columns if name], sure_header=True)
        return {name: name for name in names.as_list()}
    unreadable = InputError(
        what=f"file {path.name!r}",
        got="something that is not text",
        needed="a text file with a header",
        try_="format='parquet' or another, if it is one",
    )
    header = without_values(lambda: _first_line(path, layout), unreadable)
    if not header:
        refuse(f"file {path.name!r}", got="an empty file", needed="a header and rows", try_="another file")
    bare = [name.partition(":")[0] for name in header] if layout.typed_header else header
    spelled = header if any(name in header for name in names.as_list()) else bare
    check_present(names.as_list(), spelled, sure_header=False)
    return {name: header[spelled.index(name)] for name in names.as_list()}


def _first_line(path: Path, layout: TextFormat) -> list[str]:
    with pa.input_stream(path, compression="detect") as stream:
        start = stream.read(1 << 16).decode("utf-8-sig", errors="replace")
    line = start.splitlines()[:1]
    quoting = csv.QUOTE_MINIMAL if layout.quotes else csv.QUOTE_NONE
    return next(csv.reader(line, delimiter=layout.delimiter, quoting=quoting), [])
