"""Public room: what a model was made from: its method's parameters and the posts. Who has both can make it once more.

The posts are the release: whatever they cost is on the ledger, with the hash of each, and publishing them costs no more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Origin:
    """``posts`` are those of one plan, by the number of their reservation on the ledger, oldest first."""

    parameters: Mapping[str, Any]  # plain values, as a manifest can hold them
    posts: Mapping[int, NDArray[np.float64]]

    @classmethod
    def of(cls, parameters: Mapping[str, Any], posts: Mapping[int, Any] | None) -> Origin | None:
        """None where there are no posts to show, or parameters that are no plain values."""
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}
        try:
            same = json.loads(json.dumps(plain, allow_nan=False)) == plain
        except (TypeError, ValueError):
            same = False
        return cls(plain, dict(sorted(posts.items()))) if posts and same else None
