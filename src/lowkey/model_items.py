"""Public room: items that nobody has rated, made from a released map and their features: post-processing, and free."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.features import FeatureMap, as_table
from lowkey.data.ids import id_array
from lowkey.errors import refuse

if TYPE_CHECKING:
    from lowkey.model import Model  # which stands on this module

NEW_SHARE = 0.2  # of a list, at most, unless asked otherwise


def with_items(model: Model, ids: Any, features: Any) -> Model:
    """The model with ``ids`` behind its catalogue: effects and factors as their features foretell."""
    from lowkey.data.public_tables import whole_table  # and what reads tables, which an answer does not wait for

    told = model.settings.get("features")
    if told is None or model.rule != "factors":
        refuse(
            "add_items",
            got="a release without a map from features",
            needed="a DPFactors or DPBias fit with public=lk.Public(features=…)",
            try_="fitting with features",
        )
    more = id_array(ids, "item ids")
    if (model.domain.positions(more) >= 0).any():
        refuse("add_items", got="items that the model has already", needed="new ids", try_="leaving them out")
    given = whole_table(features)
    table = as_table({name: given.column(name) for name in given.column_names})
    if any(len(values) != len(more) for values in table.values()):
        refuse("add_items", got="another number of features than ids", needed="one row each", try_="the same order")
    columns = FeatureMap.from_json(told).encode(table)
    found = np.column_stack([np.ones(len(more)), columns]) @ np.asarray(told["slopes"], np.float64)
    limits = model.domain.rating_range
    ids_of = pa.concat_arrays([model.domain.item_ids, more.cast(model.domain.item_ids.type)])
    domain = Domain(ids_of, limits, model.domain.feedback, model.domain.expected_users)
    arrays = {
        "item_bias": np.append(model.arrays["item_bias"], found[:, 0]),
        "item_factors": np.vstack([model.arrays["item_factors"], found[:, 1:]]),
    }
    if "ranking" in model.arrays:  # as often taken as the item in the middle
        scale, center = model.settings["ranking_scale"], model.settings["center"]
        logs = model.arrays["ranking"] + scale * (center + model.arrays["item_bias"])
        new = float(np.median(logs)) - scale * (center + found[:, 0])
        arrays["ranking"] = np.append(model.arrays["ranking"], new)
    # A user's factor is about of size one in every direction, so this is the variance of what is not known of a rating.
    std = float(np.sqrt(np.sum(told["variances"])))
    settings = {**model.settings, "new_items": [*model.settings.get("new_items", ()), *[std] * len(more)]}
    return replace(model, arrays=arrays, settings=settings, domain=domain, origin=None)


def most_new(n: int, share: float) -> int:
    """How many items of a list of n may be new."""
    if not 0.0 <= share <= 1.0:
        refuse("new_share", got=f"{share:g}", needed="a share from 0 to 1", try_="new_share=0.2")
    return int(share * n)


def limit_new(scores: NDArray[Any], stds: Any, n: int, share: float) -> None:
    """In place: new items, the last columns, lose a standard deviation; beyond ``share`` of n, they are out."""
    new = scores[:, scores.shape[1] - len(stds) :]
    new -= np.asarray(stds, new.dtype)
    most = most_new(n, share)
    if most < new.shape[1]:
        order = np.argpartition(-new, most, axis=1)[:, most:] if most else np.tile(np.arange(new.shape[1]), (len(new), 1))
        np.put_along_axis(new, order, -np.inf, axis=1)
