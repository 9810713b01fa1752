"""Public room: the one way in which a method learns of the data: it asks with a sweep, and gets posts back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowkey.engines.local import Engine
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
        inputs, stds, kept = fingerprint_of(sweep), self.noise(sweep), None
        posts = {statistic.name: self.billboard.paid(statistic.name, inputs) for statistic in sweep.statistics}
        # Of a fit that was cut off: where everything is paid, nobody need be asked again.
        if sweep.keeps_state or any(post is None for post in posts.values()):
            sums, kept = self._engine.sweep(sweep, self._data, local)
            for name, unreleased in sums.items():
                posts[name] = self.billboard.post(unreleased, inputs) if posts[name] is None else posts[name]
        return Posts(posts, stds, kept)

    def ask_of_model(self, sweep: Sweep) -> Posts:
        """As ``ask``, for a sum about the model at hand, which will be another one at the next release of a stream."""
        return self.ask(sweep)

    def noise(self, sweep: Sweep) -> dict[str, float]:
        """How much noise the posts of a sweep will have, where noise is added: public, and known before they are made."""
        found = {statistic.name: self.billboard.noise_std(statistic) for statistic in sweep.statistics}
        return {name: std for name, std in found.items() if std is not None}


def fingerprint_of(public: Any) -> str:
    """Of a sweep, that is of its public fields: what it adds for a user follows from these and the user's row."""
    return hashlib.sha256(repr(_plain(public)).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """With every number of every array: the repr of a long one leaves some out."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()
    if isinstance(value, pa.Buffer):
        return hashlib.sha256(value).hexdigest()  # pyright: ignore[reportArgumentType]  # it is one
    if isinstance(value, Mapping):
        return [(name, _plain(part)) for name, part in sorted(value.items())]
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if is_dataclass(value):  # not what it has cached since
        return type(value).__name__, [(field.name, _plain(getattr(value, field.name))) for field in fields(value)]
    if hasattr(value, "__dict__"):
        return type(value).__name__, [(name, _plain(part)) for name, part in sorted(vars(value).items())]
    return value
