"""Vault room: people's rows, closed, and the public facts they are checked against."""
# pyright: reportUnsupportedDunderAll=false

from __future__ import annotations

from typing import TYPE_CHECKING

from lowkey.lazy import names_of

if TYPE_CHECKING:
    from lowkey.data.domain import Domain, Scale
    from lowkey.data.public_tables import read_catalogue
    from lowkey.data.ratings import Block, Ratings
    from lowkey.data.readers import as_ratings, from_frame, read_ratings, read_uncatalogued
    from lowkey.data.uncatalogued import UncataloguedRatings

__all__ = [
    "Block",
    "Domain",
    "Ratings",
    "Scale",
    "UncataloguedRatings",
    "as_ratings",
    "from_frame",
    "read_catalogue",
    "read_ratings",
    "read_uncatalogued",
]
__getattr__ = names_of(
    __name__,
    {
        "Domain": "domain",
        "Scale": "domain",
        "Block": "ratings",
        "Ratings": "ratings",
        "as_ratings": "readers",
        "from_frame": "readers",
        "read_catalogue": "public_tables",
        "read_ratings": "readers",
        "read_uncatalogued": "readers",
        "UncataloguedRatings": "uncatalogued",
    },
)
