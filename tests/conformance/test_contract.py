"""One contract for every recommender of the table: the checks of ``lowkey.testing``, each on each case that it is for."""

from __future__ import annotations

import numpy as np
import pytest
from estimators import BASELINES, CASES, Case

import lowkey as lk
from lowkey.testing import CONTRACT, check_estimator
from lowkey.testing.checks import Check

PAIRS = [(check, case) for check in CONTRACT for case in (*CASES, *BASELINES) if check.applies(case)]


@pytest.mark.parametrize(("check", "case"), PAIRS, ids=[f"{check}-{case}" for check, case in PAIRS])
def test_contract(check: Check, case: Case) -> None:
    check(case)


class Forgetful(lk.DPBias):
    """Changes a parameter of the caller's while it fits."""

    def fit(self, *data, **options):
        self.n_iter = 1
        return super().fit(*data, **options)


class Constant(lk.DPBias):
    """Recommends in the order of the catalogue, whatever was posted."""

    def _run(self, settings, curator):
        released = super()._run(settings, curator)
        flat = {name: np.zeros_like(array) for name, array in released.arrays.items()}
        return released._replace(arrays=flat)


@pytest.mark.parametrize(
    ("broken", "check"),
    [(Forgetful, "fit_returns_self_and_leaves_the_parameters_alone"), (Constant, "a_child_can_check_the_answer")],
)
def test_a_broken_estimator_is_found(broken: type, check: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_estimator(Case(broken, "ratings", {"n_iter": 3}, personal=False))
    assert check in "".join(caught.value.__notes__)
