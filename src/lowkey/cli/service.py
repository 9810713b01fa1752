"""Public room: the process around the service: its socket, its signals, and the folder that it watches."""

from __future__ import annotations

import asyncio
import functools
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from lowkey import __version__
from lowkey.errors import LowkeyError, refuse
from lowkey.release.opened import fingerprint
from lowkey.serving.http.app import build_app
from lowkey.serving.http.limits import Limits
from lowkey.serving.http.served import Current, Served
from lowkey.threads import one_blas_thread

TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
)
IDLE_SECONDS = 75  # longer than the usual gateway keeps a connection, so that it is the one who ends it


class Service:
    """Serves what ``open_folder`` makes of a folder. ``say`` is for the operator, and hears of releases alone."""

    def __init__(
        self, folder: Path, open_folder: Callable[[Path], Served], *, limits: Limits, name: str, drain: float,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.folder, self.open_folder, self.limits, self.drain, self.say = folder, open_folder, limits, drain, say
        self.seen = fingerprint(folder)
        self.current = Current(open_folder(folder), name)
        self.busy = asyncio.Lock()

    def run(self, host: str, port: int, watch: float | None, token: str | None, origins: tuple[str, ...]) -> None:
        """Until SIGTERM or Ctrl-C."""
        listening = _listen(host, port)
        app = build_app(self.current, self.limits, version=__version__, token=token, origins=origins, surprised=_complain)
        config = uvicorn.Config(
            app, http=functools.partial(Punctual, seconds=self.limits.seconds), ws="none", lifespan="off",  # type: ignore[arg-type]
            log_config=None, access_log=False, server_header=False, timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=int(2 * self.limits.seconds) + 1,
        )  # fmt: skip
        server = Draining(config, self.current, self.drain)
        shown = f"[{host}]" if ":" in host else host
        self.say(
            f"Serving release {self.current.served.id[:16]} of {self.folder} at http://{shown}:{listening.getsockname()[1]}"
        )
        with one_blas_thread():  # one history is too little to share among threads
            asyncio.run(self._serve(server, listening, watch))
        self.say("Ended; every request was answered.")

    async def _serve(self, server: uvicorn.Server, listening: socket.socket, watch: float | None) -> None:
        tasks: set[asyncio.Task[None]] = set()

        def look_again() -> None:
            task = asyncio.create_task(self.reload())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, look_again)
        watcher = asyncio.create_task(self._watch(watch)) if watch else None
        await server.serve(sockets=[listening])
        if watcher is not None:
            watcher.cancel()

    async def _watch(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            if await asyncio.to_thread(fingerprint, self.folder) != self.seen:
                await self.reload()

    async def reload(self) -> None:
        """Open the folder anew; exchange the release if it is another one and holds its claims."""
        async with self.busy:
            self.seen = await asyncio.to_thread(fingerprint, self.folder)
            try:
                served = await asyncio.to_thread(self.open_folder, self.folder)
            except Exception as error:  # whatever is wrong with a folder, the service goes on
                self.current.keep()
                reason = error if isinstance(error, LowkeyError) else f"it can't be read ({type(error).__name__})"
                _complain(f"the folder was refused, and release {self.current.served.id[:16]} goes on: {reason}")
                return
            if served.id != self.current.served.id:
                self.current.swap(served)
                self.say(f"Serving release {served.id[:16]} of {self.folder} from now on.")


class Draining(uvicorn.Server):
    """On SIGTERM: not ready, connections are closed after their next answer, and after ``drain`` seconds the end."""

    def __init__(self, config: uvicorn.Config, current: Current, drain: float) -> None:
        super().__init__(config)
        self.current, self.drain, self.loop = current, drain, None

    async def startup(self, sockets: Any = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:
        if self.current.draining or self.loop is None:  # asked twice
            self.should_exit = True
            return
        self.current.draining = True
        self.loop.call_soon_threadsafe(self.loop.call_later, self.drain, self._leave)

    def _leave(self) -> None:
        self.should_exit = True


class Punctual(H11Protocol):
    """Ends a connection whose request line and headers do not come in time; the body has its own limit."""

    def __init__(self, *args: Any, seconds: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seconds, self.alarm = seconds, None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # asyncio does this only for sockets that it made: without, an answer in two parts waits 40 ms for its second one.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._set_alarm()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_alarm()
        elif self.alarm is None and self.conn.trailing_data[0]:
            self._set_alarm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_alarm()
        super().connection_lost(exc)

    def _set_alarm(self) -> None:
        self.alarm = self.loop.call_later(self.seconds, self._too_slow)

    def _stop_alarm(self) -> None:
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None

    def _too_slow(self) -> None:
        self.alarm = None
        if self.conn.trailing_data[0]:  # something came, but not all of it
            sentence = b'{"error":"The request took longer than %g seconds to arrive."}' % self.seconds
            self.transport.write(TOO_SLOW % (len(sentence), sentence))
        self.transport.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048)
    except OSError as error:
        refuse("--host and --port", got=f"{host} port {port}: {error.strerror}", needed="one that is free", try_="--port 0")


def _complain(sentence: str) -> None:
    print(f"lowkey serve: {sentence}", file=sys.stderr, flush=True)
