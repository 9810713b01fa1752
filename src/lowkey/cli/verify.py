"""Public room: `lowkey verify`, `explain` and `keygen`: a release checked without the data, and the keys that sign it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.errors import printable

if TYPE_CHECKING:
    from lowkey.privacy.guarantee import Verdict


def verify(
    folder: o.Folder,
    id: Annotated[
        str | None, typer.Option("--id", help="The id that the curator published, to compare.", show_default=False)
    ] = None,
    key: o.Key = None,
    quiet: o.Quiet = False,
    as_json: o.Json = False,
) -> None:
    """Check a release folder without the data: a yes or a no for every claim; exit code 1 on any no, else 0.

    It runs in a process of its own, with a limit on memory and time that it names. A yes says that the folder is
    consistent, and with --key or --id that it is the curator's; what only the curator can know is said after it, and so is
    what epsilon and delta are worth: a weak promise that is kept is a yes.

    Example: lowkey verify release --key curator.pub
    """
    screen = Screen(quiet, as_json)
    with screen.working("Checking"):
        from lowkey.release.folder import read_manifest
        from lowkey.release.limited import verify_limited
        from lowkey.release.verifying import WHOSE, unproven

        checks = verify_limited(folder, id, key)
    for check in checks:
        detail = f": {check.detail}" if check.detail else ""
        screen.say(printable(f"{'yes' if check.ok else 'NO '}  {check.claim}{detail}"), None if check.ok else "bold red")
    good, known = all(check.ok for check in checks), id is not None or key is not None
    worth = _worth(folder) if good else None
    if not good:
        screen.say("This release is not what it claims to be.", "bold red")
    else:
        screen.say("The folder is consistent: its files, ledger, price and report say the same.", "bold green")
        if worth is not None:
            screen.say(f"What it promises: {worth}", "green" if worth.good else "bold yellow")
        screen.say(unproven(checks))
        if not known:
            screen.say(WHOSE.format(id=read_manifest(folder)["id"]))
    left = [unproven(checks), *([] if known else [WHOSE.format(id="in its manifest")])]
    said = {} if worth is None else {"verdict": worth.level, "verdict_in_words": str(worth)}
    screen.result({"ok": good, "checks": [vars(check) for check in checks], **said, "unproven": left})
    if not good:
        raise typer.Exit(1)


def _worth(folder: Path) -> Verdict:
    """What the numbers of a folder that is consistent are worth."""
    from lowkey.privacy.guarantee import verdict
    from lowkey.release.folder import read_manifest
    from lowkey.release.loading import read_ledger

    manifest = read_manifest(folder)
    guarantee = read_ledger(folder, manifest).guarantee()
    return verdict(guarantee.epsilon, guarantee.delta, manifest["domain"].get("expected_users"))


def explain(folder: o.Folder) -> None:
    """Say in sentences what a release promises, to whom, and what it leaves out.

    Example: lowkey explain release
    """
    screen = Screen()
    with screen.working("Checking"):
        from lowkey.privacy.price import at_most
        from lowkey.release import load
        from lowkey.release.folder import read_manifest
        from lowkey.release.limited import verify_limited
        from lowkey.report import build_report
        from lowkey.report.card import quality

        failed = [check for check in verify_limited(folder) if not check.ok]
    if failed:
        screen.say(f"Do not rely on this folder. It fails a check: {failed[0].claim}: {failed[0].detail}", "bold red")
        raise typer.Exit(1)
    report = build_report(read_manifest(folder), load(folder).ledger)
    screen.say(report.statement, "bold")
    screen.say(f"\n{report.verdict}", None if report.verdict_good else "bold yellow")
    screen.say(
        f"\nFormally it is ({at_most(report.epsilon, 4)}, {report.delta:g})-differentially private. Protected is "
        f"{report.protected}: {report.unit_in_words}. The promise compares {report.adjacency_in_words}."
    )
    screen.say(f"\nTrust is {report.trust_model}.")
    posts = "; ".join(f"{p.what} ({p.fit}, {100 * p.share:.0f} % of the budget)" for p in report.posts)
    screen.say(f"\nThe data were looked at only through these noisy sums: {posts}. {report.budget}")
    first, second = report.accountants
    screen.say(
        f"\nTwo accountants computed epsilon from the ledger: {at_most(first.epsilon, 7)} ({first.name}) and "
        f"{at_most(second.epsilon, 7)} ({second.name})."
    )
    screen.say(f"\n{report.attack.in_words}")
    if said := quality(report):
        screen.say("\n" + " ".join(said))
    screen.say(f"\n{report.erasure}")
    for title, entries in (("Public", report.public), ("Not covered", report.not_covered), ("Caveats", report.caveats)):
        screen.say(f"\n{title}:", "bold")
        for entry in entries:
            screen.say(f"- {entry}")


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
