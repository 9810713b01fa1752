"""`explain`, `similar_items`, and lists of what may be recommended: every rule, against its scores and its JavaScript."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from rule_models import histories, rule_models
from test_rules_agree import answers

import lowkey as lk
from lowkey.errors import InputError
from lowkey.kernels.threads import FEW
from lowkey.linalg.links import link_of

MODELS = rule_models()
HISTORIES = 30
SHORTENED = ("item weights, thin", "item weights, in bytes")  # in JavaScript their weights are other numbers
every_rule = pytest.mark.parametrize("name", MODELS)


@every_rule
def test_reasons_add_up_to_the_score(name: str) -> None:
    model = MODELS[name]
    rows = histories(model, HISTORIES)
    scores = model.scores(rows)
    rng = np.random.default_rng(1)
    for row in range(HISTORIES):
        for item in (int(scores[row].argmax()), *rng.integers(0, model.domain.n_items, 3)):
            why = model.explain(rows[[row]], f"film {item}")
            total = why.score
            if model.rule == "signs":
                total = float(link_of(model.settings["link"]).probability(np.array(total)))
            assert total == pytest.approx(scores[row, item], abs=1e-9)
            assert {part for part, _ in why.parts} == {f"film {i}" for i in rows[[row]].indices}
            sizes = [abs(value) for _, value in why.parts]
            assert sizes == sorted(sizes, reverse=True)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here (Debian: apt-get install nodejs)")
@pytest.mark.parametrize("name", [name for name in MODELS if name not in SHORTENED])
def test_reasons_are_the_browsers(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    rows = histories(model, HISTORIES)
    for row, answer in enumerate(answers(model, "float32", rows, tmp_path)):
        theirs = answer["why"]
        ours = model.explain(rows[[row]], theirs["id"])
        assert (ours.by, ours.item) == (theirs["by"], theirs["id"])
        assert (ours.base, ours.offset) == pytest.approx((theirs["base"], theirs["offset"]), abs=2e-6)
        expected = {part["id"]: part["value"] for part in theirs["parts"]}
        assert dict(ours.parts) == pytest.approx(expected, abs=2e-6)


@every_rule
def test_few_rows_get_what_many_get(name: str) -> None:
    """Few rows are one thread's and many are shared among threads: the same to the last bit."""
    model = MODELS[name]
    rows = histories(model, FEW + 20)
    many = model.transform(rows)
    few = np.vstack([model.transform(rows[[row]]) for row in range(rows.shape[0])])
    assert np.array_equal(many, few) or model.rule in ("item-weights", "lists")
    np.testing.assert_allclose(many, few, atol=1e-12)


@every_rule
def test_allowed_and_barred_items_are_heard(name: str) -> None:
    model = MODELS[name]
    rows = histories(model, HISTORIES)
    ranks = model.ranked(model.scores(rows))
    expected = ranks if "ranking" in model.arrays else model.as_ratings(ranks)
    rng = np.random.default_rng(2)
    allowed, barred = rng.permutation(model.domain.n_items)[:600], rng.permutation(model.domain.n_items)[:300]
    lists = {"items": model.domain.ids(allowed), "exclude": model.domain.ids(barred)}
    for exclude_seen in (True, False):
        found, best = model.recommend(rows, 5, **lists, exclude_seen=exclude_seen)
        for row in range(HISTORIES):
            left = set(allowed) - set(barred) - (set(rows[[row]].indices) if exclude_seen else set())
            order = sorted(left, key=lambda i: (-ranks[row, i], i))[:5]
            np.testing.assert_allclose(best[row], expected[row, order], rtol=1e-5, atol=1e-5)
            assert {int(text.split()[1]) for text in found[row]} <= left


def test_what_is_left_is_counted_exactly() -> None:
    """Of five allowed items one is barred and one was seen: three can be had, and not four."""
    model = MODELS["factors"]
    lists = {"items": [f"film {i}" for i in range(5)], "exclude": ["film 1", "film 900"]}
    mine = {"film 2": 4.0, "film 700": 1.0}
    assert set(model.recommend(mine, 3, **lists)[0]) == {"film 0", "film 3", "film 4"}
    with pytest.raises(InputError, match="1 to 3"):
        model.recommend(mine, 4, **lists)
    assert len(model.recommend(mine, 4, **lists, exclude_seen=False)[0]) == 4
    with pytest.raises(InputError, match="exclude: got ids that the catalogue does not have"):
        model.recommend(mine, 1, exclude=["no such film"])
    with pytest.raises(InputError, match="1 to 0"):
        model.recommend(mine, 1, items=[])


@pytest.mark.parametrize("name", ["factors", "replay", "projection", "signs"])
def test_similar_items_are_by_cosine(name: str) -> None:
    model = MODELS[name]
    factors = model.arrays["item_factors"]
    cosines = factors @ factors[7] / np.linalg.norm(factors, axis=1) / np.linalg.norm(factors[7])
    found, how = model.similar_items("film 7", 20)
    order = [i for i in np.argsort(-cosines) if i != 7][:20]
    assert [f"film {i}" for i in order] == list(found)
    np.testing.assert_allclose(how, cosines[order], atol=1e-6)


@pytest.mark.parametrize("name", ["item weights", "lists"])
def test_similar_items_are_what_having_one_adds(name: str) -> None:
    """The best for somebody who has that item alone, less what somebody new gets."""
    model = MODELS[name]
    head = model.arrays["head"]
    parts = [model.explain([f"film {head[3]}"], f"film {i}") for i in head]
    popularity = model.arrays["popularity"][head] if name == "lists" else 0.0
    added = np.array([why.parts[0][1] for why in parts]) - popularity
    added[3] = -np.inf
    found, how = model.similar_items(f"film {head[3]}", 10)
    assert list(found) == [f"film {head[i]}" for i in np.argsort(-added)[:10]]
    np.testing.assert_allclose(how, np.sort(added)[::-1][:10], atol=1e-12)
    outside = next(i for i in range(1500) if i not in set(head.tolist()))
    with pytest.raises(InputError, match="says nothing but its place"):
        model.similar_items(f"film {outside}")


def test_a_model_of_averages_knows_no_likeness() -> None:
    with pytest.raises(InputError, match="says nothing but its place"):
        MODELS["bias"].similar_items("film 3")


@pytest.mark.parametrize("ids", [[f" film {i}" for i in range(2000)], list(range(10, 2010)), [str(i) for i in range(2000)]])
def test_a_short_look_up_finds_what_a_long_one_finds(ids: list[str] | list[int]) -> None:
    """The index of a catalogue and its scan agree on spellings, kinds and strangers."""
    domain = lk.Domain(ids, feedback="binary")
    for wanted in ([5, 17, 99999], ["5", "017", "film 7", " film 7 ", "fil\u006d 9"], [str(ids[1])]):
        repeated = wanted * 5000
        assert domain.positions(wanted).tolist() == domain.positions(repeated).tolist()[: len(wanted)]
