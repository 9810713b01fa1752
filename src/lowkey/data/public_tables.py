"""Vault room: public tables: the list of items, and features of theirs. Closed are only ratings: see data/readers.py."""

# pyright: reportAttributeAccessIssue=false
# (pyarrow.compute makes its functions when it is imported)

from __future__ import annotations

from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from lowkey.data.formats import format_of, sound, unreadable
from lowkey.data.ids import id_array, is_text
from lowkey.data.sources import existing_path
from lowkey.data.text_files import check_present
from lowkey.errors import InputError, refuse, without_values


def read_catalogue(path: Any, *, item: str | None = None) -> pa.Array:
    """The public ids in a catalogue file, in file order: Parquet, CSV/TSV, or text with one id per line.

    Text files hold no types: if every id is a plain number (12, not 012 or 12.0) the ids are integers, else text.

    Parameters
    ----------
    path, item : path, str, optional
        The file, and its column with the ids, where there are several.

    Examples
    --------
    >>> lk.read_catalogue("films.csv", item="film")  # doctest: +SKIP
    """
    file = existing_path(path, "catalogue")
    bad = InputError(
        what=f"catalogue {file.name!r}",
        got="something that cannot be read",
        needed="Parquet, CSV/TSV with a header, or text with one id per line",
        try_="another file",
    )
    if file.suffix == ".txt":
        lines = without_values(lambda: file.read_text("utf-8-sig").splitlines(), bad)
        return id_array(_numbers_if_all(pa.array([line.strip() for line in lines if line.strip()])), "catalogue")
    format = format_of(file, None)
    if format not in ("parquet", "csv", "tsv"):
        refuse("catalogue", got=f"format {format}", needed="parquet, csv, tsv or txt", try_="one id per line in a .txt")
    if item is None:
        refuse("item", got="no column name", needed="the column with the item ids", try_="item='movieId'")
    column = without_values(lambda: _catalogue_column(file, format, item), bad)
    if is_text(column.type) and format != "parquet":
        column = _numbers_if_all(column)
    return id_array(column, f"catalogue column {item!r}")


def whole_table(source: Any) -> pa.Table:
    """A public table with all of its columns: a Parquet, CSV or TSV file, or a frame that narwhals knows."""
    if isinstance(source, str | Path):
        file = existing_path(source, "table")
        format = format_of(file, None)

        def read() -> pa.Table:
            parse = pyarrow.csv.ParseOptions(delimiter="\t" if format == "tsv" else ",")
            if format != "parquet":
                return pyarrow.csv.read_csv(file, parse_options=parse)
            return sound(pyarrow.parquet.read_table(file))

        return without_values(read, unreadable(file, "Parquet" if format == "parquet" else format.upper()))
    no_table = InputError(what="table", got="something else", needed="a file, or a frame", try_="a pandas or Arrow table")
    frame: Any = without_values(lambda: nw.from_native(source), no_table)
    return (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_arrow()


def _catalogue_column(file: Any, format: str, item: str) -> pa.ChunkedArray:
    if format == "parquet":
        check_present([item], pyarrow.parquet.read_schema(file).names, sure_header=True)
        return sound(pyarrow.parquet.read_table(file, columns=[item])).column(item)
    delimiter = "\t" if format == "tsv" else ","
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
    names = pyarrow.csv.open_csv(file, parse_options=parse).schema.names
    check_present([item], names, sure_header=True)  # a catalogue is public
    convert = pyarrow.csv.ConvertOptions(
        include_columns=[item], column_types={item: pa.string()}, null_values=[""], strings_can_be_null=True
    )
    return pyarrow.csv.read_csv(file, parse_options=parse, convert_options=convert).column(item)


def _numbers_if_all(texts: pa.Array | pa.ChunkedArray) -> Any:
    plain = pc.all(pc.match_substring_regex(texts, r"^(0|-?[1-9][0-9]{0,17})$")).as_py()
    return texts.cast(pa.int64()) if plain else texts
