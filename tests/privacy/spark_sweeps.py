"""Sweeps for the tests of the Spark engine, in a module that executors can import."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

from lowkey.kernels.bias import ItemMeans
from lowkey.kernels.sweep import Sweep
from lowkey.privacy.sums import Statistic


@dataclass(frozen=True, eq=False)
class Together(Sweep):
    """Several sweeps as one; sums are named by the sweep's number."""

    asked: list[Sweep]

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return tuple(
            Statistic(f"{at} {s.name}", s.shape, s.grid, s.sensitivity, s.peak_units, s.layout)
            for at, sweep in enumerate(self.asked)
            for s in sweep.statistics
        )

    def run(self, block: Any, local: Any, sums: Any) -> Any:
        for at, sweep in enumerate(self.asked):
            own = {name.partition(" ")[2]: array for name, array in sums.items() if name.partition(" ")[0] == str(at)}
            sweep.run(block, None, own)
        return None


@dataclass(frozen=True, eq=False)
class DiesOnce(ItemMeans):
    """Item means, of which the first block to come up takes its whole process down, after it has been added up."""

    marker: str = ""

    def run(self, block: Any, local: Any, sums: Any) -> Any:
        super().run(block, local, sums)
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return None
        os.kill(os.getpid(), signal.SIGKILL)
        return None


@dataclass(frozen=True, eq=False)
class Quotes(ItemMeans):
    """Fails with a message that quotes somebody's rating, as libraries do."""

    def run(self, block: Any, local: Any, sums: Any) -> Any:
        raise ValueError(f"cannot cast {float(block.values[0])} of row 0")
