"""Lab room: how good a model is, on data that you treat as public: none of these numbers is private."""
# ruff: noqa: F401 (the imports for type checkers are the public names)

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowkey.evaluation.metrics import better_of_two, coverage, mae, ndcg_at_k, recall_at_k, rmse
    from lowkey.evaluation.protocol import evaluate
    from lowkey.evaluation.splits import Split, hold_out_users, split_ratings

HOMES = {
    "metrics": ("better_of_two", "coverage", "mae", "ndcg_at_k", "recall_at_k", "rmse"),
    "protocol": ("evaluate",),
    "splits": ("Split", "hold_out_users", "split_ratings"),
}
_HOME = {name: module for module, names in HOMES.items() for name in names}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"lowkey.evaluation has no {name!r}; it has {', '.join(__all__)}")
    value = globals()[name] = getattr(import_module(f"lowkey.evaluation.{_HOME[name]}"), name)
    return value
