"""Gate room: posts on disk, each whole or not at all, so that nothing that was drawn need be drawn and paid again.

A post is kept after its reservation and before its commit. ``Paid`` finds those of a fit that was cut off: a post belongs
to it only if its reservation stands on this very ledger under a plan that is the same to the letter, what was committed
has the same hash, and the sum had the same public inputs. It is handed out once, in the order in which it was drawn. A post
that was reserved and not kept is lost: its reservation counts and is never used, so that no line has two draws.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lowkey.errors import BudgetError, LedgerError
from lowkey.privacy.chain import Record, broken, whole_file
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.price import Price, at_most
from lowkey.privacy.sums import Selection

HEADER = 1 << 12  # bytes beside the numbers, at most
ROOM = ".incomplete"


class KeptPosts:
    """The posts of a fit or a stream, in a folder, by the number of their reservation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise unwritten(folder, error, "nothing was spent") from None

    def make_room(self, numbers: int) -> None:
        """Before anything is reserved: a disk that is too full for the post is found out now."""
        try:
            file = os.open(self.folder / ROOM, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, 8 * numbers + HEADER)
            finally:
                os.close(file)
        except OSError as error:
            raise unwritten(self.folder, error, "nothing was spent for this post") from None

    def keep(self, seq: int, name: str, inputs: str, posted: Any) -> None:
        arrays = {"keys": _plain(posted.keys), "sums": posted.sums} if isinstance(posted, Selection) else {"sums": posted}
        try:
            with whole_file(self.folder / f"{seq}-{name}-{inputs}.npy", self.folder / ROOM) as file:
                for array in arrays.values():
                    np.save(file, array, allow_pickle=False)
        except OSError as error:
            raise unwritten(self.folder, error, "the post was made and counts, though nobody sees it") from None

    def seqs(self) -> list[int]:
        return sorted(int(file.name.partition("-")[0]) for file in self.folder.glob("[0-9]*-*.npy"))

    def find(self, seq: int, name: str, inputs: str) -> Any:
        found = list(self.folder.glob(f"{seq}-{name}-*.npy"))
        if not found:
            return None
        if found[0].name != f"{seq}-{name}-{inputs}.npy":
            raise LedgerError(
                what=f"what was posted as {name!r}",
                got="another sum than is asked for now",
                needed="the same contribution of every user as when it was posted",
                try_="the same method, version, machine and number of threads as then",
            )
        try:
            return _read(found[0])
        except Exception:  # whatever numpy makes of a file that is not what was written
            raise broken("a post that was kept can't be read") from None


@dataclass(frozen=True)
class Paid:
    """The posts of a plan that were paid and kept, by name, oldest first; and how many are still to be made."""

    plan: int  # the line on which it was announced first
    latest: int  # the line under which it went on last: another one, if posts were lost in between
    posts: dict[str, list[int]]  # reservations
    left: tuple[Line, ...]  # of the plan, without what is kept

    @classmethod
    def of(cls, records: Sequence[Record], kept: KeptPosts, plan: Plan) -> Paid | None:
        planned = json.dumps(plan.to_json(), sort_keys=True)
        reserved = {r["seq"]: r for r in records if r["kind"] == "reserve" and "plan" in r}
        first = {r["seq"]: r.get("again", r["seq"]) for r in records if r["kind"] == "plan"}
        ours = [seq for seq in kept.seqs() if seq in reserved]
        same = {
            first[reserved[seq]["plan"]]
            for seq in ours
            if json.dumps(records[first[reserved[seq]["plan"]]]["plan"], sort_keys=True) == planned
        }
        if len(same) != 1:
            return None
        begun = same.pop()
        family = [seq for seq, root in first.items() if root == begun]
        spent = [r for r in reserved.values() if r["plan"] in family]
        posts = {line.name: [s for s in ours if reserved[s] in spent and _name(reserved[s]) == line.name]
                 for line in plan.lines}  # fmt: skip
        left = [replace(line, times=line.times - len(posts[line.name])) for line in plan.lines]
        return cls(begun, family[-1], posts, tuple(line for line in left if line.times > 0))

    def goes_on(self, records: Sequence[Record]) -> bool:
        """Whether what is left is what its latest announcement still has to post: then nothing was lost since."""
        announced = Counter({line["name"]: line["times"] for line in records[self.latest]["plan"]["lines"]})
        for record in records:
            if record["kind"] == "reserve" and record.get("plan") == self.latest:
                announced[_name(record)] -= 1
        return +announced == Counter({line.name: line.times for line in self.left})

    def check_free(self, held: bool) -> None:
        if held:
            raise LedgerError(
                what="a fit that was cut off", got="somebody who goes on with it", needed="one at a time", try_="waiting"
            )

    def unpaid(self, plan: Plan, more: Price) -> BudgetError:
        return BudgetError(
            what="a fit that was cut off",
            got="posts that were reserved and never kept: nobody saw them, and they count",
            needed=f"consent to pay for them again: epsilon = {at_most(more.epsilon, 4)} on its ledger, in place of "
            f"{at_most(plan.price.epsilon, 4)} for the fit alone",
            try_="--resume --force",
        )


def check_committed(records: Sequence[Record], reservation: int, sha256: str) -> bool:
    """Whether a post that was kept is committed: as it is, or not at all."""
    committed = [r["sha256"] for r in records if r["kind"] == "commit" and r["reservation"] == reservation]
    if committed not in ([], [sha256]):
        raise broken("a post that was kept is not the one that was committed")
    return bool(committed)


def _read(path: Path) -> Any:
    with open(path, "rb") as file:
        first = np.load(file, allow_pickle=False)
        if not file.read(1):
            first.flags.writeable = False
            return first
        file.seek(-1, os.SEEK_CUR)
        return Selection(first.astype(object) if first.dtype.kind == "U" else first, np.load(file, allow_pickle=False))


def _name(record: Record) -> str:
    return record["line"]["name"]


def _plain(keys: Any) -> Any:
    return np.asarray(keys.tolist()) if keys.dtype == object else keys


def unwritten(folder: Path, error: OSError, spent: str) -> LedgerError:
    return LedgerError(
        what=f"a post can't be kept in {folder}",
        got=error.strerror or type(error).__name__,
        needed="a disk with room and permission",
        try_=f"freeing some space; {spent}",
    )
