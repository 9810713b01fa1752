"""Public room: `lowkey keygen`: the keys with which a curator signs releases, and everybody checks them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen


def keygen(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="NAME.key and NAME.pub are written.", show_default=False)],
    as_json: o.Json = False,
) -> None:
    """Make a pair of keys: NAME.key signs (keep it to yourself), NAME.pub checks (publish it, not with the releases).

    Both are files of minisign, too.

    Example: lowkey keygen curator
    """
    from lowkey.release.signing import new_keys

    secret, public = Path(f"{name}.key"), Path(f"{name}.pub")
    text = new_keys(secret, public)
    screen = Screen(as_json=as_json)
    screen.say(f"Wrote {secret}, which signs: lowkey release … --sign {secret}")
    screen.say(f"Wrote {public}, which checks: lowkey verify release --key {public}, or --key {text}")
    screen.result({"secret": str(secret), "public": str(public), "key": text})
