"""Local room: what one request may ask for, and the sentences for what it may not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on one request; whoever runs the service sets them."""

    body_bytes: int = 1 << 20
    histories: int = 64  # as many as one thread does together; more are better asked for in several requests
    length: int = 2000  # of a history
    n: int = 1000
    page: int = 1000  # items of the catalogue at a time
    seconds: float = 10.0  # to send a request, and again to answer it
    waiting: int = 1000  # requests at a time


class Refusal(Exception):
    """A status and a sentence. It holds nothing of the request."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def refuse_more_than(most: int, what: str, found: int) -> None:
    if found > most:
        raise Refusal(422, f"{what}: more than {most}. Ask for fewer in one request.")
