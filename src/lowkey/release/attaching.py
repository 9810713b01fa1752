"""Public room: puts what an audit measured into a release's report and card. The folder changes, and its id."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lowkey.errors import VerifyError
from lowkey.release.folder import SIGNATURE, existing_folder, read_manifest
from lowkey.release.loading import read_ledger
from lowkey.release.verifying import verify
from lowkey.release.writing import write_words


def attach_audit(folder: str | Path, lines: Sequence[str]) -> str:
    """Replace the folder by one whose report and card carry ``lines``; returns its new id, to be published instead."""
    path = existing_folder(folder)
    failed = [check for check in verify(path) if not check.ok]
    if failed:
        raise VerifyError(
            what="an audit is to be attached to this folder",
            got=f"a failed check: {failed[0].claim}",
            needed="a release that is intact",
            try_="asking the curator for a fresh copy",
        )
    manifest = read_manifest(path)
    facts = {name: value for name, value in manifest.items() if name not in ("files", "id")}
    parent = path.absolute().parent
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.incomplete-", dir=parent))
    try:
        shutil.copytree(path, draft, dirs_exist_ok=True)
        (draft / SIGNATURE).unlink(missing_ok=True)  # it is not of what this becomes
        new = write_words(draft, {**facts, "audit": list(lines)}, read_ledger(path, manifest))
        old = draft.with_name(f"{draft.name}-old")
        os.rename(path, old)
        os.rename(draft, path)
        shutil.rmtree(old)
        return new
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # gone already, if all went well
