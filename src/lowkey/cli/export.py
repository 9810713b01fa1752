"""Public room: `lowkey export`: a release's arrays in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.errors import refuse


def export(
    folder: o.Folder,
    to: Annotated[str | None, typer.Option(help="npy, parquet or usearch.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write: new or empty.", show_default=False)] = None,
    quiet: o.Quiet = False,
    as_json: o.Json = False,
) -> None:
    """Write the arrays of a release for other tools; free of charge, as the release is public already.

    npy: one file per array, and items.npy with the ids. parquet: items.parquet, one row per item with its id, its biases
    and its factors. usearch: items.usearch, an index for approximate search by inner product, keyed by the item's row in
    items.parquet beside it; search it with an own user vector. Only for models whose score is a product of factors.

    Example: lowkey export release --to parquet --out exported
    """
    o.require("export", {"--to": to, "--out": out}, f"lowkey export {folder} --to npy --out exported")
    assert out is not None
    if to not in WRITERS:
        refuse("--to", got=repr(to), needed=" or ".join(WRITERS), try_="--to npy")
    screen = Screen(quiet, as_json)
    with screen.working("Exporting"):
        from lowkey.release import check_destination, load

        model = load(folder)
        destination = check_destination(out)
        written = WRITERS[to](model, destination)
    screen.say(f"Wrote {', '.join(written)} to {out}/. The order of the rows is that of the items.")
    screen.result({"folder": str(out), "files": written})


def _as_npy(model: Any, out: Path) -> list[str]:
    import numpy as np

    out.mkdir(exist_ok=True)
    ids = model.domain.ids(np.arange(model.domain.n_items))
    # Text as fixed-width text: an object array would be a pickle.
    np.save(out / "items.npy", ids.astype(str) if ids.dtype == object else ids, allow_pickle=False)
    for name, array in model.arrays.items():
        np.save(out / f"{name}.npy", array, allow_pickle=False)
    return ["items.npy", *(f"{name}.npy" for name in model.arrays)]


def _as_parquet(model: Any, out: Path) -> list[str]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet

    out.mkdir(exist_ok=True)
    columns = {"item": model.domain.item_ids}
    for name, array in model.arrays.items():
        if array.ndim == 1 and len(array) == model.domain.n_items:
            columns[name] = pa.array(array)
        elif array.ndim == 2 and len(array) == model.domain.n_items and array.shape[1]:
            flat = pa.array(np.ascontiguousarray(array).reshape(-1))
            columns[name] = pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
    pyarrow.parquet.write_table(pa.table(columns), out / "items.parquet", compression="zstd")
    return ["items.parquet"]


def _as_usearch(model: Any, out: Path) -> list[str]:
    """Inner product with (user factors, 1): the item's own prior is its last coordinate."""
    try:
        from usearch.index import Index
    except ImportError:
        refuse("--to usearch", got="no usearch", needed="the package", try_="pip install 'lowkey[usearch]', or --to npy")
    import numpy as np

    vectors = model.item_vectors()
    written = _as_parquet(model, out)
    index = Index(ndim=vectors.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(len(vectors)), np.ascontiguousarray(vectors, np.float32))
    index.save(str(out / "items.usearch"))
    return [*written, "items.usearch"]


WRITERS = {"npy": _as_npy, "parquet": _as_parquet, "usearch": _as_usearch}
