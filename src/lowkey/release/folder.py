"""Public room: what a release folder consists of, and its manifest, which holds the hash of everything else.

A manifest is canonical JSON: one text for one content. It carries its own hash, which is the *id* of the release: whoever
got the id from the curator can tell that no byte of the folder was changed since.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, NoReturn

from lowkey.errors import InputError, VerifyError, refuse
from lowkey.privacy.chain import LEDGER

FORMAT = "lowkey-release/1"
MANIFEST = "manifest.json"
MODEL, ITEMS = "model.safetensors", "items.parquet"
REPORT, REPORT_PAGE, CARD = "privacy_report.json", "privacy_report.html", "MODEL_CARD.md"
FILES = (MODEL, ITEMS, LEDGER, REPORT, REPORT_PAGE, CARD)  # and the manifest
POSTS = "posts.safetensors"  # what the model was made from, where that is small
SIGNATURE = f"{MANIFEST}.minisig"  # not in the manifest, which it signs; it may be there or not

MAX_MANIFEST = 1 << 20  # bytes
MAX_TEXT = 1 << 26  # bytes of any file but the model and the items
FIELDS = {
    "format": str,
    "lowkey": str,
    "software": dict,
    "created": str,
    "method": str,
    "rule": str,
    "settings": dict,
    "arrays": dict,
    "domain": dict,
    "ledger_head": str,
    "files": dict,
    "id": str,
}
OPTIONAL = {"audit": list, "about": dict, "made": dict}  # an audit's lines, the curator's words, parameters and posts


def broken(got: str, needed: str, try_: str = "asking the curator for a fresh copy") -> NoReturn:
    """A release that is not what it says."""
    raise VerifyError(what="this release folder is not intact", got=got, needed=needed, try_=try_)


def canonical(content: Any, sort_keys: bool = True) -> str:
    """The one text of a JSON value (in its own order, if not sorted); NaN and infinities have none."""
    return json.dumps(content, sort_keys=sort_keys, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def with_id(manifest: dict[str, Any]) -> dict[str, Any]:
    return {**manifest, "id": hashlib.sha256(canonical(manifest).encode()).hexdigest()}


def file_hash(path: Path) -> str:
    """The sha256 of a file, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder, if it is well-formed and has not been changed."""
    path = regular_file(folder, MANIFEST)
    if path.stat().st_size > MAX_MANIFEST:
        broken(f"a {MANIFEST} of {path.stat().st_size} bytes", f"at most {MAX_MANIFEST}")
    try:
        text = path.read_text("utf-8")
        manifest = json.loads(text)
        whole = isinstance(manifest, dict) and text == canonical(manifest)
    except (ValueError, RecursionError):
        whole, manifest = False, {}
    if not whole:
        broken(f"a {MANIFEST} that is not what was written", "canonical JSON")
    fields = {**FIELDS, **{name: kind for name, kind in OPTIONAL.items() if name in manifest}}
    wrong = [name for name, kind in fields.items() if not isinstance(manifest.get(name), kind)]
    if wrong or set(manifest) != set(fields):
        named = ", ".join(map(_shown, [*wrong, *sorted(set(manifest) - set(fields))][:5]))
        broken(f"a {MANIFEST} with missing, wrong or unknown fields: {named}", f"the fields of {FORMAT}")
    if not is_printable(manifest):
        broken(f"a {MANIFEST} with characters that can't be printed", "plain text")
    if manifest["format"] != FORMAT:
        broken(f"format {manifest['format'][:40]!r}", FORMAT, "a version of lowkey that knows this format")
    if with_id({k: v for k, v in manifest.items() if k != "id"})["id"] != manifest["id"]:
        broken(f"a {MANIFEST} whose id does not match its content", "the id that was computed when it was written")
    return manifest


def is_printable(content: Any) -> bool:
    """Whether no text in a JSON value could move a reader's cursor, or turn the writing round."""
    if isinstance(content, str):
        return content.isprintable()
    if isinstance(content, dict):
        return all(is_printable(part) for pair in content.items() for part in pair)
    return not isinstance(content, list) or all(map(is_printable, content))


def files_of(manifest: dict[str, Any]) -> tuple[str, ...]:
    """The files that a manifest with these fields is about."""
    return (*FILES, POSTS) if "made" in manifest else FILES


def check_files(folder: Path, manifest: dict[str, Any]) -> None:
    """Exactly the known files, plain ones, of the sizes in the manifest. Nothing is read yet."""
    listed: dict[str, Any] = manifest["files"]
    known = files_of(manifest)
    for name in listed:
        if name not in known:  # nothing from the manifest becomes part of a path before this
            broken(f"a file called {_shown(name)}", "only " + ", ".join(known))
    for name in known:
        if name not in listed:
            broken(f"no {name} in the {MANIFEST}", "every file of a release")
        size = regular_file(folder, name).stat().st_size
        if not isinstance(listed[name], dict) or size != listed[name].get("bytes"):
            broken(f"{name} of {size} bytes", "as many as the manifest says")
        if name not in (MODEL, ITEMS, POSTS) and size > MAX_TEXT:
            broken(f"{name} of {size} bytes", f"at most {MAX_TEXT}")
    extra = sorted(entry.name for entry in folder.iterdir() if entry.name not in (*known, MANIFEST, SIGNATURE))
    if extra:
        broken(f"another file: {_shown(extra[0])}", "only the files of a release", "removing it")


def check_hash(folder: Path, manifest: dict[str, Any], name: str) -> None:
    if file_hash(folder / name) != manifest["files"][name].get("sha256"):
        broken(f"{name} with other bytes than were written", "the sha256 in the manifest")


def regular_file(folder: Path, name: str) -> Path:
    path = folder / name
    if path.is_symlink() or not path.is_file():
        broken(f"no plain file {name}", "all files of a release")
    return path


def existing_folder(folder: Any) -> Path:
    path = Path(folder)
    if not path.is_dir() or path.is_symlink():
        raise InputError(
            what="release folder",
            got=f"{str(path)!r}, which is no folder",
            needed="the folder that model.release or `lowkey release` wrote",
            try_="another path",
        )
    return path


def check_delta(delta: float, expected_users: int | None) -> None:
    """Refuse a delta that a mechanism would meet which publishes all of one random user."""
    if expected_users and delta * expected_users >= 1.0:
        refuse(
            "delta",
            got=f"{delta:g}, which allows a release of one user's whole row",
            needed=f"less than 1/{expected_users}, one over the expected users; better a hundredth of it",
            try_=f"delta={0.01 / expected_users:.1g}, or force=True",
        )


def check_destination(folder: Any) -> Path:
    """A place where a release can be written. Call it before a fit: a fit is paid for even if it can't be saved."""
    path = Path(folder)
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise InputError(
            what="release folder", got=f"{str(path)!r}, which exists", needed="a new or empty folder", try_="another name"
        )
    parent = path.absolute().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(
            what="release folder",
            got=f"{str(path)!r}, in a folder that does not exist or cannot be written",
            needed="a place inside an existing folder",
            try_=f"mkdir -p {parent}",
        )
    return path


def _shown(name: str) -> str:
    """A name from a stranger's folder, safe to print."""
    return repr(re.sub(r"[^\w./ -]", "?", str(name))[:80])
