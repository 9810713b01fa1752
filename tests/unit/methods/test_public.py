"""What is public already: read as it comes, worth much where it is right, worth nothing where it is wrong, and named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse

import lowkey as lk
from lowkey.cli.main import run
from lowkey.data.features import FeatureMap
from lowkey.errors import InputError
from lowkey.kernels.lists import TasteMoments
from lowkey.linalg.packed import pack
from lowkey.methods.counts import Counts
from lowkey.methods.effects import Evidence, item_effects
from lowkey.methods.factors.side import Side
from lowkey.methods.knowledge import Knowledge
from lowkey.methods.lists.public import public_pairs
from lowkey.methods.moments.public_pairs import PublicPairs
from lowkey.methods.open_fit import open_fit
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import SeededNoise

N_USERS, N_ITEMS, RANK = 900, 300, 3


def crowd(n_users: int, seed: int, of: int = 0) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Ratings 1 to 5 of a low-rank crowd, and the true effects of its items, which are those of every crowd ``of``."""
    world, rng = np.random.default_rng(of), np.random.default_rng(seed)
    effects, factors = world.normal(0.0, 0.5, N_ITEMS), world.normal(0.0, 0.35, (N_ITEMS, RANK))
    seen = rng.random((n_users, N_ITEMS)) < 0.5 / np.sqrt(1.0 + np.arange(N_ITEMS) / 10.0)
    ratings = 3.2 + effects + rng.normal(0.0, 0.4, (n_users, 1)) + rng.normal(0.0, 1.0, (n_users, RANK)) @ factors.T
    ratings = np.clip(ratings + rng.normal(0.0, 0.6, ratings.shape), 1.0, 5.0)
    return scipy.sparse.csr_array(np.where(seen, ratings, 0.0)), effects


def table() -> pa.Table:
    """Features that say most of the effects, with gaps, and half of the items."""
    effects = crowd(1, 0)[1]
    tags = [["good", "new"] if effect > 0.3 else ["poor"] if effect < -0.3 else [] for effect in effects]
    year = [None if j % 7 == 0 else 1990.0 + 10.0 * effect for j, effect in enumerate(effects)]
    kind = ["comedy" if j % 2 else "drama" for j in range(N_ITEMS)]
    vector = [[effect, 1.0] for effect in effects]
    return pa.table({"item": range(N_ITEMS), "year": year, "kind": kind, "tags": tags, "vector": vector}).slice(
        0, N_ITEMS // 2
    )


DOMAIN = lk.Domain(N_ITEMS, (1.0, 5.0), expected_users=N_USERS)


def test_public_ratings_are_read_from_a_file_and_mapped_to_our_scale(tmp_path: Path) -> None:
    file = tmp_path / "open.parquet"
    rows = {"user": ["a", "a", "b", "a", "c"], "item": [0, 5, 5, 0, 9999], "rating": [0.0, 10.0, 5.0, 10.0, 1.0]}
    pyarrow.parquet.write_table(pa.table(rows), file)
    public = lk.Public(ratings=file, rating_range=(0.0, 10.0))
    found = public.rows(DOMAIN).toarray()
    assert found.shape[0] == 2  # who rated nothing of ours is not there
    np.testing.assert_allclose(found[:, [0, 5]], [[5.0, 5.0], [0.0, 3.0]])  # of a pair that occurs again, the last
    assert "2 people" in public.facts(DOMAIN)[0]
    with pytest.raises(InputError, match="outside their range"):
        lk.Public(ratings=file).rows(DOMAIN)
    with pytest.raises(InputError, match="nothing"):
        lk.Public()


