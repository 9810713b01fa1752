"""Vault room: text files as named Arrow columns: separated values and JSON lines, compressed or not.

Columns are named, never guessed. Formats without a header have the names their documentation gives them. Text
columns come as Arrow dictionaries: each distinct id is held once, however long.
"""

from __future__ import annotations

import codecs
import csv
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from lowkey.data.columns import EXCHANGED, ColumnNames
from lowkey.errors import InputError, refuse, without_values

MOVIELENS_COLUMNS = ("userId", "movieId", "rating", "timestamp")
_TEXT_IDS = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class Text:
    """How a text file is written, where its format does not say so already.

    ``delimiter`` between cells, ``decimal`` mark, ``encoding``, ``null`` (what stands for a missing cell besides nothing),
    ``quote`` around cells ("": none).
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf8"
    null: tuple[str, ...] = ()
    quote: str | None = None

    def __post_init__(self) -> None:
        words = {"tab": "\t", "\\t": "\t", "space": " "}
        object.__setattr__(self, "delimiter", words.get(self.delimiter or "", self.delimiter))
        object.__setattr__(self, "null", tuple(self.null))
        for name, mark in (("delimiter", self.delimiter), ("decimal", self.decimal), ("quote", self.quote or None)):
            if mark is not None and not (len(mark) == 1 and mark.isascii() and not mark.isalnum() and mark not in "\r\n"):
                refuse(name, got=repr(mark), needed="one sign, or the word tab", try_=f"{name}=';'")
        if self.decimal == self.delimiter or (self.quote and self.quote in (self.decimal, self.delimiter)):
            refuse("delimiter", got="the same sign for two purposes", needed="different ones", try_="delimiter=';'")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            refuse("encoding", got=repr(self.encoding), needed="a name that Python knows", try_="encoding='latin-1'")


USUAL = Text()


@dataclass(frozen=True, slots=True)
class TextFormat:
    delimiter: str
    columns: tuple[str, ...] | None = None  # None: the first line names them
    quote: str = ""
    typed_header: bool = False  # names such as user_id:token
    text: Text = USUAL

    def as_written(self, text: Text) -> TextFormat:
        quote = self.quote if text.quote is None else text.quote
        return replace(self, delimiter=text.delimiter or self.delimiter, quote=quote, text=text)


TEXT_FORMATS = {
    "csv": TextFormat(",", quote='"'),
    "tsv": TextFormat("\t", quote='"'),
    "inter": TextFormat("\t", typed_header=True),
    "u.data": TextFormat("\t", MOVIELENS_COLUMNS),
    # Arrow splits at one character; between the two colons of '::' lies an empty column
    "ratings.dat": TextFormat(":", ("userId", "", "movieId", "", "rating", "", "timestamp")),
}


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


def read_text(path: Any, layout: TextFormat, names: ColumnNames, item_kind: pa.DataType | None) -> dict[str, Any]:
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
    table = without_values(lambda: _parse_text(path, layout, types, [stored[name] for name in names.as_list()]), wrong)
    return {name: table.column(stored[name]) for name in names.as_list()}


def _parse_text(path: Any, layout: TextFormat, types: dict[str, pa.DataType], wanted: list[str]) -> pa.Table:
    columns = None
    if layout.columns is not None:  # Arrow wants a name for the empty columns as well
        columns = [name or f"empty {at}" for at, name in enumerate(layout.columns)]
    return pyarrow.csv.read_csv(
        text_source(path),
        read_options=pyarrow.csv.ReadOptions(column_names=columns, encoding=layout.text.encoding),
        parse_options=pyarrow.csv.ParseOptions(delimiter=layout.delimiter, quote_char=layout.quote or False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            include_columns=wanted,
            null_values=["", *layout.text.null],  # and no other word: a user may be called NA
            strings_can_be_null=True,
            decimal_point=layout.text.decimal,
        ),
    )


def _stored_names(path: Any, layout: TextFormat, names: ColumnNames) -> dict[str, str]:
    """The column names as the file spells them, by the names asked for: white space around a name does not matter."""
    if layout.columns is not None:
        check_present(names.as_list(), [name for name in layout.columns if name], sure_header=True)
        return {name: name for name in names.as_list()}
    unreadable = InputError(
        what=f"file {path.name!r}",
        got="something that is not text",
        needed="a text file with a header",
        try_="format='parquet' or another, if it is one, or encoding='latin-1' or its own",
    )
    header = without_values(lambda: _first_line(path, layout), unreadable)
    if not header:
        refuse(f"file {path.name!r}", got="an empty file", needed="a header and rows", try_="another file")
    bare = [name.partition(":")[0] for name in header] if layout.typed_header else [name.strip() for name in header]
    spelled = header if any(name in header for name in names.as_list()) else bare
    if not set(names.as_list()) <= set(spelled):
        spelled = bare
    check_present(names.as_list(), spelled, sure_header=False)
    return {name: header[spelled.index(name)] for name in names.as_list()}


def _first_line(path: Any, layout: TextFormat) -> list[str]:
    stream = text_source(path) if not isinstance(path, Path) else pa.input_stream(path, compression="detect")
    with closing(stream):
        start = stream.read(1 << 16).decode(layout.text.encoding, errors="replace").removeprefix("\ufeff")
    line = start.splitlines()[:1]
    quoting: Any = {"quotechar": layout.quote} if layout.quote else {"quoting": csv.QUOTE_NONE}
    return next(csv.reader(line, delimiter=layout.delimiter, **quoting), [])


def read_json_lines(path: Any, names: ColumnNames) -> dict[str, Any]:
    """One object a line; its other fields are left aside."""
    wrong = InputError(
        what=f"file {path.name!r}",
        got="lines that are no JSON objects, or one field of several types",
        needed="an object a line, each field of one type throughout",
        try_="ids that are all text or all numbers",
    )
    table = without_values(lambda: pyarrow.json.read_json(text_source(path)), wrong)
    check_present(names.as_list(), table.column_names, sure_header=False)
    return {name: table.column(name) for name in names.as_list()}


COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
MOST_GROWTH = 50  # bytes of text or of columns for a byte of the file
MOST_ROWS_PER_BYTE = 20
FREE_BYTES, FREE_ROWS = 1 << 26, 1 << 20  # what any file may become: tiny ones have all kinds of proportions


class Unpacked:
    """The text of a compressed file, as a file: up to the limit."""

    def __init__(self, path: Any) -> None:
        self._name, self._left = path.name, most_bytes(path)
        self._stream = pa.CompressedInputStream(opened(path), COMPRESSED[Path(path.name).suffix.lower()])
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            _refuse(self._name)
        return data

    def close(self) -> None:
        self._stream.close()
        self.closed = True


def opened(path: Any) -> Any:
    """The bytes of a local file, or of one that is elsewhere (sources.py)."""
    return pa.OSFile(str(path)) if isinstance(path, Path) else path.open()


def _size(path: Any) -> int:
    return path.stat().st_size if isinstance(path, Path) else path.size


def most_bytes(path: Any) -> int:
    """What the file may become."""
    return FREE_BYTES + MOST_GROWTH * _size(path)


def text_source(path: Any) -> Any:
    """What a parser of text reads: the file itself, or what is packed in it."""
    if Path(path.name).suffix.lower() in COMPRESSED:
        return Unpacked(path)
    return path if isinstance(path, Path) else path.open()


def check_growth(path: Any, decoded: int) -> None:
    """Refuse a file of which so many bytes were made."""
    if decoded > most_bytes(path):
        _refuse(path.name)


def check_footer(path: Any, footer: Any) -> None:
    """Of a Parquet file: rows and bytes that a file of this size can have. Nothing else was read yet."""
    size = _size(path)
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    rows, decoded = sum(group.num_rows for group in groups), sum(group.total_byte_size for group in groups)
    if max(rows, footer.num_rows) > FREE_ROWS + MOST_ROWS_PER_BYTE * size:
        _refuse(path.name)
    check_growth(path, decoded)


def _refuse(name: str) -> NoReturn:
    refuse(
        f"file {name!r}",
        got=f"one that grows to more than {MOST_GROWTH} times its size, or repeats its rows without end",
        needed="ratings, each pair of user and item once",
        try_="unpacking it, or writing it anew, if you know what it is",
    )
