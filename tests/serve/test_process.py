"""The running process: many clients through an exchange and an end, memory, slow and strange requests, what it prints.

`LOWKEY_SERVE_SECONDS=30` and `LOWKEY_SERVE_REQUESTS=100000` run the long forms.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from running import Connection, Running

from lowkey.serving.http.served import Served

pytestmark = pytest.mark.xdist_group("service")
SECONDS = float(os.environ.get("LOWKEY_SERVE_SECONDS", "4"))
REQUESTS = int(os.environ.get("LOWKEY_SERVE_REQUESTS", "4000"))
CLIENTS = 200
PLANTED = "Secret Affair 77"


def link_to(link: Path, folder: Path) -> None:
    """In one step, as an operator would: there is no moment without a release."""
    fresh = link.with_name("fresh")
    fresh.symlink_to(folder)
    fresh.rename(link)


@pytest.fixture
def link(releases: tuple[Path, Path], tmp_path: Path) -> Path:
    link_to(tmp_path / "current", releases[0])
    return tmp_path / "current"


@pytest.fixture
def start(link: Path, tmp_path: Path) -> Iterator[Any]:
    started: list[Running] = []

    def make(*options: str) -> Running:
        started.append(Running(link, tmp_path / f"printed {len(started)}", *options))
        return started[-1]

    yield make
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()


def history(served: Served, k: int) -> dict[str, float]:
    ids = served.model.domain.item_ids.to_pylist()
    return {ids[(13 * k + 7 * i) % len(ids)]: 1.0 + (i + k) % 5 for i in range(3 + k % 20)}


def test_two_hundred_clients_see_an_exchange_and_an_end(
    start: Any, link: Path, releases: tuple[Path, Path], served: Served, other: Served
) -> None:
    """No error, no answer of two releases, and nobody who asked is left without an answer."""
    running = start("--no-page", "--drain", "3", "--timeout", "30")
    histories = [history(served, k) for k in range(CLIENTS)]
    expected = {
        one.id: [(ids.tolist(), scores.tolist()) for ids, scores in (one.model.recommend(mine, 5) for mine in histories)]
        for one in (served, other)
    }
    seen: Counter[str] = Counter()
    times: list[float] = []

    async def client(k: int) -> str:
        """Asks until the service closes the connection after an answer; returns which release that answer was of."""
        connection = Connection(running.port)
        while True:
            began = time.perf_counter()
            status, answer = await connection.post("/recommend", {"history": histories[k], "n": 5})
            times.append(time.perf_counter() - began)
            assert status == 200, answer
            assert (answer["items"], answer["scores"]) == expected[answer["release"]][k]
            seen[answer["release"]] += 1
            if connection.closing:
                connection.close()
                return answer["release"]

    async def enough(one: Served) -> None:
        async with asyncio.timeout(60):
            while seen[one.id] < CLIENTS:
                await asyncio.sleep(0.05)

    async def everybody() -> list[str]:
        clients = [asyncio.create_task(client(k)) for k in range(CLIENTS)]
        await asyncio.sleep(SECONDS / 2)
        await enough(served)
        link_to(link, releases[1])
        running.signal(signal.SIGHUP)
        await asyncio.to_thread(running.wait_for, "from now on")
        await asyncio.sleep(SECONDS / 2)
        await enough(other)
        assert not any(task.done() for task in clients), [task.exception() for task in clients if task.done()]
        running.signal(signal.SIGTERM)
        return await asyncio.wait_for(asyncio.gather(*clients), 60)

    last = asyncio.run(everybody())
    assert running.process.wait(60) == 0
    assert set(last) == {other.id}
    assert min(seen[served.id], seen[other.id]) >= CLIENTS
    assert len(running.printed.splitlines()) == 3, running.printed  # serving, from now on, ended
    assert "every request was answered" in running.printed
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", running.port), 1)
    times.sort()
    shown = f"median {times[len(times) // 2] * 1e3:.1f} ms, longest {times[-1]:.2f} s"
    print(f"{sum(seen.values())} answers, {sorted(seen.values())} of the two releases, {shown}")


def test_memory_stays_flat(start: Any, served: Served) -> None:
    """After a fifth of the requests nothing grows any more: less than 200 bytes a request, and 6 MB in all."""
    running = start("--no-page")
    process = psutil.Process(running.process.pid)

    async def ask(requests: int) -> None:
        async def client(k: int) -> None:
            connection = Connection(running.port)
            for turn in range(requests // 8):
                path = ("/recommend", "/explain", "/recommend")[turn % 3]
                more = {"item": item} if path == "/explain" else {"n": 10}
                status, _ = await connection.post(path, {"history": history(served, k + turn), **more})
                assert status == 200
            connection.close()

        await asyncio.gather(*(client(k) for k in range(8)))

    item = served.model.domain.item_ids[5].as_py()
    asyncio.run(ask(REQUESTS // 5))
    before = process.memory_info().rss
    asyncio.run(ask(REQUESTS))
    grown = process.memory_info().rss - before
    print(f"{REQUESTS} requests: {grown / 1e6:+.2f} MB of {before / 1e6:.0f} MB")
    assert grown < 6e6
    assert running.end() == 0


def test_a_watched_folder_is_exchanged_and_a_bad_one_refused(
    start: Any, link: Path, releases: tuple[Path, Path], served: Served, other: Served, tmp_path: Path
) -> None:
    running = start("--no-page", "--watch", "0.1")

    def release() -> str:
        return asyncio.run(Connection(running.port).post("/recommend", {"history": {}}))[1]["release"]

    shutil.copytree(releases[1], tmp_path / "half-written")
    (tmp_path / "half-written" / "model.safetensors").unlink()
    link_to(link, tmp_path / "half-written")
    said = running.wait_for(r"(the folder was refused.*)\n")
    assert re.search(rf"release {served.id[:16]} goes on: this release folder is not intact: .*model\.safetensors", said)
    assert release() == served.id
    shutil.copy(releases[1] / "model.safetensors", tmp_path / "half-written")  # now it is whole
    running.wait_for(rf"Serving release {other.id[:16]} .* from now on")
    assert release() == other.id
    assert running.end() == 0


def raw(port: int, *pieces: bytes, pause: float = 0.0, patience: float = 8.0) -> bytes:
    """What comes back until the other side closes, or has been quiet for a while."""
    with socket.create_connection(("127.0.0.1", port), patience) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            answer = b""
            while part := connection.recv(1 << 16):
                answer += part
                if b"\r\n\r\n" in answer and b"connection: close" not in answer.lower():
                    break
        except (ConnectionResetError, BrokenPipeError, TimeoutError):
            pass
    return answer


UPGRADE = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
EMPTY = b'content-length: 15\r\n\r\n{"history": {}}'
POST = b"POST /recommend HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
SECRET = PLANTED.encode()
STRANGE = {
    "slow headers": (b"POST /recommend HTTP/1.1\r\nx-mine: " + SECRET, 408),
    "slow body": (POST + b'content-length: 100\r\n\r\n{"history": {"' + SECRET, 408),
    "too large": (POST + b"content-length: 99999999\r\n\r\n" + SECRET, 413),
    "a negative length": (POST + b"content-length: -5\r\n\r\n" + SECRET, 400),
    "no HTTP": (SECRET + b"\r\n\r\n", 400),
    "a header without end": (POST + b"x: " + SECRET * 10_000 + b"\r\n\r\n", 400),
    "an address that tells": (b"GET /" + SECRET.replace(b" ", b"%20") + b" HTTP/1.1\r\nhost: x\r\n\r\n", 404),
    "another method": (b"DELETE /recommend?" + SECRET.replace(b" ", b"+") + b" HTTP/1.1\r\nhost: x\r\n\r\n", 405),
    "bad chunks": (POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n" + SECRET, 400),
    "an upgrade": (UPGRADE + b"x: " + SECRET + b"\r\n\r\n", 200),
    "no token is needed here": (POST + b"authorization: Bearer " + SECRET + b"\r\n" + EMPTY, 200),
}  # fmt: skip


def test_slow_and_strange_requests_are_refused_and_nothing_is_printed(start: Any, served: Served) -> None:
    running = start("--timeout", "0.6")
    for name, (content, status) in STRANGE.items():
        answer = raw(running.port, content)
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()), (name, answer[:300])
        assert b"Secret" not in answer, name
    began = time.monotonic()
    assert raw(running.port) == b""  # whoever says nothing is shown out
    assert time.monotonic() - began < 6.0
    for asked in (
        {"history": {PLANTED: 4.0}},
        {"history": {PLANTED: "x"}},
        {PLANTED: 1},
        {"history": {}, "exclude": [PLANTED]},
    ):
        status, answer = asyncio.run(Connection(running.port).post("/recommend", asked))
        assert (status, "Secret" in str(answer)) == (422, False)
    ids = served.model.domain.item_ids.to_pylist()
    assert asyncio.run(Connection(running.port).post("/recommend", {"history": {ids[3]: 4.0}}))[0] == 200
    assert running.end() == 0
    assert "Secret" not in running.printed
    assert not any(item in running.printed for item in ids)
    assert not re.search("traceback|exception|history", running.printed, re.IGNORECASE), running.printed
