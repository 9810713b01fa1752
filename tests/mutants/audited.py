"""The audit is audited: ``lowkey audit`` is run on the mutated code, and a table says which layer caught which bug.

``make audit-mutants`` writes the table into docs/audit.md; ``ONLY=noise`` (a class, or names) tries some: other rows stay.
What was tried is kept until a source changes, so a run that was ended goes on. Only bugs that change what a fit posts are
here: what else a mutant may break (ledger, release, reading) is the tests' to find.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from catalogue import Mutant, load
from workshop import Workshop

ROOT = Path(__file__).parents[2]
PAGE, BEGIN, END = ROOT / "docs/audit.md", "<!-- make audit-mutants -->\n", "<!-- end -->"
BROKE = "the code breaks down"  # a crash is nobody's catch
LAYERS = (1, 2, 4)
PROGRAM = "import sys; from lowkey.cli.main import run; sys.exit(run(sys.argv[1:]))"
SMALL = ("--layers", "1,2,4", "--canaries", "8000", "--json")
HEAD = ("mutant", "the bug", "halves noise or drops a clip", "1 replay", "2 canaries", "4 noise")
# What is audited for which mutants: the first pattern that fits the name; and whether it halves noise or drops a clip.
AUDITS: tuple[tuple[str, str, bool], ...] = (
    (r"half-width|later-posts-half-width", "--method bias", True),
    (r"narrow-diagonal", "--method moments", True),
    (r"noise-reused|noise-from-a-seed|coarse-noise", "--method bias", False),
    (r"coarse-grid-larger-sum", "--method one-bit-sums", False),  # fits on users: fine enough as it is
    (r"flip-probability", "--method one-bit", True),
    (r"one-bit-(gradient|scores)", "--method one-bit-sums", True),
    (r"catalogue-(weights|cap-doubled|cap-not-shared)", "--method catalogue", True),
    (r"catalogue-by-code", "--method catalogue", False),
    (r"laplace-scale", "--method bias", False),
    (r"replace-as-add|means-replace", "--method bias --adjacency replace-one", False),
    (r"root-two-for-vectors", "--method als --set rank=4 --adjacency replace-one", False),
    (r"offset-of-the-block", "--method bias", False),
    (r"draws-by-row-number", "--method lmc --set rank=4 --set start=random", False),
    (r"state-of-others", "--method lmc --set rank=4", False),
    (r"bias-counts", "--method bias --binary", True),
    (r"max-for-min|bias-(residuals|mean-counts|least-ratings)|level-(clip|weight)|spread-clip-.*", "--method bias", True),
    (r"als-weights-first-128", "--method als --set rank=4 --items 1..300", True),
    (r"als-cap-doubled", "--method als --set rank=4 --set max_ratings=4", True),
    (r"als-user-gram", "--method als --set rank=4 --binary", True),
    (r"als-(user-clip|weights|rhs-clip|misfit-clamp)", "--method als --set rank=4", True),
    (r"moments-over-256", "--method moments --items 1..300 --set head=300", True),
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
    (r"frank-wolfe-direction", "--method frank-wolfe --set form=power --set n_iter=2", False),
    (r"svd-(cleansed-row|weights)", "--method svd --set rank=3 --set cleansing=true", True),
    (r"lists-(counts|row)", "--method lists --binary", True),
    (r"lists-.*-for-nothing", "--method lists --binary", False),
    (r"lists-fit-.*", "--method lists --binary", True),
    (r"trace-(residual|measurement|start-response)", "--method trace", True),
)

# What posts nothing that it may not, though a bound is gone from the kernel: why.
HARMLESS = {"frank-wolfe-direction": "the method itself hands over directions of norm 1"}


def arguments_for(mutant: Mutant) -> tuple[list[str], bool] | None:
    for pattern, arguments, clip in AUDITS:
        if re.fullmatch(pattern, mutant.name):
            return arguments.split(), clip
    return None


class Kept:
    """What was tried, in a file that goes by the version of the sources."""

    def __init__(self) -> None:
        version = hashlib.sha256()
        for file in sorted((ROOT / "src").rglob("*.py")):
            version.update(file.read_bytes())
        self.file = Path(tempfile.gettempdir()) / f"lowkey-audited-{version.hexdigest()[:16]}.jsonl"
        lines = self.file.read_text("utf-8").splitlines() if self.file.is_file() else []
        self.found = {entry["key"]: entry for entry in map(json.loads, lines)}

    def add(self, key: str, layers: list[int], words: str) -> None:
        self.found[key] = {"key": key, "layers": layers, "words": words}
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.found[key]) + "\n")


def caught_by(workshop: Workshop, mutant: Mutant, arguments: list[str], kept: Kept) -> tuple[list[int], str]:
    """The layers that failed, and the first one's words."""
    key = f"{mutant} {arguments} {SMALL}"
    if key not in kept.found:
        with workshop.clone(mutant) as tree:
            path = os.pathsep.join(str(tree / part) for part in ("src", "lab/src"))
            command = [sys.executable, "-c", PROGRAM, "audit", *arguments, *SMALL]
            options = {"cwd": tree, "env": {**os.environ, "PYTHONPATH": path}, "timeout": workshop.time_limit}
            done = subprocess.run(command, capture_output=True, text=True, **options)
        try:
            (found,) = json.loads(done.stdout)["audits"]
        except (ValueError, KeyError):
            return [], "no verdict: " + done.stderr.strip()[-200:]
        failed = [layer for layer in found["layers"] if not layer["ok"] and BROKE not in layer["figure"]]
        broke = [layer["figure"] for layer in found["layers"] if BROKE in layer["figure"]]
        kept.add(key, [layer["number"] for layer in failed], (*(layer["figure"] for layer in failed), *broke, "")[0])
    return kept.found[key]["layers"], kept.found[key]["words"]


