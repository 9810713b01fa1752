"""Lab room: docs/results.md and its figures, written from the committed results alone: no number is typed by hand.

`python -m lowkey_lab.results` reads docs/results/bench.jsonl (rows of `lowkey bench`) and writes the page;
`--figures` draws, `--readme` prints the small table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lowkey.methods.registry import PRIVATE
from lowkey_lab import compare, datasets, tables, tuning
from lowkey_lab.tables import Cell, as_markdown, is_better, measure_of

Row = dict[str, Any]
BINARY = ("ml-1m-binary", "ml-1m-x20-binary", "msweb")
ORDER = ("jester", "ml-1m", "ml-1m-x12-top400", "look-alike", "ml-100k", "ciaodvd", "book-crossing", "jester5k", *BINARY)
METHODS = ("bias", "als", "frank-wolfe", "svd", "lmc", "moments", "factors", "lists")
CEILINGS = ("ALS", "FrankWolfe", "Bias", "Popularity")
SMALL = ("bias", "frank-wolfe", "als", "moments", "factors", "lists")
HEAD = """# Results

Written by `python -m lowkey_lab.results` from the files in `docs/results/`; no number is typed by hand. All of it is
computed on public data: these numbers are not private.
"""
PROTOCOL = """## Methods side by side
Rows of `lowkey bench`: for every data set one split, one adjacency ({adjacency}), one delta ({delta}), exact accounting,
the same people held out. A user is protected with all ratings. Mean ± standard error over draws of the noise; without ±
there was one draw. "No noise" is the same method with exact posts; defaults that follow the noise level then expect none,
which need not be best. CPU seconds and gigabytes are of one fit, beyond the data. In bold: the best private one. Again with

