"""Public room: posted moments, as an artefact of their own: any model may be built on them, any number of times, free."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from lowkey.errors import refuse

ARRAYS = {
    "ratings": ("item_counts", "item_bias", "head", "residual_gram", "rated_gram"),
    "binary": ("item_counts", "head", "head_weights", "row_gram"),
}


@dataclass(frozen=True)
class Moments:
    """What ``DPMoments`` posted: public arrays, and how much noise each holds (off the diagonal, for a Gram matrix).

    Gram matrices are packed upper triangles over ``head``, the positions of the items that have one.

    Examples
    --------
    >>> posted = lk.DPMoments(epsilon=1.0, delta=1e-6).fit(ratings).moments_  # doctest: +SKIP
    >>> posted.save("moments.safetensors")  # doctest: +SKIP
    """

    feedback: str
    arrays: Mapping[str, NDArray[Any]]
    noise_std: Mapping[str, float]
    settings: Mapping[str, Any]

    def save(self, path: str | Path) -> Path:
        """Write ``moments.safetensors``: numbers and their noise, no code."""
        path = Path(path)
        facts = {"feedback": self.feedback, "noise_std": dict(self.noise_std), "settings": dict(self.settings)}
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        save_file(arrays, path, metadata={"lowkey.moments": json.dumps(facts)})
        return path

    @classmethod
    def load(cls, path: str | Path) -> Moments:
        try:
            with safe_open(str(path), framework="numpy") as file:
                facts = json.loads((file.metadata() or {})["lowkey.moments"])
                arrays = {name: file.get_tensor(name) for name in ARRAYS[facts["feedback"]]}
        except (OSError, SafetensorError, KeyError, ValueError):
            refuse("moments", got="a file that is no moments file", needed="moments.safetensors", try_="Moments.save")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            refuse("moments", got="numbers that are not finite", needed="posted moments", try_="the original file")
        return cls(facts["feedback"], arrays, facts["noise_std"], facts["settings"])
