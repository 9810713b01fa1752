"""Public room: whether a folder's model is what its method makes of the posts, which are those of its ledger.

Small posts are always in the folder. It needs no key and no data to make the model from them once more. What that does not
prove: that the posts are noisy sums of anybody's data. Not made again are: models of streams, of public sources that are
elsewhere, of large posts, of methods that are not installed here, and of another version; ``verify`` says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import PlanError
from lowkey.kernels.sweep import Sweep
from lowkey.methods.curator import Curator, Posts
from lowkey.methods.registry import private_methods
from lowkey.origin import Origin
from lowkey.privacy.billboard import MOST_SHOWN, Billboard
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.mechanisms import sha256_of
from lowkey.privacy.plan import Plan
from lowkey.privacy.sums import Statistic
from lowkey.release.folder import broken
from lowkey.release.tensors import read_origin
from lowkey.release.writing import software

CLAIM = "The model is what its method makes of the posts"
UNKNOWN = "not known: "
CLOSE = 1e-6  # of an array's largest number: other machines and libraries round differently


def check_origin(path: Path, manifest: dict[str, Any], ledger: Ledger, domain: Domain, arrays: Mapping[str, Any]) -> str:
    """Make the model again and compare; says what was found, or why it can't be known."""
    origin = read_origin(path, manifest)
    if (why := _unknown(manifest, ledger)) is not None:
        return UNKNOWN + why
    if origin is None:
        broken("no posts, though they are small", "the posts of the fit, which every folder of such a method has")
    plan, names = _tied(ledger, origin)
    rule, made, settings = remade(manifest["method"], origin, domain, plan, names)
    made = {name: np.asarray(array) for name, array in made.items()}
    if rule == manifest["rule"] and made.keys() == arrays.keys() and _plain(settings) == _plain(manifest["settings"]):
        if all(made[name].dtype == arrays[name].dtype and np.array_equal(made[name], arrays[name]) for name in made):
            return "to the last bit"
        if all(_close(made[name], arrays[name]) for name in made):
            return "but for rounding"
    versions = "" if manifest["software"] == software() else ", with other versions of libraries than it names"
    return broken(f"another model than the posts give{versions}", "the model of these posts and parameters")


def _unknown(manifest: dict[str, Any], ledger: Ledger) -> str | None:
    """Why the model can't be made again here; None: it must be possible."""
    ours, here = [plan for plan in ledger.plans() if plan.method == manifest["method"]], version("lowkey")
    if manifest["lowkey"] != here:
        return f"it was made by lowkey {manifest['lowkey']}, and this is {here}"
    if method_of(manifest["method"]) is None:
        return "its method is not installed here"
    if not ours:
        return "its fit was paid for under another plan, such as a search among several"
    if any(plan.schedule is not None for plan in ours):
        return "the posts of a stream stay with its curator"
    if any("sha256" in fact for plan in ours for fact in plan.public):
        return "public sources were used, which are elsewhere"
    if "made" not in manifest and all(_bytes(plan) > MOST_SHOWN for plan in ours):
        return "its posts are too large to be in the folder"
    return None


def _bytes(plan: Plan) -> int:
    return 8 * sum(line.size * line.times for line in plan.lines)


def _tied(ledger: Ledger, origin: Origin) -> tuple[Plan, list[str]]:
    """The plan of the posts, and the name of each, if every one is what the ledger says was posted."""
    records = ledger.records
    committed = {record["reservation"]: record["sha256"] for record in records if record["kind"] == "commit"}
    first = {r["seq"]: r.get("again", r["seq"]) for r in records if r["kind"] == "plan"}
    plans, names = set[int](), list[str]()
    for seq, post in origin.posts.items():
        record = records[seq] if seq < len(records) else {}
        if record.get("kind") != "reserve" or committed.get(seq) != sha256_of(post):
            broken("a post that is not on the ledger", "the posts whose hashes are there")
        if record["statistic"]["shape"] != list(post.shape):
            broken("a post of another shape", "the shape on the ledger")
        plans.add(first[record["plan"]])
        names.append(record["line"]["name"])
    if len(plans) != 1:
        broken("posts of several plans", "those of one fit")
    return Plan.from_json(records[plans.pop()]["plan"]), names


def _close(made: Any, found: Any) -> bool:
    if made.shape != found.shape or made.dtype != found.dtype:
        return False
    return bool(np.abs(made - found).max(initial=0.0) <= CLOSE * np.abs(made).max(initial=0.0))


def _plain(settings: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(settings, sort_keys=True), parse_float=lambda text: f"{float(text):.9g}")


MOST_WHOLE = 1 << 16  # of a parameter that counts something, as a stranger's folder may say: rounds, a rank
SEED = "init_seed"


class Recital(Curator):
    """Answers with posts that were made already, in their order. There are no people behind it."""

    def __init__(self, plan: Plan, posts: Iterable[tuple[str, NDArray[np.float64]]]) -> None:
        billboard = Billboard()
        billboard.plan = plan
        super().__init__(None, None, billboard)  # pyright: ignore[reportArgumentType]  # nobody is asked
        self._left: dict[str, list[NDArray[np.float64]]] = {}
        for name, post in posts:
            self._left.setdefault(name, []).append(post)

    def ask(self, sweep: Sweep, local: Any = None) -> Posts:
        return Posts({statistic.name: self._next(statistic) for statistic in sweep.statistics}, self.noise(sweep))

    def _next(self, statistic: Statistic) -> NDArray[np.float64]:
        left = self._left.get(statistic.name, [])
        if not left or left[0].shape != statistic.shape:
            raise _other(f"no such post of {statistic.name!r}")
        return left.pop(0)

    def check_done(self) -> None:
        if any(self._left.values()):
            raise _other("posts that it does not use")


def method_of(name: str) -> Any:
    """The estimator of a class's name, if it is one of those that are released."""
    for place in private_methods().values():
        module, _, found = place.partition(":")
        if found == name:
            return getattr(import_module(module), found)
    return None


def remade(method: str, origin: Origin, domain: Domain, plan: Plan, names: Iterable[str]) -> Any:
    """What the method makes of the posts, whose names are given: a rule, its arrays and its numbers.

    The parameters may be a stranger's. They must lead to the very plan, so that rounds and sizes are those of the posts.
    """
    for name, value in origin.parameters.items():
        if isinstance(value, int) and abs(value) > MOST_WHOLE and name != SEED:
            raise _other(f"{name} of more than {MOST_WHOLE}")
    estimator = method_of(method)(**origin.parameters)
    settings = estimator.resolve(domain)
    if (found := estimator.plan_of(settings)).lines != plan.lines or found.unit != plan.unit:
        raise _other("other posts than were planned")
    curator = Recital(plan, zip(names, origin.posts.values(), strict=True))
    released = estimator._run(settings, curator)
    curator.check_done()
    return released


def _other(got: str) -> PlanError:
    return PlanError(
        what="a model made once more from its posts",
        got=got,
        needed="the parameters and posts of the fit",
        try_="its folder",
    )
