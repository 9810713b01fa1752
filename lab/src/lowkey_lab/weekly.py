"""Lab room: a release a week, three ways: ``python -m lowkey_lab.weekly [--data ml-1m|taste] [--goal lists|ratings] …``.

People arrive week by week (MovieLens 1M by its own timestamps over 36 weeks; a made-up crowd over 52) and speak a week
later. Every week the held-out people who have come so far are served by four models of the same training people: a
*stream* of releases at a total epsilon of 4; an even *split* of that epsilon; a *single* release at epsilon 4, as if there
were no other; and the floor without privacy: popularity for lists, mean and own offset for ratings. In the last week also
a single release at epsilon 1.8. Recall@20 or RMSE, one row a week, also into ``--results``; ``--figure`` draws that file.
NOT PRIVATE.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.evaluation.protocol import evaluate
from lowkey.evaluation.splits import Split, fold_in_rows
from lowkey.methods.running import running
from lowkey.privacy.accounting import gaussian_epsilon
from lowkey.privacy.gaussian import gaussian_mu
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.sums import Unreleased
from lowkey_lab import sources
from lowkey_lab.bounds import trivial
from lowkey_lab.pyplot import pyplot

WEEK = 7 * 86_400
TOTAL, DELTA, LATER = 4.0, 1e-5, 1.8
HELD_OUT, FOLD_IN = 0.2, 0.8
ONCE = {"single at 1.8": "", "alike at 1.8": ", which gives means as much as a stream"}
FILMS, LIKED = 2000, 4.0  # of the made-up crowd; what is seen there is popularity alone, what is liked is taste
COLUMNS = ("floor", "stream", "split", "single")
GOALS = {"lists": (lk.DPLists, "recall@20"), "ratings": (partial(lk.DPMoments, rank=10), "rmse")}


class Arrivals(NamedTuple):
    """A table of ratings with times, who is held out, and the public facts."""

    train: lk.TimedRatings
    tested: lk.TimedRatings
    domain: lk.Domain
    calendar: lk.Calendar
    weeks: int


def arrivals(data: str, goal: str, draw: int, users: int) -> Arrivals:
    table, limits, weeks = (_movielens if data == "ml-1m" else _made_up)(draw, users)
    if data == "taste" and goal == "lists":
        table = table[table["rating"] >= LIKED]
    everybody: Any = np.unique(table["user"])
    tested = np.random.default_rng([draw, 7]).choice(everybody, round(HELD_OUT * len(everybody)), replace=False)
    facts: dict[str, Any] = {"feedback": "binary"} if goal == "lists" else {"rating_range": limits}
    domain = lk.Domain(np.unique(table["item"]), expected_users=len(everybody) - len(tested), **facts)
    out = table["user"].isin(tested)
    columns = {"user": "user", "item": "item", "time": "time", "rating": "rating" if goal == "ratings" else None}
    parts = [lk.TimedRatings.from_frame(part, domain, **columns) for part in (table[~out], table[out])]
    start = int(table["time"].min())
    calendar = lk.Calendar(start + 2 * WEEK, WEEK, wait=WEEK, patience=4 * WEEK)
    return Arrivals(parts[0], parts[1], domain, calendar, weeks)


def _movielens(draw: int, users: int) -> tuple[Any, tuple[float, float], int]:
    columns = sources.columns("ml-1m", "timestamp")
    return pd.DataFrame(columns).rename(columns={"timestamp": "time"}), (1.0, 5.0), 36


def _made_up(draw: int, users: int) -> tuple[Any, tuple[float, float], int]:
    """Everybody arrives on a day of their own and rates within it."""
    weeks, crowd = 52, taste(users, FILMS, 20.0, seed=draw).csr
    owner = np.repeat(np.arange(users), np.diff(crowd.indptr))
    arrived = np.random.default_rng([draw, 8]).integers(0, weeks * WEEK, users)
    arrived[0] = 0
    frame = {"user": owner, "item": crowd.indices, "rating": crowd.data, "time": arrived[owner]}
    return pd.DataFrame(frame), (0.5, 5.0), weeks


class Remembering(lk.LocalEngine):
    """Sums of cohorts that were summed before, where a cohort is asked the same at every release."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[tuple[int, str], dict[str, tuple[Any, Any]]] = {}

    def sweep(self, sweep: Any, data: Any, local: Any = None) -> Any:
        statistics = {statistic.name: statistic for statistic in sweep.statistics}
        key = int(np.bitwise_xor.reduce(data._open_keys(), initial=0)), next(iter(statistics))
        if key[1] in ("taste_fit", "taste_moments"):  # about the model, or the head: another one at every release
            return super().sweep(sweep, data, local)
        if key not in self.known:
            units = {name: sums._open() for name, sums in super().sweep(sweep, data, local)[0].items()}
            self.known[key] = {name: (at := np.flatnonzero(found), found.ravel()[at]) for name, found in units.items()}
        sums = {}
        for name, (at, values) in self.known[key].items():
            units = np.zeros(statistics[name].size, np.int64)
            units[at] = values
            sums[name] = Unreleased(statistics[name], units.reshape(statistics[name].shape))
        return sums, None


