"""Local room: answers from one release to one request; plain functions, so that a thread can run them."""

from __future__ import annotations

from typing import Any

import scipy.sparse

from lowkey.serving.http.limits import Limits, Refusal, refuse_more_than
from lowkey.serving.http.schemas import Explain, Recommend, Similar
from lowkey.serving.http.served import Served

SCORES_AT_A_TIME = 1 << 22  # 16 MB; below what the model would hand to several threads


def recommend(served: Served, asked: Recommend, limits: Limits) -> dict[str, Any]:
    many = asked.histories if asked.history is None else [asked.history]
    assert many is not None
    refuse_more_than(limits.histories, "histories", len(many))
    refuse_more_than(limits.n, "n", asked.n)
    rows = [_row(served, history, asked.unknown, limits) for history in many]
    lists = [best for part in _parts(served, rows) for best in _best(served, part, asked)]
    if asked.history is not None:
        return {"release": served.id, **lists[0]}
    return {"release": served.id, "lists": lists}


def _parts(served: Served, rows: list[Any]) -> list[Any]:
    """The rows, as many together as fit."""
    step = max(1, SCORES_AT_A_TIME // served.model.domain.n_items)
    cuts = [rows[low : low + step] for low in range(0, len(rows), step)]
    return [scipy.sparse.vstack(cut, format="csr") if len(cut) > 1 else cut[0] for cut in cuts]


def _best(served: Served, rows: Any, asked: Recommend) -> list[dict[str, Any]]:
    found, scores = served.model.recommend(
        rows, asked.n, items=asked.items, exclude=asked.exclude, exclude_seen=asked.exclude_seen
    )
    return [{"items": served.ids(ids), "scores": best.tolist()} for ids, best in zip(found, scores, strict=True)]


def similar(served: Served, asked: Similar, limits: Limits) -> dict[str, Any]:
    refuse_more_than(limits.n, "n", asked.n)
    found, alike = served.model.similar_items(asked.item, asked.n)
    return {"release": served.id, "items": served.ids(found), "scores": alike.tolist()}


def explain(served: Served, asked: Explain, limits: Limits) -> dict[str, Any]:
    why = served.model.explain(_row(served, asked.history, asked.unknown, limits), asked.item)
    names = served.ids([name for name, _ in why.parts])
    return {
        "release": served.id,
        "item": served.ids([why.item])[0],
        "by": why.by,
        "base": why.base,
        "offset": why.offset,
        "parts": [{"item": name, "value": value} for name, (_, value) in zip(names, why.parts, strict=True)],
    }


def items(served: Served, start: int, n: int) -> dict[str, Any]:
    ids = served.model.domain.item_ids
    return {
        "release": served.id,
        "n_items": len(ids),
        "start": start,
        "items": served.ids(ids.slice(start, n).to_pylist()) if start < len(ids) else [],
    }


def guarantee(served: Served) -> dict[str, Any]:
    promised = served.model.guarantee
    return {"release": served.id, "sentence": promised.sentence(), "guarantee": promised.to_json()}


def _row(served: Served, history: Any, unknown: str, limits: Limits) -> Any:
    """One CSR row."""
    refuse_more_than(limits.length, "items in a history", len(history))
    model = served.model
    if isinstance(history, list) and any(isinstance(item, int) for item in history):
        history = [str(item) for item in history]  # one kind of id, compared by its text anyway
    if unknown == "ignore" and history:
        there = model.domain.positions(list(history)) >= 0
        if isinstance(history, dict):
            history = {item: value for (item, value), known in zip(history.items(), there, strict=True) if known}
        else:
            history = [item for item, known in zip(history, there, strict=True) if known]
    if not history:  # in either shape: nothing is known of this person
        history = {} if model.domain.kind == "ratings" else []
    return model.histories(history)


def warm_up(served: Served) -> None:
    """Everything that is made once (indices, casts, compiled code) is made before the first request."""
    domain = served.model.domain
    first = served.ids(domain.item_ids.slice(0, 1).to_pylist())[0]
    limits, middle = domain.rating_range, 0.0
    if limits is not None:
        middle = (limits[0] + limits[1]) / 2.0
    mine: Any = {str(first): middle} if limits is not None else [first]
    bounds = Limits()
    for ask in (
        lambda: recommend(served, Recommend.model_validate({"history": mine, "n": 1, "exclude_seen": False}), bounds),
        lambda: explain(served, Explain.model_validate({"history": mine, "item": first}), bounds),
        lambda: similar(served, Similar.model_validate({"item": first, "n": 1}), bounds),
    ):
        try:
            ask()
        except (ValueError, Refusal):  # a model of averages knows no likeness
            continue
