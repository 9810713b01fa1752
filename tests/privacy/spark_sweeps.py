"""Sweeps for the tests of the Spark engine, in a module that executors can import."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
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
class KillsExecutor(Sweep):
    """Any sweep; the first block to come up kills the Java process that its own process belongs to, after it is added."""

    sweep: Sweep
    marker: str

    @property
    def keeps_state(self) -> bool:  # type: ignore[override]
        return self.sweep.keeps_state

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return self.sweep.statistics

    def run(self, block: Any, local: Any, sums: Any) -> Any:
        kept = self.sweep.run(block, local, sums)
        try:
            marker = os.open(self.marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return kept
        forked_from = Path(f"/proc/{os.getppid()}/status").read_text()  # Spark forks its workers from one process
        executor = int(forked_from.partition("PPid:")[2].split()[0])
        os.write(marker, str(executor).encode())
        os.close(marker)
        os.kill(executor, signal.SIGKILL)
        time.sleep(60)  # it goes with the executor
        return kept


@dataclass(frozen=True, eq=False)
class Quotes(ItemMeans):
    """Fails with a message that quotes somebody's rating, as libraries do."""

    def run(self, block: Any, local: Any, sums: Any) -> Any:
        raise ValueError(f"cannot cast {float(block.values[0])} of row 0")
