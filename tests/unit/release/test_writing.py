"""A release folder: written whole or not at all, the same model when read, and every tampering is seen."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.errors import InputError, LowkeyError, VerifyError
from lowkey.privacy.noise import SeededNoise
from lowkey.release.folder import FILES, MANIFEST, MODEL, POSTS, canonical, with_id

CROWD = taste(400, 50, 15, seed=7)


@pytest.fixture(scope="module")
def fitted() -> lk.DPBias:
    return lk.DPBias(epsilon=2.0, delta=1e-5).fit(CROWD.ratings())


@pytest.fixture(scope="module")
def original(fitted: lk.DPBias, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted.release(tmp_path_factory.mktemp("made") / "release")


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "release"))


def failures(folder: Path, **options: Any) -> list[str]:
    return [check.claim for check in lk.verify(folder, **options) if not check.ok]


def rewrite_manifest(folder: Path, change: Any = None) -> None:
    """What a careful forger does: fix every hash and the id after a change."""
    manifest = json.loads((folder / MANIFEST).read_text())
    for name in (*FILES, POSTS):
        data = (folder / name).read_bytes()
        manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    if change:
        change(manifest)
    manifest.pop("id")
    (folder / MANIFEST).write_text(canonical(with_id(manifest)))


def test_a_loaded_model_is_the_same_to_the_last_bit(fitted: lk.DPBias, original: Path) -> None:
    loaded = lk.load(original)
    films = CROWD.facts["items"]
    history = {films[3]: 4.5, films[11]: 1.0, films[40]: 3.0}
    np.testing.assert_array_equal(loaded.predict(CROWD.csr), fitted.predict(CROWD.csr))
    assert loaded.recommend(history, n=7)[0].tolist() == fitted.recommend(history, n=7)[0].tolist()
    assert loaded.guarantee == fitted.guarantee_
    assert loaded.domain == CROWD.domain()


@pytest.mark.parametrize("items", [list(range(100, 150)), [f"item {i}" for i in range(50)], 50])
def test_ids_come_back_in_the_callers_types(items: Any, tmp_path: Path) -> None:
    domain = lk.Domain(items, feedback="binary")
    model = lk.DPBias(epsilon=1.0, delta=1e-5).fit(CROWD.csr, domain=domain)
    loaded = lk.load(model.release(tmp_path / "r"))
    assert loaded.domain == domain
    first = items[0] if isinstance(items, list) else 0
    assert type(loaded.recommend([first], n=1)[0].tolist()[0]) is type(first)


def test_every_claim_of_an_honest_release_holds(folder: Path) -> None:
    assert failures(folder) == []
    assert failures(folder, id=json.loads((folder / MANIFEST).read_text())["id"]) == []
    assert failures(folder, id="0" * 64) == ["The release has the id that you were given"]


def test_nothing_of_a_user_is_in_the_folder(tmp_path: Path) -> None:
    """Canaries: ids and ratings that occur nowhere else must not be found in any file, in any plain encoding."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"who": [f"canary-{u}-zebra" for u in range(60) for _ in range(5)], "what": list(range(5)) * 60, "r": 3.14159274}
    )
    ratings = lk.from_frame(frame, lk.Domain(5, (0.0, 5.0)), user="who", item="what", rating="r")
    made = lk.DPBias(epsilon=1.0, delta=1e-5).fit(ratings).release(tmp_path / "r")
    needles = [
        b"canary",
        b"zebra",
        b"3.14159",
        np.float32(3.14159274).tobytes(),
        np.float64(np.float32(3.14159274)).tobytes(),
    ]
    for entry in made.iterdir():
        assert not any(needle in entry.read_bytes() for needle in needles), entry.name


