"""Lab room: how hyper-parameters were chosen, stated with every result; five protocols.

``DEFAULTS``: nothing is tuned on the data; where a method's own defaults were set with a look at a benchmark's data, the
statement says so. ``GIVEN``: by hand. ``ORACLE``: every candidate is run and the best on the test users is shown, as in
the papers: NOT PRIVATE. ``SELECTION``: a random number of candidates, chosen by noisy scores, priced (private_selection).
``BOUND``: no method, but what one is measured by (bounds).
"""

from __future__ import annotations

from itertools import product
from typing import Any

DEFAULTS = "defaults"
GIVEN = "given settings"
ORACLE = "oracle"
SELECTION = "private selection"
BOUND = "bound"

# Where the defaults come from, as each method's page states it.
LOOKED = {
    "als": "defaults, set by hand on planted-20k, another draw of the taste generator and another split of Jester and of "
    "the MovieLens-1M sets (mostly the same people), with a look at this one",
    "ALS": "ridges by ratings left out in training (not for binary feedback)",
    "factors": "defaults: rules for rank, rounds, start, shares and bounds set on other splits of MovieLens-1M (mostly the "
    "same people), MovieLens-100K and Jester, other draws of the look-alike and of the DPLMC setting, and on planted-20k",
    "frank-wolfe": "defaults, set after a few runs on Jester",
    "lmc": "defaults, set by hand on another split of Jester and MovieLens-1M",
    "moments": "defaults: rank chosen on the posted moments (free); shares and bounds set on MovieLens-1M and Jester",
}
STATEMENTS = {
    BOUND: "a bound, its ridges chosen by the test users themselves: NOT PRIVATE",
    GIVEN: "settings given by hand",
    ORACLE: "best of {count} candidates by the test users themselves: NOT PRIVATE",
    SELECTION: "random number of candidates, selected by noisy scores; the selection is in the price",
}

GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "als": {"rank": (8, 16, 32), "n_iter": (3, 6)},
    "bias": {"n_iter": (1, 2, 4), "offset_reg": (2.0, 5.0, 10.0)},
    "factors": {"rank": (4, 8, 16), "n_iter": (6, 10)},
    "frank-wolfe": {"n_iter": (3, 6, 10), "offset_reg": (2.0, 5.0)},
    "lmc": {"rank": (3, 5, 10)},
    "moments": {"rank": (10, 20, 40), "reg": (0.5, 1.0, 2.0)},
    "svd": {"rank": (2, 4, 8, 16)},
    "ALS": {"rank": (8, 16, 32)},
    "FrankWolfe": {"n_iter": (10, 20)},
}


def candidates(method: str) -> list[dict[str, Any]]:
    """The settings that oracle tuning and private selection try; the defaults are one of them."""
    grid = GRIDS.get(method, {})
    return [{}, *(dict(zip(grid, values, strict=True)) for values in product(*grid.values()) if grid)]


def statement(method: str, protocol: str) -> str:
    """In words, for a row of results."""
    if protocol == DEFAULTS:
        return LOOKED.get(method, "defaults, from public facts")
    return STATEMENTS[protocol].format(count=len(candidates(method)))
