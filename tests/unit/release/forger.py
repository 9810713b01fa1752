"""What a careful forger does to a release folder: any change, with every hash and the id put right after it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import safetensors.numpy

from lowkey.privacy.ledger import Ledger
from lowkey.release.folder import ITEMS, LEDGER, MANIFEST, MODEL, POSTS, canonical, files_of, with_id
from lowkey.release.writing import write_words

DTYPES = {"float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64"}


def rewrite(folder: Path, change: Callable[[dict[str, Any]], Any] | None = None) -> Path:
    manifest = json.loads((folder / MANIFEST).read_text())
    for name in files_of(manifest):
        if (folder / name).exists():
            data = (folder / name).read_bytes()
            manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    if change:
        change(manifest)
    manifest.pop("id")
    (folder / MANIFEST).write_text(canonical(with_id(manifest)))
    return folder


def with_model(folder: Path, arrays: dict[str, Any], **fields: Any) -> Path:
    """Other arrays, and other fields of the manifest."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    safetensors.numpy.save_file(plain, folder / MODEL)
    told = {name: {"dtype": DTYPES[str(array.dtype)], "shape": list(array.shape)} for name, array in plain.items()}
    return rewrite(folder, lambda manifest: manifest.update(arrays=told, **fields))


def with_posts(folder: Path, posts: dict[str, Any], **parameters: Any) -> Path:
    """Other posts under the numbers of the old ones, whose hashes the ledger gets; and other parameters."""
    safetensors.numpy.save_file({name: np.ascontiguousarray(post) for name, post in posts.items()}, folder / POSTS)
    hashes = {int(name): hashlib.sha256(np.ascontiguousarray(post).data).hexdigest() for name, post in posts.items()}

    def commit(records: list[dict[str, Any]]) -> None:
        for record in records:
            if record["kind"] == "commit" and record["reservation"] in hashes:
                record["sha256"] = hashes[record["reservation"]]

    with_ledger(folder, commit)
    return rewrite(folder, lambda manifest: manifest["made"]["parameters"].update(parameters))


def without_posts(folder: Path) -> Path:
    (folder / POSTS).unlink(missing_ok=True)
    return rewrite(folder, lambda manifest: [manifest.pop("made", None), manifest["files"].pop(POSTS, None)])


def with_words(folder: Path) -> Path:
    """Report, card and manifest written anew, so that they say what the changed folder says."""
    manifest = json.loads((folder / MANIFEST).read_text())
    ledger = Ledger.loads((folder / LEDGER).read_bytes())
    write_words(folder, {name: value for name, value in manifest.items() if name not in ("files", "id")}, ledger)
    return folder


def with_items(folder: Path, items: pa.Array, **options: Any) -> Path:
    pyarrow.parquet.write_table(pa.table({"item": items}), folder / ITEMS, **options)

    def tell(manifest: dict[str, Any]) -> None:
        manifest["domain"] |= {"n_items": len(items), "positional": False}

    return rewrite(folder, tell)


def with_ledger(folder: Path, change: Callable[[list[dict[str, Any]]], Any]) -> Path:
    """Other lines of the ledger, chained anew."""
    records = [json.loads(line) for line in (folder / LEDGER).read_text().splitlines()]
    change(records)
    previous = "0" * 64
    for seq, record in enumerate(records):
        record |= {"seq": seq, "prev": previous}
        body = {key: value for key, value in record.items() if key != "hash"}
        record["hash"] = previous = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    (folder / LEDGER).write_text("".join(json.dumps(record, sort_keys=True) + "\n" for record in records))
    return rewrite(folder, lambda manifest: manifest.update(ledger_head=previous))