def stacked(cohorts: list[lk.Ratings], domain: lk.Domain) -> lk.Ratings:
    rows = scipy.sparse.csr_array(scipy.sparse.vstack([cohort._open_csr() for cohort in cohorts]))
    return lk.Ratings.from_csr(rows, domain, keys=np.concatenate([cohort._open_keys() for cohort in cohorts]))


def so_far(ratings: lk.TimedRatings, calendar: lk.Calendar, week: int) -> list[lk.Ratings]:
    return ratings._settled(calendar, week, ratings._rebuilt(calendar, week))[1]


def this_week(found: Arrivals, week: int, draw: int) -> Split:
    """Who has spoken by now, to train on; and the held-out people who would have, each with a part of their row shown."""
    tested = stacked(so_far(found.tested, found.calendar, week), found.domain)
    cohorts = so_far(found.train, found.calendar, week)
    # The stream expects the crowd of its last week; a release that stands alone is told how many there are by now.
    facts = found.domain.to_json() | {"expected_users": sum(len(cohort._open_keys()) for cohort in cohorts)}
    train = stacked(cohorts, lk.Domain.from_json(facts, found.domain.item_ids))
    return Split(train, *fold_in_rows(tested, FOLD_IN, draw))


def others(goal: str, split: Split, week: int, weeks: int) -> dict[str, float]:
    """What the floor, an even split and single releases get in a week."""
    make, figure = GOALS[goal]

    def fitted(epsilon: float, seed: int, form: Any = lambda method: method) -> float:
        model = form(make(epsilon, DELTA)).fit(split.train, billboard=lk.Billboard(noise=SeededNoise(seed)))
        return evaluate(model, split.histories, split.held_out)[figure]

    if goal == "lists":
        floor = evaluate(lk.Popularity().fit(split.train), split.histories, split.held_out)[figure]
    else:
        floor = trivial(split, split.train.domain.rating_range or (0.0, 0.0))
    each = gaussian_epsilon(gaussian_mu(TOTAL, DELTA) / weeks**0.5, DELTA)
    row = {"floor": floor, "split": fitted(each, 2000 + week)}
    if week % 3 == 0 or week in (1, weeks):
        row["single"] = fitted(TOTAL, 3000 + week)
    if week == weeks:
        row["single at 1.8"] = fitted(LATER, 4000)
        if goal == "ratings":  # whose streams divide their price otherwise: a single release that does the same
            row["alike at 1.8"] = fitted(LATER, 4000, running)
    return row


