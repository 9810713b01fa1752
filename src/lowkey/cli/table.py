"""Public room: how a table of ratings is to be read: its options, and what the commands make of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowkey.cli import options as o

if TYPE_CHECKING:
    from lowkey.data.domain import Domain

Duplicates = Annotated[
    str | None,
    typer.Option(
        help="A pair of user and item that occurs again: error, last, mean or sum "
        "\\[default: error for ratings, sum for counts; binary entries count once].",
        show_default=False,
    ),
]
Missing = Annotated[str, typer.Option(help="Rows with a missing user, item or rating: error or drop.")]
NotSwapped = Annotated[
    bool,
    typer.Option("--not-swapped", help="The columns are right, though the catalogue looks like the users' ids."),
]
Query = Annotated[
    str | None, typer.Option(help="Of a database: the table, or a SELECT.", metavar="TABLE|SELECT", show_default=False)
]
Delimiter = Annotated[
    str | None, typer.Option(help="Text files: what separates cells, such as ';' or tab.", show_default=False)
]
Decimal = Annotated[str, typer.Option(help="Text files: the decimal mark.")]
Encoding = Annotated[str, typer.Option(help="Text files: the encoding, such as latin-1.")]
Null = Annotated[
    list[str] | None, typer.Option(help="Text files: what stands for a missing cell; may be repeated.", show_default=False)
]
Quote = Annotated[str | None, typer.Option(help="Text files: the quotation mark; '' for none.", show_default=False)]
UnknownItems = Annotated[str, typer.Option(help="Items that the catalogue does not have: error or drop.")]
Format = Annotated[str | None, typer.Option(help="The file's format, if its name does not tell.", show_default=False)]


@dataclass(frozen=True)
class Written:
    """Options: how a file is written, where its name does not tell."""

    format: Format = None
    delimiter: Delimiter = None
    decimal: Decimal = "."
    encoding: Encoding = "utf8"
    null: Null = None
    quote: Quote = None

    def of_table(self) -> dict[str, Any]:
        text = {name: getattr(self, name) for name in ("delimiter", "decimal", "encoding", "quote")}
        return {"format": self.format, "text": {**text, "null": tuple(self.null or ())}}


@dataclass(frozen=True)
class Tidy(Written):
    """Options: how a table is written, and what is done with rows that are not as they should be."""

    query: Query = None
    duplicates: Duplicates = None
    unknown_items: UnknownItems = "error"
    missing: Missing = "error"
    not_swapped: NotSwapped = False

    def of_table(self) -> dict[str, Any]:
        rows = {name: getattr(self, name) for name in ("duplicates", "unknown_items", "missing", "query")}
        return {**rows, "check_axes": not self.not_swapped, **super().of_table()}


@dataclass(frozen=True)
class Columns:
    """Options: the columns of a table, what their values are, and the catalogue. None has a safe default."""

    user: o.User = None
    item: o.Item = None
    rating: o.Rating = None
    scale: o.Scale = None
    binary: o.Binary = False
    counts: o.Counts = None
    time: o.Time = None
    items: o.Items = None
    items_column: o.ItemsColumn = None

    def needed(self) -> dict[str, Any]:
        kind = self.scale or self.binary or self.counts is not None
        return {"--user": self.user, "--item": self.item, "--scale, --counts or --binary": kind}

    def table(self, file: str, **how: Any) -> Table:
        """Before anything is imported, a mistyped name or a kind of feedback that can't be meant is refused."""
        scale = o.check_feedback(self.scale, self.binary, self.counts, self.rating)
        o.check_file(file)
        assert self.user is not None
        assert self.item is not None
        return Table(file, self.user, self.item, self.rating, scale, self.counts is not None, self.time, **how)

    def catalogue(self) -> Any:
        """The public ids; None where there are none."""
        return o.catalogue(self.items, self.items_column or self.item or "") if self.items else None


AS_WRITTEN, AS_USUAL, UNNAMED = Written(), Tidy(), Columns()


@dataclass(frozen=True)
class Table:
    """How the ratings are to be read."""

    file: str
    user: str
    item: str
    rating: str | None
    scale: tuple[float, float] | None
    counts: bool = False  # within the scale, and more is taken for its end
    time: str | None = None
    duplicates: str | None = None  # None: by the kind of feedback
    unknown_items: str = "error"
    missing: str = "error"
    check_axes: bool = True
    format: str | None = None
    text: dict[str, Any] = field(default_factory=dict)  # of a text file, where it is not as usual
    query: str | None = None
    out_of_core: bool | None = None  # None: by size
    scratch: Path | None = None

    @property
    def feedback(self) -> str:
        return "binary" if self.scale is None else "counts" if self.counts else "ratings"

    def _how(self, progress: Any) -> dict[str, Any]:
        from lowkey.data.text_files import Text

        names = ("user", "item", "rating", "time", "duplicates", "missing", "format", "query", "out_of_core", "scratch")
        return {**{name: getattr(self, name) for name in names}, "text": Text(**self.text), "progress": progress}

    def read(self, domain: Domain, progress: Any = lambda done: None) -> Any:
        from lowkey.data.readers import read_ratings

        checks = {"unknown_items": self.unknown_items, "check_axes": self.check_axes}
        return read_ratings(self.file, domain, **checks, **self._how(progress))

    def read_uncatalogued(self, progress: Any = lambda done: None) -> Any:
        from lowkey.data.readers import read_uncatalogued

        return read_uncatalogued(self.file, rating_range=self.scale, feedback=self.feedback, **self._how(progress))
