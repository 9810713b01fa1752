"""`lowkey serve` as a process of its own, and a small client for many connections at a time. Loopback only."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-c", "from lowkey.cli.main import main; main()", "serve"]


class Running:
    """A service at a free port of 127.0.0.1. ``printed`` is everything that it wrote, once it has ended."""

    def __init__(self, folder: Path, out: Path, *options: str) -> None:
        self.out = out
        with open(out, "wb") as file:
            self.process = subprocess.Popen([*COMMAND, str(folder), "--port", "0", *options], stdout=file, stderr=file)
        self.port = int(self.wait_for(r"at http://127\.0\.0\.1:(\d+)"))

    @property
    def printed(self) -> str:
        return self.out.read_text("utf-8")

    def wait_for(self, pattern: str, seconds: float = 90.0) -> str:
        import time

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(pattern, self.printed):
                return found[found.re.groups]
            assert self.process.poll() is None, self.printed
            time.sleep(0.02)
        raise AssertionError(f"{pattern!r} was not printed: {self.printed}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


class Connection:
    """One kept-open connection."""

    def __init__(self, port: int) -> None:
        self.port, self.streams, self.closing = port, None, False

    async def post(self, path: str, asked: Any) -> tuple[int, Any]:
        """The status and the answer. ``closing`` is set when the service says that it will close the connection."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        body = json.dumps(asked).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if line)
        self.closing = fields.get("connection") == "close"
        answer = await reader.readexactly(int(fields["content-length"]))
        return int(lines[0].split()[1]), json.loads(answer)

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