def summary(results: list[tuple[Mutant, bool, list[int]]]) -> tuple[str, bool]:
    """In words; and whether enough was caught."""
    caught = sum(bool(layers) for *_, layers in results)
    clips = [(mutant.name, 2 in layers) for mutant, clip, layers in results if clip]
    missed = [name for name, by_two in clips if not by_two]
    named = lambda name: name + (f" ({HARMLESS[name]})" if name in HARMLESS else "")
    by_none = [named(mutant.name) for mutant, _, layers in results if not layers]
    said = (
        f"{caught} of {len(results)} were caught by layers 1, 2 or 4. Of the {len(clips)} that halve noise or drop a clip, "
    )
    said += f"layer 2 alone caught {len(clips) - len(missed)}{': not ' + ', '.join(missed) if missed else ''}."
    said += f" Caught by none: {', '.join(by_none)}." if by_none else ""
    return said, caught >= min(20, len(results)) and not missed


def on_page() -> dict[str, list[int]]:
    """The layers of each row that stands in the table."""
    table = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| ")]
    return {row[0]: [layer for layer, cell in zip(LAYERS, row[-len(LAYERS) :], strict=True) if cell] for row in rows[1:]}


def write(tried: list[tuple[Mutant, bool, list[int]]]) -> None:
    """What was tried, into the table; what was not stays as it stands there."""
    known = on_page() | {mutant.name: layers for mutant, _, layers in tried}
    results = [(m, found[1], known[m.name]) for m in load() if (found := arguments_for(m)) and m.name in known]
    marks = lambda layers: " | ".join("caught" if layer in layers else "" for layer in LAYERS)
    rows = [f"| {m.name} | {m.bug} | {'yes' if clip else ''} | {marks(layers)} |" for m, clip, layers in results]
    table = "\n".join([f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}", *rows])
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{summary(results)[0]}\n\n{table}\n{END}{rest.partition(END)[2]}", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    only, kept = set(filter(None, options.only.split(","))), Kept()
    chosen = [(m, *found) for m in load() if (not only or {m.name, m.kind} & only) and (found := arguments_for(m))]
    with Workshop(ROOT) as workshop, ThreadPoolExecutor(options.jobs) as pool:

        def tried(job: tuple[Mutant, list[str], bool]) -> tuple[Mutant, bool, list[int]]:
            mutant, arguments, clip = job
            layers, words = caught_by(workshop, mutant, arguments, kept)
            print(f"{mutant.name:<28}{'clip' if clip else '':<6}{layers!s:<12}{words[:150]}", flush=True)
            return mutant, clip, layers

        results = list(pool.map(tried, chosen))
    said, enough = summary(results)
    print(said)
    write(results)
    return int(not enough)


if __name__ == "__main__":
    sys.exit(main())
