"""One history at a time: `Model.recommend` in this process, and `lowkey serve` over HTTP on loopback, in one run.

    python benchmarks/speed/serve.py [--items 60000] [--rank 32] [--calls 1000] [--seconds 60]

The service runs as a process of its own with one worker; the client keeps one connection open and asks for the ten best of
a history of 30 ratings, again and again. Bare calls and requests alternate in turns of 50, so both see the same machine.
Bounded in count and in time; traffic goes to 127.0.0.1 alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import lowkey as lk
from lowkey.cli.service import Service
from lowkey.model import Model
from lowkey.serving.http.answers import warm_up
from lowkey.serving.http.limits import Limits
from lowkey.serving.http.served import Served

HISTORY, TURN = 30, 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=60_000)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--service", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    served = Served("made up", made_up(options.items, options.rank), {}, {})
    warm_up(served)
    if options.service:
        service = Service(Path("."), lambda _: served, limits=Limits(), name="lowkey", drain=0.0, say=told)
        service.run("127.0.0.1", 0, None, None, ())
        return
    command = [sys.executable, __file__, "--service", "--items", str(options.items), "--rank", str(options.rank)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            found = re.search(r":(\d+)$", service.stdout.readline().strip())
            assert found is not None
            bare, asked = measure(served.model, int(found[1]), options.calls, options.seconds)
        finally:
            service.terminate()
    most = 3.0 * percentile(bare, 99) + 5.0
    print(f"{options.items} items, rank {options.rank}, histories of {HISTORY}, top 10, one worker")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {len(bare)} calls, {len(asked)} requests")
    print(f"  Model.recommend  p50 {percentile(bare, 50):7.2f} ms   p99 {percentile(bare, 99):7.2f} ms")
    print(
        f"  POST /recommend  p50 {percentile(asked, 50):7.2f} ms   p99 {percentile(asked, 99):7.2f} ms (target: {most:.2f})"
    )


def told(text: str) -> None:
    if text.startswith("Serving"):  # nobody reads the rest
        print(text, flush=True)


def measure(model: Model, port: int, calls: int, seconds: float) -> tuple[list[float], list[float]]:
    """Milliseconds of every call, and of every request."""
    rng = np.random.default_rng(1)
    names = model.domain.item_ids.to_pylist()
    histories = [
        {names[i]: float(rng.integers(2, 11) / 2) for i in rng.choice(len(names), HISTORY, replace=False)}
        for _ in range(50)
    ]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    expected = [model.recommend(history)[0].tolist() for history in histories]

    def ask(k: int) -> Any:
        body = json.dumps({"history": histories[k % 50], "n": 10})
        connection.request("POST", "/recommend", body, {"content-type": "application/json"})
        return json.loads(connection.getresponse().read())

    assert all(ask(k)["items"] == expected[k] for k in range(50))
    bare: list[float] = []
    asked: list[float] = []
    end = time.monotonic() + seconds
    with threadpool_limits(1):
        while len(bare) < calls and time.monotonic() < end:
            bare += [timed(lambda k=k: model.recommend(histories[k])) for k in range(TURN)]
            asked += [timed(lambda k=k: ask(k)) for k in range(TURN)]
    return bare, asked


def made_up(n_items: int, rank: int) -> Model:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(n_items, rank)) / np.sqrt(1.0 + np.arange(rank))
    arrays = {"item_factors": factors, "item_bias": rng.normal(0.0, 0.4, n_items)}
    settings = {"center": 2.75, "rating_range": [0.5, 5.0], "offset_reg": 3.0, "reg": 2.0}
    names = [f"item {i:05d}: a title of usual length" for i in range(n_items)]
    return Model("made up", "factors", arrays, settings, lk.Domain(names, (0.5, 5.0)), None)  # type: ignore[arg-type]


def percentile(times: list[float], share: float) -> float:
    return float(np.percentile(times, share))


def timed(run: Any) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    main()
