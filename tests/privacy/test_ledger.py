"""The ledger under attack: killed writers, flipped bytes, cut tails, races, full disks. Nothing overspent, nothing lost."""

from __future__ import annotations

import errno
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowkey.errors import BudgetError, InputError, LedgerError, PlanError
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.chain import record_hash
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.price import price
from lowkey.privacy.stream import Schedule
from lowkey.privacy.sums import Grid, Sensitivity, Statistic, Unreleased

STATISTIC = Statistic("sums", (3,), Grid(-26), Sensitivity.of_vectors(1.0), 1 << 26)
LINE = Line("sums", Gaussian(10.0), 3)
PLAN = Plan("Test", (Line("sums", Gaussian(10.0), 3, times=1000),), 1e-6)


def reserve(ledger: Ledger) -> int:
    return ledger.reserve(LINE, {}, noise_is_private=True)


def small_ledger(path: Path) -> bytes:
    ledger = Ledger(path, total=(100.0, 1e-6))
    ledger.add_plan(Plan("Test", (LINE,), 1e-6))
    ledger.commit(reserve(ledger), "ab" * 32)
    return path.read_bytes()


def child_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def in_child(work: Callable[[], Any]) -> int:
    """Run ``work`` in a forked process; its exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def dies_at(module: Any, name: str, call: int, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
    """From now on, the ``call``-th use of a system call kills this process, before or after it is carried out."""
    original, uses = getattr(module, name), [0]

    def deadly(*args: Any, **kwargs: Any) -> Any:
        uses[0] += 1
        if uses[0] == call and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if uses[0] == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    monkeypatch.setattr(module, name, deadly)


# Killed writers --------------------------------------------------------------------------------------------------------
KILLED = """
import os, signal, sys
import numpy as np
sys.path.insert(0, {tests!r})
from test_ledger import PLAN, STATISTIC
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.chain import record_hash
from lowkey.privacy.noise import NoiseSource
from lowkey.privacy.sums import Unreleased

class Deadly(NoiseSource):
    def rounded_gaussian(self, scale, size):
        os.kill(os.getpid(), signal.SIGKILL)

