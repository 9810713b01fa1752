"""A stranger's folder whose hashes are all right: nothing outside it is written, nothing crashes, nothing grows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from forger import with_items, with_model

import lowkey as lk
from lowkey.cli.main import run
from lowkey.data.synthetic import taste
from lowkey.errors import LowkeyError, VerifyError

CROWD = taste(400, 50, 15, seed=7)
N = 50
LINEAR = {"center": 3.0, "offset_reg": 1.0, "rating_range": [0.5, 5.0]}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lk.DPBias(epsilon=2.0, delta=1e-5).fit(CROWD.ratings()).release(tmp_path_factory.mktemp("made") / "release")


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "release"))


def failures(folder: Path) -> list[str]:
    return [check.claim for check in lk.verify(folder) if not check.ok]


def weights(head: Any = (3, 1, 2), **other: Any) -> dict[str, Any]:
    n = len(head)
    arrays = {"head": np.array(head), "input_weights": np.ones(n), "item_weights": np.zeros((n, n))}
    return {**arrays, "output_weights": np.ones(n), "tail_scores": np.zeros(N), **other}


def factors(width: int = 2, **other: Any) -> dict[str, Any]:
    return {"item_factors": np.zeros((N, width)), "item_bias": np.zeros(N), **other}


HOSTILE: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "an array too many": ("factors", factors(extra=np.zeros(3)), {**LINEAR, "reg": 1.0}),
    "an array too few": ("factors", {"item_bias": np.zeros(N)}, {**LINEAR, "reg": 1.0}),
    "factors of one item": ("signs", {"item_factors": np.zeros((1, 10))}, {"link": "probit", "reg": 1.0, "threshold": 3.0}),
    "biases of one item": ("factors", factors(item_bias=np.zeros(1)), {**LINEAR, "reg": 1.0}),
    "flat factors": ("factors", factors(item_factors=np.zeros(N)), {**LINEAR, "reg": 1.0}),
    "huge factors": ("factors", factors(item_factors=np.full((N, 2), 1e308)), {**LINEAR, "reg": 1.0}),
    "positions as floats": ("item-weights", weights(head=(1.0, 2.0)), {}),
    "a position twice": ("item-weights", weights(head=(1, 1)), {}),
    "weights that are not square": ("item-weights", weights(item_weights=np.zeros((3, 2))), {}),
    "a mean of another length": ("lists", weights(mean_weights=np.zeros(2), popularity=np.zeros(N)), {"liked": None}),
    "a ridge too short": (
        "replay", {"item_factors": np.zeros((N, 9)), "ridge": np.ones(1)}, {**LINEAR, "row_norm": 1.0},
    ),
    "steps too few": (
        "replay",
        {"item_factors": np.zeros((N, 9)), "gains": np.ones(1), "decays": np.ones(9)},
        {**LINEAR, "row_norm": 1.0},
    ),
    "replay of nothing": ("replay", {"item_factors": np.zeros((N, 2))}, {**LINEAR, "row_norm": 1.0}),
    "half a subspace": ("projection", {"item_factors": np.zeros((N // 2, 2))}, {**LINEAR, "scaling": 1.0}),
    "no ridge": ("factors", factors(), LINEAR),
    "a ridge of text": ("factors", factors(), {**LINEAR, "reg": "1"}),
    "a centre beyond reach": ("factors", factors(), {**LINEAR, "reg": 1.0, "center": 1e308}),
    "an unknown link": ("signs", {"item_factors": np.zeros((N, 2))}, {"link": "eval", "reg": 1.0, "threshold": 3.0}),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_arrays_and_settings_are_those_of_the_rule_and_the_catalogue(folder: Path, kind: str) -> None:
    rule, arrays, settings = HOSTILE[kind]
    with_model(folder, arrays, rule=rule, settings=settings)
    assert "The model is plain, finite numbers of the stated shapes" in failures(folder)
    with pytest.raises(VerifyError):
        lk.load(folder)


@pytest.mark.parametrize("to", ["npy", "parquet"])
def test_no_name_of_a_strangers_array_becomes_a_path(folder: Path, tmp_path: Path, to: str) -> None:
    stolen = tmp_path / "elsewhere"
    for name in (str(stolen), "../elsewhere"):
        with_model(folder, factors(**{name: np.zeros(3)}), settings={**LINEAR, "reg": 1.0})
        assert failures(folder)
        assert run(["export", str(folder), "--to", to, "--out", str(tmp_path / "out"), "--quiet"]) == 1
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["release"]


def test_factors_for_one_item_of_millions_never_reach_compiled_code(folder: Path) -> None:
    """50 million items and factors of shape (1, 10): reading out of bounds once ended the process."""
    with_items(folder, pa.array(np.arange(5_000_000)))
    with_model(
        folder,
        {"item_factors": np.zeros((1, 10))},
        rule="signs",
        settings={"link": "probit", "reg": 1.0, "threshold": 3.0},
    )
    program = f"import lowkey as lk; lk.load({str(folder)!r}).recommend({{4_999_999: 4.0}}, n=3)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "VerifyError" in done.stderr


def test_honest_ids_of_every_kind_pass_the_limits(folder: Path) -> None:
    for ids in (
        pa.array(np.arange(300_000)),
        pa.array([f"the film with number {i}" for i in range(100_000)]),
        pa.array([f"{i:x}" * 20 for i in range(40_000)], pa.large_string()),
    ):
        with_items(folder, ids, compression="zstd")
        from lowkey.release.folder import read_manifest
        from lowkey.release.loading import read_domain

        assert read_domain(folder, read_manifest(folder)).item_ids.to_pylist() == ids.to_pylist()


def test_many_rows_of_one_long_text_are_refused_without_being_decoded(folder: Path) -> None:
    """A few hundred bytes that declare gigabytes: a dictionary of one text, and a run of rows that repeat it."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(400_000, np.int32)), pa.array(["x" * 4000]))
    with_items(folder, text, compression="zstd")
    before = pa.total_allocated_bytes()
    peak = pa.default_memory_pool().max_memory() if hasattr(pa.default_memory_pool(), "max_memory") else 0
    with pytest.raises(LowkeyError):
        lk.load(folder)
    assert (pa.default_memory_pool().max_memory() or 0) <= max(peak, before + (64 << 20))
