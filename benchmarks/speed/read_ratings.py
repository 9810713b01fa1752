"""Reading 20 million ratings into `Ratings`, next to `polars.read_parquet(...).sort("user")`.

Run: python benchmarks/speed/read_ratings.py [--ratings 20e6] [--repeats 3] [--ids both] [--rows both]
Each measurement is a fresh process, so that peak memory (ru_maxrss) is its own. The time is that of the call, after one
of a small file that loads what either library loads at its first use (shown as "first"). Peers take turns,
and both the best and the median of the repeats are shown; the processor time (of all threads) tells whether others were
using the machine. Targets: at most 3 times polars (rows grouped by user: 1.5), peak below 3 GB.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lowkey_lab.speed import told

TARGET_RATIO, TARGET_GROUPED, TARGET_GB = 3.0, 1.5, 3.0
N_ITEMS, RATINGS_PER_USER = 27_000, 144  # as MovieLens 20M

LOWKEY = """
import json, resource, sys, time
import pyarrow.parquet
from lowkey.data import Domain, read_ratings
from lowkey.data.synthetic import HALF_STARS
items = pyarrow.parquet.read_table(sys.argv[2]).column("item")
domain = Domain(items, HALF_STARS)
begin = time.perf_counter()
read_ratings(sys.argv[2] + ".few", domain, user="user", item="item", rating="rating", format="parquet")
first = time.perf_counter() - begin
begin, cpu = time.perf_counter(), time.process_time()
ratings = read_ratings(sys.argv[1], domain, user="user", item="item", rating="rating")
seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
"""
POLARS = """
import json, resource, sys, time
import polars
begin = time.perf_counter()
polars.read_parquet(sys.argv[2] + ".few").sort("user")
first = time.perf_counter() - begin
begin, cpu = time.perf_counter(), time.process_time()
table = polars.read_parquet(sys.argv[1]).sort("user")
seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
"""
REPORT = """
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e9 if sys.platform == "darwin" else 1e6)
print(json.dumps({"first": first, "seconds": seconds, "cpu": cpu, "gigabytes": peak}))
"""


def measure(program: str, *arguments: object) -> dict[str, float]:
    command = [sys.executable, "-c", program + REPORT, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def write_data(folder: Path, n_ratings: int, numbers: bool) -> tuple[Path, Path]:
    import pyarrow as pa
    import pyarrow.parquet

    from lowkey.data.synthetic import write_taste

    ratings, catalogue = folder / "ratings.parquet", folder / "catalogue.parquet"
    n_users = max(1, round(n_ratings / RATINGS_PER_USER * 1.01))  # a little more, as counts are drawn
    facts = write_taste(ratings, n_users, N_ITEMS, RATINGS_PER_USER, seed=1, numbers=numbers)
    pyarrow.parquet.write_table(pa.table({"item": pa.array(facts["items"])}), catalogue)
    few = next(pyarrow.parquet.ParquetFile(ratings).iter_batches(20_000))
    pyarrow.parquet.write_table(pa.table(few), f"{catalogue}.few")
    return ratings, catalogue


def shuffled(path: Path) -> Path:
    """The same rows in random order: a log by time rather than an export by user."""
    program = (
        "import polars, sys\n"
        "polars.read_parquet(sys.argv[1]).sample(fraction=1.0, shuffle=True, seed=1)"
        ".write_parquet(sys.argv[2], compression='zstd', row_group_size=1_000_000)"
    )
    out = path.with_name("shuffled.parquet")
    subprocess.run([sys.executable, "-c", program, str(path), str(out)], check=True)
    return out


def compare(label: str, ratings: Path, catalogue: Path, repeats: int) -> bool:
    runs: dict[str, list[dict[str, float]]] = {"lowkey": [], "polars": []}
    for _ in range(repeats):
        runs["lowkey"].append(measure(LOWKEY, ratings, catalogue))
        runs["polars"].append(measure(POLARS, ratings, catalogue))
    summary = {}
    for name, results in runs.items():
        seconds = [run["seconds"] for run in results]
        peak = max(run["gigabytes"] for run in results)
        summary[name] = (min(seconds), peak)
        wall = f"best {min(seconds):6.2f} s  median {statistics.median(seconds):6.2f} s"
        cpu = statistics.median(run["cpu"] for run in results)
        first = min(run["first"] for run in results)
        print(f"{label:18} {name:7} {wall}  processor {cpu:6.2f} s  first {first:5.2f} s  peak {peak:5.2f} GB", flush=True)
    target = TARGET_GROUPED if label.endswith("grouped") else TARGET_RATIO
    kept = told(f"reading Parquet / polars, {label}", summary["lowkey"][0] / summary["polars"][0], target)
    kept &= summary["lowkey"][1] < TARGET_GB
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ratings", type=float, default=20e6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ids", choices=("text", "numbers", "both"), default="both")
    parser.add_argument("--rows", choices=("grouped", "shuffled", "both"), default="both")
    options = parser.parse_args()
    kept = True
    for ids in ("text", "numbers") if options.ids == "both" else (options.ids,):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            small = folder / "small"
            small.mkdir()
            measure(LOWKEY, *write_data(small, 50_000, ids == "numbers"))  # fills numba's cache
            begin = time.perf_counter()
            ratings, catalogue = write_data(folder, int(options.ratings), ids == "numbers")
            import pyarrow.parquet

            rows = pyarrow.parquet.read_metadata(ratings).num_rows
            print(f"{ids}: {rows:,} rows written in {time.perf_counter() - begin:.1f} s", flush=True)
            if options.rows != "shuffled":
                kept &= compare(f"{ids}, grouped", ratings, catalogue, options.repeats)
            if options.rows != "grouped":
                kept &= compare(f"{ids}, shuffled", shuffled(ratings), catalogue, options.repeats)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
