"""Public room: what a model was made from, as files of its release: parameters in the manifest, posts by their number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lowkey.origin import Origin
from lowkey.release.folder import POSTS, broken
from lowkey.release.tensors import check_header, read_arrays, write_arrays


def describe_origin(origin: Origin) -> dict[str, Any]:
    """What the manifest says of it."""
    posts = {str(seq): {"dtype": "F64", "shape": list(post.shape)} for seq, post in origin.posts.items()}
    return {"parameters": dict(origin.parameters), "posts": posts}


def write_posts(folder: Path, origin: Origin) -> None:
    write_arrays(folder / POSTS, {str(seq): post for seq, post in origin.posts.items()})


def read_origin(folder: Path, manifest: dict[str, Any]) -> Origin | None:
    """The parameters and posts of a folder that has them. Whether they are the ledger's is not looked at here."""
    made = manifest.get("made")
    if made is None:
        return None
    described = made.get("posts")
    if len(made) != 2 or not isinstance(made.get("parameters"), dict) or not isinstance(described, dict):
        broken("an origin that can't be read", "parameters and posts")
    if not all(name.isascii() and name.isdecimal() and len(name) < 10 for name in described):
        broken("posts that have no number", "the number of each post's reservation")
    check_header(folder / POSTS, described)
    arrays = read_arrays(folder / POSTS)
    return Origin(made["parameters"], {int(name): arrays[name] for name in sorted(arrays, key=int)})
