"""Public room: `verify` in a process of its own, which has so much memory and time and no more.

The checks look before they allocate, but the readers below them are large programs, and a file may ask them for more than
it says. The limits are the operating system's: a check that breaks one is a no, and the caller goes on.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from lowkey.errors import LowkeyError
from lowkey.release.folder import MODEL, existing_folder
from lowkey.release.verifying import Check, verify

MEMORY = 2 << 30  # bytes, and the arrays' own size four times over
SECONDS = 600  # of computing
MAX_ANSWER = 1 << 20
CLAIM = "The folder can be checked within {memory:.1f} GB and {seconds} seconds"


def memory_for(folder: Path) -> int:
    """A function of the model file's true size, which nobody can inflate without sending it."""
    model = folder / MODEL
    return MEMORY + (4 * model.stat().st_size if model.is_file() else 0)


def verify_limited(
    folder: str | Path, id: str | None = None, key: str | Path | None = None, memory: int | None = None
) -> list[Check]:
    """``verify`` with the limits; the last check says whether they sufficed, and which they were."""
    path = existing_folder(folder)
    memory = memory_for(path) if memory is None else memory
    order = json.dumps(
        {
            "folder": str(path.absolute()),
            "id": id,
            "key": None if key is None else str(key),
            "memory": memory,
            "seconds": SECONDS,
        }
    )
    done = subprocess.run(
        [sys.executable, "-c", "from lowkey.release.limited import answer; answer()"],
        input=order.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    checks, detail = _read(done.stdout), ""
    if done.returncode != 0 or checks is None:
        detail = "it took more" if done.returncode != 0 else "there was no answer"
    claim = CLAIM.format(memory=memory / 1e9, seconds=SECONDS)
    return [*(checks or []), Check(claim, not detail, detail)]


def _read(text: bytes) -> list[Check] | None:
    try:
        return [Check(**fields) for fields in json.loads(text)] if len(text) <= MAX_ANSWER else None
    except (ValueError, TypeError):
        return None


def answer() -> None:
    """In the process of its own: the order on standard input, the checks on standard output."""
    order: dict[str, Any] = json.load(sys.stdin)
    # Memory that is written to, threads' stacks included; the code of libraries is shared and does not count.
    resource.setrlimit(resource.RLIMIT_DATA, (order["memory"], order["memory"]))
    resource.setrlimit(resource.RLIMIT_CPU, (order["seconds"], order["seconds"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        checks = verify(order["folder"], order["id"], order["key"])
    except LowkeyError as error:
        checks = [Check("The folder is one", False, f"{error.what}: {error.got}")]
    json.dump([vars(check) for check in checks], sys.stdout)
