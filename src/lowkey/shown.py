"""Public room: what a model looks like when it is printed, or shown in a notebook: facts, and no arrays."""

from __future__ import annotations

from html import escape

from lowkey.data.domain import Domain
from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.price import at_most


def facts_of(method: str, domain: Domain, guarantee: Guarantee) -> dict[str, str]:
    """The method, the guarantee and the items, in words."""
    promise = f"epsilon = {at_most(guarantee.epsilon, 4)}, delta = {guarantee.delta:g}"
    held = guarantee.sentence().startswith("NOT PRIVATE")
    return {
        "method": method,
        "guarantee": guarantee.sentence().partition(":")[0] if held else f"{promise}, protects {guarantee.unit.protected}",
        "items": f"{domain.n_items:,} items, {domain.scale}",
    }


def facts_table(facts: dict[str, str]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{rows}</table>"