def test_features_of_every_kind_with_gaps_come_back_from_their_description() -> None:
    columns = lk.Public(features=table()).columns(DOMAIN)
    assert columns is not None
    features = FeatureMap.of(columns)
    assert [column.kind for column in features.columns] == ["number", "category", "tags", "vector"]
    encoded = features.encode(columns)
    np.testing.assert_array_equal(FeatureMap.from_json(features.to_json()).encode(columns), encoded)
    assert not encoded[N_ITEMS // 2 :].any()  # without features an item is as the average one
    np.testing.assert_allclose(encoded.mean(axis=0), 0.0, atol=1e-12)
    odd = {**columns, "kind": ["never seen"] * N_ITEMS, "year": [None] * N_ITEMS}
    assert np.isfinite(features.encode(odd)).all()


def test_the_open_fit_finds_what_the_ratings_were_made_of() -> None:
    rows, effects = crowd(600, 1)
    fit = open_fit(rows, rank=6)
    assert np.corrcoef(fit.means[:, 0], effects)[0, 1] > 0.95
    assert 0.6**2 * 0.8 < fit.variance < 0.6**2 * 1.1  # clipping takes a little of it
    kept = np.sort((fit.means[:, 1:] ** 2).mean(axis=0))[::-1]
    assert kept[RANK:].max() < 0.2 * kept[RANK - 1]  # directions that are not there are not found


def noisy_rounds(effects: np.ndarray, std: float) -> tuple[list[Evidence], Counts]:
    counts = np.full(len(effects), 30.0)
    noise = np.random.default_rng(3).normal(0.0, std, len(effects))
    return [Evidence(counts * effects + noise, std, np.zeros(len(effects)))], Counts(counts, counts**2, counts)


def error(found: np.ndarray, effects: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - effects) ** 2)))


def test_effects_trust_the_public_as_far_as_the_posts_do() -> None:
    """Under noise that drowns the posts: right public effects halve the error, wrong ones leave it; so do features."""
    effects = np.random.default_rng(5).normal(0.0, 0.5, 1500)
    rounds, counts = noisy_rounds(effects, 20.0)
    alone = error(item_effects(rounds, counts, 0.3).means, effects)
    variances = np.full(1500, 0.02)
    right = item_effects(rounds, counts, 0.3, public=(effects + 0.7, variances))  # another crowd's level does not matter
    assert right.apart < 0.2
    assert error(right.means, effects) < 0.5 * alone
    wrong = item_effects(rounds, counts, 0.3, public=(np.random.default_rng(6).permutation(effects), variances))
    assert error(wrong.means, effects) < 1.01 * alone
    columns = np.column_stack([effects + np.random.default_rng(7).normal(0.0, 0.3, 1500), np.arange(1500) % 2])
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0) / np.sqrt(2.0)
    assert error(item_effects(rounds, counts, 0.3, columns).means, effects) < 0.8 * alone
    drawn = np.random.default_rng(8).normal(0.0, 40.0**-0.5, (1500, 40))
    assert error(item_effects(rounds, counts, 0.3, drawn).means, effects) < 1.02 * alone


def rmse(model: object, rows: scipy.sparse.csr_array) -> float:
    """Of the last half of each row's items, given the first half."""
    shown = scipy.sparse.csr_array(rows[:, ::2] @ scipy.sparse.eye_array(N_ITEMS, format="csr")[::2])
    held = scipy.sparse.csr_array(rows - shown).tocoo()
    return float(np.sqrt(np.mean((model.predict(shown)[held.row, held.col] - held.data) ** 2)))


@pytest.mark.parametrize("method", ["DPFactors", "DPMoments"])
def test_opted_in_people_help_and_strangers_do_no_harm(method: str) -> None:
    """At epsilon 1, with one draw of the noise for all: 150 people of this crowd are worth at least 0.01, those of another
    world cost at most 0.01."""
    ratings, tested = lk.Ratings.from_csr(crowd(N_USERS, 11)[0], DOMAIN), crowd(200, 12)[0]
    make = getattr(lk, method)(epsilon=1.0, delta=1e-5)

    def fitted(public: lk.Public | None) -> float:
        return rmse(make.fit(ratings, public=public, billboard=Billboard(noise=SeededNoise(15))), tested)

    plain = fitted(None)
    assert fitted(lk.Public(ratings=crowd(150, 13)[0])) < plain - 0.01
    assert fitted(lk.Public(ratings=crowd(150, 14, of=99)[0])) < plain + 0.01


