"""The audit is audited: ``lowkey audit`` is run on the mutated code, and a table says which layer caught which bug.

``make audit-mutants`` prints the table; ``ONLY=noise`` (a class, or a name) tries some. Only bugs that change what is
posted are here: what else a mutant may break (ledger, release, reading) is the tests' to find.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from catalogue import Mutant, Stale, load
from workshop import Workshop

ROOT = Path(__file__).parents[2]
LAYERS = (1, 2, 4)
PROGRAM = "import sys; from lowkey.cli.main import run; sys.exit(run(sys.argv[1:]))"
SMALL = ("--layers", "1,2,4", "--canaries", "8000", "--json")
HEAD = ("mutant", "the bug", "halves noise or drops a clip", "1 replay", "2 canaries", "4 noise")
# What is audited for which mutants: the first pattern that fits the name; and whether it halves noise or drops a clip.
AUDITS: tuple[tuple[str, str, bool], ...] = (
    (r"half-width|later-posts-half-width", "--method bias", True),
    (r"narrow-diagonal", "--method moments", True),
    (r"noise-reused|noise-from-a-seed|coarse-noise|coarse-grid-larger-sum", "--method bias", False),
    (r"flip-probability", "--method one-bit", True),
    (r"laplace-scale", "--method bias", False),
    (r"replace-as-add|means-replace", "--method bias --adjacency replace-one", False),
    (r"root-two-for-vectors", "--method als --set rank=4 --adjacency replace-one", False),
    (r"offset-of-the-block", "--method bias", False),
    (r"draws-by-row-number", "--method lmc --set rank=4 --set start=random", False),
    (r"state-of-others", "--method lmc --set rank=4", False),
    # Bounds that are held twice: a second look drops what is too long, so that nothing beyond the bound is posted.
    (r"max-for-min|bias-least-ratings", "--method bias", False),
    (r"bias-counts", "--method bias --binary", True),
    (r"bias-residuals|bias-mean-counts|level-(clip|weight)|spread-clip-.*", "--method bias", True),
    (r"als-weights-first-128", "--method als --set rank=4 --items 1..300", False),  # the second look drops such rows
    (r"als-cap-doubled", "--method als --set rank=4 --set max_ratings=4", True),
    (r"als-user-gram", "--method als --set rank=4 --binary", True),
    (r"als-(user-clip|weights|rhs-clip|misfit-clamp)", "--method als --set rank=4", True),
    (r"moments-over-256", "--method moments --items 1..300", True),
    (r"moments-binary-rows", "--method moments --binary", True),
    (r"moments-residuals", "--method moments", True),
    (r"sketch-view", "--method sketch --set width=3 --set residual_bound=0.6", True),
    (r"factors-(update|moments)", "--method factors --set rank=4", True),
    (r"lmc-(project|project-start-only|residuals)", "--method lmc --set rank=4", True),
    (r"spectral-start-row", "--method lmc --set rank=4", True),
    (
        r"frank-wolfe-residual",
        "--method frank-wolfe --set step=decreasing --set n_iter=3 --set row_norm=3.0 --set residual_norm=3.2 "
        "--set nuclear_norm=3000.0",
        True,
    ),
    (r"frank-wolfe-direction", "--method frank-wolfe --set form=power --set n_iter=2", True),
    (r"svd-cleansed-row", "--method svd --set rank=3 --set cleansing=true", True),
    (r"svd-weights", "--method svd --set rank=3", True),
    (r"trace-(residual|measurement|start-response)", "--method trace", True),
)


def arguments_for(mutant: Mutant) -> tuple[list[str], bool] | None:
    for pattern, arguments, clip in AUDITS:
        if re.fullmatch(pattern, mutant.name):
            return arguments.split(), clip
    return None


def caught_by(workshop: Workshop, tree: Path, arguments: list[str]) -> tuple[list[int], str]:
    """The layers that failed, and the first one's words; a crash is nobody's catch."""
    path = os.pathsep.join(str(tree / part) for part in ("src", "lab/src"))
    command = [sys.executable, "-c", PROGRAM, "audit", *arguments, *SMALL]
    done = subprocess.run(
        command,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=workshop.time_limit,
    )
    try:
        (found,) = json.loads(done.stdout)["audits"]
    except (ValueError, KeyError):
        return [], "no verdict: " + done.stderr.strip()[-200:]
    failed = [layer for layer in found["layers"] if not layer["ok"]]
    return [layer["number"] for layer in failed], failed[0]["figure"] if failed else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    chosen = [(m, *found) for m in load() if (not only or {m.name, m.kind} & only) and (found := arguments_for(m))]
    begin = time.monotonic()
    with Workshop(ROOT) as workshop, ThreadPoolExecutor(options.jobs) as pool:

        def tried(job: tuple[Mutant, list[str], bool]) -> tuple[Mutant, bool, list[int]]:
            mutant, arguments, clip = job
            try:
                with workshop.clone(mutant) as tree:
                    layers, words = caught_by(workshop, tree, arguments)
            except Stale as error:
                layers, words = list[int](), str(error)
            marks = " | ".join("caught" if layer in layers else "" for layer in LAYERS)
            print(
                f"| {mutant.name} | {mutant.bug} | {'yes' if clip else ''} | {marks} |  <!-- {words[:90]} -->", flush=True
            )
            return mutant, clip, layers

        print(f"| {' | '.join(HEAD)} |")
        print(f"|{'---|' * len(HEAD)}", flush=True)
        results = list(pool.map(tried, chosen))
    caught = sum(bool(layers) for *_, layers in results)
    clips = [(mutant.name, 2 in layers) for mutant, clip, layers in results if clip]
    missed = [name for name, by_two in clips if not by_two]
    print(
        f"\n{caught} of {len(results)} caught by layers 1, 2 or 4; of {len(clips)} that halve noise or drop a clip, ",
        end="",
    )
    print(f"layer 2 alone caught {len(clips) - len(missed)}{': not ' + ', '.join(missed) if missed else ''}.", end=" ")
    print(f"{time.monotonic() - begin:.0f} s.")
    return int(caught < min(20, len(results)) or bool(missed))


if __name__ == "__main__":
    sys.exit(main())