@pytest.mark.parametrize("name", [*FILES, POSTS, MANIFEST])
def test_a_flipped_byte_is_seen_in_every_file(folder: Path, name: str) -> None:
    size = (folder / name).stat().st_size
    for place in (0, size // 3, size // 2, size - 1):
        data = bytearray((folder / name).read_bytes())
        data[place] ^= 0x01
        (folder / name).write_bytes(bytes(data))
        assert failures(folder), f"byte {place} of {name}"
        data[place] ^= 0x01
        (folder / name).write_bytes(bytes(data))
    assert failures(folder) == []


def test_an_edited_epsilon_is_seen_even_with_all_hashes_fixed(folder: Path) -> None:
    for name, old in (
        ("privacy_report.json", '"epsilon": 1.99'),
        ("privacy_report.html", "<b>2</b>"),
        ("MODEL_CARD.md", "epsilon = 2,"),
    ):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, old.replace("1.99", "0.99").replace("2", "1"), 1))
        rewrite_manifest(folder)
        assert failures(folder) == ["The report says what the ledger says"], name
        (folder / name).write_text(text)
        rewrite_manifest(folder)
    assert failures(folder) == []


def test_a_removed_ledger_line_is_seen(folder: Path) -> None:
    lines = (folder / "ledger.jsonl").read_text().splitlines(keepends=True)
    for gone in range(len(lines)):
        (folder / "ledger.jsonl").write_text("".join(lines[:gone] + lines[gone + 1 :]))
        rewrite_manifest(folder)
        assert "The ledger's chain is unbroken" in failures(folder), f"line {gone}"
    with pytest.raises(LowkeyError):
        lk.load(folder)


def test_a_post_beyond_the_plan_is_seen(fitted: lk.DPBias, folder: Path) -> None:
    """On a ledger whose chain is right, with every hash fixed: one post more of a planned line."""
    ledger = lk.Ledger.loads(fitted.ledger_.dumps())
    ledger.reserve(ledger.plans()[0].lines[0], {}, noise_is_private=True)
    (folder / "ledger.jsonl").write_text(ledger.dumps())
    rewrite_manifest(folder, lambda manifest: manifest.update(ledger_head=ledger.head))
    assert "Every post on the ledger was planned" in failures(folder)


def test_a_swapped_model_is_seen(folder: Path, tmp_path: Path) -> None:
    other = lk.DPBias(epsilon=20.0, delta=1e-5).fit(CROWD.ratings()).release(tmp_path / "other")
    shutil.copy(other / MODEL, folder / MODEL)
    assert failures(folder) == [
        f"{MODEL} is as it was written",
        "The model is what its method makes of the posts",
        "The model can be loaded and used",
    ]
    shutil.copy(other / "ledger.jsonl", folder / "ledger.jsonl")  # and with its ledger, but not its report
    assert failures(folder)


def huge_header(path: Path) -> None:
    path.write_bytes((2**40).to_bytes(8, "little") + path.read_bytes()[8:])


def long_header(path: Path) -> None:
    path.write_bytes((10**6).to_bytes(8, "little") + b"{" + b" " * (10**6 - 2) + b"}")


def pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps({"item_bias": [0.0] * 50}))


def nan_factor(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-8:] = np.array([np.nan]).tobytes()
    path.write_bytes(bytes(data))


def overlapping(path: Path) -> None:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["item_bias"]["data_offsets"] = [8, 408]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [huge_header, long_header, pickled, nan_factor, overlapping, empty])
def test_a_hostile_model_file_is_refused_though_its_hash_is_right(folder: Path, damage: Any) -> None:
    damage(folder / MODEL)
    rewrite_manifest(folder)
    assert "The model is plain, finite numbers of the stated shapes" in failures(folder)
    with pytest.raises(VerifyError):
        lk.load(folder)


def traverse(manifest: dict[str, Any]) -> None:
    manifest["files"]["../../etc/passwd"] = manifest["files"][MODEL]


def absurd_shape(manifest: dict[str, Any]) -> None:
    manifest["arrays"]["item_bias"]["shape"] = [2**40]


def more_items(manifest: dict[str, Any]) -> None:
    manifest["domain"]["n_items"] = 51


def other_rule(manifest: dict[str, Any]) -> None:
    manifest["rule"] = "os.system"


