"""Public room: `lowkey export`: a release as a site for browsers, or its arrays in the formats of other tools."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.errors import refuse

FORMATS = ("web", "npy", "parquet", "usearch")


def export(
    folder: o.Folder,
    to: Annotated[str | None, typer.Option(help="web, npy, parquet or usearch.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write: new or empty.", show_default=False)] = None,
    precision: Annotated[str, typer.Option(help="web: float32, float16 or int8; what is lost is measured.")] = "float16",
    titles: Annotated[
        Path | None, typer.Option(help="web: a csv file with the columns item and title.", show_default=False)
    ] = None,
    heading: Annotated[str, typer.Option(help="web: the page's heading.", show_default=False)] = "",
    key: o.Key = None,
    quiet: o.Quiet = False,
    as_json: o.Json = False,
) -> None:
    """Write a release as a page for browsers, or its arrays for other tools; free of charge, as it is public already.

    web: a folder with a page that recommends in the visitor's browser, connects to nowhere and works from a disk, too; with
    lowkey.js for apps. npy: one file per array, and items.npy with the ids. parquet: items.parquet, one row per item with
    its id, its numbers and its vector for search; other arrays in files of their own. usearch: the same and items.usearch,
    an index by inner product, keyed by the row in items.parquet. With --key nothing is written that is not signed with it.

    Example: lowkey export release --to web --out site
    """
    o.require("export", {"--to": to, "--out": out}, f"lowkey export {folder} --to web --out site")
    assert out is not None
    if to not in FORMATS:
        refuse("--to", got=repr(to), needed=" or ".join(FORMATS), try_="--to web")
    screen = Screen(quiet, as_json)
    if key is not None:
        from lowkey.release.signing import check_signature

        check_signature(folder, key)
    if to == "web":
        _write_site(screen, folder, out, precision, read_titles(titles), heading)
        return
    with screen.working("Exporting"):
        from lowkey.release import check_destination, load
        from lowkey.release.formats import WRITERS

        written, recipe = WRITERS[to](load(folder), check_destination(out))
    screen.say(f"Wrote {', '.join(written)} to {out}/. The order of the rows is that of the items.")
    screen.say(recipe)
    screen.result({"folder": str(out), "files": written, "recipe": recipe})


def _write_site(screen: Screen, folder: Path, out: Path, precision: str, titles: Any, heading: str) -> None:
    with screen.working("Checking the release and writing the site"):
        from lowkey.release.site import write_site

        made = write_site(folder, out, precision, titles, heading)
    loss = made["loss"]
    screen.say(f"Wrote {', '.join(made['names'])} to {out}/: {made['bytes'] / 1e6:.2f} MB.")
    screen.say(
        f"In {precision}, {loss['top_ten_kept']:.2%} of the top ten are as in the release, on {loss['histories']} made-up "
        f"histories; no score of theirs moves by more than {loss['largest_change_of_a_score']:.2g}."
    )
    screen.say(f"Open {out}/index.html, or put the folder on any web server. The page connects to nowhere.", "bold")
    screen.result({"folder": str(out), "files": made["names"], "bytes": made["bytes"], "loss": loss, "id": made["id"]})


MOVIELENS_TITLES = {"movies.csv": ",", "movies.dat": "::", "u.item": "|"}  # the id, then the title


def read_titles(path: Path | None) -> dict[str, str] | None:
    """{id: title} of a csv file with these two columns, or of a MovieLens folder or file."""
    if path is None:
        return None
    known = [path / name for name in MOVIELENS_TITLES if (path / name).is_file()] if path.is_dir() else []
    path = known[0] if known else path
    if not path.is_file():
        refuse("--titles", got=f"{str(path)!r}, which does not exist", needed="a csv file", try_="another path")
    if path.name in ("movies.dat", "u.item"):
        lines = [line.split(MOVIELENS_TITLES[path.name], 2) for line in path.read_text("latin-1").splitlines() if line]
        return {line[0]: line[1] for line in lines if len(line) > 1}
    item = "movieId" if path.name == "movies.csv" else "item"
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        if not {item, "title"} <= set(reader.fieldnames or []):
            refuse(
                "--titles", got="other columns", needed=f"a header with {item} and title", try_="item,title as first line"
            )
        return {row[item]: row["title"] for row in reader if row["title"]}
