"""Public room: `lowkey verify` and `lowkey explain`: a release checked without the data, as claims and as sentences."""

from __future__ import annotations

from typing import Annotated

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.errors import printable


def verify(
    folder: o.Folder,
    id: Annotated[
        str | None, typer.Option("--id", help="The id that the curator published, to compare.", show_default=False)
    ] = None,
    quiet: o.Quiet = False,
    as_json: o.Json = False,
) -> None:
    """Check a release folder without the data: a yes or a no for every claim; exit code 1 on any no.

    It runs in a process of its own, with a limit on memory and time that it names. A yes says that the folder is
    consistent; what only the curator can know is said after it.

    Example: lowkey verify release
    """
    screen = Screen(quiet, as_json)
    with screen.working("Checking"):
        from lowkey.release.folder import read_manifest
        from lowkey.release.limited import verify_limited
        from lowkey.release.verifying import UNPROVEN, WHOSE

        checks = verify_limited(folder, id)
    for check in checks:
        detail = f": {check.detail}" if check.detail else ""
        screen.say(printable(f"{'yes' if check.ok else 'NO '}  {check.claim}{detail}"), None if check.ok else "bold red")
    good = all(check.ok for check in checks)
    if not good:
        screen.say("This release is not what it claims to be.", "bold red")
    else:
        screen.say("The folder is consistent: its files, ledger, price and report say the same.", "bold green")
        screen.say(UNPROVEN)
        if id is None:
            screen.say(WHOSE.format(id=read_manifest(folder)["id"]))
    unproven = [UNPROVEN] if id is not None else [UNPROVEN, WHOSE.format(id="of this release")]
    screen.result({"ok": good, "checks": [vars(check) for check in checks], "unproven": unproven})
    if not good:
        raise typer.Exit(1)


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
    screen.say(
        f"\nFormally it is ({at_most(report.epsilon, 4)}, {report.delta:g})-differentially private. Protected is "
        f"{report.protected}: {report.unit_in_words}. The promise compares {report.adjacency_in_words}."
    )
    screen.say(f"\nTrust is {report.trust_model}.")
    posts = "; ".join(f"{p.posts} x {p.name} of {p.fit} ({100 * p.share:.0f} % of the budget)" for p in report.posts)
    screen.say(f"\nThe data were looked at only through these noisy sums: {posts}. {report.budget}")
    first, second = report.accountants
    screen.say(
        f"\nTwo accountants computed epsilon from the ledger: {at_most(first.epsilon, 7)} ({first.name}) and "
        f"{at_most(second.epsilon, 7)} ({second.name})."
    )
    screen.say(f"\n{report.attack.in_words}")
    if said := quality(report):
        screen.say("\n" + " ".join(said))
    for title, entries in (("Public", report.public), ("Not covered", report.not_covered), ("Caveats", report.caveats)):
        screen.say(f"\n{title}:", "bold")
        for entry in entries:
            screen.say(f"- {entry}")
