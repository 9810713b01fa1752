"""Public room: the folder that may be published: written whole or not at all, read with suspicion, checked by anyone."""
# ruff: noqa: F401 (the imports for type checkers are the public names)

from __future__ import annotations

from typing import TYPE_CHECKING

from lowkey.lazy import names_of

if TYPE_CHECKING:
    from lowkey.release.folder import check_destination
    from lowkey.release.loading import load
    from lowkey.release.verifying import Check, verify
    from lowkey.release.writing import write_release

HOMES = {
    "folder": ("check_destination",),
    "loading": ("load",),
    "verifying": ("Check", "verify"),
    "writing": ("write_release",),
}
__getattr__, __all__ = names_of(__name__, HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
