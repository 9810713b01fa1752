"""Public room: `lowkey release`: from a ratings file to a folder that may be published."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.cli.table import AS_USUAL, UNNAMED, Columns, Tidy

if TYPE_CHECKING:
    from lowkey.cli.training import Order


def release(
    file: Annotated[str | None, o.RATINGS] = None,
    columns: Columns = UNNAMED,
    private_catalogue: Annotated[
        bool, typer.Option("--private-catalogue", help="The items are not public: name only those that many users have.")
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(help="How much the release may depend on one user: smaller protects more.", show_default=False),
    ] = None,
    delta: o.Delta = None,
    expected_users: o.ExpectedUsers = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write: new or empty.", show_default=False)] = None,
    goal: o.Goal = "lists",
    method: o.Method = None,
    settings: o.Set = None,
    adjacency: o.Adjacency = "add-remove",
    ledger: Annotated[
        Path | None, typer.Option(help="A ledger that all releases on these people share.", show_default=False)
    ] = None,
    total_epsilon: Annotated[
        float | None, typer.Option(help="What all releases on this ledger may cost together.", show_default=False)
    ] = None,
    expect_head: o.ExpectHead = None,
    anchor: Annotated[
        Path | None,
        typer.Option(
            help="A file outside the ledger's folder that keeps its head: old copies are refused.", show_default=False
        ),
    ] = None,
    public_ratings: o.PublicRatings = None,
    item_features: o.ItemFeatures = None,
    tidy: Tidy = AS_USUAL,
    out_of_core: o.OutOfCore = None,
    scratch: o.Scratch = None,
    engine: Annotated[str, typer.Option(help="Where the passes run: local or spark.")] = "local",
    master: Annotated[
        str | None, typer.Option(help="Spark's master, such as local\\[2] \\[default: Spark's own].", show_default=False)
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(help="Pieces the users are dealt to on Spark \\[default: its cores].", show_default=False)
    ] = None,
    about: Annotated[
        Path | None,
        typer.Option(help="What only you can say of the release, for its report (see --init).", show_default=False),
    ] = None,
    init: Annotated[bool, typer.Option("--init", help="Ask for it, write it to --about \\[about.toml], and stop.")] = False,
    sign: Annotated[
        Path | None, typer.Option(help="Sign with this secret key (lowkey keygen makes one).", show_default=False)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the same release, which was cut off: nothing is paid twice.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Release though delta is not below 1/expected users; pay again for lost posts."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and its price, and stop before the data.")
    ] = False,
    quiet: o.Quiet = False,
    as_json: o.Json = False,
) -> None:
    """Train a private recommender on a ratings file and write a release folder.

    Example: lowkey release ratings.parquet --user user --item item --rating rating --scale 1 5 --items 1..1682
    --epsilon 1 --delta 1e-6 --out release
    """
    if init:
        _ask(about or Path("about.toml"), Screen(quiet, as_json))
        return
    o.require(
        "release",
        {
            "the ratings file": file,
            **columns.needed(),
            "--items or --private-catalogue": columns.items or private_catalogue,
            "--epsilon": epsilon,
            "--delta or --expected-users": expected_users if delta is None else delta,
            "--out": out or dry_run,
        },
        f"lowkey release {file or 'ratings.parquet'} {o.EXAMPLE}",
    )
    assert file is not None
    assert epsilon is not None
    o.check_engine(engine, master, partitions, out_of_core)
    chosen, parameters = o.delta_for(delta, expected_users) or 0.0, o.parameters(settings)
    table = columns.table(file, **tidy.of_table(), out_of_core=out_of_core, scratch=scratch)
    if columns.items and private_catalogue:
        o.refuse("--private-catalogue", got="--items too", needed="one of the two", try_="--items if the list is public")
    screen = Screen(quiet, as_json)
    with screen.working("Starting"):
        from lowkey.cli.spark import Cluster
        from lowkey.cli.training import Order
        from lowkey.release.folder import check_delta, check_destination
        from lowkey.release.signing import Signer
        from lowkey.report.questions import read_about

    named = {"user": table.user, "item": table.item, "rating": table.rating}
    said = {"columns": ", ".join(f"{name}: {column}" for name, column in named.items() if column)}
    said |= {} if about is None else read_about(about)
    signer = None if sign is None else Signer(sign)  # read before anything is spent
    order = Order(
        table=table,
        epsilon=epsilon,
        delta=chosen,
        adjacency=adjacency,
        goal=goal,
        method=method,
        parameters=parameters,
        items=columns.catalogue(),
        expected_users=expected_users,
        ledger=ledger,
        total_epsilon=total_epsilon,
        expect_head=expect_head,
        anchor=anchor,
        cluster=Cluster(master, partitions) if engine == "spark" else None,
        public_ratings=public_ratings,
        item_features=item_features,
    )
    if not force:
        check_delta(order.delta, expected_users)
    if out is not None:
        check_destination(out)
    _show_plans(order, screen)
    if dry_run:
        _show_budget(order, screen)
        fields = {
            "dry_run": True,
            "plans": [plan.to_json() for plan in order.plans],
            "epsilon": order.epsilon,
            "delta": order.delta,
        }
        screen.result(fields)
        return
    assert out is not None
    _train_and_write(order, out, screen, resume=resume, force=force, about=said, signer=signer)


def _train_and_write(
    order: Order, out: Path, screen: Screen, *, resume: bool, force: bool, about: Any, signer: Any
) -> None:
    from lowkey.cli.paid import paid_folder, rehearse
    from lowkey.cli.training import train
    from lowkey.privacy.price import at_most
    from lowkey.release.folder import read_manifest
    from lowkey.release.writing import write_release

    with paid_folder(order, out, resume, screen) as keep:
        with screen.working("Rehearsing on made-up people"):
            rehearse(order, keep)
        model = train(order, screen, keep, force)
        with screen.working("Writing the release"):
            folder = write_release(model.model_, out, about, signer, force)
    released, ledger = model.model_, model.model_.ledger
    guarantee = ledger.guarantee()
    identity = read_manifest(folder)["id"]
    screen.say(f"Released {type(model).__name__} with {released.domain.n_items:,} items to {folder}/", "bold")
    screen.say(f"  epsilon = {at_most(guarantee.epsilon)}, delta = {guarantee.delta:g}, {guarantee.unit}")
    screen.say(f"  {guarantee.sentence()}")
    screen.say(f"  id  {identity}")
    if order.ledger is not None:
        screen.say(f"  ledger head  {ledger.fingerprint}")
    screen.say(f"  The report for people is {folder}/privacy_report.html. Next:")
    screen.say(f"    lowkey verify {folder}{'' if signer is None else ' --key YOUR.pub'}")
    screen.say(f"    lowkey recommend {folder} --history mine.csv")
    screen.result(
        {
            "release": str(folder),
            "id": identity,
            "ledger_head": ledger.fingerprint,
            "method": type(model).__name__,
            "items": released.domain.n_items,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "unit": guarantee.unit.name,
            "adjacency": guarantee.unit.neighbours,
            "statement": guarantee.sentence(),
        }
    )


def _show_plans(order: Order, screen: Screen) -> None:
    rows = []
    total = sum(line.times * line.mechanism.mu**2 for plan in order.plans for line in plan.lines)
    for plan in order.plans:
        for line in plan.lines:
            size = "private" if line.mechanism.kind == "thresholded-gaussian" else f"{line.size:,}"
            if order.selection and size != "private":
                size = f"{size} *"
            share = line.times * line.mechanism.mu**2 / total
            rows.append([f"  {plan.method}: {line.name}", str(line.times), size, line.mechanism.width, f"{share:.1%}"])
    if order.method is None:
        other = {"lists": "predicts ratings", "ratings": "ranks what to take next"}[order.goal]
        swapped = {"lists": "ratings", "ratings": "lists"}[order.goal]
        screen.say(f"Chosen for {order.goal}: {order.plans[-1].method}. (--for {swapped} {other} instead.)")
    if order.method is None and not order.selection:
        from lowkey.methods.feasibility import expectation

        screen.say(expectation(order.domain, order.epsilon, order.delta, order.goal, order.adjacency))
    screen.say(f"Protects one {order.table.user!r} (--user), and recommends {order.table.item!r} (--item).")
    screen.say("The plan, before any data is read:", "bold")
    screen.table("", ["  release", "posts", "numbers each", "noise/bound", "of the budget"], rows)
    if order.selection:
        screen.say("  * for 1,000 items; how many will be named is not known before. The noise is the same for any number.")
    screen.say(f"  together at most epsilon = {order.epsilon:g} at delta = {order.delta:g}")
    from lowkey.privacy.guarantee import verdict

    found = verdict(order.epsilon, order.delta, order.expected_users)
    screen.say(f"  {found.text}", None if found.good else "bold yellow")


def _show_budget(order: Order, screen: Screen) -> None:
    """What the shared ledger has left, if there is one; nothing is written."""
    if order.ledger is None or not order.ledger.exists():
        return
    from lowkey.privacy.price import at_most

    ledger = order.open_ledger()
    more = tuple(line for plan in order.plans for line in plan.lines)
    delta = ledger.total[1] if ledger.total else order.delta
    after = ledger.price(delta, more).epsilon
    limit = f" of {ledger.total[0]:g}" if ledger.total else ""
    spent = at_most(ledger.price(delta).epsilon, 4)
    screen.say(f"  on {order.ledger}: {spent} spent, {at_most(after, 4)}{limit} with this release")


def _ask(path: Path, screen: Screen) -> None:
    """A file of what only the curator can say: asked question by question at a terminal, else empty, to be filled in."""
    from lowkey.report.questions import FIELDS, template

    if path.exists():
        o.refuse("--init", got=f"{path}, which exists", needed="a new file", try_="--about another.toml")
    answers = dict[str, str]()
    if sys.stdin.isatty():
        screen.say("Each answer is published with the release. Enter leaves one out.")
        answers = {name: typer.prompt(question, default="", show_default=False) for name, question in FIELDS.items()}
    path.write_text(template(answers), "utf-8")
    screen.say(f"Wrote {path}. Look it over, then: lowkey release … --about {path}")
    screen.result({"about": str(path)})