billboard = Billboard({path!r}, noise=Deadly())
billboard.begin(PLAN)
billboard.post(Unreleased(STATISTIC, np.zeros(3, np.int64)))
"""


def test_kill_9_between_reserve_and_commit(tmp_path: Path) -> None:
    """In a process of its own, as it happens in life: the reservation survives and counts as spent."""
    path = tmp_path / "ledger.jsonl"
    script = KILLED.format(tests=str(Path(__file__).parent), path=str(path))
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=child_environment(), check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    ledger = Ledger(path)
    assert [r["kind"] for r in ledger.records] == ["open", "plan", "reserve"]
    assert ledger.guarantee().mu == pytest.approx(0.1)
    ledger.commit(reserve(ledger), "cd" * 32)  # and life goes on
    assert Ledger(path).guarantee().mu == pytest.approx(0.1 * 2**0.5)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", ["open", "ftruncate", "pwrite", "fsync", "replace", "close"])
def test_kill_9_at_any_system_call_of_a_write(
    name: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the moment, the file opens again, holds all that came before, and takes new posts."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.add_plan(PLAN)
    reserve(ledger)
    before = len(Ledger(path).records)

    def writes() -> None:
        dies_at(os, name, 1, monkeypatch, after=after)
        reserve(ledger)

    assert in_child(writes) == -signal.SIGKILL
    recovered = Ledger(path)
    assert before <= len(recovered.records) <= before + 1
    reserve(recovered)
    assert len(Ledger(path).records) == len(recovered.records)
    assert Ledger.loads(path.read_bytes()).head == recovered.head


def test_a_torn_line_is_dropped_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    whole = small_ledger(path)
    ledger = Ledger(path)
    reserve(ledger)
    next_line = path.read_bytes()[len(whole) :]
    for cut in (1, len(next_line) // 2, len(next_line) - 1):
        small = tmp_path / f"{cut}.jsonl"
        small_ledger(small)
        with open(small, "ab") as file:
            file.write(next_line[:cut])
        again = Ledger(small)
        assert len(again.records) == 4
        reserve(again)
        assert len(Ledger(small).records) == 5


# Damage ----------------------------------------------------------------------------------------------------------------
def test_every_flipped_byte_is_seen(tmp_path: Path) -> None:
    """Every byte of a small ledger, the last newline too, in the file and as text."""
    path = tmp_path / "ledger.jsonl"
    whole = small_ledger(path)
    for at in range(len(whole)):
        for mask in (0x01, 0xFF):
            changed = whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :]
            with pytest.raises(LedgerError, match="damaged"):
                Ledger.loads(changed)
            if mask == 0x01 or whole[at] == 0x0A:
                path.write_bytes(changed)
                with pytest.raises(LedgerError, match="damaged"):
                    Ledger(path)
    path.write_bytes(whole)
    assert len(Ledger(path).records) == 4


def test_every_cut_tail_is_seen(tmp_path: Path) -> None:
    """Also at the end of a line, where the chain alone sees nothing: the head file remembers."""
    path = tmp_path / "ledger.jsonl"
    whole = small_ledger(path)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(LedgerError, match="damaged"):
            Ledger(path)
    path.unlink()
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(path)


def test_lines_added_removed_or_reordered_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    lines = small_ledger(path).splitlines(keepends=True)
    wrong = [
        [lines[0], lines[2], lines[3]],
        [lines[0], lines[2], lines[1], lines[3]],
        [*lines, lines[3]],
        [*lines, b"\n"],
        [*lines, b"{}\n"],
        [lines[0].replace(b": ", b":"), *lines[1:]],
        [],
    ]
    for changed in wrong:
        with pytest.raises(LedgerError, match="damaged"):
            Ledger.loads(b"".join(changed))


def test_a_line_that_was_rewritten_with_its_own_hash_is_seen(tmp_path: Path) -> None:
    """Numbers and hashes are those of the new line; only the line after it still names the old one."""
    path = tmp_path / "ledger.jsonl"
    records = [json.loads(line) for line in small_ledger(path).splitlines()]
    assert Ledger.loads("".join(json.dumps(record, sort_keys=True) + "\n" for record in records)).records == records
    for at in range(len(records) - 1):
        forged = {**records[at], "forged": True}
        forged["hash"] = record_hash(forged)
        changed = [*records[:at], forged, *records[at + 1 :]]
        with pytest.raises(LedgerError, match="damaged"):
            Ledger.loads("".join(json.dumps(record, sort_keys=True) + "\n" for record in changed))


def test_a_damaged_or_missing_head_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    small_ledger(path)
    head = tmp_path / "ledger.jsonl.head"
    whole = head.read_bytes()
    for at in range(len(whole)):
        head.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(LedgerError, match="damaged"):
            Ledger(path)
    head.unlink()
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(path)


def test_a_file_that_shrinks_while_it_is_open_is_seen(tmp_path: Path) -> None:
    """Without this, the next line would be written behind a hole of zeros."""
    path = tmp_path / "ledger.jsonl"
    whole = small_ledger(path)
    ledger = Ledger(path)
    path.write_bytes(whole[:-10])
    with pytest.raises(LedgerError, match="damaged"):
        reserve(ledger)


# Races -----------------------------------------------------------------------------------------------------------------
def test_racing_writers_never_overspend(tmp_path: Path) -> None:
    """Four processes want 40 posts each of a total that has room for 25: together they get 25, at most the total."""
    path = tmp_path / "ledger.jsonl"
    room = Ledger()
    room.add_plan(PLAN)
    for _ in range(25):
        reserve(room)
    total = (room.guarantee().epsilon * 1.001, 1e-6)  # the 26th would cost 2 % more
    Ledger(path, total=total).add_plan(Plan("Test", (LINE,), 1e-6))
    start = time.time() + 0.3

    def wants_forty() -> None:
        ledger, got = Ledger(path), 0
        time.sleep(max(0.0, start - time.time()))
        for _ in range(40):
            try:
                ledger.commit(reserve(ledger), "00" * 32)
                got += 1
            except BudgetError:
                break
        (tmp_path / f"{os.getpid()}.got").write_text(str(got))

    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                wants_forty()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    ledger = Ledger(path)
    assert len(ledger.spent()) == 25
    assert sum(int(file.read_text()) for file in tmp_path.glob("*.got")) == 25
    assert ledger.guarantee().epsilon <= total[0]


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_threads_share_one_total(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads, one ledger, a total that admits one post: one is admitted, every time. No luck is needed to see a
    missing lock: between the check and the line all eight get the time to check."""
    original = Ledger.check_total

    def dawdling(self: Ledger, *lines: Any) -> None:
        original(self, *lines)
        time.sleep(0.005)

    monkeypatch.setattr(Ledger, "check_total", dawdling)
    one = Ledger().price(1e-6, (LINE,)).epsilon
    for attempt in range(10):
        path = None if where == "memory" else tmp_path / f"{attempt}.jsonl"
        ledger, start = Ledger(path, total=(1.01 * one, 1e-6)), threading.Barrier(8)
        ledger.add_plan(Plan("Test", (LINE,), 1e-6))

        def admitted(_: int, ledger: Ledger = ledger, start: threading.Barrier = start) -> bool:
            start.wait()
            try:
                reserve(ledger)
            except BudgetError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(admitted, range(8))) == 1
        assert len(ledger.spent()) == 1
        assert len(Ledger.loads(ledger.dumps()).records) == 3  # and the chain is whole


