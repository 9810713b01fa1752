"""Public room: a fit on made-up people before the one that is paid for: what would fail after spending fails here.

The domain, the method, its parameters and its noise are those of the order; the people are nobody. So every sum has the
shape that it will have, every step that follows a post is taken once, and the model is looked at as `verify` would.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse
from sklearn.base import clone

from lowkey.cli.training import Order
from lowkey.data.domain import Domain
from lowkey.data.ids import splitmix64
from lowkey.errors import LowkeyError, refuse
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import SeededNoise
from lowkey.release.tensors import describe

PEOPLE, ITEMS_EACH = 400, 20


def rehearse(order: Order) -> None:
    """Refuse an order whose fit does not come to its end, or not to a model that can be released."""
    planned, settings = order.resolved
    domain, estimator = settings.domain, cast(Any, clone(planned))
    try:
        people, billboard = made_up_people(domain), Billboard(noise=SeededNoise(0))
        fitted = estimator.fit(people, domain=domain, billboard=billboard, settings=settings)
        describe(fitted.model_)
        _, scores = fitted.recommend({} if domain.kind == "ratings" else [], n=1)
        trouble = "" if np.isfinite(scores).all() else "scores that are no numbers"
    except LowkeyError:
        raise
    except Exception as error:  # on made-up people: nothing of anybody is in it
        trouble = f"{type(error).__name__} in a fit on made-up people"
    if trouble:
        refuse(
            f"{type(estimator).__name__} with these parameters and this catalogue",
            got=trouble,
            needed="a fit that comes to its end; nothing was spent",
            try_="leaving --set out, or another --method",
        )


def made_up_people(domain: Domain) -> Any:
    """Rows of a fixed stream of numbers: the same for everybody who asks."""
    n_items = domain.n_items
    mixed = splitmix64(np.arange(2 * PEOPLE * ITEMS_EACH, dtype=np.uint64)).reshape(2, PEOPLE, ITEMS_EACH)
    share = (mixed[1] >> np.uint64(11)).astype(np.float64) / 2.0**53
    limits = domain.rating_range
    values = np.ones_like(share) if limits is None else limits[0] + share * (limits[1] - limits[0])
    rows = np.repeat(np.arange(PEOPLE), ITEMS_EACH)
    columns = (mixed[0] % np.uint64(n_items)).astype(np.int64).ravel()
    _, first = np.unique(rows * n_items + columns, return_index=True)  # each item once
    return scipy.sparse.csr_array((values.ravel()[first], (rows[first], columns[first])), shape=(PEOPLE, n_items))
