"""Public room: `lowkey ledger …`: what a ledger says of itself, without the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.errors import refuse

ledger = typer.Typer(no_args_is_help=True)


@ledger.callback()
def commands() -> None:
    """What a ledger says of itself, without the data.

    Example: lowkey ledger head people.jsonl
    """


@ledger.command()
def head(
    file: Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger of these people.", show_default=False)],
    to: Annotated[
        Path | None, typer.Option(help="Write it to this anchor file, outside the ledger's folder.", show_default=False)
    ] = None,
    expect_head: o.ExpectHead = None,
    as_json: o.Json = False,
) -> None:
    """Print the head of a ledger: the number and the hash of its last line, which stand for all of it.

    Keep it where the ledger is not. `--expect-head` then refuses an old copy of the ledger, whose budget is spent already.

    Example: lowkey ledger head people.jsonl
    """
    if not file.is_file():
        refuse("the ledger", got=f"no file {file}", needed="an existing ledger", try_="the path given to --ledger")
    from lowkey.privacy.anchor import Anchor
    from lowkey.privacy.ledger import Ledger

    found = Ledger(file, expect_head=expect_head)
    last = found.records[-1]
    if to is not None:
        anchor = Anchor(to, file)
        if to.exists():
            anchor.check(found.records)  # never back to an older ledger
        anchor.move(last)
    screen = Screen(as_json=as_json)
    screen.say(found.fingerprint)
    screen.result({"ledger": str(file), "seq": last["seq"], "hash": last["hash"]})
