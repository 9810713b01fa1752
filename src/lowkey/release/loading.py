"""Public room: reads a release folder from a stranger. Names, sizes, dtypes and hashes come before memory is spent.

What a rule's arrays are called and how long they are follows from the rule and the catalogue (serving/arrays.py), never
from the folder: no name of a stranger's becomes a path, no length of a stranger's reaches compiled code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from lowkey.data.domain import MOST_ITEMS, Domain
from lowkey.data.ids import is_integer, is_text
from lowkey.data.text_files import most_bytes
from lowkey.errors import LowkeyError
from lowkey.model import Model
from lowkey.privacy.ledger import Ledger
from lowkey.release.folder import (
    ITEMS,
    LEDGER,
    MODEL,
    POSTS,
    broken,
    check_files,
    check_hash,
    existing_folder,
    is_printable,
    read_manifest,
)
from lowkey.release.pages import PLAIN, pages_of
from lowkey.release.tensors import check_header, read_arrays, read_origin
from lowkey.serving.arrays import POSITIONS, wrong_settings, wrong_shapes, wrong_values
from lowkey.serving.rules import RULES

MAX_ID_BYTES = 1 << 12  # of one id
MAX_IDS_BYTES = 1 << 31  # of all
MAX_FOOTER = 1 << 20  # of one list or text in a footer
ROWS_PER_BYTE = 100  # distinct ids do not compress further than to a hundredth of a byte each


def load(folder: str | Path) -> Model:
    """The model of a release folder. Refuses a folder that is not what its manifest says.

    Parameters
    ----------
    folder : path
        As ``release`` wrote it.

    Examples
    --------
    >>> lk.load("release").recommend({"film 7": 5.0}, n=10)  # doctest: +SKIP
    """
    path = existing_folder(folder)
    manifest = read_manifest(path)
    check_files(path, manifest)
    for name in (LEDGER, ITEMS, MODEL, *([POSTS] if "made" in manifest else [])):
        check_hash(path, manifest, name)
    domain = read_domain(path, manifest)
    ledger = read_ledger(path, manifest)
    arrays = load_arrays(path, manifest)
    origin = read_origin(path, manifest)
    return Model(manifest["method"], manifest["rule"], arrays, manifest["settings"], domain, ledger, origin)


def load_arrays(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """The arrays that the rule works with on this catalogue, and no others; nothing is read before that is settled."""
    rule, described, n_items = manifest["rule"], manifest["arrays"], checked_count(manifest)
    if rule not in RULES:
        broken("a rule that is not known", " or ".join(RULES), "a newer version of lowkey")
    check_header(path / MODEL, described)
    found = wrong_shapes(rule, {name: entry["shape"] for name, entry in described.items()}, n_items)
    if found is None and any((entry["dtype"][0] == "I") != (name in POSITIONS) for name, entry in described.items()):
        found = "positions or numbers of another kind"
    if found is None:
        found = wrong_settings(rule, manifest["settings"])
    if found is not None:
        broken(f"{MODEL} with {found}", f"the arrays of the rule {rule!r} for {n_items} items")
    arrays = read_arrays(path / MODEL)
    if (found := wrong_values(arrays, n_items)) is not None:
        broken(f"{MODEL} with {found}", "finite numbers of a size that can be computed with")
    return arrays


def checked_count(manifest: dict[str, Any]) -> int:
    n_items = manifest["domain"].get("n_items")
    if type(n_items) is not int or not 1 <= n_items <= MOST_ITEMS:
        broken("a number of items that is none", f"1 to {MOST_ITEMS}")
    return n_items


def read_domain(path: Path, manifest: dict[str, Any]) -> Domain:
    """The domain with its ids, if the file holds one column of that many ids and nothing else."""
    facts, n_items = manifest["domain"], checked_count(manifest)
    if n_items > 1024 + ROWS_PER_BYTE * (path / ITEMS).stat().st_size:
        broken(f"{ITEMS} that is too small for {n_items} ids", "as many different ids as the manifest says")
    try:
        ids = _read_ids(path / ITEMS, n_items)
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, StopIteration, MemoryError):
        ids = None
    if ids is None:
        broken(f"{ITEMS} that is no list of ids", "one column 'item' with as many ids as the manifest says")
    try:
        return Domain.from_json(facts, ids)
    except (LowkeyError, LookupError, TypeError, ValueError):
        broken("items or a scale that do not fit together", "the domain that was written")


def _read_ids(path: Path, n_items: int) -> pa.Array | None:
    """Text is read as a dictionary, each text once: as many rows of one long text as a few bytes can declare stay small."""
    with pyarrow.parquet.ParquetFile(
        path, read_dictionary=["item"], thrift_string_size_limit=MAX_FOOTER, thrift_container_size_limit=MAX_FOOTER
    ) as file:
        metadata = file.metadata
        if file.schema_arrow.names != ["item"] or metadata.num_rows != n_items or not _fits(path, metadata, n_items):
            return None
        column = file.read().column("item")
    column.validate(full=True)  # Arrow believes a damaged file's indices
    values = [chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk for chunk in column.chunks]
    kind = values[0].type if values else pa.null()
    if (
        not (is_integer(kind) or is_text(kind))
        or sum(map(len, values)) < n_items
        or sum(v.nbytes for v in values) > MAX_IDS_BYTES
    ):
        return None  # fewer texts than rows: some id stands there twice
    ids = column.cast(kind) if pa.types.is_dictionary(column.type) else column
    return ids.combine_chunks()


def _fits(path: Path, metadata: Any, n_items: int) -> bool:
    """Whether footer and pages say that the ids are as many and as small as they can be: a reader believes both."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    pages = [page for group in groups for page in pages_of(path, group.column(0))]
    most = min(MAX_IDS_BYTES, MAX_ID_BYTES * (n_items + 16), most_bytes(path))
    return (
        max(sum(group.total_byte_size for group in groups), sum(page.decoded for page in pages)) <= most
        and sum(group.num_rows for group in groups) == n_items
        and all(group.column(0).num_values == group.num_rows >= 0 for group in groups)
        and all(page.values <= n_items and page.encoding in PLAIN for page in pages)
    )


def read_ledger(path: Path, manifest: dict[str, Any]) -> Ledger:
    """The ledger, with its chain checked up to the head that the manifest names."""
    ledger = Ledger.loads((path / LEDGER).read_bytes())
    if ledger.head != manifest["ledger_head"]:
        broken("a ledger that ends elsewhere than the manifest says", "the whole ledger")
    if not is_printable(ledger.records):
        broken("a ledger with characters that can't be printed", "plain text")
    ledger.guarantee()  # refuses what can't be understood
    return ledger
