"""Closed rows: the right rows are inside, and there is no way to look."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.data.readers import as_ratings
from lowkey.errors import ClosedError, InputError

SIX_ITEMS = Domain(6, (1, 5))


@st.composite
def matrices(draw, n_items=6):
    rows = draw(st.lists(st.dictionaries(st.integers(0, n_items - 1), st.sampled_from([1.0, 2.5, 5.0])), max_size=12))
    indptr = np.cumsum([0] + [len(row) for row in rows])
    indices = [item for row in rows for item in row]  # in the order drawn, so rows are not sorted
    data = [value for row in rows for value in row.values()]
    return sp.csr_array((np.array(data), np.array(indices, int), indptr), shape=(len(rows), n_items))


@settings(deadline=None)
@given(matrices(), st.integers(1, 15))
def test_blocks_reassemble_to_the_same_matrix(csr, max_users):
    blocks = list(Ratings.from_csr(csr, SIX_ITEMS)._open_blocks(max_users))
    sizes = [len(block.keys) for block in blocks]
    assert sum(sizes) == csr.shape[0]
    assert all(size == max_users for size in sizes[:-1])
    dense = [sp.csr_array((b.values, b.items, b.offsets), shape=(len(b.keys), 6)).toarray() for b in blocks]
    assert np.array_equal(np.vstack(dense) if dense else np.zeros((0, 6)), csr.toarray())
    for block in blocks:
        assert (block.offsets.dtype, block.items.dtype) == (np.int64, np.int32)
        assert (block.values.dtype, block.keys.dtype) == (np.float32, np.uint64)
        assert block.offsets[0] == 0
        assert block.offsets[-1] == len(block.items) == len(block.values)
        for start, stop in zip(block.offsets, block.offsets[1:], strict=False):
            assert np.all(np.diff(block.items[start:stop]) > 0)
        assert not any(array.flags.writeable for array in block)


@settings(deadline=None)
@given(matrices())
def test_keys_do_not_depend_on_blocks(csr):
    ratings = Ratings.from_csr(csr, SIX_ITEMS)
    whole = ratings._open_keys()
    items = {tuple(sorted(csr.indices[a:b])) for a, b in zip(csr.indptr, csr.indptr[1:], strict=False)}
    assert len(set(whole.tolist())) == len(items)  # shared by those, and only those, who hold the same items
    assert np.array_equal(np.concatenate([np.empty(0, np.uint64)] + [b.keys for b in ratings._open_blocks(2)]), whole)


@pytest.mark.parametrize("size", [1, 39, 40, 41, 190, 5000])
@pytest.mark.parametrize("n_items", [5_001, 70_000, 20_000_000])
def test_rows_of_any_length_are_sorted_with_their_values(size, n_items):
    rng = np.random.default_rng(size)
    items = rng.choice(n_items, size, replace=False)
    csr = sp.csr_array((np.arange(size) % 5 + 1.0, items, [0, size]), shape=(1, n_items))
    (block,) = Ratings.from_csr(csr, Domain(n_items, (1, 5)))._open_blocks(1)
    assert np.array_equal(block.items, np.sort(items))
    assert np.array_equal(block.values, (np.argsort(items) % 5 + 1).astype(np.float32))


def test_the_callers_matrix_is_not_touched_and_cannot_reach_in():
    csr = sp.csr_array(([3.0, 4.0], [2, 0], [0, 2]), shape=(1, 6))
    ratings = Ratings.from_csr(csr, SIX_ITEMS)
    assert csr.indices.tolist() == [2, 0]
    csr.data[:] = 1.0
    assert ratings._open_csr().data.tolist() == [4.0, 3.0]


def test_explicit_zeros_are_observed_and_empty_users_are_fine():
    csr = sp.csr_array(([0.0, 2.0], [1, 2], [0, 0, 2, 2]), shape=(3, 6))
    (block,) = Ratings.from_csr(csr, Domain(6, (0, 5)))._open_blocks(10)
    assert block.offsets.tolist() == [0, 0, 2, 2]
    assert block.values.tolist() == [0.0, 2.0]
    (ones,) = Ratings.from_csr(csr, Domain(6, feedback="binary"))._open_blocks(10)
    assert ones.values.tolist() == [1.0, 1.0]


def test_no_users_at_all():
    assert list(Ratings.from_csr(sp.csr_array((0, 6)), SIX_ITEMS)._open_blocks(3)) == []


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("last", [5.0, 2.0, 4.0]), ("mean", [4.0, 2.0, 3.0]), ("sum", [8.0, 2.0, 6.0])],
)
def test_duplicates_in_a_row(policy, expected):
    csr = sp.csr_array(([3.0, 2.0, 5.0, 2.0, 4.0], [1, 3, 1, 0, 0], [0, 3, 5]), shape=(2, 6))
    with pytest.raises(InputError, match="more than once"):
        Ratings.from_csr(csr, Domain(6, (1, 8)))
    out = Ratings.from_csr(csr, Domain(6, (1, 8)), duplicates=policy)._open_csr()
    assert out.indices.tolist() == [1, 3, 0]
    assert out.indptr.tolist() == [0, 2, 3]
    assert out.data.tolist() == expected


def test_the_last_of_many_in_a_long_row():
    items, values = np.arange(3000) * 7 % 500, np.arange(3000) % 9 + 1.0
    out = Ratings.from_csr(sp.csr_array((values, items, [0, 3000]), shape=(1, 500)), Domain(500, (1, 9)), duplicates="last")
    assert dict(enumerate(out._open_csr().data)) == dict(sorted(zip(items, values, strict=True), key=lambda pair: pair[0]))


def test_sums_are_checked_after_adding():
    csr = sp.csr_array(([3.0, 3.0], [1, 1], [0, 2]), shape=(1, 6))
    with pytest.raises(InputError, match="outside the range"):
        Ratings.from_csr(csr, SIX_ITEMS, duplicates="sum")
    csr.data[:] = 0.75
    assert Ratings.from_csr(csr, SIX_ITEMS, duplicates="sum")._open_csr().data.tolist() == [1.5]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.99, 5.01, 1e300])
def test_values_that_are_no_ratings(value):
    with pytest.raises(InputError):
        Ratings.from_csr(sp.csr_array(([value], [0], [0, 1]), shape=(1, 6)), SIX_ITEMS)


def test_a_stored_rating_is_never_outside_the_range_in_float64():
    low, high = 0.7, 1.1
    assert float(np.float32(low)) < low < high < float(np.float32(high))  # rounding leads out of the range
    for bounds in ((low, high), (-high, -low)):
        csr = sp.csr_array((np.array(bounds), [0, 1], [0, 2]), shape=(1, 6))
        data = Ratings.from_csr(csr, Domain(6, bounds))._open_csr().data.astype(np.float64)
        assert data.min() >= bounds[0]
        assert data.max() <= bounds[1]


BROKEN = {
    "columns": sp.csr_array((2, 5)),
    "coo": sp.coo_array((2, 6)),
    "complex": sp.csr_array(np.array([[1j, 0, 0, 0, 0, 0]])),
    "dense": np.ones((2, 6)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_matrices_that_do_not_fit(name):
    with pytest.raises(InputError):
        as_ratings(BROKEN[name], SIX_ITEMS)


@pytest.mark.parametrize(("indices", "indptr"), [([9, 0], [0, 2]), ([-1, 0], [0, 2]), ([0, 1], [0, 3])])
def test_indices_out_of_bounds_do_not_reach_the_compiled_loops(indices, indptr):
    csr = sp.csr_array(([1.0, 1.0], [0, 1], [0, 2]), shape=(1, 6))
    csr.indices, csr.indptr = np.array(indices, np.int32), np.array(indptr, np.int32)
    with pytest.raises(InputError, match="fit together"):
        Ratings.from_csr(csr, SIX_ITEMS)


@settings(deadline=None)
@given(matrices(), st.data())
def test_a_key_without_an_id_follows_from_the_own_items_alone(csr, data):
    """Whoever else is there, in whatever order, with whatever ratings: so nobody's draws move when somebody leaves."""
    keys = Ratings.from_csr(csr, SIX_ITEMS)._open_keys()
    some = data.draw(st.permutations(range(csr.shape[0])))[: data.draw(st.integers(0, csr.shape[0]))]
    assert np.array_equal(Ratings.from_csr(csr[np.array(some, int)], SIX_ITEMS)._open_keys(), keys[np.array(some, int)])
    other = csr.copy()
    other.data[:] = 2.5
    assert np.array_equal(Ratings.from_csr(other, SIX_ITEMS)._open_keys(), keys)