def test_threads_share_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """One post is planned and eight threads make it: no more than one comes out, total or not."""
    original = Ledger.reserve

    def dawdling(self: Ledger, *args: Any, **kwargs: Any) -> int:
        time.sleep(0.005)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Ledger, "reserve", dawdling)
    billboard, start = Billboard(noise=SeededNoise(1)), threading.Barrier(8)
    billboard.begin(Plan("Test", (LINE,), 1e-6))

    def posted(_: int) -> bool:
        start.wait()
        try:
            billboard.post(Unreleased(STATISTIC, np.zeros(3, np.int64)))
        except PlanError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(posted, range(8))) == 1


def test_a_ledger_is_copied_without_its_lock() -> None:
    ledger = Ledger(total=(1.0, 1e-6))
    again = pickle.loads(pickle.dumps(ledger))
    assert again.dumps() == ledger.dumps()
    again.add_plan(Plan("Test", (LINE,), 1e-6))


def test_a_total_is_agreed_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger(path, total=(1.0, 1e-6))
    assert Ledger(path).total == (1.0, 1e-6)
    with pytest.raises(InputError, match="another total"):
        Ledger(path, total=(2.0, 1e-6))


# Full disks ------------------------------------------------------------------------------------------------------------
def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: writes come back short, then fail."""
    path = tmp_path / "ledger.jsonl"
    whole = small_ledger(path)

    def full() -> None:
        ledger = Ledger(path)
        billboard = Billboard(ledger, noise=SeededNoise(1))
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        for spare in (0, 1, 100):
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + spare, hard))
            with pytest.raises(LedgerError, match="nothing was posted"):
                billboard.begin(PLAN)
            assert path.read_bytes() == whole
            assert len(Ledger(path).records) == 4
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        billboard.begin(PLAN)
        billboard.post(Unreleased(STATISTIC, np.zeros(3, np.int64)))

    assert in_child(full) == 0
    assert len(Ledger(path).records) == 7


@pytest.mark.parametrize(("name", "call"), [("ftruncate", 1), ("pwrite", 1), ("fsync", 1), ("fsync", 2), ("replace", 1)])
def test_no_space_at_any_system_call(name: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clear error, no post, the sum still closed and postable later, the ledger as before."""
    path = tmp_path / "ledger.jsonl"
    billboard = Billboard(Ledger(path, total=(100.0, 1e-6)), noise=SeededNoise(1))
    billboard.begin(PLAN)
    whole, uses, original = path.read_bytes(), [0], getattr(os, name)
    unreleased = Unreleased(STATISTIC, np.zeros(3, np.int64))

    def no_space(*args: Any) -> Any:
        uses[0] += 1
        if uses[0] == call:
            if name == "pwrite":
                original(args[0], args[1][:20], args[2])  # some bytes got there
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, no_space)
        with pytest.raises(LedgerError, match="No space left on device"):
            billboard.post(unreleased)
    assert path.read_bytes() == whole
    assert not Ledger(path).spent()
    billboard.post(unreleased)
    assert len(Ledger(path).spent()) == 1


def test_no_space_for_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise was drawn, so the price is spent; the noisy sum is not handed out."""
    path = tmp_path / "ledger.jsonl"
    billboard = Billboard(path, noise=SeededNoise(1))
    billboard.begin(PLAN)

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    original = billboard._release

    def release_then_full(*args: Any) -> Any:
        posted = original(*args)
        monkeypatch.setattr(os, "pwrite", full)
        return posted

    monkeypatch.setattr(billboard, "_release", release_then_full)
    with pytest.raises(LedgerError):
        billboard.post(Unreleased(STATISTIC, np.zeros(3, np.int64)))
    assert len(Ledger(path).spent()) == 1


TINY_DISK = """
import sys
sys.path.insert(0, sys.argv[1])
from test_ledger import PLAN, Ledger, LedgerError, reserve
ledger = Ledger(sys.argv[2])
ledger.add_plan(PLAN)
try:
    for _ in range(1000):
        reserve(ledger)
except LedgerError as error:
    assert "No space left on device" in str(error), error
    assert len(Ledger(sys.argv[2]).spent()) == len(ledger.spent()) > 3
    print("as it should be")
