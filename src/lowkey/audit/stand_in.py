"""Lab room: whom an audit is made on: a crowd that is made up, from the file on; one like a release's; or the real one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from lowkey.audit.canaries import Person
from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.data.readers import read_ratings
from lowkey.data.synthetic import HALF_STARS, taste
from lowkey.errors import refuse
from lowkey.methods.registry import PRIVATE, estimator
from lowkey.privacy.ledger import Ledger
from lowkey.testing.cases import Row

N_ITEMS, N_USERS = 48, 300
MOST_USERS = 2000  # of a real crowd: every run passes over all of them
EXPECTED = 20_000  # what a stand-in's domain says of its crowd, so that no method gives up before it begins
Crowd = tuple[list[Row], NDArray[np.uint64]]


def stand_in_domain(feedback: str = "ratings") -> Domain:
    scale = {"rating_range": HALF_STARS} if feedback == "ratings" else {}
    return Domain(N_ITEMS, feedback=feedback, expected_users=EXPECTED, **scale)


def made_up_rows(domain: Domain, seed: int) -> list[Row]:
    """Film fans, whatever the catalogue is called, on the domain's own scale."""
    made = taste(N_USERS, domain.n_items, max(1.0, min(12.0, 0.25 * domain.n_items)), seed, domain.feedback).csr
    values = made.data
    if domain.rating_range is not None:
        low, high = domain.rating_range
        values = low + (values - HALF_STARS[0]) / (HALF_STARS[1] - HALF_STARS[0]) * (high - low)
    cuts = made.indptr[1:-1]
    return list(zip(np.split(made.indices.astype(np.int32), cuts), np.split(values.astype(np.float32), cuts), strict=True))


def through_a_file(
    domain: Domain, rows: Sequence[Row], newcomer: Row | None = None, place: int = 0, instead: bool = False
) -> Crowd:
    """The rows as the package reads them from a file of its own; with a newcomer, who may take somebody's place."""
    people = [(f"user {i:05d}", row) for i, row in enumerate(rows)]
    if newcomer is not None:
        people[place : place + instead] = [("a newcomer", newcomer)]
    columns: dict[str, Any] = {
        "user": np.repeat([name for name, _ in people], [len(items) for _, (items, _) in people]),
        "item": domain.ids(np.concatenate([items for _, (items, _) in people])),
        "rating": np.concatenate([values for _, (_, values) in people]),
    }
    if domain.rating_range is None:
        del columns["rating"]
    with tempfile.TemporaryDirectory(prefix="lowkey-audit-") as folder:
        file = Path(folder) / "ratings.parquet"
        pyarrow.parquet.write_table(pa.table(columns), file)
        read = read_ratings(file, domain, user="user", item="item", rating="rating" if "rating" in columns else None)
        return opened(read)


def opened(ratings: Ratings, most: int | None = None, rng: np.random.Generator | None = None) -> Crowd:
    """Bare rows: of users who are made up, or for their curator alone. Of more than ``most`` users a random part."""
    csr, keys = ratings._open_csr(), np.asarray(ratings._open_keys())
    assert csr.shape is not None
    chosen = np.arange(csr.shape[0])
    if most is not None and len(chosen) > most:
        assert rng is not None
        chosen = np.sort(rng.choice(len(chosen), most, replace=False))
    rows = [
        (csr.indices[csr.indptr[u] : csr.indptr[u + 1]].astype(np.int32), csr.data[csr.indptr[u] : csr.indptr[u + 1]])
        for u in chosen
    ]
    return [(items, np.asarray(values, np.float32)) for items, values in rows], keys[chosen]


def people_of(crowd: Crowd) -> list[Person]:
    return [(*row, int(key)) for row, key in zip(*crowd, strict=True)]


def like_release(folder: Path) -> tuple[Any, Domain, bool]:
    """An estimator with the release's method, settings and budget, its domain, and whether their plans are the same."""
    from lowkey.release.folder import existing_folder, read_manifest
    from lowkey.release.loading import load

    model = load(existing_folder(folder))
    ledger: Ledger = model.ledger
    names = {place.rpartition(":")[2]: name for name, place in PRIVATE.items()}
    plans = [plan for plan in ledger.plans() if plan.method == model.method]
    if model.method not in names or not plans or plans[-1].schedule is not None:
        refuse(
            "--like",
            got=f"a release of {model.method}, or of a stream",
            needed=f"one fit of {', '.join(names)}",
            try_="lowkey audit --method … for a stand-in of your own",
        )
    plan, kind = plans[-1], estimator(names[model.method])
    own = {name: value for name, value in plan.settings.items() if name in kind._get_param_names()}
    fitted = kind(**{"epsilon": plan.price.epsilon, "delta": plan.delta, "adjacency": plan.unit.neighbours, **own})
    facts = read_manifest(folder)["domain"]
    domain = Domain(model.domain.item_ids, model.domain.rating_range, model.domain.feedback, facts.get("expected_users"))
    priced = lambda lines: [(line.name, line.times, line.mechanism.kind, f"{line.mechanism.mu:.4g}") for line in lines]
    return fitted, domain, priced(fitted.plan(domain).lines) == priced(plan.lines)
