"""Exact norms against what is declared, by the name that the tests know: they live in ``lowkey.testing``."""

from lowkey.testing.exact import added_by, allowed_power, assert_within, furthest, norm_power, share, sum_of_squares

__all__ = ["added_by", "allowed_power", "assert_within", "furthest", "norm_power", "share", "sum_of_squares"]
