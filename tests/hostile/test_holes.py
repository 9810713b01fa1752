"""What version 0.1.0 let happen, one test for each kind of hole, in words that both versions understand.

With ``PYTHONPATH`` at the sources of 0.1.0 every one of these fails (``--noconftest -c /dev/null``). Each is a single case;
the other tests of this folder and those beside the code walk through all of them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

import lowkey as lk
from lowkey.cli.main import run
from lowkey.data.synthetic import taste, write_taste
from lowkey.errors import BudgetError, LedgerError, LowkeyError
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.sums import Grid, Sensitivity, Statistic, Unreleased

CROWD = taste(300, 40, 10, seed=5)
SIGNS = {"link": "probit", "reg": 1.0, "threshold": 3.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return lk.DPBias(epsilon=2.0, delta=1e-5).fit(CROWD.ratings()).release(tmp_path / "release")


def hashed(folder: Path, **fields: Any) -> None:
    """Every hash put right."""
    manifest = {**json.loads((folder / "manifest.json").read_text()), **fields}
    for name in manifest["files"]:
        data = (folder / name).read_bytes()
        manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    text = lambda content: json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    manifest.pop("id")
    manifest["id"] = hashlib.sha256(text(manifest).encode()).hexdigest()
    (folder / "manifest.json").write_text(text(manifest))


def with_arrays(folder: Path, arrays: dict[str, Any], **fields: Any) -> None:
    safetensors.numpy.save_file(arrays, folder / "model.safetensors")
    told = {name: {"dtype": "F64", "shape": list(array.shape)} for name, array in arrays.items()}
    hashed(folder, arrays=told, **fields)


def with_ids(folder: Path, ids: pa.Array, **options: Any) -> dict[str, Any]:
    pq.write_table(pa.table({"item": ids}), folder / "items.parquet", **options)
    domain = json.loads((folder / "manifest.json").read_text())["domain"]
    return {"domain": {**domain, "n_items": len(ids), "positional": False}}


def in_process(program: str, *arguments: Any, seconds: int = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)


def test_1_a_name_in_a_folder_is_no_path(folder: Path, tmp_path: Path) -> None:
    model = lk.load(folder)
    with_arrays(folder, {**{name: np.array(array) for name, array in model.arrays.items()}, f"{tmp_path}/x": np.zeros(3)})
    run(["export", str(folder), "--to", "npy", "--out", str(tmp_path / "out"), "--quiet"])
    assert not (tmp_path / "x.npy").exists()


def test_2_no_length_of_a_folder_reaches_compiled_code(folder: Path) -> None:
    fields = with_ids(folder, pa.array(np.arange(5_000_000)))
    with_arrays(folder, {"item_factors": np.zeros((1, 10))}, rule="signs", settings=SIGNS, **fields)
    program = "import sys, lowkey as lk; lk.load(sys.argv[1]).recommend({4_999_999: 4.0}, n=3)"
    done = in_process(program, folder)
    assert (done.returncode, "VerifyError" in done.stderr) == (1, True)


PEAK = """
import resource, sys
import lowkey as lk
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
try:
    {call}
except BaseException:
    pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_3_some_bytes_that_declare_a_hundred_gigabytes_stay_small(folder: Path) -> None:
    ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(25_000_000, np.int32)), pa.array(["x" * 4000]))
    one_page = {"row_group_size": len(ids), "write_batch_size": len(ids), "max_rows_per_page": len(ids)}
    fields = with_ids(folder, ids, store_schema=False, data_page_size=1 << 30, write_statistics=False, **one_page)
    assert (folder / "items.parquet").stat().st_size < 5000
    hashed(folder, **fields)
    done = in_process(PEAK.format(call="lk.verify(sys.argv[1])"), folder, seconds=120)
    assert int(done.stdout or 10**6) < 500, done.stderr[-300:]


