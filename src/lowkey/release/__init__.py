"""Public room: the folder that may be published: written whole or not at all, read with suspicion, checked by anyone."""
# pyright: reportUnsupportedDunderAll=false

from __future__ import annotations

from typing import TYPE_CHECKING

from lowkey.lazy import names_of

if TYPE_CHECKING:
    from lowkey.release.folder import check_destination
    from lowkey.release.loading import load
    from lowkey.release.verifying import Check, verify
    from lowkey.release.writing import write_release

__all__ = ["Check", "check_destination", "load", "verify", "write_release"]
__getattr__ = names_of(
    __name__,
    {
        "check_destination": "folder",
        "load": "loading",
        "Check": "verifying",
        "verify": "verifying",
        "write_release": "writing",
    },
)
