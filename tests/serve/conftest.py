"""Two releases of one made-up crowd, and a service of the first one in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.release.opened import open_release
from lowkey.serving.http.app import build_app
from lowkey.serving.http.limits import Limits
from lowkey.serving.http.served import Current, Served

CROWD = taste(1500, 1200, 30, seed=11)
Client = Callable[..., Any]


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("serve")
    for name in ("first", "second"):
        lk.DPFactors(epsilon=8.0, delta=1e-6, rank=16).fit(CROWD.ratings()).release(folder / name)
    return folder / "first", folder / "second"


@pytest.fixture(scope="session")
def served(releases: tuple[Path, Path]) -> Served:
    return open_release(releases[0])


@pytest.fixture(scope="session")
def other(releases: tuple[Path, Path]) -> Served:
    return open_release(releases[1], page=False)


@pytest.fixture
def client_of(served: Served) -> Client:
    """A client of a service with these limits; ``client.current`` is what it serves."""

    def made(current: Current | None = None, limits: Limits | None = None, **options: Any) -> TestClient:
        current = current or Current(served)
        client = TestClient(build_app(current, limits or Limits(), version="0", **options))
        client.current = current  # type: ignore[attr-defined]
        return client

    return made


@pytest.fixture
def client(client_of: Client) -> TestClient:
    return client_of()
