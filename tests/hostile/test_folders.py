"""Strangers' folders, damaged or forged with every hash put right: nothing crashes, hangs, grows or says yes to damage.

``LOWKEY_FUZZ=5000`` tries so many (make fuzz). A release is verified, loaded, asked, exported and opened to be served.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from forger import rewrite, with_items, with_ledger, with_model
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mutations import byte_changes, json_changes
from test_hostile import BOMBS, HOSTILE
from trial import Figures, Tally, attempt

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.errors import LowkeyError
from lowkey.release.folder import FILES, LEDGER, MANIFEST, MODEL, POSTS, read_manifest
from lowkey.release.formats import write_npy, write_parquet
from lowkey.release.opened import open_release
from lowkey.report import build_report

EXAMPLES = int(os.environ.get("LOWKEY_FUZZ", "20"))
FEW = {"max_examples": EXAMPLES, "deadline": None, "phases": [Phase.generate]}
UNCHECKED = {"suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made in a child: what the fit starts (threads) must not be there when trials are forked."""
    folder = tmp_path_factory.mktemp("made") / "release"
    made = attempt(lambda: lk.DPBias(2.0, 1e-5).fit(taste(400, 50, 15, seed=7).ratings()).release(folder))
    assert made.how == "fine", made.said
    assert all(check.ok for check in lk.verify(folder))  # and what verifying loads is loaded once
    open_release(folder)
    return folder


def use(folder: Path) -> bool:
    """Whatever people do with a folder. Returns whether every claim held."""
    good = all(check.ok for check in lk.verify(folder))
    try:
        model = lk.load(folder)
        first = model.domain.ids([0]).tolist()[0]
        limits = model.domain.rating_range
        for history in ({first: limits[1]}, {}) if limits else ([first], []):
            _, scores = model.recommend(history, n=1)
            assert np.isfinite(scores).all()
        write_npy(model, folder.parent / "npy")
        write_parquet(model, folder.parent / "parquet")
    except LowkeyError:
        assert not good
    if good:
        build_report(read_manifest(folder), model.ledger)
        open_release(folder)
    return good


Damage = Callable[[Path], Any]


def bytes_of(name: str, change: Callable[[bytes], bytes]) -> Damage:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def forged(damage: Damage) -> Damage:
    """And every hash put right, where that can be done."""

    def both(folder: Path) -> None:
        damage(folder)
        rewrite(folder)

    return both


def header_of(change: Callable[[Any], None]) -> Damage:
    def damage(folder: Path) -> None:
        data = (folder / MODEL).read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        change(header)
        text = json.dumps(header).encode()
        (folder / MODEL).write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])

    return damage


def manifest_of(change: Callable[[Any], None]) -> Damage:
    return lambda folder: rewrite(folder, lambda manifest: [change(manifest), manifest.setdefault("id", "")])


def parameters_of(change: Callable[[Any], None]) -> Damage:
    return lambda folder: rewrite(folder, lambda manifest: change(manifest["made"]["parameters"]))


def entry(kind: str, name: str) -> Damage:
    """Something else under a file's name, or a file too many."""

    def damage(folder: Path) -> None:
        path = folder / (name if kind != "extra" else f"{name}.more")
        path.unlink(missing_ok=True)
        match kind:
            case "link":
                path.symlink_to("/dev/zero")
            case "folder":
                path.mkdir()
            case "pipe":
                os.mkfifo(path)
            case "sparse":
                path.touch()
                os.truncate(path, 1 << 26)
            case "extra":
                path.write_text("x")

    return damage


