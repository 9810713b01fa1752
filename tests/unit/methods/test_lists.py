"""Lists: the kernel against a plain NumPy form of its docstring, scores against theirs, and what noise leaves of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import lowkey as lk
from lowkey.data.ratings import Block
from lowkey.data.synthetic import taste
from lowkey.errors import InputError
from lowkey.kernels.lists import (
    MOST_EXPECTED,
    MOST_FIT,
    RUNGS_PER_OCTAVE,
    USERS_WEIGHT,
    HeadCounts,
    TakenCounts,
    TasteFit,
    TasteMoments,
    expected_takes,
)
from lowkey.methods.counts import Posted, count_posterior
from lowkey.methods.lists import method as lists_method
from lowkey.methods.lists.heard import COUNTS_SHARE, FIT_SHARE, FORETOLD, HALVES, POPULAR, UNCLEAR, Heard, more_weight
from lowkey.methods.lists.weights import SLOPE_STD, USUAL_SLOPE, personal_share, usual_scores
from lowkey.privacy.gaussian import gaussian_mu
from lowkey.privacy.noise import SeededNoise

N_ITEMS, N_HEAD = 1200, 700


def crowd(seed: int = 0, n_users: int = 300) -> Block:
    """Rows of up to 600 items, ratings 1 to 5, over a skewed catalogue; also an empty row and one item alone."""
    rng = np.random.default_rng(seed)
    chances = 1.0 / (np.arange(N_ITEMS) + 10.0)
    chances /= chances.sum()
    sizes = np.minimum(rng.geometric(0.02, n_users), 600)
    sizes[:2] = 0, 1
    rows = [np.sort(rng.choice(N_ITEMS, size, replace=False, p=chances)).astype(np.int32) for size in sizes]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    values = rng.integers(1, 6, offsets[-1]).astype(np.float32)
    return Block(offsets, np.concatenate(rows), values, np.arange(n_users, dtype=np.uint64))


def head_and_shares() -> tuple[np.ndarray, np.ndarray]:
    slots = np.full(N_ITEMS, -1, np.int32)
    slots[:N_HEAD] = np.arange(N_HEAD)
    shares = 1.0 / (np.arange(N_HEAD) + 10.0)
    return slots, shares / shares.sum()


def summed(sweep: TakenCounts | HeadCounts | TasteMoments | TasteFit, block: Block) -> np.ndarray:
    (statistic,) = sweep.statistics
    sums = {statistic.name: np.zeros(statistic.shape, np.int64)}
    assert sweep.run(block, None, sums) is None
    return sums[statistic.name] * statistic.grid.step


def rows_of(block: Block, liked: float | None) -> list[np.ndarray]:
    cut = [slice(block.offsets[u], block.offsets[u + 1]) for u in range(len(block.keys))]
    return [block.items[part][block.values[part] >= (liked or 0.0)] for part in cut]


def taste_of(items: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """z of a user, in plain NumPy: k from the rung below, b for its expected length, then a so that the norm is 1."""
    taken = items[items < N_HEAD]
    k, own = len(taken), np.bincount(items[items < N_HEAD], minlength=N_HEAD)
    if k == 0:
        return np.zeros(N_HEAD)
    below = 2.0 ** (math.floor(math.log2(k) * RUNGS_PER_OCTAVE) / RUNGS_PER_OCTAVE)
    c = scipy.optimize.brentq(lambda c: np.sum(1.0 - np.exp(-c * shares)) - below, below, 1e9, xtol=1e-9)
    takes = 1.0 - np.exp(-c * shares)
    q = takes / math.sqrt(below - takes @ takes)
    a = np.max(np.roots([k, -2.0 * q[taken].sum(), q @ q - 1.0]))
    return a * own - q


@pytest.mark.parametrize(("liked", "weight"), [(None, 1.0), (4.0, 0.6)])
def test_moments_are_those_of_rows_less_popularity(liked: float | None, weight: float) -> None:
    block, (slots, shares) = crowd(), head_and_shares()
    rows = rows_of(block, liked)
    z = np.array([taste_of(items, shares) for items in rows])
    took = [bool(np.any(items < N_HEAD)) for items in rows]
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), np.where(took, 1.0, 0.0), atol=1e-9)
    found = summed(TasteMoments(slots, shares, weight, liked), block)
    gram = found[: N_HEAD**2].reshape(N_HEAD, N_HEAD)
    assert np.array_equal(gram, gram.T)
    # Truncation moves a coordinate of one of 300 users by at most 2^-20, and the length by 2 sqrt(600) of that.
    np.testing.assert_allclose(gram, weight * z.T @ z, atol=300 * 3 * 2.0**-20 * 50)
    counts = sum(np.bincount(items, minlength=N_ITEMS) / math.sqrt(len(items)) for items in rows if len(items))
    np.testing.assert_allclose(found[N_HEAD**2 :], math.sqrt(1.0 - weight**2) * counts, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("passed", [1.0, 0.1])
def test_the_fit_leaves_the_user_out(passed: float) -> None:
    """Against a matrix without the user, or what is in it of the user, inverted anew for each."""
    block, (slots, shares) = crowd(n_users=60), head_and_shares()
    z = np.array([taste_of(items, shares) for items in rows_of(block, None)])
    ridge = np.diag(1.0 + 500.0 * shares)
    inverse = np.linalg.inv(z.T @ z + ridge)
    expected = np.zeros(2)
    for u, items in enumerate(rows_of(block, None)):
        if np.sum(items < N_HEAD) < 2:
            continue
        without = np.linalg.inv(z.T @ z + ridge - passed * np.outer(z[u], z[u]))
        told = z[u] - (without @ z[u]) / np.diag(without)
        agree, square = z[u] @ told, told @ told
        expected += np.clip(agree, -MOST_FIT, MOST_FIT), min(square, MOST_FIT)
    found = summed(TasteFit(TasteMoments(slots, shares, 0.3, None), inverse, passed), block)
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=2e-3)  # z is a little shorter; terms cancel


@pytest.mark.parametrize("liked", [None, 4.0])
def test_counts_and_the_number_of_users(liked: float | None) -> None:
    block = crowd()
    rows = [items for items in rows_of(block, liked) if len(items)]
    expected = sum(np.bincount(items, minlength=N_ITEMS) / math.sqrt(len(items)) for items in rows)
    found = summed(TakenCounts(N_ITEMS, liked), block)
    np.testing.assert_allclose(found[:-1], expected, rtol=1e-4, atol=1e-5)
    assert found[-1] / USERS_WEIGHT == pytest.approx(len(rows), rel=1e-6)


@pytest.mark.parametrize("liked", [None, 4.0])
def test_counts_of_the_head_weigh_by_the_head_alone(liked: float | None) -> None:
    block, (slots, _) = crowd(), head_and_shares()
    rows = [items[items < N_HEAD] for items in rows_of(block, liked)]
    expected = sum(np.bincount(items, minlength=N_HEAD) / math.sqrt(len(items)) for items in rows if len(items))
    np.testing.assert_allclose(summed(HeadCounts(slots, N_HEAD, liked), block), expected, rtol=1e-4, atol=1e-5)


def test_no_user_is_beyond_the_bound_whatever_the_shares() -> None:
    """Also where one item is nearly all of popularity, or the shares are no shares at all."""
    slots, usual = head_and_shares()
    block = crowd(n_users=40)
    dominated = np.full(N_HEAD, 1e-4)
    dominated[3] = 1.0
    for shares in (usual, dominated, usual * 1e-200, usual * 1e200, np.full(N_HEAD, np.nan), -usual):
        sweep = TasteMoments(slots, shares, 0.8, None)
        inverse = np.diag(1.0 / np.maximum(np.abs(np.nan_to_num(shares)), 1e-300))
        fits = [TasteFit(sweep, inverse, passed) for passed in (0.0, 1.0, 1e300, -1e300, np.nan)]
        for u in range(len(block.keys)):
            part = slice(block.offsets[u], block.offsets[u + 1])
            offsets = np.array([0, part.stop - part.start])
            alone = Block(offsets, block.items[part], block.values[part], block.keys[u : u + 1])
            assert np.linalg.norm(summed(sweep, alone)) <= 1.0
            assert max(np.abs(summed(fit, alone)).max() for fit in fits) <= MOST_FIT


def test_sums_do_not_depend_on_blocks() -> None:
    block, (slots, shares) = crowd(), head_and_shares()
    sweep = TasteMoments(slots, shares, 0.8, None)
    whole = summed(sweep, block)
    parts = np.zeros_like(whole)
    for first, last in ((0, 100), (100, 101), (101, 300)):
        offsets = block.offsets[first : last + 1]
        cut = slice(offsets[0], offsets[-1])
        parts += summed(sweep, Block(offsets - offsets[0], block.items[cut], block.values[cut], block.keys[first:last]))
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize("k", [1, 3, 8, 40])
def test_scores_are_popularity_plus_what_is_usual_and_what_each_item_adds(k: int) -> None:
    data = taste(400, 300, ratings_per_user=15, seed=3, feedback="binary")
    model = lk.DPLists(20.0, 1e-5, head=250).fit(data.ratings()).model_
    head, weights, popularity = (model.arrays[name] for name in ("head", "item_weights", "popularity"))
    slots = 5 * np.arange(k)
    row = scipy.sparse.csr_array((np.ones(k), head[slots], [0, k]), shape=(1, 300))
    half_octaves = 0.5 * np.arange(model.arrays["usual"].shape[1])
    usual = np.array([np.interp(math.log2(k), half_octaves, row) for row in model.arrays["usual"]])
    expected = (1.0 + k) * popularity
    expected[head] = popularity[head] + usual + weights[slots].sum(axis=0)
    np.testing.assert_allclose(model.scores(row)[0], expected, rtol=1e-9, atol=1e-12)
    nothing = scipy.sparse.csr_array((1, 300))
    np.testing.assert_allclose(model.scores(nothing)[0], popularity, rtol=1e-12)


def test_what_anybody_takes_sums_to_the_length_and_is_nothing_twice() -> None:
    """Also where one item is half of popularity, for all of the head, and whatever the shares are scaled by."""
    shares = np.array([5.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25])
    lengths = np.array([1.0, 2.5, 7.0, 10.0])
    found = expected_takes(shares, lengths)
    np.testing.assert_allclose(found.sum(axis=1), [1.0, 2.5, 7.0, 10.0 * MOST_EXPECTED], rtol=1e-12)
    assert found.max() <= 1.0
    assert np.all(np.diff(found, axis=0) > 0.0)
    np.testing.assert_allclose(np.log1p(-found[1]) / shares, np.log1p(-found[1, 0]) / 5.0, rtol=1e-9)
    np.testing.assert_allclose(expected_takes(shares * 1e-200, lengths), found, rtol=1e-12)


def test_few_people_get_popularity_alone() -> None:
    few = lk.Domain(items=50, feedback="binary", expected_users=100)
    assert [line.name for line in lk.DPLists(0.5, 1e-5).plan(few).lines] == ["taken_counts", "head_counts"]
    many = lk.Domain(items=50, feedback="binary", expected_users=10_000)
    names = [line.name for line in lk.DPLists(0.5, 1e-5).plan(many).lines]
    assert names == ["taken_counts", "taste_moments", "taste_fit"]


def test_few_people_are_heard_better_where_the_most_popular_are_counted_again() -> None:
    """Than where the whole budget is spent at once: what the top 20 were really taken, in 20 fits; 1e-3 false alarms."""
    block = crowd(seed=4, n_users=301)
    rows = scipy.sparse.csr_array((np.ones(len(block.items)), block.items, block.offsets), shape=(301, N_ITEMS))[1:]
    domain = lk.Domain(N_ITEMS, feedback="binary", expected_users=300)
    taken: np.ndarray = rows.sum(axis=0)
    weighted = np.diff(rows.indptr) ** -0.5 @ rows
    gained = []
    for seed in range(20):
        model = lk.DPLists(1.0, 1e-5).fit(rows, domain=domain, billboard=lk.Billboard(noise=SeededNoise(seed))).model_
        at_once = weighted + np.random.default_rng(seed).standard_normal(N_ITEMS) / gaussian_mu(1.0, 1e-5)
        ours, other = (taken[np.argsort(-scores)[:20]].sum() for scores in (model.arrays["popularity"], at_once))
        gained.append(ours - other)
    assert np.mean(gained) > 3.1 * np.std(gained) / math.sqrt(20)


def test_few_people_whose_number_is_not_known_get_popularity_alone() -> None:
    """Then their moments get none of the budget, and weights that are made of noise must not count."""
    crowd = taste(120, 60, 12, seed=5, feedback="binary")
    for seed in range(5):
        board = lk.Billboard(noise=SeededNoise(seed))
        model = lk.DPLists(1.0, 1e-5).fit(crowd.csr, domain=lk.Domain(60, feedback="binary"), billboard=board).model_
        assert model.settings["personal_share"] <= 0.05


def test_a_small_crowd_with_tastes_is_told_from_one_without() -> None:
    """Half prefer one half of the items, two to one. Cleaning takes most of a user's own part out of the matrix: who takes
    all of it out once more finds that nobody is foretold. Of the slope, noise and sampling move a mean of three by 0.05."""
    chances, domain = 6.0 / (np.arange(300) + 10.0), lk.Domain(items=300, feedback="binary", expected_users=4000)
    shares = dict[bool, list[float]]()
    for tastes in (False, True):
        for seed in range(3):
            rng = np.random.default_rng(seed)
            mine = (np.arange(300) % 2)[None, :] == (np.arange(4000) % 2)[:, None]
            rows = (rng.random((4000, 300)) < chances * np.where(mine | (not tastes), 1.0, 0.5)).astype(float)
            board = lk.Billboard(noise=SeededNoise(seed))
            model = lk.DPLists(2.0, 1e-5).fit(scipy.sparse.csr_array(rows), domain=domain, billboard=board).model_
            shares.setdefault(tastes, []).append(model.settings["personal_share"])
    assert np.mean(shares[True]) > 0.4
    assert np.mean(shares[False]) < 0.2


def test_weights_that_foretell_nothing_are_not_used() -> None:
    """Everybody takes at random by popularity: the slope says so, and popularity is left. With tastes it is kept.

    Of ten draws of noise the mean is a twelfth, and one draw is off by as much: 0.15 is three standard deviations above.
    """
    rng = np.random.default_rng(5)
    chances = 1.0 / (np.arange(300) + 10.0)
    rows = scipy.sparse.csr_array((rng.random((4000, 300)) < 6.0 * chances).astype(float))
    domain = lk.Domain(items=300, feedback="binary", expected_users=4000)
    halves = rows.toarray()
    halves[:2000, ::2] = 0.0
    halves[2000:, 1::2] = 0.0
    two = scipy.sparse.csr_array(halves)
    largest = dict[bool, float]()
    for tastes, crowd in ((False, rows), (True, two)):
        boards = [lk.Billboard(noise=SeededNoise(seed)) for seed in range(10)]
        models = [lk.DPLists(5.0, 1e-5).fit(crowd, domain=domain, billboard=board).model_ for board in boards]
        largest[tastes] = float(np.mean([np.abs(model.arrays["item_weights"]).max() for model in models]))
    assert largest[False] < 0.15 * largest[True]


@pytest.mark.parametrize("epsilon", [5.0, 20.0, 50.0])
def test_what_popular_things_share_by_chance_is_no_taste(epsilon: float) -> None:
    """Draws by steep popularity, of rows of very different lengths. With little noise chance among the most popular stands
    out of the spectrum, and is made of the very users who are foretold: of five crowds half a slope would be 0.5."""
    odds, shares = 1.0 / np.arange(1.0, 401.0), list[float]()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        lengths = np.minimum(1 + rng.geometric(0.1, 4000), 200)
        place = np.repeat(np.arange(4000), lengths), rng.choice(400, lengths.sum(), p=odds / odds.sum())
        rows = scipy.sparse.coo_array((np.ones(len(place[0])), place), shape=(4000, 400)).tocsr()
        rows.data[:] = 1.0  # nobody takes a thing twice
        domain = lk.Domain(items=400, feedback="binary", expected_users=4000)
        model = lk.DPLists(epsilon, 1e-5).fit(rows, domain=domain, billboard=lk.Billboard(noise=SeededNoise(seed))).model_
        shares.append(model.settings["personal_share"])
    assert np.mean(shares) < 0.12


def test_the_share_of_the_weights_is_the_posterior_mean_of_their_slope() -> None:
    """Against a sum over slopes, half of which are 0 before the post; and without noise the slope as it is."""
    slopes = np.linspace(-2.0, 4.0, 60_001)
    prior = np.exp(-0.5 * ((slopes - USUAL_SLOPE) / SLOPE_STD) ** 2)
    for agreement, known, std in ((90.0, 100.0, 20.0), (-5.0, 100.0, 20.0), (30.0, 40.0, 60.0), (3.0, 2.0, 10.0)):
        chances = prior * np.exp(-0.5 * ((agreement - slopes * known) / std) ** 2) / prior.sum()
        nothing = math.exp(-0.5 * (agreement / std) ** 2)
        wanted = float(slopes @ chances) / (chances.sum() + nothing)
        assert personal_share(np.array([agreement, known]), std) == pytest.approx(wanted, rel=1e-4)
    assert personal_share(np.array([80.0, 100.0]), 0.0) == pytest.approx(0.8)
    assert personal_share(np.array([0.0, 100.0]), 0.0) == 0.0


def test_the_second_half_goes_to_pairs_where_tastes_were_heard_and_else_to_counts_until_they_are_clear() -> None:
    counts, most = np.concatenate([np.full(POPULAR, 50.0), np.ones(400)]), 0.9
    assert more_weight(most, FORETOLD, counts, 40.0) == most
    assert more_weight(most, 0.0, counts, UNCLEAR * 50.0) == most
    assert more_weight(most, -1.0, counts, 40.0) == 0.0
    # Noise of 1.5 times as much as it may be: what counts get of the half takes it down to that.
    half, std = (1.0 - COUNTS_SHARE - FIT_SHARE) / HALVES, 1.5 * UNCLEAR * 50.0
    to_counts = 1.0 - more_weight(1.0, -1.0, counts, std) ** 2
    assert std * math.sqrt(COUNTS_SHARE / (COUNTS_SHARE + half * to_counts)) == pytest.approx(UNCLEAR * 50.0)


def test_tastes_are_heard_in_the_first_half_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of 1,000 people take from one half of the items five times as often, or nobody does. What is foretold, less a
    standard error, has over 40 draws the mean 0.069 or -0.009, with a standard deviation of 0.008: a mean of four is on
    the wrong side of 0.03 less than once in 10^9."""
    chances, told = 14.0 / (np.arange(300) + 10.0), dict[bool, list[float]]()
    domain = lk.Domain(items=300, feedback="binary", expected_users=1000)
    for tastes in (False, True):
        heard = told.setdefault(tastes, [])
        spy = lambda most, foretold, *rest, heard=heard: heard.append(foretold) or more_weight(most, foretold, *rest)
        monkeypatch.setattr(lists_method, "more_weight", spy)
        for seed in range(4):
            rng = np.random.default_rng(seed)
            mine = (np.arange(300) % 2)[None, :] == (np.arange(1000) % 2)[:, None]
            rows = (rng.random((1000, 300)) < chances * np.where(mine | (not tastes), 1.0, 0.2)).astype(float)
            board = lk.Billboard(noise=SeededNoise(seed))
            lk.DPLists(2.0, 1e-5).fit(scipy.sparse.csr_array(rows), domain=domain, billboard=board)
    assert np.mean(told[True]) > FORETOLD > np.mean(told[False])