def measured(given: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """A row for every week that the stream in a folder has still to come to."""
    found, engine = arrivals(given.data, given.goal, given.draw, given.users), Remembering()
    make, figure = GOALS[given.goal]
    while True:
        stream = lk.Stream(folder, make(TOTAL, DELTA), found.domain, found.calendar, found.weeks)
        week = stream.made + 1
        if week > found.weeks:
            return
        stream.billboard.noise = SeededNoise(1000 * (1 + given.draw) + week)  # by the week: a run may go on where one ended
        latest = stream.release(found.train, engine=engine)
        if given.weeks is None or week in given.weeks:
            split = this_week(found, week, given.draw)
            people = len(split.train._open_keys())
            row = {"data": given.data, "goal": given.goal, "draw": given.draw, "week": week, "people": people}
            row["stream"] = evaluate(latest, split.histories, split.held_out)[figure]
            yield row | others(given.goal, split, week, found.weeks)


def said(row: dict[str, Any]) -> str:
    found = [f"{row[name]:.4f}" if name in row else "" for name in COLUMNS]
    line = f"{row['data']:<8}{row['goal']:<8}{row['draw']:>5}{row['week']:>5}{row['people']:>8}"
    line += "".join(f"{number:>10}" for number in found)
    for name, words in ONCE.items():
        if name in row:
            kept = (row["stream"] - row["floor"]) / (row[name] - row["floor"])
            line += f"\n  a single release at epsilon 1.8{words}: {row[name]:.4f}; the stream keeps {kept:.1%} of its gain"
    return line


def draw_figure(rows: list[dict[str, Any]], path: Path) -> None:
    """A panel for every data set and goal; the first draw alone, as others may have other weeks."""
    plt: Any = pyplot()
    table: Any = pd.DataFrame(rows)
    panels = list(table.groupby(["data", "goal"], sort=False))
    figure, axes = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 3.6), squeeze=False, layout="constrained")
    names = {"single": "a single release at epsilon 4", "stream": "stream, epsilon 4 in all", "split": "even split"}
    colours = {"single": "#555555", "stream": "#0b6e4f", "split": "#c1440e", "floor": "#999999"}
    for axis, ((data, goal), part) in zip(axes[0], panels, strict=True):
        weeks = part[part["draw"] == part["draw"].min()].set_index("week")
        floor = "popularity" if goal == "lists" else "mean and own offset"
        for name, label in {**names, "floor": f"{floor}, not private"}.items():
            line = weeks[name].dropna()
            axis.plot(line.index, line, label=label, color=colours[name], ls=":" if name == "floor" else "-")
        axis.set(title=f"{data}, {goal}", xlabel="week", ylabel="Recall@20" if goal == "lists" else "RMSE")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150, **({"metadata": {"Date": None}} if path.suffix == ".svg" else {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ml-1m", choices=("ml-1m", "taste"))
    parser.add_argument("--goal", default="lists", choices=tuple(GOALS))
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--users", type=int, default=125_000, help="of the made-up crowd, a fifth of them held out")
    parser.add_argument("--weeks", type=lambda text: [int(week) for week in text.split(",")], help="compare in these alone")
    parser.add_argument("--results", type=Path, help="JSON lines")
    parser.add_argument("--folder", type=Path, help="of the stream: a run that was cut off goes on in it")
    parser.add_argument("--figure", type=Path, help="draw what the results file holds, and stop")
    given = parser.parse_args()
    results: Path | None = given.results
    if given.figure:
        draw_figure([json.loads(line) for line in given.results.read_text().splitlines()], given.figure)
        return
    titles = "".join(f"{name:>10}" for name in COLUMNS)
    print(f"{'data':<8}{'goal':<8}{'draw':>5}{'week':>5}{'people':>8}{titles}")
    with tempfile.TemporaryDirectory(prefix="weekly-") as folder:
        for row in measured(given, given.folder or Path(folder)):
            print(said(row), flush=True)
            if results is not None:
                with results.open("a") as out:
                    out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
