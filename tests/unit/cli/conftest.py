"""What the tests of the command line start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowkey.data.synthetic import write_taste


@pytest.fixture(scope="module")
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ratings file with text ids, and its catalogue: users, items and ratings as the module has them in ``FILES``."""
    folder = tmp_path_factory.mktemp("files")
    facts = write_taste(folder / "ratings.parquet", *request.module.FILES, seed=5)
    (folder / "catalogue.txt").write_text("\n".join(facts["items"]) + "\n")
    return folder
