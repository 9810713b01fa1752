"""Vault room: people's rows, closed, and the public facts they are checked against."""
# ruff: noqa: F401 (the imports for type checkers are the public names)

from __future__ import annotations

from typing import TYPE_CHECKING

from lowkey.lazy import names_of

if TYPE_CHECKING:
    from lowkey.data.domain import Domain, Scale
    from lowkey.data.public_tables import read_catalogue
    from lowkey.data.ratings import Block, Ratings
    from lowkey.data.readers import as_ratings, from_frame, read_ratings, read_uncatalogued
    from lowkey.data.uncatalogued import UncataloguedRatings

HOMES = {
    "domain": ("Domain", "Scale"),
    "public_tables": ("read_catalogue",),
    "ratings": ("Block", "Ratings"),
    "readers": ("as_ratings", "from_frame", "read_ratings", "read_uncatalogued"),
    "uncatalogued": ("UncataloguedRatings",),
}
__getattr__, __all__ = names_of(__name__, HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
