"""Public room: a catalogue that is not public, selected privately: the items whose noisy number of holders is large.

Paper: Gopi et al. 2020 (arXiv:2002.09745), the weighted Gaussian. Deviates: nowhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.uncatalogued import UncataloguedRatings
from lowkey.engines.local import Engine, LocalEngine
from lowkey.errors import InputError, refuse
from lowkey.kernels.catalogue import Holders
from lowkey.methods.curator import Curator
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.gaussian import gaussian_epsilon, gaussian_mu, selection_threshold
from lowkey.privacy.guarantee import Unit
from lowkey.privacy.mechanisms import ThresholdedGaussian
from lowkey.privacy.noise import log_ratio
from lowkey.privacy.plan import Line, Plan, check_epsilon_delta

DRAWS = 10**9  # how many noisy numbers the selection and the fit may draw together before their resolution costs more


@dataclass(frozen=True)
class PrivateCatalogue:
    """Splits one (epsilon, delta) between the selection of the items and the fit that follows on the same billboard.

    ``rest`` is what the fit may be given, so that both together cost (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : float
        Of both together.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    share, delta_share : float
        Of the total mu^2, and of delta (the chance that an item is named which one user alone has), for the selection.
    max_items : int
        A user counts with at most so many items.
    max_catalogue : int
        A public cap on how many different items there are.

    Examples
    --------
    >>> rows, board = lk.read_uncatalogued("r.csv", user="u", item="i", feedback="binary"), lk.Billboard()  # doctest: +SKIP
    >>> catalogue = lk.PrivateCatalogue(epsilon=1.0, delta=1e-6)  # doctest: +SKIP
    >>> known = rows.with_items(catalogue.select(rows, board))  # doctest: +SKIP
    >>> model = lk.DPLists(*catalogue.rest()).fit(known, billboard=board)  # doctest: +SKIP
    """

    epsilon: float
    delta: float
    adjacency: Any = "add-remove"
    share: float = 0.2
    delta_share: float = 0.1
    max_items: int = 256
    max_catalogue: int = 1 << 22

    def __post_init__(self) -> None:
        check_epsilon_delta(self.epsilon, self.delta)
        for name in ("share", "delta_share"):
            if not 0.0 < getattr(self, name) < 1.0:
                refuse(name, got=repr(getattr(self, name)), needed="a number between 0 and 1", try_=f"{name}=0.1")

    def _mu(self) -> float:
        """The mu of selection and fit together, after the selection's delta and the sampler's resolution."""
        slack = log_ratio(DRAWS, gaussian_mu(self.epsilon, self.delta))
        left = self.delta * (1.0 - self.delta_share) * (1.0 - 2.0 * slack) - 1e-30
        if 2.0 * slack >= self.epsilon:
            refuse("epsilon", got=f"{self.epsilon:g}", needed=f"more than {2.0 * slack:.1g}", try_="epsilon=0.1 or more")
        return gaussian_mu(self.epsilon - 2.0 * slack, left) * (1.0 - 1e-12)

    def _sweep(self) -> Holders:
        return Holders(self.max_items, self.max_catalogue)

    def plan(self) -> Plan:
        """The one release of the selection."""
        multiplier = 1.0 / (self._mu() * math.sqrt(self.share))
        (statistic,) = self._sweep().statistics
        std = multiplier * statistic.sensitivity.under(self.adjacency)
        threshold = selection_threshold(std, self.max_items, self.delta * self.delta_share, adjacency=self.adjacency)
        mechanism = ThresholdedGaussian(multiplier, threshold, self.max_items, self.adjacency)
        note = f"named if the noisy number of holders is above {threshold:.4g}"
        return Plan(
            "PrivateCatalogue",
            (Line("catalogue", mechanism, self.max_catalogue, note=note),),
            self.delta,
            unit=Unit(neighbours=self.adjacency),
            public=("how the catalogue was selected, and the selected items with their noisy numbers of holders",),
            caveats=("Items that few users hold are not in the catalogue: it was selected from private data.",),
            settings={"max_items": self.max_items, "threshold": threshold},
        )

    def rest(self) -> tuple[float, float]:
        """The (epsilon, delta) of a fit that follows."""
        delta = self.delta * (1.0 - self.delta_share)
        return gaussian_epsilon(self._mu() * math.sqrt(1.0 - self.share), delta), delta

    def select(
        self,
        rows: UncataloguedRatings,
        billboard: Billboard,
        then: tuple[Line, ...] = (),
        engine: Engine | None = None,
    ) -> NDArray[Any]:
        """The ids that may be named, sorted. Post it, then fit on ``rows.with_items(ids)`` with the same billboard.

        ``then`` are the lines of that fit, as far as they are known: their price is held until it begins.
        """
        plan = self.plan()
        billboard.begin(plan, then)
        posts = Curator(rows, engine or LocalEngine(), billboard).ask(self._sweep())
        ids = np.asarray(posts["catalogue"].keys)
        if len(ids) == 0:
            raise InputError(
                what="a private catalogue",
                got="no item that stands clear of the noise",
                needed=f"items with a weighted number of holders above {plan.settings['threshold']:.4g}",
                try_="more users, a larger epsilon, or a public catalogue",
            )
        return ids
