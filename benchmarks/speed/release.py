"""`lowkey release` on 20 million ratings, from the file to the folder, phase by phase.

Run: python benchmarks/speed/release.py [--users 130000] [--items 20000] [--ratings 154]
A fresh process runs the command as a user would; its phases are those of the command, its peak memory is its own.
Targets: under five minutes on two cores, peak below 8 GB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from lowkey.data.synthetic import write_taste

RUN = """
import resource, sys, time
from contextlib import contextmanager
from lowkey.cli import screen
from lowkey.cli.main import run

@contextmanager
def timed(self, what, total=None):
    begin, cpu = time.perf_counter(), time.process_time()
    yield lambda *_: None
    print(f"  {what:<42}{time.perf_counter() - begin:8.1f} s{time.process_time() - cpu:10.1f} s of processor time")

screen.Screen.working = timed
begin = time.perf_counter()
code = run(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"  {'in all':<42}{time.perf_counter() - begin:8.1f} s, peak {peak:.2f} GB (targets: 300 s, 8 GB)")
sys.exit(code)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=130_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--ratings", type=float, default=154.0, help="per user")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = write_taste(folder / "ratings.parquet", options.users, options.items, options.ratings)
        (folder / "catalogue.txt").write_text("\n".join(facts["items"]) + "\n")
        print(f"lowkey release: {options.users:,} users, {options.items:,} items, about {options.ratings:g} ratings each")
        columns = ["--user", "user", "--item", "item", "--rating", "rating", "--scale", "0.5", "5"]
        budget = ["--epsilon", "1", "--delta", "1e-8", "--expected-users", str(options.users)]
        places = ["--items", str(folder / "catalogue.txt"), "--out", str(folder / "release")]
        command = ["release", str(folder / "ratings.parquet"), *columns, *budget, *places]
        sys.exit(subprocess.run([sys.executable, "-c", RUN, *command]).returncode)


if __name__ == "__main__":
    main()
