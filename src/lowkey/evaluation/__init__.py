"""Lab room: how good a model is, on data that you treat as public: none of these numbers is private."""
# ruff: noqa: F401 (the imports for type checkers are the public names)

from __future__ import annotations

from typing import TYPE_CHECKING

from lowkey.lazy import names_of

if TYPE_CHECKING:
    from lowkey.evaluation.metrics import better_of_two, coverage, mae, ndcg_at_k, recall_at_k, rmse
    from lowkey.evaluation.protocol import evaluate
    from lowkey.evaluation.splits import Split, hold_out_users, split_ratings

HOMES = {
    "metrics": ("better_of_two", "coverage", "mae", "ndcg_at_k", "recall_at_k", "rmse"),
    "protocol": ("evaluate",),
    "splits": ("Split", "hold_out_users", "split_ratings"),
}
__getattr__, __all__ = names_of(__name__, HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
