"""Gate room: the one door from private to public, and what passing it costs."""

from lowkey.privacy import accounting
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.plan import Plan
from lowkey.privacy.unit import Unit

__all__ = ["Billboard", "Guarantee", "Ledger", "Plan", "Unit", "accounting"]