def test_rows_with_different_items_have_different_keys():
    """All 4,096 rows over 12 items, and 20,000 long ones. By chance two of 64 bits would meet once in 6e10 runs."""
    few = sp.csr_array(np.array([[(n >> i) & 1 for i in range(12)] for n in range(4096)], float))
    assert len(np.unique(Ratings.from_csr(few, Domain(12, (1, 5)))._open_keys())) == 4096
    many = sp.random_array((20_000, 3000), density=0.02, rng=np.random.default_rng(3), format="csr")
    assert len(np.unique(Ratings.from_csr(many, Domain(3000, feedback="binary"))._open_keys())) == 20_000


def test_keys_are_one_per_user_and_may_be_shared():
    csr = sp.csr_array((2, 6))
    for keys in ([7, 9], [7, 7]):
        given_keys = np.array(keys, np.uint64)
        assert Ratings.from_csr(csr, SIX_ITEMS, keys=given_keys)._open_keys().tolist() == keys
    for bad in (np.array([7], np.uint64), np.array([7, 9])):
        with pytest.raises(InputError, match="keys"):
            Ratings.from_csr(csr, SIX_ITEMS, keys=bad)


def closed_ratings():
    return Ratings.from_csr(sp.csr_array(([4.25], [3], [0, 1, 1, 1]), shape=(3, 1682)), Domain(1682, (1, 5)))


