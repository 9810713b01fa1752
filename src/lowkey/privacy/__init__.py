"""Gate room: the one door from private to public, and what passing it costs."""
# ruff: noqa: F401 (the imports for type checkers are the public names)
# pyright: reportUnusedImport=false

from __future__ import annotations

from typing import TYPE_CHECKING

from lowkey.lazy import names_of

if TYPE_CHECKING:
    from lowkey.privacy import accounting
    from lowkey.privacy.billboard import Billboard
    from lowkey.privacy.guarantee import Guarantee, Unit
    from lowkey.privacy.ledger import Ledger
    from lowkey.privacy.plan import Plan

HOMES = {
    "accounting": (),
    "billboard": ("Billboard",),
    "guarantee": ("Guarantee", "Unit"),
    "ledger": ("Ledger",),
    "plan": ("Plan",),
}
__getattr__, __all__ = names_of(__name__, HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
