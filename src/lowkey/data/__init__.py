"""Vault room: people's rows, closed, and the public facts they are checked against."""

from lowkey.data.domain import Domain, Scale
from lowkey.data.ratings import Block, Ratings, as_ratings
from lowkey.data.readers import from_frame, read_catalogue, read_ratings, read_uncatalogued
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