LOOKS = {
    "array": np.asarray,
    "ufunc": np.exp,
    "function": np.sum,
    "frame": lambda r: pd.DataFrame(r),
    "len": len,
    "bool": bool,
    "iterate": list,
    "index": operator.itemgetter(0),
    "contains": lambda r: 3 in r,
    "add": lambda r: r + 1,
    "reflected": lambda r: 1 + r,
    "numpy arithmetic": lambda r: np.ones(3) * r,
    "matmul": lambda r: r @ np.ones(3),
    "compare": lambda r: r < 3,
    "float": float,
    "int": int,
    "negate": operator.neg,
    "pickle": pickle.dumps,
    "old pickle": lambda r: pickle.dumps(r, protocol=0),
    "state": lambda r: r.__getstate__(),
}


@pytest.mark.parametrize("look", LOOKS)
def test_closed(look):
    with pytest.raises(ClosedError) as caught:
        LOOKS[look](closed_ratings())
    assert "4.25" not in str(caught.value)


def test_no_attribute_dictionary_to_look_into():
    with pytest.raises(TypeError):
        vars(closed_ratings())


def test_the_repr_shows_the_domain_and_nothing_else():
    assert repr(closed_ratings()) == str(closed_ratings()) == "Ratings(closed, 1682 items, ratings 1..5)"
    binary = Ratings.from_csr(sp.csr_array((3, 6)), Domain(6, feedback="binary"))
    assert f"{binary}" == "Ratings(closed, 6 items, binary)"


def test_copies_are_the_same_object():
    ratings = closed_ratings()
    assert copy.copy(ratings) is ratings
    assert copy.deepcopy([ratings])[0] is ratings


def test_as_ratings():
    ratings = closed_ratings()
    assert as_ratings(ratings) is ratings
    assert as_ratings(ratings, Domain(1682, (1, 5))) is ratings
    with pytest.raises(InputError, match="another domain"):
        as_ratings(ratings, Domain(1682, (0, 5)))
    with pytest.raises(InputError, match="domain: got none"):
        as_ratings(sp.csr_array((2, 6)))
    assert as_ratings(sp.csr_array((2, 6)), SIX_ITEMS).domain is SIX_ITEMS
    frame = pd.DataFrame({"u": ["x", "y"], "i": [0, 5], "r": [1, 5]})
    with pytest.raises(InputError, match=r"user=\.\.\."):
        as_ratings(frame, SIX_ITEMS)
    named = as_ratings(frame, SIX_ITEMS, user="u", item="i", rating="r")
    assert named._open_csr().toarray().tolist() == [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 5]]
    with pytest.raises(InputError, match="frame"):
        as_ratings(object(), SIX_ITEMS, user="u", item="i", rating="r")


def test_blocks_hold_somebody():
    with pytest.raises(InputError, match="max_users"):
        list(closed_ratings()._open_blocks(0))