def test_lists_hear_public_pairs_as_far_as_noise_hides_their_error_and_only_where_they_agree() -> None:
    rng = np.random.default_rng(1)
    order = 200

    def takers(n_users: int, turn: np.ndarray) -> scipy.sparse.csr_array:
        groups = rng.integers(0, 8, n_users)
        chances = np.where(np.arange(order) % 8 == groups[:, None], 0.35, 0.03)
        return scipy.sparse.csr_array((rng.random((n_users, order)) < chances)[:, turn].astype(float))

    straight = np.arange(order)
    sweep = TasteMoments(np.arange(order, dtype=np.int32), np.full(order, 1.0 / order), 1.0, None)

    def gram(rows: scipy.sparse.csr_array) -> np.ndarray:
        return Knowledge(people=rows).ask(sweep)["taste_moments"][: order**2].reshape(order, order)

    truth = gram(takers(5000, straight))
    noise = rng.normal(0.0, 12.0, (order, order))
    posted = truth + (noise + noise.T) / np.sqrt(2.0)

    def agreement(found: np.ndarray) -> float:
        away = ~np.eye(order, dtype=bool)
        return float(np.corrcoef(found[away], truth[away])[0, 1])

    def pairs(rows: scipy.sparse.csr_array) -> PublicPairs:
        found = public_pairs(Knowledge(people=rows), sweep, 5000.0)
        assert found is not None
        return found

    own = pairs(takers(500, straight))
    helped = posted + own.beside(posted, 12.0) * own.gram
    assert agreement(helped) > agreement(posted) + 0.1
    summed = posted + 0.1 * own.gram
    assert agreement(helped) > agreement(summed) + 0.05  # added as they are, they drown
    assert pairs(takers(500, rng.permutation(order))).beside(posted, 12.0) == 0.0
    assert public_pairs(Knowledge(), sweep, 5000.0) is None
    twice = scipy.sparse.csr_array(takers(1, straight).toarray().repeat(2, axis=0))
    assert pairs(twice).weight(12.0) < own.weight(12.0)  # one person, who is there twice, is no crowd that agrees
    away = own.gram - truth  # both of 5,000 users, who are hardly any error beside 500
    np.fill_diagonal(away, 0.0)
    assert own.error == pytest.approx(np.abs(np.linalg.eigvalsh(away)).max(), rel=0.5)


@pytest.fixture(scope="module")
def fitted() -> lk.DPFactors:
    ratings, _ = crowd(N_USERS, 21)
    public = lk.Public(ratings=crowd(80, 22)[0], features=table())
    return lk.DPFactors(epsilon=5.0, delta=1e-5).fit(lk.Ratings.from_csr(ratings, DOMAIN), public=public)


def test_sources_are_named_in_plan_ledger_report_and_card(fitted: lk.DPFactors, tmp_path: Path) -> None:
    folder = fitted.release(tmp_path / "release")
    people, features = [fact for fact in fitted.guarantee_.public if "sha256" in fact]
    assert "80 people who are not protected" in people
    assert "year, kind, tags, vector" in features
    for name in ("ledger.jsonl", "privacy_report.json", "MODEL_CARD.md"):
        assert "80 people who are not protected" in (folder / name).read_text("utf-8"), name
    checks = lk.verify(folder)
    assert all(check.ok for check in checks)
    assert any("80 people" in check.detail for check in checks)