ITEMS: list[Any] = [
    pa.nulls(50),
    pa.array(np.arange(50) / 2), pa.array([[i] for i in range(50)]), pa.array(["x"] * 50), pa.array([1, 2]),
    pa.array([f"\x1b[2J{i}" for i in range(50)]), pa.array([None, *range(49)]),
    pa.array([b"\xff%d" % i for i in range(50)]),
    pa.array(["y" * 10_000 + str(i) for i in range(50)]), pa.array(np.arange(50), pa.uint64()), pa.array(np.arange(10**6)),
    pa.array([str(i) for i in range(50)]).dictionary_encode(), pa.array([], pa.int64()), pa.array([{"item": 1}] * 50),
]  # fmt: skip
MODELS = [
    lambda folder, kind=kind: with_model(folder, kind[1], rule=kind[0], settings=kind[2]) for kind in HOSTILE.values()
]
EVERY = (*FILES, POSTS)
NAMES = st.sampled_from([*EVERY, MANIFEST])
DAMAGED = st.one_of(
    st.builds(bytes_of, NAMES, byte_changes()),
    st.builds(entry, st.sampled_from(["gone", "link", "folder", "pipe", "sparse", "extra"]), NAMES),
)
FORGED = st.one_of(
    st.builds(bytes_of, st.sampled_from(EVERY), byte_changes()).map(forged),
    st.builds(manifest_of, json_changes()),
    st.builds(lambda change: lambda folder: with_ledger(folder, change), json_changes()),
    st.builds(header_of, json_changes()).map(forged),
    st.builds(parameters_of, json_changes()),
    st.sampled_from(ITEMS).map(lambda items: lambda folder: with_items(folder, items)),
    st.sampled_from([*MODELS, *BOMBS]),
)


def tried(original: Path, damages: list[Damage], tally: Tally, *, damaged: bool) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(shutil.copytree(original, Path(place) / "release"))
        for damage in damages:
            try:
                damage(folder)
            except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
                break  # there is nothing left to damage
        whole = all((folder / name).is_file() and not (folder / name).is_symlink() for name in (*EVERY, MANIFEST))
        same = whole and all((folder / n).read_bytes() == (original / n).read_bytes() for n in (*EVERY, MANIFEST))
        trial = tally.add(attempt(lambda: use(folder)))
        assert trial.faults() == []
        if damaged and not same:
            assert trial.said == "False"  # every changed byte is seen
        assert set(os.listdir(place)) <= {"release", "npy", "parquet"}


def test_damaged_folders(original: Path, record_property: Figures) -> None:
    tally = Tally("damaged folders")

    @settings(**FEW, **UNCHECKED)
    @given(DAMAGED)
    def every(damage: Damage) -> None:
        tried(original, [damage], tally, damaged=True)

    every()
    record_property("figures", str(tally))


def test_forged_folders(original: Path, record_property: Figures) -> None:
    tally = Tally("forged folders")

    @settings(**FEW, **UNCHECKED)
    @given(st.lists(FORGED, min_size=1, max_size=2))
    def every(damages: list[Damage]) -> None:
        tried(original, damages, tally, damaged=False)

    for damage in (*MODELS, *BOMBS):
        tried(original, [damage], tally, damaged=False)
    every()
    record_property("figures", str(tally))


def test_ledgers(original: Path, tmp_path: Path, record_property: Figures) -> None:
    """A ledger of the curator's own, with its head beside it."""
    path, tally = tmp_path / "ledger.jsonl", Tally("ledgers")
    lines = (original / LEDGER).read_bytes()

    def opened(head: bool) -> float:
        ledger = lk.Ledger(path) if head else lk.Ledger.loads(path.read_bytes())
        return ledger.guarantee().epsilon

    @settings(**FEW, **UNCHECKED)
    @given(byte_changes() | json_changes().map(lambda change: lambda data: rechained(data, change)), st.booleans())
    def every(change: Callable[[bytes], bytes], head: bool) -> None:
        path.with_name("ledger.jsonl.head").unlink(missing_ok=True)
        try:
            changed = change(lines)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError):
            return
        path.write_bytes(changed)
        if head:
            last = json.loads(lines.splitlines()[-1])
            path.with_name("ledger.jsonl.head").write_text(json.dumps({"seq": last["seq"], "hash": last["hash"]}))
        assert tally.add(attempt(lambda: opened(head))).faults() == []

    every()
    record_property("figures", str(tally))


def rechained(data: bytes, change: Callable[[Any], None]) -> bytes:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / LEDGER).write_bytes(data)
        for name in (*FILES, MANIFEST):
            (Path(place) / name).touch()
        (Path(place) / LEDGER).write_bytes(data)
        (Path(place) / MANIFEST).write_text('{"files": {}, "id": ""}')
        with_ledger(Path(place), change)
        return (Path(place) / LEDGER).read_bytes()
