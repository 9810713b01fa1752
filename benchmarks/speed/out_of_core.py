"""`lowkey release --out-of-core` in 4 GB, from ten million to a billion ratings: time, memory and disk, and how they grow.

    python benchmarks/speed/out_of_core.py [--millions 10 30 100] [--methods factors moments] [--folder DIR] [--figure PNG]

The crowd is that of the taste generator, 100 ratings a user and 50,000 items, made in pieces of 100,000 users: a smaller
set is the first pieces of a larger one, and what was interrupted goes on. A fresh process with an address space of at most
`limit` GB (`ulimit -v`) runs the command as a user would. With `--folder` each point that is done is kept in
`points.jsonl` there and not measured again. Targets: peak below 4 GB, growth of time by a power of at most 1.05. A billion
ratings take 2.4 GB of Parquet and 32 GB of scratch space.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet

from lowkey_lab.pyplot import pyplot
from lowkey_lab.speed import told
from lowkey_lab.synthetic import write_taste_pieces

ITEMS, EACH = 50_000, 100_000
# The defaults grow with the expected number of users; here all sizes are to do the same work per rating.
SETTINGS = {"factors": "rank=16", "moments": "head=2048"}
RUN = """
import glob, json, os, sys, threading, time
from contextlib import contextmanager
from lowkey.cli import screen
from lowkey.cli.main import run

phases, disk = [], [0]

@contextmanager
def timed(self, what, total=None):
    begin, cpu = time.perf_counter(), time.process_time()
    yield lambda *_: None
    phases.append([what, time.perf_counter() - begin, time.process_time() - cpu])

def watch():  # files without a name
    while True:
        held = 0
        for file in glob.glob("/proc/self/fd/*"):
            try:
                if os.readlink(file).endswith(" (deleted)"):
                    held += 512 * os.stat(file).st_blocks
            except OSError:
                pass
        disk[0] = max(disk[0], held)
        time.sleep(0.5)

threading.Thread(target=watch, daemon=True).start()
screen.Screen.working = timed
code = run(sys.argv[2:])
status = open("/proc/self/status").read()
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
json.dump({"phases": phases, "peak": peak, "disk": disk[0]}, open(sys.argv[1], "w"))
sys.exit(code)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, nargs="+", default=[10, 30, 100])
    parser.add_argument("--methods", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--limit", type=float, default=4.0, help="GB of address space")
    parser.add_argument("--folder", type=Path, help="keep the ratings and the points here")
    parser.add_argument("--figure", type=Path, help="draw the points of the folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        kept = folder / "points.jsonl"
        points = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
        for millions in sorted(options.millions):
            for method in options.methods:
                if not any((p["millions"], p["method"]) == (millions, method) for p in points):
                    points.append(measure(folder, millions, method, options.limit))
                    with kept.open("a") as file:
                        file.write(json.dumps(points[-1]) + "\n")
    for method in options.methods:
        shown([point for point in points if point["method"] == method])
    if options.figure:
        draw(points, options.figure)


def seconds(point: dict[str, Any], at: int) -> float:
    """The phases that touch ratings: the others do not depend on them. at 1: on the clock, 2: of processors."""
    return sum(phase[at] for phase in point["phases"] if phase[0].startswith(("Reading", "Posting")))


def ratings_of(folder: Path, millions: int) -> Path:
    """A folder of links to the first pieces of the crowd."""
    place = folder / f"first-{millions}"
    place.mkdir(exist_ok=True)
    for piece in write_taste_pieces(folder / "pieces", millions * 10_000, ITEMS, 100.0, each=EACH):
        if not (place / piece.name).exists():
            os.link(piece, place / piece.name)
    return place


def measure(folder: Path, millions: int, method: str, limit: float) -> dict[str, Any]:
    ratings, catalogue = ratings_of(folder, millions), folder / "catalogue.txt"
    catalogue.write_text("".join(f"{item}\n" for item in range(ITEMS)))
    n_ratings = sum(pyarrow.parquet.ParquetFile(file).metadata.num_rows for file in ratings.iterdir())
    columns = ["--user", "user", "--item", "item", "--rating", "rating", "--scale", "0.5", "5", "--out-of-core"]
    budget = ["--epsilon", "1", "--delta", "1e-9", "--method", method, "--set", SETTINGS[method], "--quiet"]
    with tempfile.TemporaryDirectory(dir=folder) as out:
        result, size = Path(out) / "result.json", int(limit * 2**30)
        places = ["--format", "parquet", "--items", str(catalogue), "--out", str(Path(out) / "release"), "--scratch", out]
        command = [sys.executable, "-c", RUN, str(result), "release", str(ratings), *columns, *budget, *places]
        subprocess.run(command, check=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
        found = json.loads(result.read_text())
    return {"millions": millions, "method": method, "ratings": n_ratings, "load": os.getloadavg()[0], **found}


def shown(points: list[dict[str, Any]]) -> None:
    points.sort(key=lambda point: point["ratings"])
    for point in points:
        print(f"{point['method']}, {point['ratings']:,} ratings; load of the machine {point['load']:.1f}")
        for what, wall, cpu in point["phases"]:
            each = 1e9 * cpu / point["ratings"]
            print(f"  {what:<42}{wall:8.1f} s{cpu:9.1f} s of processor time{each:9.1f} ns a rating")
        peak, disk = point["peak"] / 2**30, point["disk"] / 2**30
        print(f"  peak {peak:.2f} GB resident; {disk:.2f} GB of scratch space", flush=True)
    if len(points) > 1:
        first, last = points[0], points[-1]
        name, span = f"DP{first['method'].capitalize()}", f"from {first['millions']} to {last['millions']} million"
        print(f"  time on the clock {span} grows by the power {slope(points, 1):.3f}")
        told(f"{name} out of core: power of time {span}", slope(points, 2), 1.05)
        told(f"{name} out of core: peak of memory, GB", last["peak"] / 2**30, 4.0)


def slope(points: list[dict[str, Any]], at: int) -> float:
    first, last = points[0], points[-1]
    return math.log(seconds(last, at) / seconds(first, at)) / math.log(last["ratings"] / first["ratings"])


def draw(points: list[dict[str, Any]], figure: Path) -> None:
    plt = pyplot()
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
    for colour, method in zip(("#0072b2", "#d55e00"), SETTINGS, strict=True):
        own = sorted((p for p in points if p["method"] == method), key=lambda point: point["ratings"])
        if len(own) < 2:
            continue
        sizes, name = [p["ratings"] for p in own], f"DP{method.capitalize()}"
        label = f"{name}, slope {slope(own, 2):.2f}"
        left.loglog(sizes, [seconds(p, 2) for p in own], "o-", color=colour, label=label)
        right.loglog(sizes, [p["peak"] / 2**30 for p in own], "o-", color=colour, label=f"{name}, memory")
        if method == "factors":  # it is the same for both
            right.loglog(sizes, [p["disk"] / 2**30 for p in own], "s:", color="grey", label="scratch space")
    right.axhline(4.0, color="grey", linewidth=1.0, linestyle="--")
    left.set(xlabel="ratings", ylabel="seconds of one processor", title="Time")
    right.set(xlabel="ratings", ylabel="GB", title="Memory (limit 4 GB) and disk")
    for axes in (left, right):
        axes.grid(alpha=0.3, which="both", linewidth=0.4)
        axes.legend(frameon=False, fontsize=8)
    fig.tight_layout()
    fig.savefig(figure, dpi=130)


if __name__ == "__main__":
    main()
