"""Public room: nothing is spent in vain: a fit is rehearsed before it is paid for, and what was paid for is kept.

A rehearsal is a fit on made-up people: the domain, the method, its parameters and its noise are those of the order;
the people are nobody. So every sum has the shape that it will have, every step that follows a post is taken once, on
the same disk, and the model is looked at as `verify` would: what would fail after spending fails before.

What a release has paid for lies beside the ledger, or beside ``--out`` where there is none, in a folder of its
owner's alone: the noisy sums, as they were posted, and the ledger, if it has no other place; `--resume` goes on from
there. Its name is made from all options that the sums depend on, so that an order finds its own posts and no others.
It is gone when the release is there, and when nothing was paid.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
from sklearn.base import clone

from lowkey import __version__
from lowkey.cli.screen import Screen
from lowkey.cli.training import Order
from lowkey.data.domain import Domain
from lowkey.data.ids import splitmix64
from lowkey.data.ratings import HeldRows, Ratings
from lowkey.errors import LedgerError, LowkeyError, refuse
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.chain import LEDGER
from lowkey.privacy.kept import KeptPosts
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.price import at_most
from lowkey.release.tensors import describe

LOCK = "lock"


@contextmanager
def paid_folder(order: Order, out: Path, resume: bool, screen: Screen) -> Generator[Path]:
    """The folder to keep posts in, locked. Whatever ends the fit early, its owner is told what was paid and is kept."""
    place = (out.absolute().parent / "lowkey") if order.ledger is None else order.ledger.absolute()
    folder, lock = _found(place.with_name(f"{place.name}.paid-{_fingerprint(order)}"), resume)
    try:
        yield folder
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException as error:
        told = _told(folder, order)
        if not told:
            shutil.rmtree(folder, ignore_errors=True)
        elif isinstance(error, LowkeyError):
            raise type(error)(what=error.what, got=error.got, needed=error.needed, try_=f"{error.try_}. {told}") from None
        else:
            screen.err.print(f"lowkey: {told}.", markup=False, soft_wrap=True)
        raise
    finally:
        os.close(lock)


def _found(base: Path, resume: bool) -> tuple[Path, int]:
    """A folder of this name that nobody is at: with posts to go on with, or a new one."""
    for number in itertools.count(1):
        folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
        if resume and not folder.exists():
            refuse(
                "--resume",
                got=f"no posts that were paid with these options beside {base.parent}",
                needed="the same options and the same ledger, or the same folder for --out",
                try_="leaving it out",
            )
        lock = _locked(folder)
        if lock is None:
            continue
        paid = _has_posts(folder)
        if paid == resume:
            return folder, lock
        os.close(lock)
        if not paid:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        refuse(
            "the same release was begun before and cut off",
            got=f"posts that are paid for, in {folder}",
            needed="a decision",
            try_=f"--resume to go on with them, or rm -r {folder} to give them up and pay again",
        )
    raise AssertionError


def _locked(folder: Path) -> int | None:
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(folder / LOCK)):
            return lock
    except OSError:  # somebody is at it, or has just removed it
        pass
    os.close(lock)
    return None


def _has_posts(folder: Path) -> bool:
    """Posts, or reservations on its own ledger: those count though their posts were lost."""
    return bool(KeptPosts(folder).seqs()) or ((folder / LEDGER).exists() and bool(Ledger(folder / LEDGER).spent()))


def _told(folder: Path, order: Order) -> str:
    """What was spent, and where it is; nothing, if that is so."""
    path = order.ledger if order.ledger is not None else folder / LEDGER
    if not path.exists() or not _has_posts(folder):
        return ""
    ledger = Ledger(path)
    spent = ledger.price(ledger.total[1] if ledger.total else order.delta).epsilon
    planned = sum(line.times for plan in order.plans for line in plan.lines)
    return (
        f"Of {planned} posts {len(KeptPosts(folder).seqs())} are paid and kept in {folder} (the ledger stands at epsilon = "
        f"{at_most(spent, 4)}): the same command with --resume goes on, and pays for none of them again"
    )


def _fingerprint(order: Order) -> str:
    """Of everything public that the sums and the model depend on."""
    table = {**asdict(order.table), "file": Path(order.table.file).name, "out_of_core": None, "scratch": None}
    ids = "" if order.items is None else "\n".join(map(str, order.domain.item_ids.to_pylist()))
    facts = [
        __version__, table, order.epsilon, order.delta, order.adjacency, order.goal, order.method, order.parameters,
        order.expected_users, [plan.to_json() for plan in order.plans], ids,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:12]


PEOPLE, ITEMS_EACH = 400, 20


def rehearse(order: Order, place: Path) -> None:
    """Refuse an order whose fit does not come to its end, or not to a model that can be released."""
    planned, settings = order.resolved
    estimator, people = cast("Any", clone(planned)), made_up_people(settings.domain)
    with TemporaryDirectory(prefix="rehearsal-", dir=place) as scratch:
        keep = Path(scratch)
        billboard = Billboard(Ledger(keep / LEDGER), noise=SeededNoise(0), kept=KeptPosts(keep))
        try:
            describe(estimator.fit(people, billboard=billboard, settings=settings).model_)
        except LedgerError as error:  # its disk, which is the one of the release: nothing was posted that counts
            raise LedgerError(
                what=f"no post can be kept in {place}",
                got=error.got,
                needed=error.needed,
                try_="freeing some space; nothing was spent",
            ) from None
        except LowkeyError:
            raise
        except Exception as error:  # on made-up people: nothing of anybody is in it
            refuse(
                f"{type(estimator).__name__} with these parameters and this catalogue",
                got=f"{type(error).__name__} in a fit on made-up people",
                needed="a fit that comes to its end; nothing was spent",
                try_="leaving --set out, or another --method",
            )


def made_up_people(domain: Domain) -> Ratings:
    """Rows of a fixed stream of numbers: the same for everybody who asks."""
    mixed = splitmix64(np.arange(2 * PEOPLE * ITEMS_EACH, dtype=np.uint64)).reshape(2, PEOPLE, ITEMS_EACH)
    rows = [np.unique(row) for row in mixed[0] % np.uint64(domain.n_items)]
    items, offsets = np.concatenate(rows).astype(np.int32), np.append(0, np.cumsum([len(row) for row in rows]))
    low, high = domain.scale.float32_bounds()
    share = (mixed[1].ravel()[: len(items)] >> np.uint64(11)).astype(np.float64) / 2.0**53
    values = None if domain.rating_range is None else np.clip(low + share * (high - low), low, high).astype(np.float32)
    return Ratings(domain, HeldRows(offsets, items, values, mixed[0, :, 0].copy()))
