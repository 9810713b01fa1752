"""A recommendation by lowkey.js in Node and by Python, 20,000 items at rank 32, in one run; and the size of the site.

    python benchmarks/speed/browser.py [--items 20000] [--rank 32] [--calls 300]

Both fold one history of 30 ratings in, score all items, and find the ten best of what was not seen, again and again; the
median time of a call is printed. Python's goes through `Model.recommend` for one history, with NumPy on one thread. Then
a model of item weights (EASE) on a head of 4,096 items: the size of its thin form and what it loses.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import lowkey as lk
from lowkey.model import Model
from lowkey.release.site import CATALOGUE, MANIFEST, MODEL, model_files

WEB = Path(lk.__file__).parent / "serving" / "web"
HISTORY, HEAD, TASTES = 30, 4096, 60
NODE = """
import { readFileSync } from "node:fs";
const [script, folder, calls] = process.argv.slice(2);
const { load } = await import(script);
const read = (name, kind) => readFileSync(`${folder}/${name}`, kind);
const model = await load({ manifest: read("manifest.json", "utf8"), items: read("items.json", "utf8"), model: read("model.safetensors") });
const histories = JSON.parse(read("histories.json", "utf8"));
const times = [];
for (let call = 0; call < calls; call++) {
  const start = performance.now();
  model.recommend(histories[call % histories.length], { n: 10 });
  times.push(performance.now() - start);
}
console.log(JSON.stringify(times));
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--calls", type=int, default=300)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    names = [f"item {i:05d}: a title of usual length" for i in range(options.items)]
    factors = factor_model(rng, names, options.rank)
    histories = [
        {names[i]: float(rng.integers(2, 11) / 2) for i in rng.choice(len(names), HISTORY, replace=False)}
        for _ in range(50)
    ]
    print(f"{options.items} items, rank {options.rank}, histories of {HISTORY}, top 10, median of {options.calls} calls")
    with threadpool_limits(1):
        factors.recommend(histories[0], 10)  # compiled
        python = [timed(lambda k=k: factors.recommend(histories[k % 50], 10)) for k in range(options.calls)]
    print(f"  Python, NumPy   {statistics.median(python):8.2f} ms")
    for precision in ("float32", "float16", "int8"):
        with tempfile.TemporaryDirectory() as folder:
            size = write(factors, precision, Path(folder))
            loss = json.loads((Path(folder) / MANIFEST).read_text())["loss"]
            (Path(folder) / "histories.json").write_text(json.dumps(histories))
            node = in_node(folder, options.calls) if shutil.which("node") else [math.nan]
        print(f"  Node, {precision:8s}  {statistics.median(node):8.2f} ms (target: 10)   {told(size, loss)}")
    weights = weight_model(rng, names)
    print(f"EASE, a head of {HEAD} of {options.items} items, Gram matrix of rank {TASTES} with noise")
    for precision in ("float16", "int8"):
        with tempfile.TemporaryDirectory() as folder:
            size = write(weights, precision, Path(folder))
            loss = json.loads((Path(folder) / MANIFEST).read_text())["loss"]
        print(f"  {precision:8s} {told(size, loss)}")


def told(size: int, loss: dict[str, float]) -> str:
    return f"site {size / 1e6:.2f} MB (target: 5), {loss['top_ten_kept']:.2%} of the top ten kept, same ten {loss['same_ten']:.1%}"


def factor_model(rng: np.random.Generator, names: list[str], rank: int) -> Model:
    factors = rng.normal(size=(len(names), rank)) / np.sqrt(1.0 + np.arange(rank))
    arrays = {"item_factors": factors, "item_bias": rng.normal(0.0, 0.4, len(names))}
    settings = {"center": 2.75, "rating_range": [0.5, 5.0], "offset_reg": 3.0, "reg": 2.0}
    return Model("made up", "factors", arrays, settings, lk.Domain(names, (0.5, 5.0)), None)  # type: ignore[arg-type]


def weight_model(rng: np.random.Generator, names: list[str]) -> Model:
    tastes = rng.normal(size=(HEAD, TASTES)) / np.sqrt(1.0 + np.arange(TASTES))
    noise = rng.normal(0.0, 0.02, (HEAD, HEAD))
    inverse = np.linalg.inv(tastes @ tastes.T + noise + noise.T + 8.0 * np.eye(HEAD))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    counts = rng.uniform(1.0, 3.0, HEAD)
    arrays: dict[str, Any] = {"head": np.sort(rng.permutation(len(names))[:HEAD]), "item_weights": weights}
    arrays |= {"input_weights": counts**-0.3, "output_weights": counts**0.15}
    arrays |= {"tail_scores": rng.uniform(-2.0, -1.0, len(names))}
    return Model("made up", "item-weights", arrays, {}, lk.Domain(names, feedback="binary"), None)  # type: ignore[arg-type]


def write(model: Model, precision: str, folder: Path) -> int:
    """The model's files, and the size of the whole site: the page holds the model once more, as text."""
    contents = model_files(model, precision)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    inside = len(base64.b64encode(contents[MODEL])) + len(contents[CATALOGUE]) + len(contents[MANIFEST])
    texts = {"lowkey.js": 2, "page.js": 1, "style.css": 1, "index.html": 1}  # the script is a file and in the page
    return sum(map(len, contents.values())) + inside + sum(k * (WEB / name).stat().st_size for name, k in texts.items())


def in_node(folder: str, calls: int) -> list[float]:
    script = Path(folder) / "calls.mjs"
    script.write_text(NODE)
    command = ["node", str(script), (WEB / "lowkey.js").as_uri(), folder, str(calls)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def timed(run: Any) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    main()
