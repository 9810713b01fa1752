"""`lowkey export`: the site and its limits, the package for apps, and other formats, which leave no array out."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import safetensors.numpy
from rule_models import MODELS_OF_FORMATS, histories, rule_models

import lowkey as lk
from lowkey.cli.main import run
from lowkey.data.synthetic import taste
from lowkey.errors import LowkeyError
from lowkey.release.formats import WRITERS
from lowkey.release.site import SITE_FILES, model_files, write_site
from lowkey.serving.compact import MOST_WEIGHT_BYTES, compact, expand, thin_weights, weighted

WEB = Path(lk.__file__).parent / "serving" / "web"
CROWD = taste(600, 120, 20, seed=5)


def lowkey(line: str) -> int:
    return run(shlex.split(line))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "release"
    lk.DPFactors(epsilon=4.0, delta=1e-6, rank=4).fit(CROWD.ratings()).release(folder)
    return folder


def test_the_site_is_complete_and_says_what_was_lost(release: Path, tmp_path: Path, capsys: Any) -> None:
    assert lowkey(f"export {release} --to web --out {tmp_path / 'site'} --precision int8") == 0
    said = capsys.readouterr().out
    assert {path.name for path in (tmp_path / "site").iterdir()} == set(SITE_FILES)
    manifest = json.loads((tmp_path / "site" / "manifest.json").read_text())
    assert f"{manifest['loss']['top_ten_kept']:.2%} of the top ten" in said
    assert (tmp_path / "site" / "privacy_report.html").read_bytes() == (release / "privacy_report.html").read_bytes()
    assert manifest["release"] == json.loads((release / "manifest.json").read_text())["id"]
    page = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert manifest["privacy"]["statement"] in page
    assert "connect-src" not in page
    assert "default-src 'none'" in page
    assert "http://" not in re.sub("http://www.w3.org/2000/svg", "", page)
    assert "https://" not in page


def test_titles_come_from_a_file_and_ids_stand_in(release: Path, tmp_path: Path) -> None:
    names = CROWD.facts["items"]
    (tmp_path / "titles.csv").write_text(f'item,title\n{names[3]},"A, B"\n', "utf-8")
    assert lowkey(f"export {release} --to web --out {tmp_path / 'site'} --titles {tmp_path / 'titles.csv'} -q") == 0
    items = json.loads((tmp_path / "site" / "items.json").read_text("utf-8"))
    assert items["titles"][3] == "A, B"
    assert items["titles"][4] == names[4] == items["ids"][4]


def test_numbers_that_javascript_cannot_hold_become_text() -> None:
    model = rule_models()["bias"]
    ids = [2**53 + 1 + i for i in range(model.domain.n_items)]
    large = lk.Model(model.method, model.rule, model.arrays, model.settings, lk.Domain(ids, (0.5, 5.0)), model.ledger)
    listed = json.loads(model_files(large, "float32")["items.json"])
    assert listed["ids"][:2] == ["9007199254740993", "9007199254740994"]


BAD_FOLDERS = {
    "changed model": lambda folder: _flip(folder / "model.safetensors"),
    "changed report": lambda folder: _flip(folder / "privacy_report.html"),
    "half a ledger": lambda folder: (folder / "ledger.jsonl").write_bytes((folder / "ledger.jsonl").read_bytes()[:100]),
    "no items": lambda folder: (folder / "items.parquet").unlink(),
    "another version": lambda folder: (folder / "manifest.json").write_text(
        (folder / "manifest.json").read_text().replace("lowkey-release/1", "lowkey-release/9")
    ),
}


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", BAD_FOLDERS)
def test_a_bad_release_gets_no_page(release: Path, tmp_path: Path, damage: str) -> None:
    shutil.copytree(release, tmp_path / "release")
    BAD_FOLDERS[damage](tmp_path / "release")
    with pytest.raises(LowkeyError, match="does not hold"):
        write_site(tmp_path / "release", tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_the_script_is_small_and_stands_alone() -> None:
    text = (WEB / "lowkey.js").read_text("utf-8")
    assert len(gzip.compress(text.encode())) <= 20_000
    assert not re.search(r"^\s*import\b|\bimport\(|require\(|eval\(|new Function|innerHTML|localStorage|cookie", text, re.M)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here (Debian: apt-get install nodejs)")
def test_the_package_passes_its_own_tests() -> None:
    done = subprocess.run(["node", "--test"], cwd=WEB, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"pass [1-9]", done.stdout)


def test_the_types_name_all_that_the_script_offers() -> None:
    script, types = (WEB / "lowkey.js").read_text("utf-8"), (WEB / "lowkey.d.ts").read_text("utf-8")
    offered = set(re.findall(r"^export (?:async )?(?:const|class|function) (\w+)", script, re.M))
    assert (
        offered
        == set(re.findall(r"^export (?:const|class|function) (\w+)", types, re.M))
        == {"FORMAT", "LowkeyError", "Model", "load"}
    )
    methods = re.findall(r"^  (\w+)\(.*\) \{$", script[script.index("export class Model") :], re.M)
    assert set(methods) - {"constructor"} == {"foldIn", "scores", "recommend", "explain"}
    assert all(f"  {name}(" in types for name in methods if name != "constructor")
    package = json.loads((WEB / "package.json").read_text())
    assert all((WEB / name).is_file() for name in package["files"])
    assert package["version"] == lk.__version__


def test_compact_arrays_are_near() -> None:
    """float16 keeps 11 bits of each number; int8 errs by at most half a step of its row, which is its largest / 127, and
    every plane of further bits halves that."""
    array = np.random.default_rng(3).normal(size=(1500, 16)) * np.logspace(0, -3, 16)
    array[7] = 0.0
    for precision, bound in (("float32", 2**-24 * np.abs(array)), ("float16", 2**-11 * np.abs(array) + 1e-9)):
        assert (np.abs(expand(compact({"m": array}, precision))["m"] - array) <= bound * 1.01).all()
    for planes in (0, 1, 5):
        stored = compact({"m": array}, "int8", planes)
        assert stored["m"].nbytes + (stored["m.fine"].nbytes if planes else 0) == array.size * (8 + planes) // 8
        step = stored["m.rows"][:, None].astype(float) * stored["m.columns"] / 2**planes
        # A largest number may be cut by the 2 % that a row's step may be finer than it needs.
        error = np.abs(expand(stored)["m"] - array)
        assert (error <= np.maximum(0.5 * step, 0.021 * np.abs(array)) * 1.01).all()
        assert (expand(stored)["m"][7] == 0.0).all()


def test_thin_weights_are_the_weights_of_ease_off_the_diagonal() -> None:
    """EASE with a Gram matrix of rank 24 has weights of rank 24, but for the diagonal."""
    arrays = rule_models()["item weights, thin"].arrays
    left, right = thin_weights(arrays, 40)
    exact = weighted(arrays)
    rest = left @ right.T - exact
    np.fill_diagonal(rest, 0.0)
    assert np.linalg.norm(rest) < 1e-3 * np.linalg.norm(exact)


def test_one_half_of_the_weights_of_ease_is_enough() -> None:
    """Noise in the Gram matrix gives the weights full rank; their symmetry is left, and halves what must be sent."""
    arrays = rule_models()["item weights, in bytes"].arrays
    exact = weighted(arrays)
    for precision, most in (("float16", 1e-3), ("int8", 0.02)):  # float16: as many further bits as the page has room for
        stored = compact(arrays, precision)
        assert stored["half"].nbytes == 1200 * 1199 // 2
        assert sum(stored[name].nbytes for name in stored if name.startswith("half")) <= MOST_WEIGHT_BYTES
        assert np.linalg.norm(weighted(expand(stored)) - exact) < most * np.linalg.norm(exact)


def test_weights_that_noise_has_drowned_stay_zero() -> None:
    arrays = dict(rule_models()["lists"].arrays)
    arrays["item_weights"] = np.array(arrays["item_weights"])
    for gone in (slice(7, 9), slice(None)):
        arrays["item_weights"][gone] = arrays["item_weights"][:, gone] = 0.0
        stored = expand(compact(arrays, "int8", 4))
        assert np.abs(weighted(stored) - weighted(arrays)).max() <= 1e-3 * np.abs(weighted(arrays)).max()


def test_weights_that_are_no_product_stay_whole_where_they_fit() -> None:
    """Random weights have no low rank: bytes keep them within half a step; two thin matrices would lose most of them."""
    rng = np.random.default_rng(8)
    arrays = dict(rule_models()["item weights, thin"].arrays)
    for size, form in ((800, "item_weights"), (1400, "left")):
        arrays["item_weights"] = rng.normal(size=(size, size)) * (1.0 - np.eye(size))
        arrays |= {"input_weights": np.ones(size), "output_weights": np.ones(size), "head": np.arange(size)}
        stored = compact(arrays, "float16")
        assert form in stored
        assert (
            sum(array.nbytes for name, array in stored.items() if name[:4] in ("item", "left", "righ"))
            < 1.05 * MOST_WEIGHT_BYTES
        )
        if form == "item_weights":
            assert np.abs(expand(stored)["item_weights"] - arrays["item_weights"]).max() < 0.1


@pytest.mark.parametrize("name", MODELS_OF_FORMATS)
def test_parquet_leaves_no_array_out(name: str, tmp_path: Path) -> None:
    model = rule_models()[name]
    written, recipe = WRITERS["parquet"](model, tmp_path / "out")
    assert "inner product" in recipe
    found: dict[str, Any] = {}
    for file in written:
        table = pyarrow.parquet.read_table(tmp_path / "out" / file)
        found |= {column: np.array(table[column].to_pylist()) for column in table.column_names if column in model.arrays}
    assert {name for name, array in model.arrays.items() if array.size} == set(found)
    for key, array in found.items():
        np.testing.assert_array_equal(array, model.arrays[key])


@pytest.mark.parametrize("name", ["factors", "signs", "item weights", "lists", "lists of what is liked"])
def test_a_vector_store_finds_what_recommend_finds(name: str, tmp_path: Path) -> None:
    """By the printed recipe and nothing else."""
    from usearch.index import Index

    model = rule_models()[name]
    WRITERS["usearch"](model, tmp_path / "out")
    index = Index.restore(str(tmp_path / "out" / "items.usearch"))
    assert index is not None
    table = pyarrow.parquet.read_table(tmp_path / "out" / "items.parquet")
    rows = histories(model, 40)
    rows = rows[np.flatnonzero(np.diff(rows.indptr))]  # all are alike to somebody without a history
    expected, _ = model.recommend(rows, 10)
    kept = []
    for row in range(rows.shape[0]):
        mine = rows[[row]]
        if "head" in model.arrays:
            taken = mine.indices if not model.settings.get("liked") else mine.indices[mine.data >= model.settings["liked"]]
            parts = [part for part in (table["query_part"][int(i)].as_py() for i in taken) if part is not None]
            if not parts:
                continue
            query = np.sum(parts, axis=0)
            if model.rule == "lists":
                u, x = np.zeros(model.arrays["usual"].shape[1] + 1), 2.0 * np.log2(len(parts))
                u[int(x)], u[int(x) + 1] = 1 + int(x) - x, x - int(x)
                query = np.concatenate([query, [1, len(parts)], u[:-1]])
        else:
            query = model.transform(mine)[0]
            query = np.append(query, 1.0) if model.rule == "factors" else query
        matches = index.search(query.astype(np.float32), 10 + mine.nnz, exact=True).keys
        best = [int(key) for key in matches if key not in mine.indices][:10]
        kept.append(len(set(best) & set(model.domain.positions(expected[row]))) / 10)
    assert len(kept) > 20
    assert np.mean(kept) > 0.99


def test_a_safetensors_file_of_the_site_is_plain() -> None:
    content = model_files(rule_models()["factors"], "float16")["model.safetensors"]
    assert set(safetensors.numpy.load(content)) == {"item_factors", "item_factors.columns", "item_bias"}


def test_the_example_of_the_vector_stores_page_runs(capsys: Any) -> None:
    text = (Path(__file__).parents[2] / "docs" / "vector-stores.md").read_text("utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.S)
    assert code
    exec(code[1], {})
    recipe, same = capsys.readouterr().out.splitlines()
    assert "inner product" in recipe
    assert same == "True"
