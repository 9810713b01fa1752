"""A recommendation by lowkey.js in Node and by Python, 20,000 items at rank 32, in one run; and the size of the site.

    python benchmarks/speed/browser.py [--items 20000] [--rank 32] [--calls 300] [--users 60000]

Both fold one history of 30 ratings in, score all items, and find the ten best of what was not seen, again and again; the
median time of a call is printed. Python's goes through `Model.recommend` for one history; NumPy has one thread. Then a
model of item weights (EASE): how large its site is, and what its smaller form loses.
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
from lowkey.data.synthetic import taste
from lowkey.model import Model
from lowkey.release.site import CATALOGUE, MANIFEST, MODEL, model_files

WEB = Path(lk.__file__).parent / "serving" / "web"
HISTORY = 30
NODE = """
import { readFileSync } from "node:fs";
const [script, folder, calls] = process.argv.slice(2);
const { load } = await import(script);
const read = (name, kind) => readFileSync(`${folder}/${name}`, kind);
const [manifest, items] = [read("manifest.json", "utf8"), read("items.json", "utf8")];
const model = await load({ manifest, items, model: read("model.safetensors") });
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
    parser.add_argument("--users", type=int, default=60_000, help="of the EASE model; 0 leaves it out")
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
        numpy = [timed(lambda k=k: bare_numpy(factors, histories[k % 50])) for k in range(options.calls)]
    print(f"  lowkey, Python  {statistics.median(python):8.2f} ms")
    print(f"  bare NumPy      {statistics.median(numpy):8.2f} ms")
    for precision in ("float32", "float16", "int8"):
        with tempfile.TemporaryDirectory() as folder:
            size = write(factors, precision, Path(folder))
            loss = json.loads((Path(folder) / MANIFEST).read_text())["loss"]
            (Path(folder) / "histories.json").write_text(json.dumps(histories))
            node = in_node(folder, options.calls) if shutil.which("node") else [math.nan]
        print(f"  Node, {precision:8s}  {statistics.median(node):8.2f} ms (target: 10)   {told(size, loss)}")
    if not options.users:
        return
    weights = weight_model(options.users, names)
    head = len(weights.arrays["head"])
    print(f"EASE by DPMoments(epsilon=5) on {options.users} made-up people: {head} x {head} weights, {options.items} items")
    for precision in ("float16", "int8"):
        with tempfile.TemporaryDirectory() as folder:
            size = write(weights, precision, Path(folder))
            loss = json.loads((Path(folder) / MANIFEST).read_text())["loss"]
        print(f"  {precision:8s} {told(size, loss)}")


def told(size: int, loss: dict[str, float]) -> str:
    kept = f"{loss['top_ten_kept']:.2%} of the top ten kept, the same ten for {loss['same_ten']:.1%}"
    return f"site {size / 1e6:.2f} MB (target: 5), {kept}"


def bare_numpy(model: Model, history: dict[str, float]) -> Any:
    """The same by NumPy alone, on arrays that are ready: what the arithmetic costs without the library around it."""
    design, prior = model._rule.design, model._rule.item_prior  # type: ignore[attr-defined]
    at = model.domain.positions(list(history))
    own = design[at]
    ridge = np.diag([model.settings["offset_reg"], *[model.settings["reg"]] * (design.shape[1] - 1)])
    user = np.linalg.solve(own.T @ own + ridge, own.T @ (np.array(list(history.values())) - prior[at]))
    scores = prior + design @ user
    scores[at] = -np.inf
    best = np.argpartition(-scores, 10)[:10]
    return best[np.argsort(-scores[best])]


def factor_model(rng: np.random.Generator, names: list[str], rank: int) -> Model:
    factors = rng.normal(size=(len(names), rank)) / np.sqrt(1.0 + np.arange(rank))
    arrays = {"item_factors": factors, "item_bias": rng.normal(0.0, 0.4, len(names))}
    settings = {"center": 2.75, "rating_range": [0.5, 5.0], "offset_reg": 3.0, "reg": 2.0}
    return Model("made up", "factors", arrays, settings, lk.Domain(names, (0.5, 5.0)), None)  # type: ignore[arg-type]


def weight_model(users: int, names: list[str]) -> Model:
    rows = taste(users, len(names), 40, seed=1).csr.copy()
    rows.data[:] = 1.0
    domain = lk.Domain(names, feedback="binary", expected_users=users)
    return lk.DPMoments(epsilon=5.0, delta=1e-6).fit(rows, domain=domain).model_


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
