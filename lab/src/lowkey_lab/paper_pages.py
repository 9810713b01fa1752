"""Lab room: docs/papers.md and docs/papers/NAME.md: what follows the mark on each page is written from the results alone.

`python -m lowkey_lab.paper_pages` reads docs/results/reproduce/*.json and the files of the printed algorithms; what stands
before the mark is written by hand. The lines of an algorithm are found by their numbers in our file's comments.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lowkey_lab import paper_contents, paper_figures
from lowkey_lab.reproduce import EXPERIMENTS
from lowkey_lab.tables import as_markdown
from lowkey_lab.trials import COLUMNS, EXACT, OURS, PRINTED
from lowkey_lab.verdicts import estimate, less

MARK = "<!-- what follows is written by `python -m lowkey_lab.paper_pages` -->\n"
SOURCES = Path(__file__).parent / "printed"
HIGHER = ("accuracy", "Recall@20")  # labels of measures of which more is better
NOT_RUN = "not run in full yet"


class Paper(NamedTuple):
    """Its title, its printed file and its experiments."""

    title: str
    file: str
    experiments: tuple[str, ...]


def _of(prefix: str) -> tuple[str, ...]:
    return tuple(name for name in EXPERIMENTS if name.startswith(prefix))


PAPERS = {
    "dpals": Paper("DPALS (Chien et al. 2021)", "dpals.py", _of("dpals")),
    "dpfw": Paper("Private Frank-Wolfe and SVD (Jain et al. 2018)", "dpfw.py", _of("dpfw")),
    "dplmc": Paper("DPLMC (Wang et al. 2023)", "dplmc.py", _of("dplmc")),
    "onebit": Paper("One-bit completion (Li et al. 2021)", "one_bit.py", _of("onebit")),
    "dprgrad": Paper("Trace regression, DP-RGrad (Zha 2024)", "dprgrad.py", _of("trace")),
}


def page(name: str, docs: Path) -> str:
    """The part after the mark."""
    paper, reports = PAPERS[name], _reports(docs, PAPERS[name].experiments)
    full = {experiment: report for experiment, report in reports.items() if not report["quick"]}
    parts = [MARK, "## The algorithm's lines and ours", _lines(paper.file)]
    parts += ["## Every table and figure", as_markdown(paper_contents.table(name, full)), "## Claims"]
    for experiment in paper.experiments:
        parts += _experiment(experiment, reports.get(experiment))
    return "\n\n".join(parts).rstrip() + "\n"


def _reports(docs: Path, names: Sequence[str]) -> dict[str, Any]:
    folder = docs / "results" / "reproduce"
    return {n: json.loads((folder / f"{n}.json").read_text()) for n in names if (folder / f"{n}.json").exists()}


def _lines(file: str) -> str:
    """Lines of our file whose comment starts with numbers: those of the algorithm."""
    found = [["line in print", f"line of `printed/{file}`", "code"]]
    text = (SOURCES / file).read_text()
    for number, line in enumerate(text.splitlines(), 1):
        code, _, comment = line.rpartition("  # ")
        if code.strip() and re.match(r"\d", comment):
            found.append([comment.strip(), str(number), f"`{code.strip().replace('|', chr(92) + '|')}`"])
        elif marked := re.search(r'"""(Algorithm \d.*?)[."]', line):
            found.append([f"*{marked.group(1)}*", str(number), ""])
    deviates = re.search(r"Deviates: (.*?)\n?\"\"\"", text, re.DOTALL)
    stated = " ".join(deviates.group(1).split()) if deviates else "nowhere."
    return f"{as_markdown(found)}\n\nDeviations: {stated}"


def _experiment(name: str, report: Any) -> list[str]:
    parts = [f"### {name}"]
    if report is None or report["quick"]:
        return [*parts, f"{NOT_RUN}: `lowkey reproduce {name} --out docs/results/reproduce`"]
    made = report.get("made", {})
    parts.append(f"`lowkey reproduce {name}`: {report['seconds']:.0f} s of draws; {made.get('versions', '')}, commit "
                 f"{', '.join(made.get('commits', [])) or 'unknown'}.")  # fmt: skip
    lines = [["claim, and the rule", *COLUMNS, "verdict"]]
    for claim in report["claims"]:
        cells = [_finding(claim["columns"].get(column)) for column in COLUMNS]
        if not claim["columns"]:
            cells = [claim["ours"] or "–", "", ""]
        rule = f"<br>*{claim['reason']}*" if claim["reason"] else ""
        lines.append([f"{claim['paper']} ({claim['place']}){rule}", *cells, f"**{claim['verdict']}**"])
    parts.append(as_markdown(lines))
    if paper_figures.drawn(name):
        parts += [f"![{drawing}](../figures/{drawing}.svg)" for drawing in paper_figures.drawings(name)]
    if beside := against(name, report):
        parts += ["Ours beside the paper's algorithm at the same held epsilon:", as_markdown(beside)]
    return parts


def _finding(found: dict[str, str] | None) -> str:
    return "" if found is None else f"**{found['verdict']}**: {found['figures']}<br>({found['algorithm']})"


def against(name: str, report: Any) -> list[list[str]]:
    """For every cell: the paper's algorithm with exact accounting, ours, and which is better beyond two standard errors."""
    if not paper_figures.drawn(name):
        return []
    shape = paper_figures.SHAPES[name]
    sign = -1.0 if shape.label in HIGHER else 1.0
    cells: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for row in (row for rows in report["rows"].values() for row in rows):
        if shape.measure in row.get("values", {}) and row["column"] in (EXACT, OURS):
            facts = ", ".join(f"{key} {value}" for key, value in row["facts"].items() if value is not None)
            cells.setdefault((facts, row["column"], row["algorithm"]), []).append(
                (row["seed"], row["values"][shape.measure])
            )
    lines = [["cell", "the paper's, exact accounting", "ours", "better"]]
    for (facts, column, algorithm), theirs in cells.items():
        ours = {name: values for (f, c, name), values in cells.items() if (f, c) == (facts, OURS)}
        if column != EXACT or not ours:
            continue
        for own, values in ours.items():
            a, b = ([sign * value for _, value in sorted(draws)] for draws in (values, theirs))
            word = {"holds": "**ours**", "does not hold": "the paper's"}.get(less(a, b, paired=True), "level")
            show = lambda draws: str(estimate([value for _, value in draws]))
            lines.append([facts, f"{show(theirs)} ({algorithm})", f"{show(values)} ({own})", word])
    return lines if len(lines) > 1 else []


def summary(docs: Path) -> str:
    """Counts of verdicts, per paper: as judged, as printed and for ours; and what the runs took."""
    head = ["paper", "claims", "hold as judged", "do not", "inconclusive", "cannot be run", "hold as printed"]
    lines = [[*head, "hold for ours", "cells ours better", "level", "the paper's better"]]
    totals = [0] * 10
    waiting: list[str] = []
    seconds, commits = 0.0, set()
    for name, paper in PAPERS.items():
        reports = {n: r for n, r in _reports(docs, paper.experiments).items() if not r["quick"]}
        waiting += [n for n in paper.experiments if n not in reports]
        seconds += sum(report["seconds"] for report in reports.values())
        commits |= {commit for report in reports.values() for commit in report["made"]["commits"]}
        claims = [claim for report in reports.values() for claim in report["claims"]]
        words = [claim["verdict"] for claim in claims]
        held = lambda column, claims=claims: sum(_word(claim, column) == "holds" for claim in claims)
        beside = [line[3] for n, report in reports.items() for line in against(n, report)[1:]]
        counts = [len(claims), *(words.count(w) for w in ("holds", "does not hold", "inconclusive", "cannot be run here")),
                  held(PRINTED), held(OURS), *(beside.count(w) for w in ("**ours**", "level", "the paper's"))]  # fmt: skip
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        lines.append([f"[{paper.title}](papers/{name}.md)", *map(str, counts)])
    lines.append(["all", *map(str, totals)])
    rest = f"\n\n{NOT_RUN}: {', '.join(f'`{n}`' for n in waiting)}." if waiting else ""
    made = f"{seconds / 60.0:.0f} minutes of draws in all; commit {', '.join(sorted(commits))}."
    return f"{MARK}\n{as_markdown(lines)}\n\n{made}{rest}\n"


def _word(claim: dict[str, Any], column: str) -> str:
    """A claim's verdict in a column; what is computed and not drawn stands for the paper as printed."""
    found = claim["columns"].get(column, {}).get("verdict", "")
    return found or (claim["verdict"] if column == PRINTED and not claim["columns"] else "")


def written(docs: Path) -> dict[Path, str]:
    """Every page as it should stand: its hand-written part, the mark, and what follows from the results."""
    found: dict[Path, str] = {}
    for path, text in [
        (docs / "papers.md", summary(docs)),
        *((docs / "papers" / f"{n}.md", page(n, docs)) for n in PAPERS),
    ]:
        before = path.read_text().partition(MARK)[0] if path.exists() else f"# {path.stem}\n\n"
        found[path] = before + text
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--figures", action="store_true", help="draw the figures too")
    given = parser.parse_args(arguments)
    for path, text in written(given.docs).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"wrote {path}")
    for name in EXPERIMENTS if given.figures else ():
        report = _reports(given.docs, [name]).get(name)
        if report and not report["quick"] and paper_figures.drawn(name):
            for path in paper_figures.draw(name, report["rows"], given.docs / "figures" / name):
                print(f"wrote {path}")


if __name__ == "__main__":
    main()