"""


def test_a_tiny_disk(tmp_path: Path) -> None:
    """A real file system of 16 kB, in a mount namespace that ends with its process."""
    mounted = 'mount -t tmpfs -o size=16k tmpfs "$0" && exec "$@"'
    command = [sys.executable, "-c", TINY_DISK, str(Path(__file__).parent), str(tmp_path / "ledger.jsonl")]
    namespace = ["unshare", "--mount", "--map-root-user", "sh", "-c", mounted, str(tmp_path)]
    try:
        done = subprocess.run([*namespace, *command], capture_output=True, text=True, env=child_environment(), check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare here; the size limit and the failing system calls stand in")
    if done.returncode and "Traceback" not in done.stderr:
        pytest.skip("no right to mount here; the size limit and the failing system calls stand in")
    assert done.stdout == "as it should be\n", done.stderr


def test_an_interrupt_leaves_a_ledger_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C right after the head was replaced: the line must not be taken back, or head and file would disagree."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.add_plan(PLAN)
    original = os.replace

    def interrupted(*args: Any) -> None:
        original(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reserve(ledger)
    assert len(Ledger(path).spent()) == 1  # it counts
    reserve(ledger)
    assert len(Ledger(path).spent()) == len(ledger.spent()) == 2


def test_a_path_that_cannot_be_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="can't be opened"):
        Ledger(tmp_path / "missing" / "ledger.jsonl")


def test_one_plan_for_which_no_epsilon_holds_leaves_none() -> None:
    """Its sensitivities are a claim about likely data: no noise on them promises anything, alone or with sound plans."""
    ledger = Ledger()
    ledger.add_plan(Plan("Sound", (LINE,), 1e-6))
    ledger.commit(reserve(ledger), "ab" * 32)
    assert ledger.guarantee().epsilon < np.inf
    claimed = Plan("Claimed", (LINE,), 1e-6, sound=False)
    assert claimed.guarantee().epsilon == np.inf
    ledger.add_plan(claimed)
    ledger.commit(reserve(ledger), "ab" * 32)
    assert ledger.guarantee().epsilon == np.inf
    assert ledger.guarantee().sentence().startswith("NOT PRIVATE")


def test_a_reservation_does_not_read_what_was_read_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The three-hundredth post takes no longer than the third: lines are read once, and posts that are alike summed."""
    ledger = Ledger(tmp_path / "ledger.jsonl", total=(1000.0, 1e-6))
    ledger.add_plan(PLAN)
    for _ in range(300):
        reserve(ledger)
    read: list[Any] = []
    real = Line.from_json
    monkeypatch.setattr(Line, "from_json", lambda fields: [read.append(fields), real(fields)][1])
    reserve(ledger)
    assert len(read) <= 2
    assert len(ledger.spent()) == 301
    one = ledger.price(1e-6).epsilon
    assert one == pytest.approx(price(ledger.spent(), 1e-6).epsilon, rel=1e-12)  # as one by one
    assert Ledger(tmp_path / "ledger.jsonl").price(1e-6).epsilon == one


def cut_off(total: float, monkeypatch: pytest.MonkeyPatch) -> tuple[Ledger, Plan]:
    """A ledger on which the booking of a stream of two lines stopped after the first, and whose process is gone."""
    lines = (Line("a", Gaussian(5.0), 3), Line("b", Gaussian(5.0), 3))
    plan = Plan("Test", lines, 1e-6, schedule=Schedule.optimal("s", 3))
    ledger = Ledger(total=(total * plan.price.epsilon, 1e-6))
    append = ledger._append

    def dies(record: dict[str, Any]) -> int:
        if record.get("line", {}).get("name") == "b":
            raise KeyboardInterrupt
        return append(record)

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "_append", dies)
        with pytest.raises(KeyboardInterrupt):
            ledger.add_plan(plan)
    return ledger, plan


def test_a_stream_whose_booking_was_cut_off_is_booked_before_its_first_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger, plan = cut_off(1.001, monkeypatch)
    assert [line.name for line in ledger.spent()] == ["a"]
    ledger.reserve_part(plan.lines[0], "s", 1, {}, noise_is_private=True)
    assert sorted(line.name for line in ledger.spent()) == ["a", "b"]
    assert ledger.price(1e-6).epsilon == plan.price.epsilon


def test_a_stream_whose_booking_was_cut_off_posts_nothing_if_others_took_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, plan = cut_off(1.001, monkeypatch)
    ledger.reserve(Line("other", Gaussian(5.0), 3), {}, noise_is_private=True)
    with pytest.raises(BudgetError):
        ledger.reserve_part(plan.lines[0], "s", 1, {}, noise_is_private=True)
    assert not [record for record in ledger.records if record["kind"] == "part"]
    assert ledger.total is not None
    assert ledger.price(1e-6).epsilon <= ledger.total[0]