def extra_field(manifest: dict[str, Any]) -> None:
    manifest["n_users"] = 400


def other_head(manifest: dict[str, Any]) -> None:
    manifest["ledger_head"] = "0" * 64


@pytest.mark.parametrize("change", [traverse, absurd_shape, more_items, other_rule, extra_field, other_head])
def test_a_hostile_manifest_is_refused_though_its_id_is_right(folder: Path, change: Any) -> None:
    rewrite_manifest(folder, change)
    assert failures(folder)
    with pytest.raises(VerifyError):
        lk.load(folder)


def test_an_extra_file_and_a_link_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "notes.txt").write_text("hello")
    assert failures(folder) == ["Exactly the files of a release are there"]
    (folder / "notes.txt").unlink()
    shutil.copy(folder / "MODEL_CARD.md", tmp_path / "card")
    (folder / "MODEL_CARD.md").unlink()
    os.symlink(tmp_path / "card", folder / "MODEL_CARD.md")
    assert failures(folder) == ["Exactly the files of a release are there"]


def test_what_is_not_private_is_not_released(tmp_path: Path) -> None:
    ratings = CROWD.ratings()
    seeded = lk.Billboard(noise=SeededNoise(1))
    for model, reason in (
        (lk.Bias().fit(ratings), "without noise"),
        (lk.Popularity().fit(ratings), "without noise"),
        (lk.DPBias(epsilon=1.0, delta=1e-5).fit(ratings, billboard=seeded), "test seed"),
    ):
        with pytest.raises(VerifyError, match=reason):
            model.release(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def published_for(asked: float) -> type[lk.DPBias]:
    """A method that says that its noise was published for this epsilon, whatever holds for it."""

    class Published(lk.DPBias):
        def plan_of(self, settings: Any) -> Any:
            plan = super().plan_of(settings)
            return replace(plan, settings={**plan.settings, "asked_epsilon": asked})

    return Published


def test_published_noise_that_is_worth_less_is_not_released(tmp_path: Path) -> None:
    """Ample noise for the epsilon that it was published for may be released; half of what it needs may not."""
    ample = published_for(3.0)(epsilon=2.0, delta=1e-5).fit(CROWD.ratings())
    assert ample.guarantee_.epsilon <= 2.0
    ample.release(tmp_path / "ample")
    short = published_for(1.0)(epsilon=2.0, delta=1e-5).fit(CROWD.ratings())
    assert short.guarantee_.epsilon > 1.9
    with pytest.raises(VerifyError, match="as published for epsilon = 1, with which only"):
        short.release(tmp_path / "short")
    assert not (tmp_path / "short").exists()


def test_a_full_folder_is_left_alone(fitted: lk.DPBias, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("mine")
    for place in (tmp_path / "full", tmp_path / "full" / "precious", tmp_path / "no" / "where"):
        with pytest.raises(InputError, match="release folder"):
            fitted.release(place)
    assert (tmp_path / "full" / "precious").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert failures(fitted.release(tmp_path / "empty")) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_release_is_complete_or_absent(
    fitted: lk.DPBias, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    import lowkey.release.writing as writing

    def fail(*_: Any) -> str:
        raise error

    monkeypatch.setattr(writing, "model_card", fail)  # late: most files are written by then
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else InputError):
        fitted.release(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_two_fits_on_one_ledger_are_released_with_their_total(tmp_path: Path) -> None:
    ledger = lk.Ledger(total=(3.0, 1e-5))
    for _ in range(2):
        last = lk.DPBias(epsilon=1.0, delta=1e-5).fit(CROWD.ratings(), billboard=lk.Billboard(ledger))
    made = last.release(tmp_path / "r")
    assert failures(made) == []
    report = json.loads((made / "privacy_report.json").read_text())
    (fits,) = report["fits"]
    assert fits.endswith("2 times")
    assert 1.2 < report["epsilon"] < 2.0  # more than one fit, less than the sum
    assert "3" in report["budget"]
