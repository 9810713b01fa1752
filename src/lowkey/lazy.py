"""Public room: packages whose names are loaded when they are first used, so that nobody waits for what is not needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_of(package: str, homes: Mapping[str, tuple[str, ...]]) -> tuple[Callable[[str], Any], list[str]]:
    """The ``__getattr__`` and the ``__all__`` of a package; ``homes`` says which names live in a module; () is itself."""
    places = {name: module for module, names in homes.items() for name in names or (module,)}

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"{package} has no {name!r}; it has {', '.join(sorted(places))}")
        module = import_module(f"{package}.{places[name]}")
        value = getattr(module, name) if homes[places[name]] else module
        setattr(sys.modules[package], name, value)  # the next look-up is an ordinary one
        return value

    return load, sorted(places)
