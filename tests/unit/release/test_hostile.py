"""A stranger's folder whose hashes are all right: nothing outside it is written, nothing crashes, nothing grows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from forger import rewrite, with_items, with_ledger, with_model, with_posts, with_words, without_posts

import lowkey as lk
from lowkey.cli.main import run
from lowkey.data.synthetic import taste
from lowkey.errors import VerifyError
from lowkey.release.remaking import remade

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


def lists(usual: Any) -> dict[str, Any]:
    arrays = weights(usual=usual, popularity=np.zeros(N))
    del arrays["tail_scores"]
    return arrays


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
    "usual scores of another length": ("lists", lists(np.zeros((2, 3))), {"liked": None}),
    "usual scores of nothing": ("lists", lists(np.zeros((3, 0))), {"liked": None}),
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
        with_model(folder, {**factors(), name: np.zeros(3)}, settings={**LINEAR, "reg": 1.0})
        assert failures(folder)
        assert run(["export", str(folder), "--to", to, "--out", str(tmp_path / "out"), "--quiet"]) == 1
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["release"]


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


def many_rows_of_one_long_text(folder: Path) -> None:
    """A few hundred bytes that declare 100 GB: a dictionary of one text, and a run of rows that repeat it."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(25_000_000, np.int32)), pa.array(["x" * 4000]))
    options: dict[str, Any] = {"compression": "zstd", "store_schema": False}  # a reader takes it for plain text
    one_page = {"row_group_size": len(text), "write_batch_size": len(text), "max_rows_per_page": len(text)}
    with_items(folder, text, **options, **one_page, data_page_size=1 << 30, write_statistics=False)
    assert (folder / "items.parquet").stat().st_size < 1000


def pages_that_say_more_than_the_footer(folder: Path) -> None:
    """Ids of 4 MB each, packed to some kilobytes, whose footer says that they are small: 200 kB in all."""
    with_items(folder, pa.array([f"{i}" * (1 << 22) for i in range(10, N + 10)]), compression="zstd", use_dictionary=False)
    path = folder / "items.parquet"
    data = path.read_bytes()
    size = pyarrow.parquet.read_metadata(path).row_group(0).total_byte_size
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert varint(size) in data[footer:]
    path.write_bytes(data[:footer] + data[footer:].replace(varint(size), varint(200_000, len(varint(size)))))
    assert pyarrow.parquet.read_metadata(path).row_group(0).total_byte_size == 200_000
    rewrite(folder)


def varint(value: int, length: int = 0) -> bytes:
    """As Thrift writes whole numbers; with bytes that say nothing, if it is to be longer."""
    value, found = 2 * value, bytearray()
    while value >= 128 or len(found) < length - 1:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def a_billion_posts(folder: Path) -> None:
    def change(records: list[dict[str, Any]]) -> None:
        laplace = {"name": "more", "size": 1, "note": "", "times": 10**9}
        records[1]["plan"]["lines"].append({**laplace, "mechanism": {"kind": "laplace", "noise_multiplier": 1e9}})

    with_ledger(folder, change)


def two_billion_keys(folder: Path) -> None:
    def change(records: list[dict[str, Any]]) -> None:
        mechanism = {"kind": "thresholded-gaussian", "noise_multiplier": 9.0, "threshold": 99.0, "max_keys": 2 * 10**9}
        records[2]["line"]["mechanism"] = {**mechanism, "adjacency": "add-remove"}

    with_ledger(folder, change)


def a_deep_ledger(folder: Path) -> None:
    path = folder / "ledger.jsonl"
    path.write_bytes(path.read_bytes() + b"[" * 10**6 + b"\n")
    rewrite(folder)


def a_header_of_two_minds(folder: Path) -> None:
    """NaN is JSON to one parser and none to another."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length]) | {"__metadata__": {"x": float("nan")}}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    rewrite(folder)


BOMBS = [
    a_header_of_two_minds,
    many_rows_of_one_long_text,
    pages_that_say_more_than_the_footer,
    a_billion_posts,
    two_billion_keys,
    a_deep_ledger,
]
PROBE = """
import resource, sys, time
import lowkey as lk
from lowkey.errors import LowkeyError
resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ok = all(check.ok for check in lk.verify(sys.argv[1]))
try:
    lk.load(sys.argv[1]).guarantee
    loaded = True
except LowkeyError:
    loaded = False
print(ok, loaded, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_by_name_and_takes_no_memory(folder: Path, bomb: Any) -> None:
    bomb(folder)
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(folder)], capture_output=True, text=True, check=False, timeout=120
    )
    ok, loaded, megabytes = done.stdout.split() or ["", "", "0"]
    assert (ok, loaded) == ("False", "False"), done.stderr[-300:]
    assert int(megabytes) < 500


def test_verify_has_a_limit_of_its_own_and_says_so(folder: Path) -> None:
    from lowkey.release.limited import verify_limited

    checks = verify_limited(folder)
    assert all(check.ok for check in checks)
    assert "within 2.1 GB and 600 seconds" in checks[-1].claim
    starved = verify_limited(folder, memory=1 << 20)
    assert not all(check.ok for check in starved)
    assert "within 0.0 GB" in starved[-1].claim


CLEARED = "\x1b[2J\x1b[Hyes  Everything holds"