def test_4_a_column_that_no_post_gives_is_a_no(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = lk.load(folder)
    arrays = {"item_bias": model.arrays["item_bias"], "item_factors": np.linspace(-1.0, 1.0, 40)[:, None]}
    settings = {**model.settings, "reg": 1.0}
    lk.Model(model.method, "factors", arrays, settings, model.domain, model.ledger).release(tmp_path / "forged")
    assert run(["verify", str(tmp_path / "forged")]) == 1
    assert "Everything that this release claims holds" not in capsys.readouterr().out
    assert run(["verify", str(folder)]) == 0
    assert "no folder can prove" in capsys.readouterr().out


STATISTIC = Statistic("sums", (3,), Grid(-26), Sensitivity.of_vectors(1.0), 1 << 26)
PLAN = Plan("Test", (Line("sums", Gaussian(5.0), 3, times=5),), 1e-6)
TOTAL = (1.2 * PLAN.price.epsilon if hasattr(PLAN, "price") else 1.2 * PLAN.guarantee().epsilon, 1e-6)


def begun(path: Path) -> Billboard:
    billboard = Billboard(Ledger(path))
    billboard.begin(PLAN)
    return billboard


def posted(billboard: Billboard) -> bool:
    try:
        billboard.post(Unreleased(STATISTIC, np.zeros(3, np.int64)))
    except BudgetError:
        return False
    return True


def test_5_of_two_who_take_turns_one_gets_the_budget(tmp_path: Path) -> None:
    Ledger(tmp_path / "ledger.jsonl", total=TOTAL)
    first, won = begun(tmp_path / "ledger.jsonl"), []
    try:
        second = begun(tmp_path / "ledger.jsonl")
    except BudgetError:
        second = None
    for _ in range(5):
        won.append((posted(first), second is not None and posted(second)))
    assert [all(turns) for turns in zip(*won, strict=True)] == [True, False]


def test_5_settings_that_cannot_work_cost_nothing(tmp_path: Path) -> None:
    facts, ledger = write_taste(tmp_path / "ratings.parquet", 300, 40, 10, seed=5), tmp_path / "people.jsonl"
    (tmp_path / "catalogue.txt").write_text("\n".join(facts["items"]) + "\n")
    told = f"--user user --item item --rating rating --scale 0.5 5 --items {tmp_path}/catalogue.txt --epsilon 1"
    told += f" --delta 1e-5 --method bias --set residual_bound=NaN --ledger {ledger} --out {tmp_path}/out --quiet"
    run(["release", str(tmp_path / "ratings.parquet"), *told.split()])
    assert (tmp_path / "out").exists() or not ledger.exists() or '"reserve"' not in ledger.read_text()


def test_6_a_ledger_is_one_by_whatever_name(tmp_path: Path) -> None:
    path, other, precious = tmp_path / "ledger.jsonl", tmp_path / "other.jsonl", tmp_path / "precious"
    precious.write_text("mine")
    os.symlink(precious, tmp_path / "ledger.jsonl.lock")
    Ledger(path, total=TOTAL)
    os.link(path, other)
    assert precious.read_text() == "mine"
    first, refused = begun(path), False
    try:
        begun(other)
    except (BudgetError, LedgerError):
        refused = True
    assert refused
    assert posted(first)


COPIED = """
import os
from lowkey.privacy.noise import NoiseSource
os.getpid = lambda: 7  # as in two pid namespaces
source, (reading, writing) = NoiseSource(), os.pipe()
source.words(1)
child = os.fork()
if child == 0:
    os.write(writing, source.words(4).tobytes())
    os._exit(0)
os.waitpid(child, 0)
print(os.read(reading, 32) == source.words(4).tobytes())
"""


def test_7_a_copy_of_the_process_draws_other_noise() -> None:
    done = in_process(COPIED)
    assert done.stdout == "False\n", done.stderr[-500:]


FORKED = """
import os, signal, sys
import lowkey as lk
from lowkey.data.synthetic import taste
model = lk.load(sys.argv[1])
rows = taste(2000, 40, 10, seed=5).csr
model.recommend(rows, n=3, exclude_seen=False)
child = os.fork()
if child == 0:
    signal.alarm(20)
    model.recommend(rows, n=3, exclude_seen=False)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_8_a_fork_serves_after_its_parent_did(folder: Path) -> None:
    done = in_process(FORKED, folder)
    assert done.stdout == "0\n", done.stderr[-500:]


LEFT = """
import os, signal, sys
import lowkey as lk
domain = lk.Domain(40, rating_range=(0.5, 5.0))
rows = lk.read_ratings(sys.argv[1], domain, user="user", item="item", rating="rating", out_of_core=True)
os.kill(os.getpid(), signal.SIGHUP)
"""


def test_9_a_signal_leaves_no_row_on_disk(tmp_path: Path) -> None:
    rows = CROWD.csr.tocoo()
    table = {"user": rows.row, "item": rows.col, "rating": rows.data}
    pq.write_table(pa.table(table), tmp_path / "ratings.parquet")
    assert in_process(LEFT, tmp_path / "ratings.parquet").returncode == -signal.SIGHUP
    assert [entry.name for entry in tmp_path.iterdir()] == ["ratings.parquet"]


def test_10_an_error_quotes_no_row_of_a_file_with_a_damaged_header(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("user,canary 1,3.5\ncanary 3,film 4,2.5\n")
    with pytest.raises(LowkeyError) as caught:
        lk.read_ratings(tmp_path / "rows.csv", CROWD.domain(), user="user", item="item", rating="rating")
    assert "canary" not in str(caught.value)


def test_10_some_megabytes_of_gzip_stay_small(tmp_path: Path) -> None:
    block = gzip.compress(b"canary,film 1,3\n" * (10 << 16), mtime=0)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"user,item,rating\n", mtime=0) + block * 150)
    call = 'lk.read_ratings(sys.argv[1], lk.Domain(["film 1"], (1.0, 5.0)), user="user", item="item", rating="rating")'
    done = in_process(PEAK.format(call=call), tmp_path / "bomb.csv.gz", seconds=120)
    assert int(done.stdout or 10**6) < 1000, done.stderr[-300:]


def test_11_what_is_installed_is_pinned_by_hashes_and_listed() -> None:
    root = Path(lk.__file__).parents[2]
    assert "--require-hashes" in (root / "Makefile").read_text()
    assert "--hash=sha256:" in "".join(path.read_text() for path in root.glob("requirements*.lock"))
    assert (root / "tools" / "sbom.py").exists()
    assert "Contact" in (root / "SECURITY.md").read_text()
