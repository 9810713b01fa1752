"""Public room: `lowkey serve`: a release behind HTTP, for those who can not, or would not, compute in the browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.errors import refuse

if TYPE_CHECKING:
    from lowkey.serving.http.served import Served

TOKEN = "LOWKEY_TOKEN"


def serve(
    folder: o.Folder,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 is everybody's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one and prints it.", min=0, max=65535)] = 8080,
    watch: Annotated[
        float | None,
        typer.Option(help="Look every so many seconds whether the folder has changed.", min=0.1, show_default=False),
    ] = None,
    name: Annotated[str, typer.Option(help="The model's name under /v2/models.")] = "lowkey",
    token_file: Annotated[
        Path | None, typer.Option(help=f"A file with the token that requests need \\[or: {TOKEN}].", show_default=False)
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A site whose pages may ask, such as https://shop.example.", show_default=False)
    ] = None,
    titles: Annotated[
        Path | None, typer.Option(help="A csv file with the columns item and title, for the page.", show_default=False)
    ] = None,
    key: o.Key = None,
    heading: Annotated[str, typer.Option(help="The page's heading.", show_default=False)] = "",
    page: Annotated[bool, typer.Option("--page/--no-page", help="Serve the page that computes in the browser.")] = True,
    max_body: Annotated[int, typer.Option(help="Bytes of a request.", min=1)] = 1 << 20,
    max_histories: Annotated[int, typer.Option(help="Histories in a request.", min=1, max=64)] = 64,
    max_length: Annotated[int, typer.Option(help="Items in a history.", min=1)] = 2000,
    timeout: Annotated[float, typer.Option(help="Seconds to send a request, and to answer it.", min=0.05)] = 10.0,
    drain: Annotated[
        float, typer.Option(help="Seconds between SIGTERM, when ready turns to no, and the end.", min=0.0)
    ] = 2.0,
) -> None:
    """Serve a release over HTTP, and its page. Histories are not logged, stored or put in an error.

    SIGHUP looks at the folder again (so does --watch): a new release that holds all its claims takes over between two
    answers; a bad one is refused, and the old one goes on. With --key only what is signed with it is served, at any time.
    SIGTERM finishes what is under way.

    Example: lowkey serve release --port 8080
    """
    try:
        from lowkey.cli.service import Service
    except ImportError:
        refuse("lowkey serve", got="no fastapi, uvicorn or prometheus-client", needed="the extra `serve`",
               try_="pip install 'lowkey[serve]'")  # fmt: skip
    from lowkey.cli.export import read_titles
    from lowkey.release.opened import open_release
    from lowkey.release.signing import public_key
    from lowkey.serving.http.limits import Limits

    limits = Limits(body_bytes=max_body, histories=max_histories, length=max_length, seconds=timeout)
    named, signer = read_titles(titles), None if key is None else public_key(key)

    def opened(path: Path) -> Served:
        return open_release(path, named, heading, page, signer)

    service = Service(folder, opened, limits=limits, name=name, drain=drain, say=Screen().say)
    service.run(host, port, watch, read_token(token_file), tuple(allow_origin or ()))


def read_token(path: Path | None) -> str | None:
    """From a file or the environment: an argument could be read by everybody on the machine."""
    if path is None:
        return os.environ.get(TOKEN) or None
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        refuse("--token-file", got=f"{str(path)!r}, which can't be read", needed="a text file", try_="another path")
    if len(token) < 16 or not token.isascii() or any(letter.isspace() for letter in token):
        refuse("--token-file", got="a short token, or one with spaces", needed="16 letters or more",
               try_="openssl rand -hex 32 > token")  # fmt: skip
    return token
