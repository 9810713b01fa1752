"""`lowkey release --out-of-core` in 4 GB, on files of growing size: time by phase, how it grows, and the peak of memory.

Run: python benchmarks/speed/out_of_core.py [--millions 20 200] [--items 20000] [--limit 4] [--folder DIR]
The files are those of the taste generator, 100 ratings a user on average, written as a stream; a file that is in the folder
already is used again. A fresh process with an address space of at most `limit` GB (`ulimit -v`) runs the command as a user
would. Targets: peak below 4 GB, an exponent of growth near 1. Needs about 30 bytes of disk per rating in the folder.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet

from lowkey.data.synthetic import write_taste

RANK = 16
RUN = """
import json, sys, time
from contextlib import contextmanager
from lowkey.cli import screen
from lowkey.cli.main import run

phases = []

@contextmanager
def timed(self, what, total=None):
    begin, cpu = time.perf_counter(), time.process_time()
    yield lambda *_: None
    phases.append([what, time.perf_counter() - begin, time.process_time() - cpu])

screen.Screen.working = timed
code = run(sys.argv[2:])
status = open("/proc/self/status").read()
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
json.dump({"phases": phases, "peak": peak}, open(sys.argv[1], "w"))
sys.exit(code)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--limit", type=float, default=4.0, help="GB of address space")
    parser.add_argument("--folder", type=Path, help="keep the files here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        runs = [measure(folder, n, options.items, options.limit) for n in options.millions]
    for (n, first), (m, last) in itertools.pairwise(runs):
        for at, what in ((1, "time"), (2, "processor time")):
            before, after = total(first, at), total(last, at)
            slope = math.log(after / before) / math.log(m / n)
            print(f"{what} from {n / 1e6:.1f} to {m / 1e6:.1f} million ratings: grows by the power {slope:.3f}")


def total(found: dict, at: int) -> float:
    """All phases that touch ratings; starting and writing the folder do not depend on them."""
    return sum(phase[at] for phase in found["phases"] if phase[0] not in ("Starting", "Writing the release"))


def measure(folder: Path, millions: int, items: int, limit: float) -> tuple[int, dict]:
    file, users = folder / f"taste-{millions}.parquet", millions * 10_000
    if not file.exists():
        begin = time.perf_counter()
        write_taste(file, users, items, 100.0)
        print(f"{file.name}: made in {time.perf_counter() - begin:.0f} s", flush=True)
    catalogue = folder / f"catalogue-{items}.txt"
    if not catalogue.exists():
        facts = write_taste(folder / "one-user.parquet", 1, items, 100.0)
        catalogue.write_text("\n".join(facts["items"]) + "\n")
    n_ratings = pyarrow.parquet.ParquetFile(file).metadata.num_rows
    columns = ["--user", "user", "--item", "item", "--rating", "rating", "--scale", "0.5", "5", "--out-of-core"]
    # The default rank grows with the expected number of users; here all sizes are to do the same work per rating.
    budget = ["--epsilon", "1", "--delta", "1e-9", "--method", "factors", "--set", f"rank={RANK}", "--quiet"]
    with tempfile.TemporaryDirectory(dir=folder) as out:
        result, release = Path(out) / "result.json", Path(out) / "release"
        places = ["--items", str(catalogue), "--out", str(release)]
        command = [sys.executable, "-c", RUN, str(result), "release", str(file), *columns, *budget, *places]
        size = int(limit * 2**30)
        subprocess.run(command, check=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
        found = json.loads(result.read_text())
    left = [name for name in os.listdir(folder) if name.startswith(".lowkey")]
    print(f"{n_ratings:,} ratings of {users:,} users, {items:,} items; {file.stat().st_size / 2**30:.2f} GB of Parquet")
    for what, wall, cpu in found["phases"]:
        print(f"  {what:<42}{wall:8.1f} s{cpu:9.1f} s of processor time{1e9 * cpu / n_ratings:9.1f} ns a rating")
    print(
        f"  peak {found['peak'] / 2**30:.2f} GB resident, limit {limit:g} GB; scratch folders left: {len(left)}", flush=True
    )
    return n_ratings, found


if __name__ == "__main__":
    main()