```sh
lowkey bench --data {data} \\
  --methods {methods} \\
  --epsilons {epsilons} --draws {draws} --results docs/results/bench.jsonl
```
"""


def page(folder: Path) -> str:
    """The whole page, from the results in ``folder``."""
    rows = [row for row in compare.read(folder / "bench.jsonl") if row["tuning"] not in (tuning.GIVEN, tuning.BOUND)]
    parts = [HEAD]
    if rows:
        parts += [_protocol(rows), "![quality](figures/quality.svg)\n", *_data_tables(rows), *_protocols(rows)]
        parts += ["### Popular and rare items, time\n![slices](figures/slices.svg)\n\n![time](figures/time.svg)\n"]
    parts.append("## The papers' claims\nEach paper by itself: [the papers](papers.md).\n")
    parts.append(_made_with(rows))
    return "\n".join(parts)


def _plain(rows: Sequence[Row]) -> list[Row]:
    """What was run with defaults under the common protocol."""
    return [row for row in rows if row["tuning"] == tuning.DEFAULTS and row["split_seed"] == 0]


def _protocol(rows: Sequence[Row]) -> str:
    plain = _plain(rows)
    epsilons = sorted({row["epsilon"] for row in plain if row["epsilon"]})
    held = {row["method"] for row in plain}
    return PROTOCOL.format(
        adjacency=" / ".join(sorted({row["adjacency"] for row in plain})),
        delta=" / ".join(f"{delta:g}" for delta in sorted({row["delta"] for row in plain})),
        data=",".join(_ordered({row["data"] for row in plain}, ORDER)),
        methods=",".join(_ordered(held, (*METHODS, *CEILINGS))),
        epsilons=",".join(f"{e:g}" for e in epsilons),
        draws=1 + max(row["draw"] for row in plain),
    )


def _data_tables(rows: Sequence[Row]) -> list[str]:
    parts: list[str] = []
    plain = _plain(rows)
    for data in _ordered({row["data"] for row in plain}, ORDER):
        mine = [row for row in plain if row["data"] == data]
        name, measure = (
            {"rmse": "RMSE, lower is better"}.get(measure_of(mine), "Recall@20, higher is better"),
            measure_of(mine),
        )
        source = datasets.source_of(data)
        file = "" if source is None else f" File: {mine[0]['data_file']}."
        parts.append(f"### {data}\n{datasets.about(data)}{file} {name}.\n")
        parts.append(as_markdown(_table(mine, measure)) + "\n")
        if refused := _ordered({row["method"] for row in mine if "refused" in row}, METHODS):
            parts.append(f"Not for this kind of feedback: {', '.join(refused)}.\n")
    return parts


def _table(rows: Sequence[Row], measure: str) -> list[list[str]]:
    epsilons = sorted({row["epsilon"] for row in rows if row["epsilon"]})
    names = {row["method"] for row in rows if "refused" not in row}
    cell = lambda method, e: Cell([row for row in rows if (row["method"], row["epsilon"]) == (method, e)], measure)
    cells = {method: [cell(method, e) for e in epsilons] for method in _ordered(names & set(PRIVATE), METHODS)}
    best = [_best([column[at] for column in cells.values()], measure) for at in range(len(epsilons))]
    lines = [["method", *(f"ε = {e:g}" for e in epsilons), "no noise", "draws", "CPU s", "GB"]]
    for method, mine in cells.items():
        texts = [f"**{found.text()}**" if found is best[at] else found.text() for at, found in enumerate(mine)]
        lines.append([method, *texts, f"*{cell(method, None).text()}*", *_costs(mine)])
    for method in CEILINGS:
        exact = cell(method, None)
        if exact.draws and not (method == "Bias" and measure != "rmse"):
            lines.append([f"*{method}, not private*", *[""] * len(epsilons), f"*{exact.text()}*", *_costs([exact])])
    return lines


def _best(cells: Sequence[Cell], measure: str) -> Cell | None:
    found = None
    for cell in cells:
        if cell.draws and (found is None or is_better(measure, cell.mean, found.mean)):
            found = cell
    return found


def _costs(cells: Sequence[Cell]) -> list[str]:
    """Draws (fewest to most), seconds and memory of a fit."""
    counts = sorted({cell.draws for cell in cells if cell.draws}) or [0]
    draws = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    return [draws, *tables.costs([row for cell in cells for row in cell.rows])]


def _protocols(rows: Sequence[Row]) -> list[str]:
    """How hyper-parameters were chosen, and what was run under another protocol."""
    told = dict.fromkeys(f"- `{row['method']}`: {row['how_tuned']}." for row in _plain(rows) if "how_tuned" in row)
    parts = ["### How the hyper-parameters were chosen\n" + "\n".join(sorted(told)) + "\n"]
    others = [row for row in rows if row["tuning"] != tuning.DEFAULTS]
    if others:
        kept = {(row["data"], row["method"]) for row in others}
        beside = [row for row in _plain(rows) if (row["data"], row["method"]) in kept]
        epsilons = {row["epsilon"] for row in others}
        beside = [row for row in beside if row["epsilon"] in epsilons]
        parts.append("Other protocols beside the defaults; what is chosen by the test users is *not private*:\n")
        parts.append(as_markdown(tables.comparison([*beside, *others])) + "\n")
    return parts


def _made_with(rows: Sequence[Row]) -> str:
    versions = dict.fromkeys(", ".join(f"{k} {v}" for k, v in row["versions"].items()) for row in rows)
    threads = " / ".join(str(n) for n in sorted({row["threads"] for row in rows}))
    return f"Made with {'; '.join(versions)}; {threads} thread(s) per fit.\n" if rows else ""


def small_table(rows: Sequence[Row], epsilon: float = 1.0) -> str:
    """The README's form: data sets down, a few methods across, at one epsilon; the best private one in bold."""
    plain = _plain(rows)
    held = {row["method"] for row in plain}
    small = [method for method in SMALL if method in held]
    lines = [["data", "measure", *small, "not private"]]
    for data in _ordered({row["data"] for row in plain}, ORDER):
        mine = [row for row in plain if row["data"] == data]
        measure = measure_of(mine)
        cells = [Cell([r for r in mine if (r["method"], r["epsilon"]) == (m, epsilon)], measure) for m in small]
        best = _best(cells, measure)
        texts = [f"{cell.mean:.3f}" if cell.draws else "–" for cell in cells]
        texts = [f"**{text}**" if cell is best else text for cell, text in zip(cells, texts, strict=True)]
        free = [r for r in mine if r["epsilon"] is None]
        exact = _best([Cell([r for r in free if r["method"] == m], measure) for m in (*METHODS, *CEILINGS)], measure)
        ceiling = "–" if exact is None else f"{exact.mean:.3f} ({exact.rows[0]['method']})"
        lines.append([data, {"rmse": "RMSE ↓"}.get(measure, "Recall@20 ↑"), *texts, ceiling])
    return as_markdown(lines)


def _ordered(names: set[str], order: Sequence[str]) -> list[str]:
    return [name for name in order if name in names] + sorted(names - set(order))


def draw(folder: Path, figures: Path) -> list[Path]:
    """Every figure of the page."""
    from lowkey_lab.figures import draw_all

    rows = _plain(compare.read(folder / "bench.jsonl"))
    return draw_all(sorted(rows, key=lambda row: _place(row["data"])), figures) if rows else []


def _place(data: str) -> int:
    return ORDER.index(data) if data in ORDER else len(ORDER)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--figures", action="store_true", help="draw the figures too")
    parser.add_argument("--readme", action="store_true", help="print the small table and write nothing")
    given = parser.parse_args(arguments)
    if given.readme:
        print(small_table(compare.read(given.docs / "results" / "bench.jsonl")))
        return
    (given.docs / "results.md").write_text(page(given.docs / "results"))
    print(f"wrote {given.docs / 'results.md'}")
    if given.figures:
        for path in draw(given.docs / "results", given.docs / "figures"):
            print(f"wrote {path}")


if __name__ == "__main__":
    main()
