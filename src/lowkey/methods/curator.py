"""Public room: the one way in which a method learns of the data: it asks with a sweep, and gets posts back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.engines.base import Engine
from lowkey.kernels.sweep import Sweep
from lowkey.privacy.billboard import Billboard

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Posts:
    """What one pass brought: public arrays by name, the noise of each, and the users' own state, closed."""

    arrays: Mapping[str, Any]
    stds: Mapping[str, float]  # of one coordinate; off the diagonal, if symmetric
    local: Any = None

    def __getitem__(self, name: str) -> Any:
        return self.arrays[name]


class Curator:
    """Private data, the engine that sums over it, and the billboard: methods hold this, and never the three."""

    def __init__(self, data: Any, engine: Engine, billboard: Billboard) -> None:
        self._data, self._engine, self.billboard = data, engine, billboard

    def ask(self, sweep: Sweep, local: Any = None) -> Posts:
        """One pass over all users: everything that it sums, posted, with its noise."""
        sums, kept = self._engine.sweep(sweep, self._data, local)
        stds = self.noise(sweep)
        return Posts({name: self.billboard.post(unreleased) for name, unreleased in sums.items()}, stds, kept)

    def noise(self, sweep: Sweep) -> dict[str, float]:
        """How much noise the posts of a sweep will have, where noise is added: public, and known before they are made."""
        found = {statistic.name: self.billboard.noise_std(statistic) for statistic in sweep.statistics}
        return {name: std for name, std in found.items() if std is not None}
