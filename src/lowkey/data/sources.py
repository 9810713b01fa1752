"""Vault room: where a table may be besides a local file: in an object store, or in a database.

An address can hold a password, and a failing query can quote a cell: errors name the kind of place and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from lowkey.data.columns import ColumnNames
from lowkey.data.text_files import check_present
from lowkey.errors import InputError, refuse, without_values

DATABASES = ("sqlite", "duckdb", "postgresql", "postgres")
MOVIELENS_FILES = ("ratings.csv", "ratings.dat", "u.data")  # what a MovieLens folder has, by age


def scheme_of(place: Any) -> str | None:
    """The scheme of an address such as s3://bucket/key; None for a path."""
    written = re.match(r"([a-z][a-z0-9+]*)://", str(place))
    return written[1] if written else None


@dataclass(frozen=True)
class Remote:
    """A file or folder on one of pyarrow's file systems; as much of a path as the readers need."""

    system: Any
    path: str
    folder: bool = False
    size: int = 0

    @classmethod
    def at(cls, address: str) -> Remote:
        """Refuse an address where nothing is, or that nobody can reach."""
        from pyarrow import fs

        unreachable = InputError(
            what=f"ratings in {scheme_of(address)}://",
            got="an address where nothing can be read",
            needed="a file or a folder that these credentials may read",
            try_="the address with the provider's own tool",
        )

        def find() -> tuple[Any, str, Any]:
            system, path = fs.FileSystem.from_uri(address)
            return system, path, system.get_file_info(path)

        system, path, found = without_values(find, unreachable)
        if found.type == fs.FileType.NotFound:
            raise unreachable
        return cls(system, path, found.type == fs.FileType.Directory, found.size or 0)

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    def is_dir(self) -> bool:
        return self.folder

    def inside(self) -> list[Remote]:
        """All files in the folder and below, in the order of their paths."""
        from pyarrow import fs

        entries = self.system.get_file_info(fs.FileSelector(self.path, recursive=True))
        files = sorted((entry for entry in entries if entry.is_file), key=lambda entry: entry.path)
        return [Remote(self.system, file.path, size=file.size) for file in files]

    def open(self) -> Any:
        return self.system.open_input_file(self.path)


def existing_path(path: Any, what: str) -> Any:
    """A `Path`, or a `Remote` for an address. A MovieLens folder stands for its ratings."""
    if scheme_of(path):
        return Remote.at(str(path))
    found = Path(path)
    if not found.exists():
        refuse(what, got=f"{str(found)!r}, which does not exist", needed="a file", try_="another path")
    inside = [found / name for name in MOVIELENS_FILES if found.is_dir() and (found / name).is_file()]
    return inside[0] if inside else found


def database_columns(address: str, query: str | None, names: ColumnNames) -> dict[str, Any]:
    """The named columns of a table, or of what a query gives, as Arrow's."""
    kind = scheme_of(address)
    if not query:
        refuse("query", got="none", needed="a table of the database, or a SELECT", try_="query='ratings'")
    plain = re.fullmatch(r"\w+(\.\w+)*", query)
    source = ".".join(map(_quoted, query.split("."))) if plain else f"({query.strip().rstrip(';')}) AS asked"
    wrong = InputError(
        what=f"{kind} database",
        got="a query that it does not answer",
        needed="a database that can be reached, and a table or a SELECT of it",
        try_="the query with the database's own tool",
    )
    connection, run = without_values(lambda: _connected(str(kind), address), wrong)
    try:
        there = without_values(lambda: run(f"SELECT * FROM {source} LIMIT 0"), wrong).column_names
        check_present(names.as_list(), there, sure_header=True)
        columns = ", ".join(map(_quoted, names.as_list()))
        table = without_values(lambda: run(f"SELECT {columns} FROM {source}"), wrong)
    finally:
        connection.close()
    return {name: table.column(name) for name in names.as_list()}


def _connected(kind: str, address: str) -> tuple[Any, Callable[[str], Any]]:
    """A connection that only reads, and what runs a query on it."""
    try:
        if kind == "duckdb":
            import duckdb

            connection = duckdb.connect(str(_database_file(address)), read_only=True)
            return connection, lambda sql: connection.sql(sql).to_arrow_table()
        if kind == "sqlite":
            from adbc_driver_sqlite import dbapi

            connection = dbapi.connect(f"{_database_file(address).resolve().as_uri()}?mode=ro")
        else:
            from adbc_driver_postgresql import dbapi

            connection = dbapi.connect(address)
    except ImportError:
        refuse(f"{kind} database", got="no driver for it", needed="the extra `databases`",
               try_="pip install 'lowkey[databases]'")  # fmt: skip

    def run(sql: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_arrow_table()

    return connection, run


def _database_file(address: str) -> Path:
    """sqlite:///shop.db is in the working folder, sqlite:////data/shop.db is not."""
    parts = urlsplit(address)
    file = Path(unquote(parts.netloc + parts.path).removeprefix("/"))
    if not file.is_file():
        refuse(f"{parts.scheme} database", got=f"{str(file)!r}, which does not exist", needed="a file",
               try_=f"{parts.scheme}:///shop.db, or with four slashes for a whole path")  # fmt: skip
    return file


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
