"""How long a process takes to start: `lk.load` of a release and `lowkey recommend`, beside an earlier version in one run.

    python benchmarks/speed/start_up.py [--commit e1c8a3b] [--repeats 7]

Each version makes a release of its own from the same ratings (1,682 items, rank 32), so that neither reads the other's
format. A measurement is a fresh Python process, from its start to its end; best of the repeats, the versions in turn, with
compiled code in numba's cache on disk. Target: at most 0.6 of the earlier version's time. Then two processes start at once
without that cache: both must answer, alike, and leave a cache that a third one can use.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lowkey_lab.speed import in_turn, told

HERE = Path(__file__).parents[2]
N_USERS, N_ITEMS = 600, 1682
MAKE = f"""
import sys
import numpy as np, scipy.sparse
import lowkey as lk
rng = np.random.default_rng(0)
rows = scipy.sparse.random_array(({N_USERS}, {N_ITEMS}), density=0.03, format="csr", rng=rng)
rows.data[:] = rng.integers(1, 6, rows.nnz)
domain = lk.Domain(range(1, {N_ITEMS} + 1), (1.0, 5.0))
lk.DPALS(epsilon=8.0, delta=1e-4, rank=32, n_iter=1).fit(rows, domain=domain).release(sys.argv[1])
"""
LOAD = "import sys, lowkey as lk; lk.load(sys.argv[1])"
RECOMMEND = "from lowkey.cli.main import main; main()"


class Version:
    """A checkout and its release."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.source, self.folder = source, folder
        self.release, self.history = folder / "release", folder / "mine.csv"
        folder.mkdir()
        self.history.write_text("item,rating\n1,5\n50,4\n300,2\n")
        self.run(MAKE, str(self.release))

    def start(self, program: str, *arguments: str, cache: Path | None = None) -> subprocess.Popen[str]:
        places = {"PYTHONPATH": str(self.source / "src"), "NUMBA_CACHE_DIR": str(cache or self.folder / "cache")}
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.Popen(command, env={**os.environ, **places}, text=True, stdout=-1, stderr=-1, cwd=self.folder)

    def run(self, program: str, *arguments: str) -> str:
        return finished(self.start(program, *arguments))

    def load(self) -> str:
        return self.run(LOAD, str(self.release))

    def recommend(self) -> str:
        return self.run(RECOMMEND, "recommend", str(self.release), "--history", str(self.history))


def finished(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate()
    if process.returncode:
        raise SystemExit(error)
    return out


def at_once(now: Version) -> None:
    """Two cold starts together, then a warm one."""
    cache = now.folder / "cold"
    order = (RECOMMEND, "recommend", str(now.release), "--history", str(now.history))
    both = [now.start(*order, cache=cache) for _ in range(2)]
    answers = {finished(process) for process in both} | {finished(now.start(*order, cache=cache))}
    held = sum(1 for file in cache.rglob("*.nbc"))
    print(f"two cold starts at once: {'the same answer' if len(answers) == 1 else 'DIFFERENT ANSWERS'}, {held} cached")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default="e1c8a3b")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, old = Path(name), Path(name) / "source"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--detach", str(old), options.commit], check=True, capture_output=True)
        try:
            now, before = Version(HERE, folder / "now"), Version(old, folder / "before")
            for what in ("load", "recommend"):
                works = {"now": getattr(now, what), "before": getattr(before, what)}
                found = in_turn(works, options.repeats)  # the first one of each fills the caches
                print(f"{what:<10} now {found['now']:6.2f} s, {options.commit} {found['before']:6.2f} s")
                told(f"start-up, {what} / {options.commit}", found["now"] / found["before"], 0.6)
            at_once(now)
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True, capture_output=True)


if __name__ == "__main__":
    main()
