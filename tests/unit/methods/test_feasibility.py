"""What is said before anything is spent, and of the posts after: more of anything helps, and what is proposed would do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lowkey as lk
from lowkey.methods.feasibility import HALF, LITTLE, expectation, expected_share
from lowkey.methods.lists.kept import Signs, may_be_behind, share_left
from lowkey.methods.lists.method import FEWEST, DPLists
from lowkey.methods.moments.ease import CleanGram
from lowkey.privacy.accounting import gaussian_mu

DELTA = 1e-5


def said(users: int | None, items: int, epsilon: float, goal: str = "lists", adjacency: str = "add-remove") -> str:
    domain = lk.Domain(items=items, rating_range=(1.0, 5.0), expected_users=users)
    return expectation(domain, epsilon, DELTA, goal, adjacency)


def test_more_people_more_epsilon_and_fewer_items_keep_more() -> None:
    usual = expected_share(5000 * 0.3, 500)
    assert 0.0 < usual.low < usual.usual < usual.high < 1.0
    assert all(more > less for more, less in zip(expected_share(10_000 * 0.3, 500), usual, strict=True))
    assert all(more > less for more, less in zip(expected_share(5000 * 0.3, 200), usual, strict=True))
    assert expected_share(1e12, 100).low > 0.99
    assert expected_share(0.0, 2000) == (0.0, 0.0, 0.0)
    assert list(HALF) == sorted(HALF, reverse=True)


@pytest.mark.parametrize("users", [2000, 4000])
def test_little_is_called_little_and_the_remedy_would_do(users: int) -> None:
    assert expected_share(users * gaussian_mu(1.0, DELTA), 9066).usual < LITTLE
    sentence = said(users, 9066, 1.0)
    assert "little better than most-popular" in sentence
    assert "may end behind" in sentence
    epsilon, more = re.search(r"epsilon ([\d.e+]+) or ([\d,]+) users would", sentence).groups()  # type: ignore[union-attr]
    assert expected_share(users * gaussian_mu(float(epsilon), DELTA), 9066).usual == pytest.approx(0.5, abs=0.05)
    assert expected_share(int(more.replace(",", "")) * gaussian_mu(1.0, DELTA), 9066).usual >= 0.5


@pytest.mark.parametrize(
    ("users", "word"),
    [(10_000_000, "nearly as good"), (20_000, "should keep about"), (300, "noisy counts"), (None, "--expected-users")],
)
def test_every_crowd_gets_its_sentence(users: int | None, word: str) -> None:
    assert word in said(users, 2000, 1.0)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_sentence_and_the_fallback_to_counts_agree(adjacency: str) -> None:
    times = gaussian_mu(1.0, DELTA) / (1.0 if adjacency == "add-remove" else 2.0)
    for users in (int(FEWEST / times), int(FEWEST / times) + 2):
        domain = lk.Domain(items=2000, rating_range=(1.0, 5.0), expected_users=users)
        plan = DPLists(1.0, DELTA, adjacency).plan(domain)
        alone = plan.lines[-1].name == "head_counts"
        sentence = said(users, 2000, 1.0, adjacency=adjacency)
        assert ("noisy counts" in sentence) == alone
        assert "may end behind" in sentence


def test_ratings_are_means_where_the_default_is_means() -> None:
    domain = lk.Domain(items=2000, rating_range=(1.0, 5.0), expected_users=300)
    assert type(lk.DPRecommender(1.0, DELTA, goal="ratings").choose(domain)) is lk.DPBias
    sentence = said(300, 2000, 1.0, "ratings")
    assert "item means" in sentence
    more = int(re.search(r"or ([\d,]+) users", sentence).group(1).replace(",", ""))  # type: ignore[union-attr]
    domain = lk.Domain(items=2000, rating_range=(1.0, 5.0), expected_users=more)
    assert type(lk.DPRecommender(1.0, DELTA, goal="ratings").choose(domain)) is not lk.DPBias
    assert "tastes are learnt" in said(more, 2000, 1.0, "ratings")


def signs(strength: float, noise: float) -> Signs:
    rng = np.random.default_rng(3)
    basis, _ = np.linalg.qr(rng.normal(size=(40, 6)))
    clean = CleanGram(np.full(6, strength), basis, 1.0, 0.5)
    weights = np.full((40, 40), 0.01)
    return Signs.of(clean, noise, weights, agreement=0.1, head_share=0.9)


def test_what_is_heard_above_the_noise_is_kept() -> None:
    shares = [share_left(signs(strength, noise)) for strength, noise in ((0.0, 9.0), (5.0, 9.0), (50.0, 9.0), (50.0, 1.0))]
    assert shares == sorted(shares)
    assert shares[0] < 0.05
    assert 0.5 < shares[-1] < 1.0
    assert share_left(signs(50.0, 0.0)) <= 1.0  # no noise at all
    assert share_left(signs(5.0, 9.0)._replace(head_share=0.2)) < shares[1]
    assert share_left(None) == 0.0


def test_little_kept_or_little_to_keep_is_warned_of() -> None:
    good = signs(50.0, 1.0)
    assert not may_be_behind(good)
    assert may_be_behind(good._replace(explained=0.0))
    assert may_be_behind(signs(0.0, 9.0))
    assert may_be_behind(None)
