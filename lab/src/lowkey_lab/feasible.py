"""Lab room: ``python -m lowkey_lab.feasible``: what was expected of lists, before and after a fit, and then kept.

Kept is the share of what ``DPLists`` gains in Recall@20 over ``Popularity`` without noise, by the best of three ridges, as
who knows the people may choose; 0 where it ends below popularity and 1 at most. Of every tested user three histories are
drawn, as gains are small beside chance. Crowds that gain nothing even without noise have no such share; of them it is
counted whether they were warned. The crowds are not those that the constants were made from: ``--fit`` runs these, and
prints the constants. ``--draw 1`` takes other crowds and other noise. NOT PRIVATE.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.optimize import least_squares, minimize

import lowkey as lk
from lowkey.evaluation.protocol import evaluate
from lowkey.evaluation.splits import Split, fold_in_rows, hold_out_users
from lowkey.methods.feasibility import Share, expected_share
from lowkey.methods.lists.kept import Signs, logit, may_be_behind, share_left, shown, wide
from lowkey.privacy.gaussian import gaussian_mu
from lowkey_lab.crowds import Crowd, training, unseen

DELTA, WITHIN, BEHIND, LEAST_GAIN = 1e-5, 0.15, 0.003, 0.01
EPSILONS = (0.5, 1.0, 2.0, 5.0, 20.0)
NEARLY_EXACT = 500.0  # an epsilon whose noise no longer matters
RIDGES, HISTORIES = (1.0, 3.0, 9.0), 3
PUBLIC = ("ml-", "jester", "ciaodvd", "book-crossing")  # weigh twice in the fit


class Watched(lk.DPLists):
    """Keeps what its posts showed."""

    signs: Signs | None = None

    def _expected(self, signs: Signs | None) -> dict[str, Any]:
        self.signs = signs
        return super()._expected(signs)


class Cell(NamedTuple):
    """A crowd at an epsilon: Recall@20 of most-popular, without noise and of the release; and what its posts showed."""

    crowd: str
    facts: tuple[int, int]  # users, items
    epsilon: float
    floor: float
    exact: float
    found: float
    signs: Signs | None
    untuned: float = math.nan  # without noise by the default ridge

    @property
    def gains(self) -> bool:
        return self.exact - self.floor >= LEAST_GAIN

    @property
    def kept(self) -> float:
        return float(np.clip((self.found - self.floor) / max(self.exact - self.floor, LEAST_GAIN), 0.0, 1.0))

    @property
    def below(self) -> bool:
        return self.found < self.floor - BEHIND

    @property
    def before(self) -> Share:
        return expected_share(self.facts[0] * gaussian_mu(self.epsilon, DELTA), self.facts[1])

    def line(self) -> str:
        before, behind = self.before, may_be_behind(self.signs)
        kept = f"{self.kept:.2f}" if self.gains else "–"
        said = f"{before.low:.2f} {before.usual:.2f} {before.high:.2f} {'!' if before.may_be_behind else ' '}"
        figures = f"{self.epsilon:>6g}{self.floor:>9.4f}{self.exact:>9.4f}{self.found:>9.4f}{kept:>7}"
        return (
            f"{self.crowd:<24}{self.facts[1]:>6}{figures}   {said}   {share_left(self.signs):.2f} {'!' if behind else ' '}"
        )


def recall(model: Any, split: Split) -> float:
    return evaluate(model.fit(split.train), split.histories, split.held_out)["recall@20"]


def with_more_histories(split: Split) -> Split:
    """Of every tested user as many as ``HISTORIES``, one below the other."""
    tested = lk.Ratings.from_csr(scipy.sparse.csr_array(split.histories + split.held_out), split.train.domain)
    parts = zip(*(fold_in_rows(tested, 0.8, seed) for seed in range(HISTORIES)), strict=True)
    return Split(split.train, *(scipy.sparse.csr_array(scipy.sparse.vstack(part)) for part in parts))


def cells(crowd: Crowd, epsilons: Iterable[float], seed: int = 0) -> Iterator[Cell]:
    rows, tested = crowd.rows, crowd.tested
    users, n_items = rows.shape[0] - tested, rows.shape[1]
    domain = lk.Domain(n_items, feedback="binary", expected_users=users)
    ratings = lk.Ratings.from_csr(scipy.sparse.csr_array(rows), domain)
    split = with_more_histories(hold_out_users(ratings, tested, 0.8, seed))
    floor = recall(lk.Popularity(), split)
    exact = [recall(lk.DPLists(NEARLY_EXACT, DELTA, reg=reg), split) for reg in RIDGES]
    for epsilon in epsilons:
        model = Watched(epsilon, DELTA)
        found = recall(model, split)
        yield Cell(crowd.name, (users, n_items), epsilon, floor, max(exact), found, model.signs, exact[0])


def said(found: list[Cell]) -> Iterator[str]:
    """What the cells show, in sentences."""
    gaining = [cell for cell in found if cell.gains]
    kept = np.array([cell.kept for cell in gaining])
    before, after = np.array([cell.before for cell in gaining]), np.array([share_left(cell.signs) for cell in gaining])
    inside = (kept >= before[:, 0] - 0.02) & (kept <= before[:, 2] + 0.02)
    many = f"{len(found)} cells of {len({c.crowd for c in found})} crowds"
    yield f"{many}; without noise {len(gaining)} gain {LEAST_GAIN} or more. Of these:"
    yield f"  before: {of(np.abs(before[:, 1] - kept) <= WITHIN)} within {WITHIN} of the usual; {of(inside)} in the range"
    yield f"  after:  {of(np.abs(after - kept) <= WITHIN)} within {WITHIN}"
    untuned = [c._replace(exact=c.untuned) for c in found if c.untuned - c.floor >= LEAST_GAIN]
    near = [abs(share_left(cell.signs) - cell.kept) <= WITHIN for cell in untuned]
    yield f"  after, if no noise but the default ridge were the measure: {of(near)} within {WITHIN}"
    for called, group in (("that gain", gaining), ("that gain nothing", [cell for cell in found if not cell.gains])):
        below = [cell for cell in group if cell.below]
        others = [cell for cell in group if not cell.below]
        for when, warned in (("before", lambda c: c.before.may_be_behind), ("after", lambda c: may_be_behind(c.signs))):
            caught, false = [warned(cell) for cell in below], [warned(cell) for cell in others]
            were = f"below popularity and warned {of(caught)}; not below and warned {of(false)}"
            yield f"  {when}: of crowds {called}, {were}"


def of(hits: Any) -> str:
    hits = np.asarray(hits, bool)
    return f"{hits.sum()} of {len(hits)}" + (f" ({hits.mean():.0%})" if len(hits) else "")


def best_of_any(found: list[Cell]) -> str:
    """How many shares the best function of users, items and epsilon can come near, of crowds that have these in common."""
    groups: dict[Any, list[float]] = {}
    for cell in found:
        if cell.gains:
            groups.setdefault((cell.facts, cell.epsilon), []).append(cell.kept)
    shared = [np.array(kept) for kept in groups.values() if len(kept) > 1]
    most = sum(max(int(np.sum((kept >= low) & (kept <= low + 2 * WITHIN))) for low in kept) for kept in shared)
    count = sum(map(len, shared))
    hits = f"{most} of {count} ({most / max(count, 1):.0%})"
    return f"Where crowds share users, items and epsilon, no function of these is within {WITHIN} of more than {hits}."


def fitted(found: list[Cell]) -> tuple[str, str]:
    """The constants of both models from these cells."""
    found = [cell for cell in found if cell.signs is not None]
    weights = np.array([(1.0 if cell.gains else 0.3) * (2.0 if cell.crowd.startswith(PUBLIC) else 1.0) for cell in found])
    kept = np.array([cell.kept for cell in found])
    signs = [cell.signs for cell in found if cell.signs is not None]
    columns = np.array([(1.0, logit(one.heard), shown(one), wide(one.spread)) for one in signs])
    head = np.array([max(one.head_share, 0.01) for one in signs])

    def misses(v: Any) -> Any:
        return np.sqrt(weights) * (head ** v[0] / (1.0 + np.exp(-columns @ v[1:])) - kept)

    after = least_squares(misses, [0.5, 0.0, 0.7, 1.0, -0.5], loss="soft_l1", f_scale=0.15).x
    of_posts = "kept.py: HEAD, LEVEL, HEARD, SHOWN, SPREAD = " + ", ".join(f"{v:.2f}" for v in after)
    gains = np.array([cell.gains for cell in found])
    crowd = np.log([cell.facts[0] * gaussian_mu(cell.epsilon, DELTA) for cell in found])[gains]
    crowd -= np.log([cell.facts[1] for cell in found])[gains] / 2.0
    kept, weights = kept[gains], weights[gains]

    def pinball(v: Any) -> float:
        loss = 0.0
        for chance, half in zip((0.1, 0.5, 0.9), v[1:], strict=True):
            rest = kept - 1.0 / (1.0 + np.exp(-math.exp(v[0]) * (crowd - half)))
            loss += float(np.sum(weights * np.maximum(chance * rest, (chance - 1.0) * rest)))
        return loss

    best = minimize(pinball, [0.6, 5.5, 4.5, 3.0], method="Nelder-Mead", options={"maxiter": 20_000, "maxfev": 20_000})
    halves = ", ".join(f"{math.exp(min(half, 20.0)):.1f}" for half in best.x[1:])
    return of_posts, f"feasibility.py: POWER = {math.exp(best.x[0]):.2f}; HALF = ({halves})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--crowds", default="", help="only those whose name starts so")
    given = parser.parse_args()
    found: list[Cell] = []
    if not given.fit:
        print(
            f"{'crowd':<24}{'items':>6}{'eps':>6}{'popular':>9}{'exact':>9}{'found':>9}{'kept':>7}   before          after"
        )
    for i, crowd in enumerate(training() if given.fit else unseen(given.draw)):
        if not crowd.name.startswith(given.crowds):
            continue
        drawn = np.exp(np.random.default_rng([6, i]).uniform(math.log(0.4), math.log(22.0), 3)).tolist()
        for cell in cells(crowd, drawn if given.fit else EPSILONS, given.draw):
            found.append(cell)
            print(cell.line(), flush=True)
    print("\n".join([*(fitted(found) if given.fit else ()), *said(found), *(() if given.fit else [best_of_any(found)])]))
    print("NOT PRIVATE.")


if __name__ == "__main__":
    main()
