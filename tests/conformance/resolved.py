"""Estimators with settings that are no hyper-parameters: numbers of ``resolve``, replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any


def with_settings(estimator: type, **changes: Any) -> Any:
    """The class, with fields of its settings replaced after its own rules have filled them in."""

    class Changed(estimator):
        def resolve(self, *facts: Any) -> Any:
            return replace(super().resolve(*facts), **changes)

    Changed.__name__ = estimator.__name__  # as plans and models call it
    return Changed
