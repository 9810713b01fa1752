"""Public room: a release folder opened to be served: every claim checked, and everything of it in memory."""

from __future__ import annotations

import json
from pathlib import Path

from lowkey.release.folder import REPORT, REPORT_PAGE, broken, existing_folder, read_manifest
from lowkey.release.loading import load
from lowkey.release.site import check_claims, site_files
from lowkey.serving.http.answers import warm_up
from lowkey.serving.http.served import Served


def open_release(
    folder: Path, titles: dict[str, str] | None = None, heading: str = "", page: bool = True, key: str | None = None
) -> Served:
    """The release, if all its claims hold, and it is signed with ``key`` where one is given. ``folder`` may be a link: the
    folder that it names now is read, and no other."""
    path = existing_folder(folder.resolve())
    release = read_manifest(path)["id"]
    check_claims(path, key)
    model = load(path)
    report = json.loads((path / REPORT).read_text("utf-8"))
    files = site_files(path, model, titles=titles, heading=heading) if page else {}
    files = {REPORT_PAGE: (path / REPORT_PAGE).read_bytes(), **files}
    if read_manifest(path)["id"] != release:
        broken("another release than a moment ago", "a folder that stays as it is", "a new folder, and a link to it")
    served = Served(release, model, report, files)
    warm_up(served)
    return served


def fingerprint(folder: Path) -> tuple[object, ...]:
    """What changes when a folder, a link to it or a file in it does; read by name and size alone."""
    path = folder.resolve()
    try:
        facts = [(entry.name, entry.stat()) for entry in sorted(path.iterdir())]
    except OSError:
        return (str(path),)
    return (str(path), *((name, fact.st_ino, fact.st_size, fact.st_mtime_ns) for name, fact in facts))
