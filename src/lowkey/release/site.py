"""Public room: a release as a static site: one page that recommends in the visitor's browser and connects to nowhere.

Everything that the page needs is inside index.html, so it also works from a disk. The same model stands beside it as
files, for apps that import lowkey.js. The manifest holds the hashes of both files and its own, which lowkey.js compares.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import scipy.sparse

from lowkey import __version__
from lowkey.data.ids import splitmix64
from lowkey.model import Model
from lowkey.privacy.price import at_most
from lowkey.release.folder import MODEL, REPORT, REPORT_PAGE, broken, canonical, check_destination, read_manifest
from lowkey.release.loading import load
from lowkey.release.verifying import verify
from lowkey.serving.compact import MOST_PLANES, compact, expand

FORMAT = "lowkey-web/1"
PAGE, SCRIPT, CATALOGUE, MANIFEST = "index.html", "lowkey.js", "items.json", "manifest.json"
SITE_FILES = (PAGE, SCRIPT, CATALOGUE, MANIFEST, MODEL, REPORT_PAGE)
PICKED_UP = 'import { load, LowkeyError } from "./lowkey.js";\n'
EXACT = 2**53  # whole numbers above it are not themselves in JavaScript
LOSS_HISTORIES = 1000
SAME_TEN = 0.997  # of the histories: int8 gets as many further bits as that needs


def write_site(
    folder: str | Path, out: str | Path, precision: str = "float16", titles: dict[str, str] | None = None, heading: str = ""
) -> dict[str, Any]:
    """Write the site of a release that holds all its claims; returns what its manifest says. Nothing is spent."""
    destination = check_destination(out)
    check_claims(folder)
    contents = site_files(Path(folder), load(folder), precision, titles, heading)
    destination.mkdir(exist_ok=True)
    for name, content in contents.items():
        (destination / name).write_bytes(content)
    return json.loads(contents[MANIFEST]) | {"bytes": sum(map(len, contents.values())), "names": sorted(contents)}


def check_claims(folder: str | Path, key: str | Path | None = None) -> None:
    """Refuse a folder of which a claim does not hold, or that is not signed with ``key``."""
    failed = [check for check in verify(folder, key=key) if not check.ok]
    if failed:
        broken(
            f"a claim that does not hold: {failed[0].claim} ({failed[0].detail})", "a release that `lowkey verify` passes"
        )


def site_files(
    source: Path, model: Model, precision: str = "float16", titles: dict[str, str] | None = None, heading: str = ""
) -> dict[str, bytes]:
    """The site's files by name, of a folder whose claims were checked and of its model."""
    report = json.loads((source / REPORT).read_text("utf-8"))
    privacy = {name: report[name] for name in ("statement", "epsilon", "delta", "unit")}
    facts = {"release": read_manifest(source)["id"], "privacy": privacy}
    contents = model_files(model, precision, titles, facts)
    contents[SCRIPT] = _web(SCRIPT).encode()
    contents[REPORT_PAGE] = (source / REPORT_PAGE).read_bytes()
    contents[PAGE] = _page(contents, heading).encode()
    return contents


