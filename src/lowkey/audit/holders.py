"""Lab room: canaries for a catalogue that is not public: users who hold some ids, and what they add to the noisy counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lowkey.audit.bounds import Scores
from lowkey.audit.canaries import Array
from lowkey.audit.result import AuditResult
from lowkey.audit.verdict import all_above_claim, judged
from lowkey.data.domain import Scale
from lowkey.data.ratings import HeldRows
from lowkey.data.uncatalogued import UncataloguedRatings
from lowkey.engines.local import LocalEngine
from lowkey.methods.catalogue import PrivateCatalogue
from lowkey.privacy.noise import NoiseSource
from lowkey.testing.noise_checks import widths
from lowkey.testing.watching import RecordingBillboard, Violation

IDS, CAP, SPARE = 300, 16, 10.0  # each id is held by so many that its count clears the threshold by ten widths of noise
LENGTHS = (1, 4, 16, 64)  # of the canaries' rows: up to the cap, and beyond it
CANARIES, RUNS = 1000, 100
SHARE = 0.99  # of the whole budget: what is audited is the selection
Person = tuple[Any, int]  # the ids that are held, by number and in order, and a key


def catalogue(epsilon: float, delta: float, confidence: float, seed: int | None) -> AuditResult:
    """A user is added or not; the crowd holds every id so often that all of them are named.

    What a user adds is found from that user's ids alone, as if there were no others: a choice that hangs on what others
    hold shows as a sum that is not that of the people in it.
    """
    rng = np.random.default_rng(seed)
    selection = PrivateCatalogue(epsilon, delta, share=SHARE, max_items=CAP, max_catalogue=IDS)
    plan = selection.plan()
    crowd = int(plan.settings["threshold"] + SPARE / plan.price.mu) + 1
    held = [np.sort(rng.choice(IDS, length, replace=False)) for length in rng.choice(LENGTHS, CANARIES)]
    people: list[Person] = [(ids, int(rng.integers(2**32, 2**62))) for ids in held]
    added = np.stack([_added(selection, person) for person in people])
    alone, lengths = _by_id(selection, _rows([], crowd)), np.linalg.norm(added, axis=1)
    inside = rng.random((RUNS, CANARIES)) < 0.5
    values, reach = np.empty(inside.shape), np.zeros(CANARIES)
    for run, coins in enumerate(inside):
        billboard = RecordingBillboard(NoiseSource())
        members = [person for person, coin in zip(people, coins, strict=True) if coin]
        named = selection.select(_rows(members, crowd), billboard)
        (entry,), expected = billboard.entries, alone + coins @ added
        if not np.array_equal(entry.units, expected):
            raise Violation("the counts are not the sum of what each user adds alone")
        if len(named) < IDS:
            raise Violation("an id that stands clear of the threshold is not named")
        step, width = entry.statistic.grid.step, widths(entry, plan.unit.neighbours)[0]
        posted: Any = entry.posted
        reach = lengths * step / width
        values[run] = added @ (posted.sums - expected * step) / (width * lengths)
    scores = Scores(values + inside * reach, inside, reach)
    above = all_above_claim(scores, plan.price.mu)
    return judged("PrivateCatalogue", plan.unit.neighbours, plan.price, scores, confidence, above)


def _rows(people: list[Person], crowd: int = 0) -> UncataloguedRatings:
    """Over the ids that occur, in whose order codes are; of the crowd so many hold each id, and nothing else."""
    ones = np.tile(np.arange(IDS), crowd)
    held, codes = np.unique(np.concatenate([ones, *(ids for ids, _ in people)]), return_inverse=True)
    offsets = np.concatenate([np.arange(len(ones) + 1), len(ones) + np.cumsum([len(ids) for ids, _ in people], dtype=int)])
    keys = np.concatenate([np.arange(len(ones), dtype=np.uint64), np.array([key for _, key in people], np.uint64)])
    names = pa.array([f"{i:04d}" for i in held])
    return UncataloguedRatings(Scale("binary"), names, HeldRows(offsets, codes.astype(np.int32), None, keys))


def _by_id(selection: PrivateCatalogue, rows: UncataloguedRatings) -> Array:
    """The kernel's counts, in grid units, as a billboard gets them."""
    billboard, (sums, _) = RecordingBillboard(NoiseSource()), LocalEngine().sweep(selection._sweep(), rows)
    closed: Any = sums["catalogue"]
    billboard.begin(selection.plan())
    billboard.post(closed)
    units = np.zeros(IDS)
    units[closed._keys.astype(int)] = billboard.entries[0].units
    return units


def _added(selection: PrivateCatalogue, person: Person) -> Array:
    """What one user adds, who may bring no more ids than the threshold is made for."""
    units = _by_id(selection, _rows([person]))
    if np.count_nonzero(units) > CAP:
        raise Violation("a user counts with more ids than is declared")
    return units
