"""What is said before anything is spent, and of the posts after: more of anything helps, and what is proposed would do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lowkey as lk
from lowkey.methods.feasibility import HALF, LITTLE, expectation, expected_share
from lowkey.methods.lists import again
from lowkey.methods.lists.again import heard_again
from lowkey.methods.lists.heard import FEWEST
from lowkey.methods.lists.kept import Signs, may_be_behind, share_left
from lowkey.methods.lists.method import DPLists
from lowkey.methods.moments.ease import clean_gram
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


def signs(strength: float, noise: float, fit: float = 5.0) -> Signs:
    """Of 500 people with six tastes that are so strong, in posts with so much noise."""
    rng, n, users = np.random.default_rng(3), 40, 500.0
    basis, _ = np.linalg.qr(rng.normal(size=(n, 6)))
    drawn = rng.normal(size=(n, n))
    gram = strength * basis @ basis.T + noise * (drawn + drawn.T) / np.sqrt(2.0)
    gram[np.diag_indices(n)] += users / n - np.mean(np.diag(gram))
    return Signs.of(gram, clean_gram(gram, noise), np.full(n, 1.0 / n), noise, users, np.full((n, n), 0.01), (fit, 1.0))


def test_what_stands_above_the_noise_is_heard() -> None:
    heard = [signs(strength, noise).heard for strength, noise in ((0.0, 9.0), (30.0, 9.0), (100.0, 9.0), (100.0, 3.0))]
    assert heard == sorted(heard)
    assert heard[0] < 0.2
    assert heard[-1] > 0.9
    assert signs(100.0, 1e-6).heard == pytest.approx(1.0, abs=0.02)  # no noise at all
    assert signs(0.0, 1e6).heard == pytest.approx(0.0, abs=0.05)


def test_a_large_head_is_tried_by_a_part_of_it(monkeypatch) -> None:
    rng, n = np.random.default_rng(4), 400
    basis, _ = np.linalg.qr(rng.normal(size=(n, 12)))
    drawn, shares = rng.normal(size=(n, n)), 1.0 / np.arange(20.0, 20.0 + n)
    gram = basis * np.linspace(200.0, 40.0, 12) @ basis.T + (drawn + drawn.T) + 2.0 * np.eye(n)
    clean = clean_gram(gram, np.sqrt(2.0))
    whole = heard_again(gram, clean, shares / shares.sum(), np.sqrt(2.0), 800.0)
    monkeypatch.setattr(again, "LARGEST_TRIED", 200)
    assert 0.1 < whole < 0.97
    assert heard_again(gram, clean, shares / shares.sum(), np.sqrt(2.0), 800.0) == pytest.approx(whole, abs=0.08)


def test_what_was_shown_counts_where_it_stands_above_its_noise() -> None:
    shown = [signs(100.0, 3.0, fit).shown for fit in (-50.0, 0.0, 5.0, 50.0)]
    assert shown == sorted(shown)
    assert 0.0 < shown[0] < 0.1 * shown[-1]


GOOD = Signs(heard=0.95, shown=0.8, spread=0.01, explained=0.1, head_share=0.9)


def test_what_is_heard_and_shown_is_kept() -> None:
    for name in ("heard", "shown", "head_share"):
        shares = [share_left(GOOD._replace(**{name: part})) for part in (0.0, 0.1, 0.5, 0.95, 1.0)]
        assert shares == sorted(shares)
        assert 0.0 <= shares[0] < 0.5 * shares[-1]
        assert 0.6 < shares[-1] <= 1.0
    assert share_left(GOOD._replace(spread=0.1)) < share_left(GOOD)
    assert share_left(None) == 0.0


def test_little_kept_or_little_to_keep_is_warned_of() -> None:
    assert not may_be_behind(GOOD)
    assert may_be_behind(GOOD._replace(explained=0.0))
    assert may_be_behind(GOOD._replace(heard=0.01, shown=0.1))
    assert may_be_behind(None)
