"""Whoever copies a process that has posted already copies no noise of a later post: forks, namespaces, threads.

Two independent draws of 64 numbers of this width agree by chance with a probability below 2^-1000.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

BEFORE = """
import ctypes, os, sys, threading
SAME_PID = len(sys.argv) > 1
if SAME_PID:
    os.getpid = lambda: 7  # what a process sees that is the first of its own pid namespace, and so is its copy
from lowkey.privacy.noise import NoiseSource
source = NoiseSource()
draw = lambda: source.rounded_gaussian(2.0**20, 64).tolist() + source.discrete_laplace(2.0**9, 8).tolist()
draw()

def forked(before=lambda: None):
    read, write = os.pipe()
    before()
    if os.fork() == 0:
        os.write(write, repr(draw()).encode())
        os._exit(0)
    os.close(write)
    text = b""
    while part := os.read(read, 1 << 16):
        text += part
    os.wait()
    return eval(text)
"""
FORKS = BEFORE + "drawn = [forked(), forked(), draw()]\n"
THREADS = (
    BEFORE
    + """
drawn = []
barrier = threading.Barrier(8)
def post():
    barrier.wait()
    drawn.append(draw())
threads = [threading.Thread(target=post) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
)
NAMESPACES = (
    BEFORE
    + """
CLONE_NEWUSER, CLONE_NEWPID = 0x10000000, 0x20000000
libc = ctypes.CDLL(None, use_errno=True)
def unshare():
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWPID):
        print("not permitted"); sys.exit(0)
drawn = [forked(unshare), draw()]
"""
)
JUDGED = "\nprint(len(drawn), len({tuple(each) for each in drawn}))"


def judged(program: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program + JUDGED, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split()


@pytest.mark.parametrize("same_pid", [(), ("same",)])
def test_forks_after_a_post_draw_other_noise_whatever_their_pids(same_pid: tuple[str, ...]) -> None:
    assert judged(FORKS, *same_pid) == ["3", "3"]


def test_threads_that_share_a_source_draw_other_noise() -> None:
    assert judged(THREADS) == ["8", "8"]


def test_a_child_in_a_pid_namespace_of_its_own_draws_other_noise() -> None:
    found = judged(NAMESPACES)
    if found[:1] == ["not"]:
        pytest.skip("namespaces are not permitted here")
    assert found == ["2", "2"]
