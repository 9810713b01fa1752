"""lowkey.js beside Python on what `lowkey release` makes: every method on one made-up crowd, at every precision.

    python benchmarks/agreement.py [--users 20000] [--items 2000] [--histories 2000] [--only lists svd]

Each method is trained by the command line with its defaults at epsilon 5, exported to a site, and asked in Node for the top
ten of histories of other people (another draw of the crowd, which nothing was chosen on). Printed: for how many histories
the ten are Python's, for how many in the same order, how far the parts of 50 explanations are from Python's, the size of
the model's arrays in bytes per number, and the whole site.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import lowkey as lk
from lowkey.cli.main import run
from lowkey.data.synthetic import Synthetic, taste, write_taste
from lowkey.model import Model
from lowkey.release.site import write_site

ANSWERS = Path(__file__).parents[1] / "tests" / "web" / "answers.mjs"
SCRIPT = Path(lk.__file__).parent / "serving" / "web" / "lowkey.js"
STARS = "--rating rating --scale 0.5 5"
RELEASES = {  # name: further words of `lowkey release`
    "lists": STARS,
    "lists, likes": "--binary",
    "ratings": f"--for ratings {STARS}",
    "factors": f"--method factors {STARS}",
    "als": f"--method als {STARS}",
    "lmc": f"--method lmc {STARS}",
    "bias": f"--method bias {STARS}",
    "moments": f"--method moments {STARS}",
    "moments, likes": "--method moments --binary",
    "sketch": f"--method sketch {STARS}",
    "frank-wolfe": f"--method frank-wolfe {STARS}",
    "svd": f"--method svd {STARS}",
    "one-bit": "",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--histories", type=int, default=2000)
    parser.add_argument("--only", nargs="*", default=list(RELEASES))
    options = parser.parse_args()
    crowd, others = (taste(options.users, options.items, 40, seed=seed) for seed in (1, 2))
    left = np.flatnonzero(np.diff(others.csr.indptr) <= options.items - 10)  # there must be ten to recommend
    rows = others.csr[left[: options.histories]]
    print(f"{options.users} people, {options.items} items, {rows.shape[0]} histories; the same ten / in the same order")
    with tempfile.TemporaryDirectory() as place:
        table, items = Path(place) / "ratings.parquet", Path(place) / "items.csv"
        write_taste(table, options.users, options.items, 40, seed=1)
        items.write_text("item\n" + "\n".join(f'"{name}"' for name in crowd.facts["items"]), "utf-8")
        for name in options.only:
            folder = Path(place) / name
            release(name, crowd, table, items, folder)
            compare(name, lk.load(folder), folder, rows)


def release(name: str, crowd: Synthetic, table: Path, items: Path, folder: Path) -> None:
    if name == "one-bit":  # protects one rating, so the command line does not offer it
        lk.DPOneBit(epsilon=5.0, delta=1e-6).fit(crowd.ratings()).release(folder)
        return
    words = f"--user user --item item {RELEASES[name]} --epsilon 5 --delta 1e-6 --quiet".split()
    words += ["--expected-users", str(crowd.facts["expected_users"])]
    assert run(["release", str(table), *words, "--items", str(items), "--out", str(folder)]) == 0


def compare(name: str, model: Model, folder: Path, rows: Any) -> None:
    if model.domain.rating_range is None:
        rows = rows.copy()
        rows.data[:] = 1.0
    expected, _ = model.recommend(rows, 10)
    numbers = sum(array.size for array in model.arrays.values())
    for precision in ("float32", "float16", "int8"):
        site = folder.with_name(f"{folder.name} {precision}")
        made = write_site(folder, site, precision)
        answers = in_node(site, rows)
        ids = np.array([answer["ids"] for answer in answers], dtype=expected.dtype)
        same = [set(a) == set(b) for a, b in zip(expected.tolist(), ids.tolist(), strict=True)]
        order = (ids == expected).all(axis=1)
        each = made["files"]["model.safetensors"]["bytes"] / numbers
        print(
            f"{name:14s} {model.rule:12s} {precision:8s} {np.mean(same):8.2%} /{np.mean(order):8.2%}"
            f"   explained within {farthest(model, rows, answers):.1e}   {each:5.2f} bytes a number"
            f"   site {made['bytes'] / 1e6:5.2f} MB   stated {made['loss']['same_ten']:.1%}",
            flush=True,
        )


def in_node(site: Path, rows: Any) -> list[dict[str, Any]]:
    bounds = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
    lines = [json.dumps({"at": rows.indices[a:b].tolist(), "values": rows.data[a:b].tolist()}) for a, b in bounds]
    command = ["node", str(ANSWERS), str(SCRIPT), str(site)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["answers"]


def farthest(model: Model, rows: Any, answers: list[dict[str, Any]]) -> float:
    """The largest distance of a base, an offset or a part of an explanation from Python's."""
    found = 0.0
    for row, answer in enumerate(answers):
        if not (why := answer["why"]):
            break
        at = slice(rows.indptr[row], rows.indptr[row + 1])
        ids = model.domain.ids(rows.indices[at]).tolist()
        mine = ids if model.domain.rating_range is None else dict(zip(ids, rows.data[at].tolist(), strict=True))
        ours = model.explain(mine, why["id"])
        parts = {part["id"]: part["value"] for part in why["parts"]}
        found = max([found, abs(ours.base - why["base"]), abs(ours.offset - why["offset"])]
                    + [abs(value - parts[item]) for item, value in ours.parts])  # fmt: skip
    return found


if __name__ == "__main__":
    main()