def model_files(
    model: Model, precision: str, titles: dict[str, str] | None = None, facts: dict[str, Any] | None = None
) -> dict[str, bytes]:
    """The model, the catalogue and their manifest, as lowkey.js loads them."""
    stored, loss = smaller(model, precision)
    contents = {MODEL: safetensors.numpy.save(stored), CATALOGUE: _catalogue(model, titles).encode()}
    manifest = {
        "format": FORMAT,
        "lowkey": __version__,
        "method": model.method,
        "rule": model.rule,
        "settings": dict(model.settings),
        "n_items": model.domain.n_items,
        "rating_range": None if model.domain.rating_range is None else list(model.domain.rating_range),
        **({"counts": True} if model.domain.scale.counted else {}),
        "precision": precision,
        "loss": loss,
        "files": {n: {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for n, c in contents.items()},
        **(facts or {}),
    }
    manifest["id"] = hashlib.sha256(_inert(canonical(manifest)).encode()).hexdigest()
    return {**contents, MANIFEST: _inert(canonical(manifest)).encode()}


def smaller(model: Model, precision: str) -> tuple[dict[str, Any], dict[str, float]]:
    """The arrays in few bytes, and what that loses. A plane halves int8's step, and so about the share of other tens."""
    rows, n = _made_up(model), min(10, model.domain.n_items // 2)
    exact = model.recommend(rows, n)
    planes, size = 0, 0
    while True:
        stored = compact(model.arrays, precision, planes)
        made = Model(model.method, model.rule, expand(stored), model.settings, model.domain, model.ledger)
        loss = _loss(exact, made.recommend(rows, n))
        before, size = size, sum(array.nbytes for array in stored.values())
        if precision != "int8" or loss["same_ten"] >= SAME_TEN or planes == MOST_PLANES or size == before:
            return stored, loss
        lacking = math.log2((1.0 - loss["same_ten"]) / (1.0 - SAME_TEN))
        planes = min(MOST_PLANES, planes + max(1, math.ceil(lacking)))


def _loss(exact: Any, approximate: Any) -> dict[str, float]:
    """What the smaller numbers change, on made-up histories: of nobody, and the same for everybody who asks."""
    kept = [len(set(a) & set(b)) / len(a) for a, b in zip(exact[0].tolist(), approximate[0].tolist(), strict=True)]
    return {
        "histories": len(kept),
        "top_ten_kept": float(np.mean(kept)),
        "same_ten": float(np.mean(np.equal(kept, 1.0))),
        "largest_change_of_a_score": float(np.abs(exact[1] - approximate[1]).max()),
    }


def _made_up(model: Model) -> Any:
    """Histories of up to 30 items (of the head, where the model has one), from a fixed stream of numbers."""
    n_items, limits = model.domain.n_items, model.domain.rating_range
    pool = np.asarray(model.arrays.get("head", np.arange(n_items)))
    length = max(1, min(30, len(pool) // 4))
    mixed = splitmix64(np.arange(2 * LOSS_HISTORIES * length, dtype=np.uint64)).reshape(2, LOSS_HISTORIES, length)
    share = (mixed[1] >> np.uint64(11)).astype(np.float64) / 2.0**53
    values = np.ones_like(share) if limits is None else limits[0] + share * (limits[1] - limits[0])
    rows = np.repeat(np.arange(LOSS_HISTORIES), length)
    columns = pool[(mixed[0] % np.uint64(len(pool))).astype(np.int64).ravel()]
    _, first = np.unique(rows * n_items + columns, return_index=True)  # each item once
    cells = (values.ravel()[first], (rows[first], columns[first]))
    return scipy.sparse.csr_array(cells, shape=(LOSS_HISTORIES, n_items))


def _catalogue(model: Model, titles: dict[str, str] | None) -> str:
    ids = model.domain.item_ids.to_pylist()
    if any(isinstance(i, int) and abs(i) >= EXACT for i in ids):
        ids = [str(i) for i in ids]
    listed = {"ids": ids} if titles is None else {"ids": ids, "titles": [titles.get(str(i), str(i)) for i in ids]}
    return _inert(json.dumps(listed, ensure_ascii=False, separators=(",", ":")))


def _page(contents: dict[str, bytes], heading: str) -> str:
    """index.html with everything inside, and a policy that allows exactly its own style and script and no connection."""
    manifest = json.loads(contents[MANIFEST])
    style, script = _web("style.css"), _web("page.js").replace(PICKED_UP, _web(SCRIPT))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    privacy = manifest["privacy"]
    filled = {
        "policy": policy,
        "style": style,
        "script": script,
        "title": escape(heading or "What next?"),
        "statement": escape(privacy["statement"]),
        "epsilon": at_most(privacy["epsilon"], 4),
        "delta": f"{privacy['delta']:g}",
        "unit": escape(privacy["unit"]),
        "release": manifest["release"][:16],
        "version": escape(__version__),
        "manifest": contents[MANIFEST].decode(),
        "items": contents[CATALOGUE].decode(),
        "model": base64.b64encode(contents[MODEL]).decode(),
    }
    first, *rest = _web(PAGE).split("{{")
    return first + "".join(filled[name] + text for name, text in (part.split("}}", 1) for part in rest))


def _web(name: str) -> str:
    return (files("lowkey.serving") / "web" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _inert(text: str) -> str:
    """JSON that can stand in a page: a title with a tag in it stays a title."""
    return text.replace("<", "\\u003c")
