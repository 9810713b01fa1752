"""Public room: reads a release folder from a stranger. Names, sizes, dtypes and hashes come before memory is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from lowkey.data.domain import Domain
from lowkey.data.ids import is_integer, is_text
from lowkey.errors import LowkeyError
from lowkey.model import Model
from lowkey.privacy.ledger import Ledger
from lowkey.release.folder import ITEMS, LEDGER, MODEL, broken, check_files, check_hash, existing_folder, read_manifest
from lowkey.release.tensors import check_header, read_arrays
from lowkey.serving.rules import RULES

MAX_ITEM_BYTES = 1 << 12  # per id, on average
MAX_RANK = 1 << 12


def load(folder: str | Path) -> Model:
    """The model of a release folder. Refuses a folder that is not what its manifest says."""
    path = existing_folder(folder)
    manifest = read_manifest(path)
    check_files(path, manifest)
    for name in (LEDGER, ITEMS, MODEL):
        check_hash(path, manifest, name)
    if manifest["rule"] not in RULES:
        broken(f"a rule {manifest['rule']!r}", " or ".join(RULES), "a newer version of lowkey")
    domain = read_domain(path, manifest)
    ledger = read_ledger(path, manifest)
    arrays = load_arrays(path, manifest)
    return Model(manifest["method"], manifest["rule"], arrays, manifest["settings"], domain, ledger)


def load_arrays(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """The arrays, after their header was checked. None has more rows or columns than there are items, or than a rank."""
    n_items = manifest["domain"]["n_items"]
    check_header(path / MODEL, manifest["arrays"])
    for name, entry in manifest["arrays"].items():
        if any(length > max(n_items, MAX_RANK) for length in entry["shape"]):
            broken(f"an array {name!r} that is longer than the catalogue", f"at most {n_items} items")
    return read_arrays(path / MODEL, n_items)


def read_domain(path: Path, manifest: dict[str, Any]) -> Domain:
    """The domain with its ids, if the file holds one column of that many ids and nothing else."""
    facts = manifest["domain"]
    try:
        with pyarrow.parquet.ParquetFile(path / ITEMS) as file:
            schema, metadata = file.schema_arrow, file.metadata
            size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
            kind = schema.field(0).type if len(schema) == 1 else pa.null()
            good = schema.names == ["item"] and (is_integer(kind) or is_text(kind))
            good = good and metadata.num_rows == facts["n_items"] and size <= MAX_ITEM_BYTES * (facts["n_items"] + 16)
            ids = file.read().column("item").combine_chunks() if good else None
    except (pa.ArrowException, OSError, KeyError, TypeError):
        ids = None
    if ids is None:
        broken(f"{ITEMS} that is no list of ids", "one column 'item' with as many ids as the manifest says")
    try:
        return Domain.from_json(facts, ids)
    except (LowkeyError, KeyError, TypeError, ValueError):
        broken("items or a scale that do not fit together", "the domain that was written")


def read_ledger(path: Path, manifest: dict[str, Any]) -> Ledger:
    """The ledger, with its chain checked up to the head that the manifest names."""
    ledger = Ledger.loads((path / LEDGER).read_bytes())
    if ledger.head != manifest["ledger_head"]:
        broken("a ledger that ends elsewhere than the manifest says", "the whole ledger")
    try:
        ledger.guarantee()
    except LowkeyError:
        raise
    except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
        broken("a ledger whose entries can't be read", "plans and posts as lowkey writes them")
    return ledger
