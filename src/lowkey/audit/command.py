"""Lab room: `lowkey audit`: the privacy that is measured beside the one that is claimed; exit code 1 if it is less."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.cli.table import UNNAMED, Columns, catalogue, check_file
from lowkey.errors import refuse

CURATOR_ONLY = (
    "FOR THE CURATOR ALONE: this audit opened the ratings themselves. Its figures are not private: do not publish them."
)
# What a bare `lowkey audit` looks at: small settings, so that all of it takes two minutes on two cores.
DEFAULTS: dict[str, dict[str, Any]] = {
    "moments": {},
    "factors": {"rank": 4},
    "als": {"rank": 4},
    "bias": {},
    "frank-wolfe": {},
    "lmc": {"rank": 4},
}
# What is no fit on users: module and function.
TASKS = {"one-bit": "tasks:one_bit", "one-bit-sums": "sign_sums:one_bit_sums", "trace": "tasks:trace"}
TASKS |= {"stream": "tasks:stream", "catalogue": "holders:catalogue"}
REPLACED = 20_000  # canaries for replace-one, beside the many for add/remove


def audit(
    file: Annotated[
        Path | None, typer.Argument(help="The real ratings, for their curator alone \\[default: a crowd that is made up].")
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="A release folder: its method, settings, catalogue and budget.", show_default=False)
    ] = None,
    attach: Annotated[
        bool, typer.Option("--attach", help="Write the result into the report and the card of --like; its id changes.")
    ] = False,
    columns: Columns = UNNAMED,
    method: Annotated[str | None, typer.Option(help="One method \\[default: six of them].", show_default=False)] = None,
    settings: o.Set = None,
    epsilon: Annotated[float, typer.Option(help="The claim to be measured.")] = 1.0,
    delta: Annotated[float, typer.Option(help="The claim's delta.")] = 1e-5,
    adjacency: o.Adjacency = "add-remove",
    layers: Annotated[str, typer.Option(help="1 replay, 2 canaries, 3 black box, 4 noise.")] = "1,2,3,4",
    canaries: Annotated[int, typer.Option(help="Scores in all: canaries times runs.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="Of the lower bounds.")] = 0.95,
    seed: Annotated[
        int | None, typer.Option(help="Of crowd, canaries and coins; never of the noise.", show_default=False)
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="An SVG picture of the canaries' game.", show_default=False)] = None,
    quiet: o.Quiet = False,
    as_json: o.Json = False,
) -> None:
    """Measure the privacy that the code really has: replayed neighbours, canaries, a black-box attack, and the noise.

    Each layer is a line with its figure; exit code 1 if one finds more than is claimed. A passed audit is no proof.

    Example: lowkey audit --like release
    """
    begin, screen = time.monotonic(), Screen(quiet, as_json)
    wanted = _numbers(layers)
    _check_ways(file, like, attach)
    _check_method(method, bool(settings), file is not None or like is not None, wanted)
    _check_rest(seed, plot)
    with screen.working("Setting up"):
        from lowkey.audit.measuring import checked
        from lowkey.audit.result import NO_PROOF

        data, domain, same = None, None, True
        if like is not None:
            from lowkey.audit.stand_in import like_release

            estimator, domain, same = like_release(like)
            jobs = [(estimator, wanted, canaries)]
        elif file is not None:
            data = _read(file, columns)
            jobs = _jobs(method or "lists", o.parameters(settings), epsilon, delta, adjacency, wanted, canaries)
        else:
            jobs = _jobs(method, o.parameters(settings), epsilon, delta, adjacency, wanted, canaries)
            domain = _stand_in(columns)
        for estimator, of_it, scores in jobs:
            checked(estimator, domain if data is None else data.domain, of_it, scores, confidence)
    if data is not None:
        screen.say(CURATOR_ONLY, "bold red")
    if not same:
        screen.say(
            "The release was made with settings that its folder does not tell: the stand-in has the defaults.", "yellow"
        )
    options = {"domain": domain, "confidence": confidence, "seed": seed}
    calls = [partial(_measured, *job, data, options) for job in jobs]
    if like is None and data is None and 2 in wanted and (method is None or method in TASKS):
        numbers = epsilon, delta, confidence, seed
        calls += [partial(_task, name, *numbers) for name in (TASKS if method is None else [method])]
    results = _run(screen, calls, data is not None)
    _show(screen, results)
    if plot is not None:
        results[0].plot(plot)
    good = all(result.ok for result in results)
    if attach and like is not None:
        from lowkey.release.attaching import attach_audit

        screen.say(f"Attached to {like}; its new id is {attach_audit(like, results[0].attached(same))}.")
    screen.say(
        "No attack found more than is claimed." if good else "MORE WAS FOUND THAN IS CLAIMED.",
        "bold green" if good else "bold red",
    )
    screen.say(f"{NO_PROOF} {time.monotonic() - begin:.0f} s.")
    screen.result(
        {"ok": good, "audits": [result.to_json() for result in results], "private": data is None, "note": NO_PROOF}
    )
    if not good:
        raise typer.Exit(1)


def _check_ways(file: Path | None, like: Path | None, attach: bool) -> None:
    if file is not None and like is not None:
        refuse("lowkey audit", got="a file and --like", needed="one of the two", try_="--like for a stand-in")
    if attach and like is None:
        refuse("--attach", got="no --like", needed="the release folder that it is for", try_="--like release --attach")
    if file is not None:
        check_file(str(file))


def _check_method(method: str | None, own: bool, given: bool, layers: list[int]) -> None:
    """What would otherwise be ignored is refused."""
    if method in TASKS and (given or own or 2 not in layers):
        needed = "a stand-in of its own, its own settings, and layer 2"
        refuse(
            f"--method {method}",
            got="a file, --like, --set or other layers",
            needed=needed,
            try_=f"--method {method} alone",
        )
    if own and method is None:
        refuse("--set", got="no --method", needed="the method that it is for", try_="--method als --set rank=4")


def _check_rest(seed: int | None, plot: Path | None) -> None:
    if seed is not None and seed < 0:
        refuse("--seed", got=f"{seed}", needed="a whole number from 0 on", try_="--seed 1")
    if plot is not None and not plot.absolute().parent.is_dir():
        refuse(
            "--plot",
            got=f"'{plot}', whose folder does not exist",
            needed="a file in a folder that does",
            try_="--plot audit.svg",
        )


def _numbers(layers: str) -> list[int]:
    found = [int(part) for part in layers.split(",") if part.strip() in ("1", "2", "3", "4")]
    if not found or len(found) != len(layers.split(",")):
        refuse("--layers", got=repr(layers), needed="some of 1, 2, 3 and 4, with commas between", try_="--layers 1,2")
    return found


def _stand_in(columns: Columns) -> Any:
    """The domain of a made-up crowd, if anything was said about it."""
    if columns.counts is not None:
        refuse("--counts", got="no file", needed="a file of counts", try_="--scale or --binary for a made-up crowd")
    if not columns.binary and columns.scale is None and columns.items is None:
        return None
    from lowkey.audit.stand_in import EXPECTED, N_ITEMS
    from lowkey.data.domain import Domain

    ids = N_ITEMS if columns.items is None else catalogue(columns.items, "item")
    if columns.binary:
        return Domain(ids, feedback="binary", expected_users=EXPECTED)
    return Domain(ids, columns.scale or (0.5, 5.0), expected_users=EXPECTED)


def _read(file: Path, columns: Columns) -> Any:
    example = f"lowkey audit {file} --user user --item item --rating rating --scale 1 5 --items 1..1682"
    o.require("audit", {**columns.needed(), "--items": columns.items}, example)
    from lowkey.data.domain import Domain

    table = columns.table(str(file))
    return table.read(Domain(columns.catalogue(), table.scale, table.feedback))


def _jobs(
    method: str | None,
    own: dict[str, Any],
    epsilon: float,
    delta: float,
    adjacency: str,
    layers: list[int],
    canaries: int,
) -> list[Any]:
    """Estimators, each with its layers and its number of canaries; replace-one beside them where nothing was chosen."""
    from lowkey.methods.registry import estimator

    budget = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
    if method in TASKS:
        return []
    if method is not None:
        kind = estimator(method)
        unknown = sorted(set(own) - set(kind._get_param_names()))
        if unknown:
            known = ", ".join(kind._get_param_names())
            refuse("--set", got=repr(unknown[0]), needed=f"a parameter of {kind.__name__}: {known}", try_="one of those")
        return [(kind(**budget, **own), layers, canaries)]
    made = [(estimator(name)(**{**budget, **small, **own}), layers, canaries) for name, small in DEFAULTS.items()]
    if adjacency == "add-remove" and 2 in layers:
        budget["adjacency"] = "replace-one"
        fewer = min(canaries, REPLACED)
        made += [(estimator(name)(**{**budget, **small, **own}), [2], fewer) for name, small in DEFAULTS.items()]
    return made


def _run(screen: Screen, calls: list[Callable[[], Any]], here: bool) -> list[Any]:
    """One after the other, or, where there are several, in two processes of their own, of one thread each."""
    from numba import set_num_threads

    with screen.working("Auditing", len(calls)) as advance:
        if here or min(os.cpu_count() or 1, len(calls)) < 2:
            return [_and_then(call, advance) for call in calls]
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), set_num_threads, (1,)) as pool:
            waiting = [pool.submit(call) for call in calls]
            for done in as_completed(waiting):
                done.result()
                advance()
            return [done.result() for done in waiting]


def _and_then(call: Callable[[], Any], advance: Callable[[], None]) -> Any:
    found = call()
    advance()
    return found


def _measured(estimator: Any, layers: list[int], canaries: int, data: Any, options: dict[str, Any]) -> Any:
    from lowkey.audit.measuring import audit as measure

    return measure(estimator, data, layers=layers, canaries=canaries, **options)


def _task(name: str, epsilon: float, delta: float, confidence: float, seed: int | None) -> Any:
    """One-bit completion, trace regression, a stream or a private catalogue, each with canaries of its own."""
    from lowkey.audit.result import AuditResult
    from lowkey.audit.verdict import as_finding

    failed: list[Any] = []
    with as_finding(failed, 2):
        module, _, function = TASKS[name].partition(":")
        return getattr(import_module(f"lowkey.audit.{module}"), function)(epsilon, delta, confidence, seed)
    return AuditResult(name, "its own unit", epsilon, delta, confidence, layers=tuple(failed))


def _show(screen: Screen, results: list[Any]) -> None:
    for result in results:
        screen.say(str(result), None if result.ok else "bold red")
    rows = [
        [
            f"{result.method} ({result.adjacency})",
            f"{result.epsilon:.3f}",
            f"{result.lower_epsilon:.3f}",
            f"{result.free_epsilon:.3f}",
            f"{result.lower_epsilon / result.epsilon:.0%}",
            "ok" if result.ok else "FAIL " + ",".join(map(str, result.failed)),
        ]
        for result in results
    ]
    if any(result.lower_epsilon for result in results):
        columns = ["method", "epsilon claimed", "at least (Gaussian)", "at least (no form)", "of the claim", "verdict"]
        screen.table("\nClaimed and measured", columns, rows)
    if len(results) == 1 and results[0].posts:
        found = results[0].posts
        numbers = [[f"{p.claimed_mu:.4f}", f"{p.lower_mu:.4f}", f"{p.reached:.3f}", f"{p.noise_width:.3f}"] for p in found]
        columns = ["post", "mu claimed", "mu at least", "sensitivity reached", "width of the noise"]
        rows = [[post.name, *cells] for post, cells in zip(found, numbers, strict=True)]
        screen.table("\nPost by post", columns, rows)
