"""Local room: what stands before the service: size, time and token of a request, and an answer to whatever goes wrong."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable
from typing import Any

from lowkey.serving.http.limits import Limits, Refusal
from lowkey.serving.http.metrics import Metrics
from lowkey.serving.http.schemas import of_surprise
from lowkey.serving.http.served import Current

HEALTH = ("/v2/health/live", "/v2/health/ready")
HEADERS = [
    (b"cache-control", b"no-store"),  # an answer tells of its history
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class Guard:
    """ASGI around ASGI. ``is_open`` says which addresses need no token; ``surprised`` is told of errors, without values."""

    def __init__(
        self,
        app: Any,
        *,
        current: Current,
        limits: Limits,
        metrics: Metrics,
        token: str | None,
        is_open: Callable[[str], bool],
        surprised: Callable[[str], None],
    ) -> None:
        self.app, self.current, self.limits, self.metrics = app, current, limits, metrics
        self.token = None if token is None else token.encode()
        self.is_open, self.surprised = is_open, surprised
        self.under_way = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        clock = asyncio.get_running_loop().time
        started, status = clock(), 0

        async def send_on(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *self._headers(message)]
            await send(message)

        self.under_way += 1
        self.metrics.under_way.set(self.under_way)
        try:
            await self._answer(scope, receive, send_on, lambda: status > 0)
        finally:
            self.under_way -= 1
            self.metrics.under_way.set(self.under_way)
            self.metrics.answered(scope["path"], status, clock() - started)

    async def _answer(self, scope: Any, receive: Any, send: Any, has_begun: Callable[[], bool]) -> None:
        try:
            self._check_token(scope)
            if self.under_way > self.limits.waiting and scope["path"] not in HEALTH:
                raise Refusal(503, "Too many requests are waiting. Try again in a second.")
            body = await self._body(scope, receive)
            await self.app(scope, _Whole(body, receive), send)
        except Refusal as refusal:
            await refuse(send, refusal)
        except Exception as error:  # the server below would log its message, and with it perhaps a history
            sentence = of_surprise(error)
            self.surprised(sentence)
            if not has_begun():
                await refuse(send, Refusal(500, sentence))

    def _headers(self, message: Any) -> list[tuple[bytes, bytes]]:
        given = {name for name, _ in message.get("headers", [])}
        own = [(name, value) for name, value in HEADERS if name not in given]
        # Whoever keeps a connection open would find it closed with a request on its way.
        return [*own, (b"connection", b"close")] if self.current.draining else own

    def _check_token(self, scope: Any) -> None:
        if self.token is None or self.is_open(scope["path"]):
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        if not hmac.compare_digest(given, b"Bearer " + self.token):
            raise Refusal(401, "The token is missing or wrong. Send it as Authorization: Bearer TOKEN.")

    async def _body(self, scope: Any, receive: Any) -> bytes:
        """The whole body, if it is small enough and comes in time."""
        most = self.limits.body_bytes
        too_large = Refusal(413, f"The body is larger than {most} bytes. Ask for less in one request.")
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or len(declared) > 12 or int(declared) > most:
            raise too_large
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self.limits.seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "The request ended too early.")
                    parts.append(message.get("body", b""))
                    size, more = size + len(parts[-1]), message.get("more_body", False)
                    if size > most:
                        raise too_large
        except TimeoutError:
            raise Refusal(408, f"The request took longer than {self.limits.seconds:g} seconds to arrive.") from None
        return b"".join(parts)


class _Whole:
    """``receive`` for an app whose body is here already."""

    def __init__(self, body: bytes, receive: Any) -> None:
        self.message: Any = {"type": "http.request", "body": body, "more_body": False}
        self.receive = receive

    async def __call__(self) -> Any:
        if self.message is None:
            return await self.receive()
        message, self.message = self.message, None
        return message


async def refuse(send: Any, refusal: Refusal) -> None:
    body = json.dumps({"error": refusal.sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status == 503:
        headers.append((b"retry-after", b"1"))
    if refusal.status in (408, 413):  # the rest of the body is not read
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
