"""Vault room: how much a file may become when it is decoded: a small one that would fill the memory is refused.

Ratings of real people do not compress further than this: pairs of user and item are all different.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from lowkey.errors import refuse

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
