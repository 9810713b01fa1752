"""Lab room: every table and figure of the five papers, and where it is run here, or why not.

The labels are those of the captions; a test compares them with the texts. DP-RGrad has neither: its theorems stand here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

NO_DATA = "cannot be run here: data"
DRAWING, BOUNDS, SETTINGS = "a drawing: nothing to run", "bounds from theory: nothing to run", "settings: used as printed"
STAND_IN = f"stand-in; the original {NO_DATA}"


class Entry(NamedTuple):
    """A label, what it shows, the experiments that carry it and, where they do not all speak of it, how to find them."""

    label: str
    shows: str
    note: str = ""
    experiments: tuple[str, ...] = ()
    found_by: str = ""  # in a claim's sentence or place; the label if empty


MOVIES, LISTS, SPREAD = ("dpals-movies",), ("dpals-lists",), ("dpals-spread",)
CONTENTS: dict[str, tuple[Entry, ...]] = {
    "dpals": (
        Entry("Table 1", "sample complexity", BOUNDS),
        Entry("Table 2", "sizes of MovieLens 10M and 20M", NO_DATA),
        Entry("Table 3", "hyper-parameters and their ranges", SETTINGS),
        Entry("Table 4", "settings and noise for each epsilon", "what its noise guarantees", ("dpals-table-4",)),
        Entry("Table 5", "means and standard deviations of Figure 3", NO_DATA, ("dpals-table-5",)),
        Entry("Figure 1", "who computes what", DRAWING),
        Entry("Figure 2", "share of ratings of the top films", STAND_IN, SPREAD),
        Entry("Figure 3 (a)", "RMSE on ML-10M-top400", STAND_IN, MOVIES),
        Entry("Figure 3 (b)", "RMSE on ML-10M", STAND_IN, MOVIES),
        Entry("Figure 3 (c)", "Recall@20 on ML-20M", STAND_IN, LISTS),
        Entry("Figure 4", "synthetic data, DPALS and DPFW", "smaller", ("dpals-figure-4",)),
        Entry("Figure 5", "sampling and projection, by film fraction", STAND_IN, MOVIES),
        Entry("Figure 6", "counts of users and films under sampling", STAND_IN, SPREAD),
        Entry("Figure 7", "synthetic data, error by step", "smaller", ("dpals-figure-7",)),
        Entry("Figure 8", "number of users", STAND_IN, MOVIES),
        Entry("Figure 9", "rank", STAND_IN, (*MOVIES, *LISTS)),
        Entry("Figure 10", "film fraction by epsilon", STAND_IN, MOVIES),
        Entry("Figure 11", "film fraction, Recall@20", STAND_IN, LISTS),
        Entry("Figure 12", "exponents of the ridge", STAND_IN, MOVIES),
    ),
    "dpfw": (
        Entry("Table 1", "sample complexity", BOUNDS),
        Entry("Table 2", "approximation error bounds", BOUNDS),
        Entry("Figure 1", "who computes what", DRAWING),
        Entry("Figure 2 (a)", "synthetic", "smaller", ("dpfw-figure-2a",), "synthetic"),
        Entry("Figure 2 (b)", "Jester", "part 1 of 3", ("dpfw-figure-2",), "jester"),
        Entry("Figure 2 (c)", "MovieLens 10M", NO_DATA, ("dpfw-figure-2",), "ml-10m"),
        Entry("Figure 2 (d)", "Netflix", NO_DATA, ("dpfw-figure-2",), "netflix"),
        Entry("Figure 2 (e)", "Yahoo! Music", NO_DATA, ("dpfw-figure-2",), "Yahoo"),
        Entry("Figure 2 (f)", "the legend", DRAWING),
    ),
    "dplmc": (
        Entry("Table 1", "methods and their bounds", BOUNDS),
        Entry("Figure 1", "noisy ratings, users and budget", "", ("dplmc-figure-1",), "figure 1"),
        Entry("Figure 2", "exact ratings, users and budget", "", ("dplmc-figure-2",), "figure 2"),
        Entry("Figure 3", "rank", "", ("dplmc-figure-3",)),
    ),
    "onebit": (
        Entry("Table 1", "sizes of ML-100K and RC", "a description of data: both are here"),
        Entry("Figure 1", "synthetic signs, both links", "", ("onebit-figure-1",)),
        Entry("Figure 2", "ML-100K, both links", "250 films", ("onebit-figure-2",)),
        Entry("Figure 3", "RC, both links", "", ("onebit-figure-3",)),
        Entry("Figure 4", "observation ratio, Gaussian link", "two ratios", ("onebit-figure-4",)),
        Entry("Figure 5", "observation ratio, logistic link", "two ratios", ("onebit-figure-5",)),
    ),
    "dprgrad": (
        Entry("Theorem 1", "the start's sensitivities", "", ("trace-rates",)),
        Entry("Theorem 2", "the lower bound, in Schatten norms", "drawn in the figure", ("trace-rates",), "Theorems? 2"),
        Entry("Theorem 3", "what Algorithm 2 attains", "", ("trace-rates",), "Theorem 3|Theorems 2 and 3"),
        Entry("Theorem 7", "public X", "with Theorem 6's start", ("trace-rates",)),
    ),
}  # fmt: skip


def table(name: str, reports: Mapping[str, Any]) -> list[list[str]]:
    """Label, what it shows, the experiments, the verdicts of its claims as judged and for ours, and what must be said."""
    lines = [["in the paper", "shows", "here", "claims as judged", "claims for ours", "note"]]
    for entry in CONTENTS[name]:
        mine = claims_of(entry, reports)
        judged = [claim["verdict"] for claim in mine]
        ours = [claim["columns"]["ours"]["verdict"] for claim in mine if "ours" in claim["columns"]]
        here = ", ".join(f"[`{experiment}`](#{experiment})" for experiment in entry.experiments) or "–"
        lines.append([entry.label, entry.shows, here, _counted(judged), _counted(ours), entry.note])
    return lines


def claims_of(entry: Entry, reports: Mapping[str, Any]) -> list[Any]:
    wanted = re.compile(entry.found_by or re.escape(entry.label) + r"(?!\d)", re.IGNORECASE)
    named = [reports[experiment] for experiment in entry.experiments if experiment in reports]
    return [c for report in named for c in report["claims"] if wanted.search(f"{c['paper']} ({c['place']})")]


def _counted(words: list[str]) -> str:
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words)) or "–"
