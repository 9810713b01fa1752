"""Public room: how a table of ratings is to be read: its options, and what the commands make of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowkey.cli import options as o
from lowkey.errors import refuse

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
        scale = check_feedback(self.scale, self.binary, self.counts, self.rating)
        check_file(file)
        assert self.user is not None
        assert self.item is not None
        return Table(file, self.user, self.item, self.rating, scale, self.counts is not None, self.time, **how)

    def catalogue(self) -> Any:
        """The public ids; None where there are none."""
        return catalogue(self.items, self.items_column or self.item or "") if self.items else None


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


def check_feedback(
    scale: tuple[float, float] | None, binary: bool, counts: int | None, rating: str | None
) -> tuple[float, float] | None:
    """The range of the values: of ratings, or of counts; None for binary feedback."""
    if (scale is not None) + binary + (counts is not None) > 1:
        refuse(
            "--binary, --counts or --scale",
            got="more than one of them",
            needed="one",
            try_="--scale for ratings, --counts for plays or clicks, --binary for who has what",
        )
    if counts is not None:
        if not 2 <= counts < 2**24:
            refuse("--counts", got=f"{counts}", needed="2 or more: the largest count that counts", try_="--counts 20")
        return 1.0, float(counts)
    if scale is not None and not -3e38 < scale[0] < scale[1] < 3e38:
        refuse(
            "--scale", got=f"{scale[0]:g} {scale[1]:g}", needed="the lowest, then the highest rating", try_="--scale 0.5 5"
        )
    if scale is not None and rating is None:
        refuse("--scale", got="no --rating", needed="the column with the ratings", try_="--rating rating, or --binary")
    return scale


def check_file(file: str) -> None:
    """Before anything is imported: a mistyped name is the commonest mistake. An address is tried when it is read."""
    if "://" not in file and not Path(file).exists():
        refuse("the ratings file", got=f"{str(file)!r}, which does not exist", needed="a file", try_="another path")


def catalogue(items: str, column: str) -> Any:
    """The ids of a public catalogue: a range of integers, or a file."""
    if written := re.fullmatch(r"(-?\d{1,18})\.\.(-?\d{1,18})", items):
        import numpy as np

        low, high = int(written[1]), int(written[2])
        if not 0 <= high - low < 2**31:
            refuse("--items", got=items, needed="a range from its lowest to its highest id", try_="--items 1..1682")
        return np.arange(low, high + 1)
    from lowkey.data.public_tables import read_catalogue

    return read_catalogue(items, item=column)