def test_what_is_expected_of_a_typical_user_is_what_was_counted() -> None:
    """Of 30 items out of 100 taken by 70 % down to 1 % of the people; the usual scores hold it, too."""
    taken = np.concatenate([np.geomspace(0.7, 0.1, 30), np.full(70, 0.01)])
    users, k = 1000.0, float(taken.sum())
    counts = count_posterior(users * taken / math.sqrt(k), 0.0)
    heard = Heard(Posted(counts.means, 0.0), users, 1.0, enough=1.0)
    eager = heard.eagerness(counts, np.arange(100))
    np.testing.assert_allclose(expected_takes(eager, np.array([k]))[0], taken, rtol=1e-9)
    usual = usual_scores(eager, np.zeros((100, 100)))
    np.testing.assert_allclose(usual.sum(axis=0)[[0, 4, 8]], [1.0, 4.0, 16.0], rtol=1e-9)


def test_liked_needs_ratings() -> None:
    with pytest.raises(InputError, match="liked"):
        lk.DPLists(1.0, 1e-5, liked=4.0).plan(lk.Domain(items=5, feedback="binary"))


def test_posterior_counts_shrink_and_stay_positive() -> None:
    """Counts over orders of magnitude, noise of 10: nearer to the truth than the posts, in squares and in logarithms."""
    rng = np.random.default_rng(0)
    truth = np.concatenate([np.full(900, 1.0), np.geomspace(20.0, 2000.0, 100)])
    posted = truth + 10.0 * rng.standard_normal(1000)
    found = count_posterior(posted, 10.0)
    assert np.mean((found.means - truth) ** 2) < 0.3 * np.mean((posted - truth) ** 2)
    assert np.all(found.means > 0.0)
    assert np.all(found.squares >= found.means**2 * (1.0 - 1e-12))
    np.testing.assert_allclose(found.means[-5:], truth[-5:], rtol=0.05)
    exact = count_posterior(truth, 0.0)
    assert np.array_equal(exact.means, truth)


def test_a_head_within_the_catalogue_has_the_same_moments() -> None:
    """As streams post them: to the bit, each item at its own place, and 0 elsewhere."""
    slots, shares = head_and_shares()
    head = np.flatnonzero(slots >= 0)[np.argsort(slots[slots >= 0])]  # of every place its item
    own, wide = np.full(N_ITEMS, -1, np.int32), np.zeros(N_ITEMS)
    own[head], wide[head] = head, shares
    inside = summed(TasteMoments(slots, shares, 0.8, None), crowd())
    found = summed(TasteMoments(own, wide, 0.8, None), crowd())
    matrix = found[: N_ITEMS**2].reshape(N_ITEMS, N_ITEMS)
    assert np.array_equal(matrix[np.ix_(head, head)].ravel(), inside[: N_HEAD**2])
    assert np.count_nonzero(matrix) == np.count_nonzero(inside[: N_HEAD**2])
    assert np.array_equal(found[N_ITEMS**2 :], inside[N_HEAD**2 :])
