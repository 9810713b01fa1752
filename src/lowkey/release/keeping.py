"""Public room: a model that was paid for is never lost for want of a place: the folder is written where there is one."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path

from lowkey.errors import InputError, VerifyError
from lowkey.model import Model
from lowkey.release.writing import write_release


def write_or_keep(model: Model, folder: Path, places: Iterable[Path] = ()) -> Path:
    """Write the release; if ``folder`` can't be had, to another place, and say where: the same folder, to be moved."""
    try:
        return write_release(model, folder)
    except VerifyError:
        raise  # it may not be released anywhere
    except (InputError, OSError) as error:
        reason = str(error) if isinstance(error, InputError) else error.strerror or type(error).__name__
    for place in (*places, folder.absolute().parent, Path.cwd(), Path.home(), Path(tempfile.gettempdir())):
        if not (place.is_dir() and os.access(place, os.W_OK)):
            continue
        try:
            kept = write_release(model, place / f"{folder.name}-kept-{uuid.uuid4().hex[:8]}")
        except (InputError, OSError):
            continue
        raise InputError(
            what=f"the release is not in {folder} but, complete and paid for, in {kept}",
            got=reason,
            needed="nothing more to spend",
            try_=f"mv {kept} to where it belongs",
        )
    raise InputError(
        what="the release, which is paid for, could be written nowhere",
        got=reason,
        needed="a disk with room",
        try_="room on any of the disks, and `model.release` again where the fit is still in memory",
    )
