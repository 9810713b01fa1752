"""Public room: what a fitted estimator passes on to its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from lowkey.errors import AbsentError
from lowkey.histories import Columns, Recommendations
from lowkey.model import Explanation, Model
from lowkey.model_items import NEW_SHARE
from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.ledger import Ledger


class ModelMethods:
    """The methods of a fitted estimator that are its model's."""

    model_: Model

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise AbsentError(
                what=f"this {type(self).__name__} is not fitted", got="a call", needed="fit first", try_=".fit(ratings)"
            )
        return self.model_

    @property
    def guarantee_(self) -> Guarantee:
        return self._fitted().guarantee

    @property
    def ledger_(self) -> Ledger:
        return self._fitted().ledger

    @property
    def item_factors_(self) -> NDArray[Any]:
        arrays = self._fitted().arrays
        if "item_factors" not in arrays:
            raise AbsentError(
                what="item_factors_", got=f"a {type(self).__name__}", needed="a model with item factors", try_="predict(X)"
            )
        return arrays["item_factors"]

    def transform(self, X: Any) -> NDArray[np.float64]:
        """User factors: the local step, free of charge."""
        return self._fitted().transform(X)

    def predict(self, X: Any, items: Any = None) -> NDArray[np.float64]:
        """Expected ratings, or scores for binary feedback, of every item or of ``items``."""
        return self._fitted().predict(X, items)

    def add_items(self, ids: Any, features: Any) -> Model:
        """A model that knows new items too, by their features alone: free."""
        return self._fitted().add_items(ids, features)

    def recommend(
        self,
        X: Any,
        n: int = 10,
        *,
        items: Any = None,
        exclude: Any = (),
        exclude_seen: bool = True,
        unknown: str = "error",
        new_share: float = NEW_SHARE,
        **columns: Unpack[Columns],
    ) -> Any:
        """The ``n`` best items for one history, or for many: only of ``items``, if given, and none of ``exclude``.

        For one history, ids and scores that look like a table; for a frame with ``user=``, ``item=`` and ``rating=`` a
        frame of its kind (user, item, score, rank); for a list or a dict of histories an Arrow table of these; for CSR rows
        two arrays. ``unknown="ignore"`` leaves out ids that the catalogue does not have, and counts them.
        """
        options: Any = {"items": items, "exclude": exclude, "exclude_seen": exclude_seen, "unknown": unknown}
        return self._fitted().recommend(X, n, **options, new_share=new_share, **columns)

    def explain(self, history: Any, item: Any) -> Explanation:
        """Why an item gets its score: what each item of the history adds to it."""
        return self._fitted().explain(history, item)

    def similar_items(self, item: Any, n: int = 10) -> Recommendations:
        """Ids of the ``n`` items most like this one, and how alike they are."""
        return self._fitted().similar_items(item, n)

    def release(self, folder: str | Path, **options: Any) -> Path:
        """Write the folder that may be published; ``options`` are those of ``Model.release``."""
        return self._fitted().release(folder, **options)
