"""The domain: ids of every kind go in and come back, and nothing is inferred."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowkey.data.domain import Domain, Scale
from lowkey.data.ids import tidy_text, user_keys
from lowkey.errors import InputError

TEXT_IDS = ["b", "a", "ünïcode", "0012", "7f3e-uuid"]
NUMBER_IDS = [30, -2, 2**40, 0]

CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "object array": lambda ids: np.array(ids, dtype=object),
    "arrow": pa.array,
    "chunked": lambda ids: pa.chunked_array([ids[:1], ids[1:]]),
    "large": lambda ids: pa.array(ids, pa.large_string() if isinstance(ids[0], str) else pa.int64()),
    "categorical": lambda ids: pa.array(ids).dictionary_encode(),
    "pandas": pd.Series,
    "pandas index": pd.Index,
    "pandas category": lambda ids: pd.Series(ids).astype("category"),
    "polars": pl.Series,
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("ids", [TEXT_IDS, NUMBER_IDS], ids=["text", "numbers"])
def test_ids_of_any_container_are_found_and_come_back(ids, container):
    domain = Domain(CONTAINERS[container](ids), (1, 5))
    assert domain.n_items == len(ids)
    assert domain.item_ids.to_pylist() == ids
    assert domain.positions(CONTAINERS[container](ids[::-1])).tolist() == list(range(len(ids)))[::-1]
    assert domain.ids(np.arange(len(ids))).tolist() == ids


TIDY_TEXTS = st.text().map(lambda text: tidy_text(pa.array([text]), "ids")[0].as_py()).filter(bool)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_round_trip_of_ids(data):
    one_id = data.draw(
        st.sampled_from([st.integers(-(2**63), 2**63 - 1), st.integers(2**63, 2**64 - 1), TIDY_TEXTS, st.uuids().map(str)])
    )
    ids = data.draw(st.lists(one_id, min_size=1, max_size=30, unique=True))
    domain = Domain(ids, feedback="binary")
    asked = data.draw(st.lists(st.sampled_from(ids), max_size=20))
    found = domain.positions(asked)
    assert found.dtype == np.int32
    assert [ids[at] for at in found] == asked
    assert domain.ids(found).tolist() == asked


def test_the_callers_type_is_kept():
    assert Domain(np.array([3, 1], np.int16), (0, 1)).item_ids.type == pa.int16()
    assert Domain(np.array([3, 1], np.int16), (0, 1)).ids([1]).dtype == np.int16


def test_unknown_ids_are_minus_one_and_widths_do_not_matter():
    domain = Domain(np.array([5, 9], np.int8), (1, 5))
    assert domain.positions(np.array([9, 2**40, -1, 5])).tolist() == [1, -1, -1, 0]
    assert Domain(np.array([2**63 + 1], np.uint64), (1, 5)).positions([2**63 + 1]).tolist() == [0]
    assert Domain(np.array([2**63 + 1], np.uint64), (1, 5)).positions(np.array([-5])).tolist() == [-1]


def test_ids_of_another_kind_are_compared_by_their_text():
    assert Domain([17, 3], (1, 5)).positions(["3", "17", "017", "x"]).tolist() == [1, 0, -1, -1]
    assert Domain(["3", "017"], (1, 5)).positions([3, 17]).tolist() == [0, -1]


def test_no_ids_give_no_positions():
    assert Domain(["a"], (1, 5)).positions([]).tolist() == []


def test_a_count_means_column_positions():
    domain = Domain(4, (1, 5))
    assert domain.positional
    assert domain.positions([3, 4, -1, 0]).tolist() == [3, -1, -1, 0]
    assert domain.ids([[1, 2]]).tolist() == [[1, 2]]


def test_ids_refuses_the_unknown_position():
    with pytest.raises(InputError, match="outside the catalogue"):
        Domain(4, (1, 5)).ids([0, -1])


@pytest.mark.parametrize(
    "items",
    [
        *([], ["a", "a"], [1, 2, 1], [1.5, 2.0], ["a", None], [1, "a"], [2**70], [-1, 2**63], [b"a"], [True, False]),
        *("movies", {"a": 1}, {"a", "b"}, None, object(), np.zeros((2, 2), int), pd.Series([1.0, None])),
        *(0, -3, True, 2**31),
    ],
    ids=lambda items: type(items).__name__,
)
def test_bad_catalogues(items):
    with pytest.raises(InputError) as caught:
        Domain(items, (1, 5))
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "rating_range",
    [None, (5, 1), (1, 1), (0, float("inf")), (float("nan"), 1), (1,), (1, 2, 3), "ab", 5, (1, 1 + 1e-12), (0, 1e300)],
)
def test_bad_ranges(rating_range):
    with pytest.raises(InputError, match="rating_range"):
        Domain(3, rating_range)


def test_feedback_is_one_of_two_words_and_binary_has_no_range():
    with pytest.raises(InputError, match="feedback"):
        Domain(3, (1, 5), feedback="implicit")
    with pytest.raises(InputError, match="rating_range"):
        Domain(3, (1, 5), feedback="binary")
    assert Domain(3, feedback="binary").rating_range is None


@pytest.mark.parametrize("expected", [0, -1, 2.5, "many", True])
def test_bad_expected_users(expected):
    with pytest.raises(InputError, match="expected_users"):
        Domain(3, (1, 5), expected_users=expected)


def test_facts_survive_json_and_pickle():
    for domain in (Domain(["x", "y"], (0.5, 5), expected_users=10), Domain(2, feedback="binary")):
        facts = json.loads(json.dumps(domain.to_json()))
        again = Domain.from_json(facts, None if domain.positional else domain.item_ids)
        assert again == domain
        assert hash(again) == hash(domain)
        assert pickle.loads(pickle.dumps(domain)) == domain
    with pytest.raises(InputError):
        Domain.from_json(Domain(["x", "y"], (1, 5)).to_json())
    with pytest.raises(InputError):
        Domain.from_json(Domain(["x", "y"], (1, 5)).to_json(), ["x"])


def test_equality_is_about_facts_not_containers():
    assert Domain(["a", "b"], (1, 5)) == Domain(pl.Series(["a", "b"]), (1.0, 5.0))
    assert Domain([1, 2], (1, 5)) == Domain(np.array([1, 2], np.int8), (1, 5))
    for other in (
        Domain(["b", "a"], (1, 5)),
        Domain(["a", "b"], (1, 4)),
        Domain(["a", "b"], (1, 5), expected_users=3),
        Domain(["a", "b"], feedback="binary"),
        "a domain",
    ):
        assert Domain(["a", "b"], (1, 5)) != other
    assert Domain([1, 2], (1, 5)) != Domain(["1", "2"], (1, 5))


def test_a_domain_does_not_change():
    with pytest.raises(AttributeError):
        Domain(3, (1, 5))._scale = Scale("binary")  # pyright: ignore


@settings(deadline=None)
@given(st.floats(-1e4, 1e4), st.floats(1e-2, 1e4))
def test_float32_bounds_are_the_outermost_inside(low, width):
    scale = Scale("ratings", (low, low + width))
    low32, high32 = scale.float32_bounds()
    assert float(low32) >= low > float(np.nextafter(low32, np.float32(-np.inf)))
    assert float(high32) <= low + width < float(np.nextafter(high32, np.float32(np.inf)))


def test_user_keys_depend_on_the_id_alone():
    ids = pa.array([f"u{i}" for i in range(1000)])
    keys = user_keys(ids)
    assert keys.dtype == np.uint64
    assert len(set(keys.tolist())) == 1000
    assert user_keys(ids[500:501])[0] == keys[500]
    # the first outputs of splitmix64 for the states 0 and 1234567, known from the literature's reference code
    assert user_keys(pa.array([0, 1234567])).tolist() == [0xE220A8397B1DCDAF, 6457827717110365317]
    assert user_keys(pa.array([7], pa.int16())) == user_keys(pa.array([7], pa.uint64()))
    numbers = [0, 7, -1, 10**17, 10**18, -(2**63), 2**63 - 1]
    assert user_keys(pa.array([str(n) for n in numbers])).tolist() == user_keys(pa.array(numbers)).tolist()
    assert user_keys(pa.array([str(2**64 - 5)])) == user_keys(pa.array([2**64 - 5], pa.uint64()))
    others = ["7", "07", "+7", "-0", "7.0", "٧", str(2**64), str(-(2**63) - 1), "1" * 30]
    assert len(set(user_keys(pa.array(others)).tolist())) == len(others)