def test_new_items_come_from_features_marked_limited_and_released(fitted: lk.DPFactors, tmp_path: Path) -> None:
    new = pa.table({"tags": [["good", "new"]] * 40 + [["poor"]] * 10, "kind": ["drama"] * 50})
    model = fitted.add_items(range(1000, 1050), new)
    assert model.n_new == 50
    assert model.arrays["item_bias"][-50:-10].min() > model.arrays["item_bias"][-10:].max()
    assert min(model.settings["new_items"]) > 0.0
    history = {0: 5.0, 3: 1.0}
    for n, share in ((10, 0.2), (10, 0.0), (7, 0.5), (20, 1.0)):
        ids, scores = model.recommend(history, n=n, new_share=share)
        assert sum(item >= 1000 for item in ids) <= share * n
        assert np.isfinite(scores).all()
    with pytest.raises(InputError, match="catalogue"):
        model.recommend({}, n=N_ITEMS + 40, new_share=0.1)
    assert list(fitted.recommend(history, new_share=0.0)[0]) == list(fitted.recommend(history)[0])  # it has none
    with pytest.raises(InputError, match="already"):
        model.add_items([1000], new.slice(0, 1))
    again = lk.load(model.release(tmp_path / "with-new"))
    assert again.n_new == 50
    np.testing.assert_array_equal(again.recommend(history, n=10)[0], model.recommend(history, n=10)[0])
    later = lk.load(fitted.release(tmp_path / "plain")).add_items([1000], new.slice(0, 1))  # the folder has the map
    np.testing.assert_allclose(later.arrays["item_bias"][-1], model.arrays["item_bias"][N_ITEMS])


def test_a_method_without_use_for_it_says_so() -> None:
    with pytest.raises(InputError, match="DPFactors, DPBias"):
        lk.DPALS(epsilon=1.0, delta=1e-5).plan(DOMAIN, lk.Public(features=table()))


def test_the_command_line_takes_public_files(tmp_path: Path) -> None:
    """The plan that is shown before any data is read names them, and so does the release."""

    def written(rows: scipy.sparse.csr_array, name: str) -> str:
        found = rows.tocoo()
        columns = {"user": found.row, "item": found.col, "rating": found.data}
        pyarrow.parquet.write_table(pa.table(columns), tmp_path / name)
        return str(tmp_path / name)

    pyarrow.parquet.write_table(table(), tmp_path / "films.parquet")
    asked = ["release", written(crowd(200, 31)[0], "private.parquet"), "--user", "user", "--item", "item"]
    asked += [
        "--rating",
        "rating",
        "--scale",
        "1",
        "5",
        "--items",
        f"0..{N_ITEMS - 1}",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
    ]
    asked += ["--for", "ratings", "--public-ratings", written(crowd(30, 32)[0], "open.parquet")]
    asked += ["--item-features", str(tmp_path / "films.parquet"), "--out", str(tmp_path / "out"), "--quiet"]
    assert run(asked) == 0
    named = [fact for fact in lk.load(tmp_path / "out").guarantee.public if "sha256" in fact]
    assert "30 people" in named[0]
    assert "year" in named[1]


def test_people_who_foretold_the_means_are_heard_until_the_rounds_speak_against_them() -> None:
    """A first round that is drowned in noise says nothing: what is public must not be dropped for that."""
    rng, n, rank = np.random.default_rng(0), 200, 3
    theirs, others = 0.2 * rng.standard_normal((2, n, rank))
    each, spread = np.eye(rank), 0.04 * np.eye(rank)
    side = Side(theirs, np.tile(100.0 * each, (n, 1, 1)), 100.0 * theirs, spread, None)

    def heard(weight: float, factors: np.ndarray) -> float:
        target = weight * np.column_stack([np.zeros(n), factors])
        precision = pack(np.tile(weight * np.eye(rank + 1), (n, 1, 1)))
        return side.likeliest((precision, target), np.arange(n), spread, np.zeros((n, rank)))

    assert heard(1e-6, others) < np.inf
    assert heard(1e4, theirs) < 0.3
    assert heard(1e4, others) >= 3.0
