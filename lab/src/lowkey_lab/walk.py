"""Lab room: how far a rating walks through the source on its way to a release: ``python -m lowkey_lab.walk``.

Traces a small ``lowkey release`` and lists the functions of ``lowkey`` in the order of their first call. A *return* is a
function whose file was left before: the reader has to turn back a page. What runs while a module is loaded is no step: it
is nobody's rating, and would count for the method that happens to be walked first. Also how often settings are resolved
and the budget is turned into mu.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import lowkey
from lowkey.cli.main import run

SOURCE = os.path.dirname(lowkey.__file__) + os.sep
METHODS = ("factors", "moments")
WATCHED = ("resolve", "gaussian_mu")


def walk(method: str, folder: Path) -> tuple[list[str], Counter[str]]:
    """The files of the functions in the order of their first call, and how often the watched ones ran."""
    seen: dict[tuple[str, str], None] = {}
    calls: Counter[str] = Counter()
    loading = 0

    def note(frame: Any, event: str, _: Any) -> None:
        nonlocal loading
        code = frame.f_code
        if not code.co_filename.startswith(SOURCE):
            return
        if code.co_name == "<module>":
            loading += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not loading and not code.co_name.startswith("<"):
            seen[code.co_filename.removeprefix(SOURCE), code.co_qualname] = None
            calls[code.co_name] += 1

    options = ["--user", "user", "--item", "item", "--rating", "rating", "--scale", "0.5", "5"]
    where = ["--items", str(folder / "catalogue.txt"), "--out", str(folder / f"release-{method}"), "--quiet"]
    sys.setprofile(note)
    try:
        code = run(
            [
                "release",
                str(folder / "ratings.parquet"),
                *options,
                *where,
                "--epsilon",
                "1",
                "--delta",
                "1e-6",
                "--method",
                method,
            ]
        )
    finally:
        sys.setprofile(None)
    if code:
        raise SystemExit(code)
    return [file for file, _ in seen], calls


def returns(files: list[str]) -> int:
    """How often a file is entered that was left before."""
    left: set[str] = set()
    count, here = 0, ""
    for file in files:
        if file != here:
            count += file in left
            left.add(here)
            here = file
    return count


def write_data(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from lowkey.data.synthetic import taste

    rows: Any = taste(300, 200, ratings_per_user=20, seed=1).ratings()._open_csr().tocoo()
    table = {"user": rows.row, "item": [f"film {i}" for i in rows.col], "rating": rows.data}
    pq.write_table(pa.table(table), folder / "ratings.parquet")
    (folder / "catalogue.txt").write_text("\n".join(f"film {i}" for i in range(rows.shape[1])) + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        for method in METHODS:
            files, calls = walk(method, folder)
            watched = ", ".join(f"{name} {calls[name]} times" for name in WATCHED)
            print(f"{method}: {len(set(files))} files, {returns(files)} returns, {watched}")
            if "--files" in sys.argv:
                print("\n".join(f"  {file}" for file in dict.fromkeys(files)))


if __name__ == "__main__":
    main()
