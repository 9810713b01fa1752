"""Gate room: a ledger's last head, kept where the ledger is not: what tells a restored old copy from the real one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lowkey.errors import LedgerError, refuse
from lowkey.privacy.chain import Head, Record, write_head


class Anchor:
    """A file with a ledger's last head, outside the folder that a backup of the ledger brings back."""

    def __init__(self, path: Path, ledger: Path | None) -> None:
        if ledger is None:
            refuse("anchor", got="a ledger in memory", needed="a ledger on disk", try_="Ledger(path, anchor=…)")
        if path.resolve().is_relative_to(ledger.resolve().parent):
            refuse(
                "anchor",
                got="a file in the ledger's own folder, which is restored together with it",
                needed="another folder, better another machine",
                try_="a path elsewhere",
            )
        self.path = path

    def check(self, records: Sequence[Record]) -> None:
        """Refuse a ledger that is behind. Only a ledger that is new may have no anchor yet."""
        if not self.path.exists():
            if len(records) > 1:
                raise LedgerError(
                    what=f"the anchor {self.path} is missing",
                    got="a ledger that has lines already",
                    needed="the anchor that was kept for it",
                    try_="lowkey ledger head LEDGER --to ANCHOR, if you know that this ledger is the latest",
                )
            return
        known = Head.read(self.path)
        if known is None:
            raise LedgerError(
                what=f"the anchor {self.path}", got="something else", needed="a ledger's head", try_="the anchor as it was"
            )
        known.check(records)

    def move(self, record: Record) -> None:
        try:
            write_head(self.path, record)
        except OSError as error:
            raise LedgerError(
                what=f"the anchor {self.path} can't be written",
                got=error.strerror or type(error).__name__,
                needed="an existing folder that can be written",
                try_="the same again later; what was reserved counts, and nothing was posted",
            ) from None
