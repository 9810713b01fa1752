"""Kernel room: one pass over users, and how far one user can move each of its sums, in one object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lowkey.data.ratings import Block
from lowkey.privacy.sums import Statistic

Sums = dict[str, NDArray[np.int64]]
Local = Any  # what users keep for themselves between passes, held closed by the engine: an array, one row per user


class Sweep(ABC):
    """A bounded contribution of every user, summed.

    Subclasses are frozen dataclasses (``eq=False``: some hold arrays) whose fields are *all* their public inputs: bounds,
    and what was released before. ``statistics`` is the proof, ``run`` is the code that it is about: they stand side by
    side, with the derivation, and the replay tests attack one with the other.
    """

    keeps_state: ClassVar[bool] = False  # whether ``run`` returns what users keep; else it returns None
    needs_everyone: ClassVar[bool] = False  # whether all users must be in one block; only where their number is public

    @property
    @abstractmethod
    def statistics(self) -> tuple[Statistic, ...]:
        """What is summed: names, shapes, grids and sensitivities. Public facts only."""

    @abstractmethod
    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        """Add the contributions of a block of whole users to ``sums``, in grid units; return the block's local state.

        A user's contribution depends on that user's row, key and local state and on the fields, never on the block.
        """
