"""Crowds from hypothesis; the users who attack by design live in ``lowkey.testing``."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import lowkey as lk
from lowkey.testing.attackers import HIGH, LOW, aligned, climb, crossed_pairs, gallery

__all__ = ["HIGH", "LOW", "aligned", "climb", "crossed_pairs", "gallery", "generated_crowds"]


def generated_crowds(domain: lk.Domain, users: int) -> st.SearchStrategy[np.ndarray]:
    """Crowds of ``users`` users as levels per item; -1 is not rated. From dense to nearly empty."""
    return st.one_of(
        arrays(np.int64, (users, domain.n_items), elements=st.integers(-1, HIGH), fill=st.just(-1)),
        arrays(np.int64, (users, domain.n_items), elements=st.integers(LOW, HIGH), fill=st.just(HIGH)),
        arrays(np.int64, (users, domain.n_items), elements=st.sampled_from([-1, LOW, HIGH])),
    )
