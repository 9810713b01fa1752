"""Gate room: the one door from private to public, and what passing it costs."""
# pyright: reportUnsupportedDunderAll=false

from __future__ import annotations

from typing import TYPE_CHECKING

from lowkey.lazy import names_of

if TYPE_CHECKING:
    from lowkey.privacy import accounting
    from lowkey.privacy.billboard import Billboard
    from lowkey.privacy.guarantee import Guarantee
    from lowkey.privacy.ledger import Ledger
    from lowkey.privacy.plan import Plan
    from lowkey.privacy.unit import Unit

__all__ = ["Billboard", "Guarantee", "Ledger", "Plan", "Unit", "accounting"]
__getattr__ = names_of(
    __name__,
    {
        "accounting": "",
        "Billboard": "billboard",
        "Guarantee": "guarantee",
        "Ledger": "ledger",
        "Plan": "plan",
        "Unit": "unit",
    },
)
