"""Public room: what the pages of a Parquet column say of themselves, before a reader believes them.

A file's footer tells how large a column is when it is decoded, and so does the header of every page; a reader makes room
for what the header says. Headers are Thrift's compact protocol, of which this reads structs of numbers and of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

MAX_HEADER = 1 << 14  # bytes
DEEPEST = 4
CODECS = ("ZSTD", "SNAPPY", "GZIP", "UNCOMPRESSED")
PLAIN = (0, 2, 3, 8)  # encodings that repeat a text only by naming it: plain, and both kinds of dictionary
_TRUE, _FALSE, _BYTE, _DOUBLE, _BYTES, _STRUCT = 1, 2, 3, 7, 8, 12
_WHOLE = (4, 5, 6)


class Page(NamedTuple):
    decoded: int  # bytes
    values: int
    encoding: int


def pages_of(path: Path, column: Any) -> Iterator[Page]:
    """The pages of a column chunk, whose metadata is given. ValueError: they are not what a reader should open."""
    starts = [column.data_page_offset, column.dictionary_page_offset if column.has_dictionary_page else None]
    at = min(start for start in starts if start is not None)
    end = at + column.total_compressed_size
    if column.compression not in CODECS or not 0 <= at < end <= path.stat().st_size:
        raise ValueError("a column that is packed in another way, or lies outside its file")
    with open(path, "rb") as file:
        while at < end:
            file.seek(at)
            header = _Struct(file.read(min(MAX_HEADER, end - at)))
            fields = header.fields()
            decoded, packed = fields[2], fields[3]
            about, encoding = next((fields[kind], field) for kind, field in ((5, 2), (8, 4), (7, 2)) if kind in fields)
            page = Page(decoded, about[1], about[encoding])
            if min(decoded, packed, page.values) < 0:
                raise ValueError("a page of a negative size")
            yield page
            at += header.at + packed
    if at != end:
        raise ValueError("pages that go beyond their column")


class _Struct:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fields(self, depth: int = 0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        last = 0
        while (head := self._take(1)[0]) != 0:
            last = last + (head >> 4) if head >> 4 else self._whole()
            found[last] = self._value(head & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in _WHOLE:
            return self._whole()
        if kind == _STRUCT and depth < DEEPEST:
            return self.fields(depth + 1)
        if kind in (_BYTE, _DOUBLE, _BYTES):
            return self._take({_BYTE: 1, _DOUBLE: 8}.get(kind) or self._varint())
        raise ValueError("a page header of another kind")

    def _take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        if len(taken) != count:
            raise ValueError("a page header without an end")
        self.at += count
        return taken

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128 or shift > 63:
                return value

    def _whole(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
