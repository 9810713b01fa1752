"""What is said before anything is spent: more of anything helps, and what is proposed would do."""

from __future__ import annotations

import re

import pytest

import lowkey as lk
from lowkey.methods.feasibility import expectation, kept_share
from lowkey.privacy.accounting import gaussian_mu

DELTA = 1e-5


def said(users: int | None, items: int, epsilon: float) -> str:
    return expectation(lk.Domain(items=items, feedback="binary", expected_users=users), epsilon, DELTA)


def test_more_people_more_epsilon_and_fewer_items_keep_more() -> None:
    usual = kept_share(5000, 2000, 0.3)
    assert 0.0 < usual < 1.0
    assert kept_share(10_000, 2000, 0.3) > usual
    assert kept_share(5000, 2000, 0.6) > usual
    assert kept_share(5000, 500, 0.3) > usual
    assert kept_share(5000, 2000, 0.3, ratings=5.0) < usual
    assert kept_share(0, 2000, 0.3) == 0.0


def test_little_is_called_little_and_the_remedy_would_do() -> None:
    sentence = said(671, 9066, 1.0)
    assert "little better than most-popular" in sentence
    epsilon, users = re.search(r"epsilon ([\d.]+) or ([\d,]+) users would", sentence).groups()  # type: ignore[union-attr]
    assert kept_share(671, 9066, gaussian_mu(float(epsilon), DELTA)) == pytest.approx(0.5, abs=0.05)
    assert kept_share(int(users.replace(",", "")), 9066, gaussian_mu(1.0, DELTA)) >= 0.5


@pytest.mark.parametrize(
    ("users", "word"), [(1_000_000, "nearly as good"), (5000, "should keep about"), (None, "--expected-users")]
)
def test_every_crowd_gets_its_sentence(users: int | None, word: str) -> None:
    assert word in said(users, 2000, 1.0)