@pytest.mark.parametrize("place", ["public", "caveats", "method", "unit"])
def test_no_text_of_a_folder_reaches_the_terminal_as_a_command(
    folder: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    def change(records: list[dict[str, Any]]) -> None:
        old = records[1]["plan"][place]
        records[1]["plan"][place] = [*old, CLEARED] if isinstance(old, list) else CLEARED

    with_ledger(folder, change)
    for command in ("verify", "explain"):
        assert run([command, str(folder)]) == 1
        printed = capsys.readouterr()
        assert "\x1b[2J" not in printed.out + printed.err
        assert "\nyes  Everything" not in printed.out


def test_a_card_makes_no_markup_of_what_a_plan_says() -> None:
    from lowkey.privacy.plan import Plan
    from lowkey.release.writing import facts_of
    from lowkey.report import build_report, model_card

    class Linked(lk.DPBias):
        def plan_of(self, settings: Any) -> Plan:
            plan = super().plan_of(settings)
            return replace(plan, public=(*plan.public, "<b>x</b> [y](https://e.example) ![z](data:1)"))

    model = Linked(epsilon=1.0, delta=1e-5).fit(CROWD.ratings()).model_
    card = model_card(build_report(facts_of(model), model.ledger))
    assert not re.search(r"(?<!\\)[<\[!]", card)
    assert "https://" not in card


REMADE = "The model is what its method makes of the posts"
METHODS = {  # with rounds, with a state that users keep, in one pass, with a search on what was posted
    "DPALS": {"rank": 3, "n_iter": 2}, "DPBias": {}, "DPFactors": {"rank": 2, "n_iter": 2}, "DPFrankWolfe": {"n_iter": 3},
    "DPLMC": {"rank": 2, "n_iter": 2}, "DPLists": {}, "DPMoments": {}, "DPSVD": {"rank": 2}, "DPSketch": {},
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_a_model_is_made_again_from_the_posts_of_its_folder(tmp_path: Path, method: str) -> None:
    """And an honest folder with one column of the model changed, or one number of one post, is not what it says."""
    fitted = getattr(lk, method)(epsilon=4.0, delta=1e-5, **METHODS[method]).fit(CROWD.ratings())
    folder = fitted.release(tmp_path / "release")
    assert {check.claim: check.detail for check in lk.verify(folder)}[REMADE] == "to the last bit"
    model = lk.load(folder)
    again = model.release(tmp_path / "again")
    assert failures(again) == []
    name = max(model.arrays, key=lambda name: model.arrays[name].size)
    changed = {**model.arrays, name: model.arrays[name].copy()}
    changed[name][..., 0] += 0.01 * np.abs(changed[name]).max()
    with_words(with_model(again, changed))
    assert failures(again) == [REMADE]


def forged_posts(folder: Path) -> dict[str, Any]:
    origin = lk.load(folder).origin
    assert origin is not None
    return {str(seq): np.array(post) for seq, post in origin.posts.items()}


def test_a_post_that_is_not_on_the_ledger_is_seen(folder: Path) -> None:
    posts = forged_posts(folder)
    first = next(iter(posts))
    posts[first].flat[0] += 1.0
    with_words(with_posts(folder, posts))
    assert failures(folder) == [REMADE]  # of the ledger, but another model follows from it
    posts[first] = posts[first].ravel()
    with_words(with_posts(folder, posts))
    assert REMADE in failures(folder)  # of another shape than is on the ledger
    rewrite(folder, lambda manifest: manifest["made"]["posts"].pop(first))
    assert REMADE in failures(folder)


def test_posts_of_another_fit_are_not_on_the_ledger(folder: Path, tmp_path: Path) -> None:
    """Posts and model of another release of the same plan, which fit together, beside the ledger of this one."""
    other = lk.DPBias(epsilon=2.0, delta=1e-5).fit(CROWD.ratings()).release(tmp_path / "other")
    for name in ("model.safetensors", "posts.safetensors"):
        shutil.copy(other / name, folder)
    settings = json.loads((other / "manifest.json").read_text())["settings"]
    with_words(rewrite(folder, lambda manifest: manifest.update(settings=settings)))
    assert failures(folder) == [REMADE]


@pytest.mark.parametrize(
    "parameters", [{"n_iter": 1}, {"n_iter": 10**9}, {"epsilon": 1.0}, {"residual_bound": 0.5}, {"nothing": 1}]
)
def test_parameters_that_lead_to_another_plan_are_no_origin(folder: Path, parameters: dict[str, Any]) -> None:
    with_words(with_posts(folder, forged_posts(folder), **parameters))
    assert failures(folder) == [REMADE]


def test_a_forger_with_a_column_of_their_own_is_found_without_a_key(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whole folder rewritten; the posts left out, too: a folder of such a method has them."""
    model = lk.load(folder)
    column = factors(1, item_bias=model.arrays["item_bias"], item_factors=np.linspace(-1.0, 1.0, N)[:, None])
    for forged in (folder, Path(shutil.copytree(folder, folder.parent / "without"))):
        with_words(with_model(forged, column))
        if forged.name == "without":
            with_words(without_posts(forged))
        assert failures(forged) == [REMADE]
        assert run(["verify", str(forged)]) == 1
        assert "NO   The model is what its method makes of the posts" in capsys.readouterr().out


def test_verify_says_what_it_cannot_know(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A forger who makes up posts as well: consistent, so the answer is yes, and worth what it is worth."""
    honest = json.loads((folder / "manifest.json").read_text())["id"]
    posts = {name: np.round(post + 3.0) for name, post in forged_posts(folder).items()}
    with_posts(folder, posts)
    origin, ledger = lk.load(folder).origin, lk.load(folder).ledger
    assert origin is not None
    names = [ledger.records[seq]["line"]["name"] for seq in origin.posts]
    made = remade("DPBias", origin, CROWD.domain(), ledger.plans()[0], names)
    with_words(with_model(folder, dict(made.arrays), settings=dict(made.settings)))
    assert run(["verify", str(folder)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Everything that this release claims holds" not in printed
    assert "The curator's word, which no folder can prove: that the noise was drawn" in printed
    assert "Nor does it prove who wrote it" in printed
    assert run(["verify", str(folder), "--id", honest]) == 1
