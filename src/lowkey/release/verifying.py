"""Public room: checks a release folder without the data: one yes or no for every claim that it makes.

It proves that the folder is consistent: that the files are those of the manifest, that the ledger has the stated price and,
where the posts are small, that the model is what its method makes of them (remaking.py). It can't prove that the noise was
drawn: that is the curator's word, and the code is open. Nor who wrote the folder: that is known only from a signature, with
a key from the curator (``key``), or from the id, compared with the one that the curator published elsewhere (``id``).
``unproven`` says so wherever the answer is yes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lowkey.data.domain import Domain
from lowkey.errors import LowkeyError, printable
from lowkey.model import Model
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.parts import Parts
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.price import at_most
from lowkey.release.folder import (
    CARD,
    REPORT,
    REPORT_PAGE,
    check_files,
    check_hash,
    existing_folder,
    files_of,
    read_manifest,
)
from lowkey.release.loading import load, load_arrays, read_domain, read_ledger
from lowkey.release.remaking import CLAIM as REMADE
from lowkey.release.remaking import UNKNOWN, check_origin
from lowkey.release.signing import check_signature
from lowkey.release.writing import check_private, report_text
from lowkey.report import PrivacyReport, build_report, model_card, report_page
from lowkey.report.build import accountants

# Of a report that another version wrote: what is promised, to whom. Its sentences are that version's.
ACROSS_VERSIONS = ("method", "unit", "adjacency", "epsilon", "delta", "mu", "public", "curve", "ledger_head")
PRIVATE_NAMES = ("user_ids", "n_users", "n_ratings", "noise_seed")
UNPROVEN = "The curator's word, which no folder can prove: that the noise was drawn as the ledger says, {made}and that "
UNPROVEN += "nothing else was published."
NOT_REMADE = "that the model was made from these posts alone, "
WHOSE = (
    "Nor does it prove who wrote it, and anybody could have made this folder: pass the curator's public key as --key, or "
    "the id that the curator published as --id. The id of this folder is {id}."
)


@dataclass(frozen=True)
class Check:
    """One claim of a release, and whether it holds."""

    claim: str
    ok: bool
    detail: str


def verify(folder: str | Path, id: str | None = None, key: str | Path | None = None) -> list[Check]:
    """Every claim of the folder, checked. Without ``id`` or ``key`` a yes says that it is consistent, and not who made it.

    Parameters
    ----------
    folder : path
        The release.
    id, key : str, optional
        Its id as the curator published it, and the curator's public key, or the key's file.

    Examples
    --------
    >>> all(check.ok for check in lk.verify("release", key="curator.pub"))  # doctest: +SKIP
    """
    path = existing_folder(folder)
    checks: list[Check] = []

    def check(claim: str, test: Callable[[], Any]) -> Any:
        """Run a test; what it returns is handed on, and its failure is a no."""
        value, ok, detail = None, True, ""
        try:
            value = test()
            detail = value if isinstance(value, str) else repr(value) if isinstance(value, Domain) else ""
        except LowkeyError as error:
            ok, detail = False, f"{error.what}: {error.got}" if error.what != NOT_INTACT else error.got
        except Exception as error:  # a stranger's folder may be wrong in ways that nobody thought of
            ok, detail = False, f"can't be read ({type(error).__name__})"
        checks.append(Check(claim, ok, printable(detail)))
        return value

    manifest = check("The manifest is as it was written", lambda: read_manifest(path))
    if manifest is None:
        return checks
    if id is not None:
        check("The release has the id that you were given", lambda: _same(manifest["id"], id))
    if key is not None:
        check("It is signed with the key that you were given", lambda: check_signature(path, key))
    check("Exactly the files of a release are there", lambda: check_files(path, manifest))
    if not checks[-1].ok:
        return checks
    for name in files_of(manifest):
        check(f"{name} is as it was written", lambda name=name: check_hash(path, manifest, name))
    arrays = check("The model is plain, finite numbers of the stated shapes", lambda: load_arrays(path, manifest))
    domain = check("The items are one list of ids", lambda: read_domain(path, manifest))
    check("Nothing in the folder is about a single user", lambda: _no_users(manifest))
    ledger = check("The ledger's chain is unbroken", lambda: read_ledger(path, manifest))
    if ledger is not None:
        check("What was public already is named on the ledger", lambda: _public(ledger))
        check("Every post on the ledger was planned", lambda: _planned(ledger))
        if _streams(ledger) or "stream" in manifest["settings"]:
            check("It is a part of its stream", lambda: _parts(manifest, ledger))
        check("The guarantee is finite and its noise private", lambda: _private(ledger))
        check("Two accountants agree on epsilon", lambda: _agreement(ledger))
        check("The report says what the ledger says", lambda: _report(path, manifest, ledger))
        if arrays is not None and domain is not None:
            check(REMADE, lambda: check_origin(path, manifest, ledger, domain, arrays))
    check("The model can be loaded and used", lambda: _usable(path))
    return checks


def unproven(checks: list[Check]) -> str:
    """What a yes leaves to the curator's word."""
    made = any(check.claim == REMADE and not check.detail.startswith(UNKNOWN) for check in checks)
    return UNPROVEN.format(made="" if made else NOT_REMADE)


NOT_INTACT = "this release folder is not intact"


def _fail(got: str) -> None:
    raise LowkeyError(what=NOT_INTACT, got=got, needed="", try_="")


def _same(found: str, given: str) -> None:
    if found != given:
        _fail(f"its id is {found}")


def _no_users(manifest: dict[str, Any]) -> None:
    named = [name for name in manifest["arrays"] if name.startswith("user")]
    named += [name for name in manifest["settings"] if name in PRIVATE_NAMES]
    if named:
        _fail(f"it names {named[0]!r}")


def _public(ledger: Ledger) -> str:
    """Sources that were used beside the protected data: whoever is in them is not protected."""
    named = [fact for fact in ledger.guarantee().public if "sha256" in fact]
    return "; ".join(named) or "nothing but the facts of the report"


def _planned(ledger: Ledger) -> str:
    """Each reservation is one of a plan's lines and there are no more of them; noise is a positive number."""
    allowed: dict[Line, int] = {}
    for plan in ledger.plans():
        for line in plan.lines:
            if not 0.0 < line.mechanism.mu + line.mechanism.epsilon < math.inf or line.times < 1 or line.size < 1:
                _fail(f"{line.name!r} has no noise, or is posted no times")
            one = replace(line, times=1)
            allowed[one] = allowed.get(one, 0) + line.times
    posted = ledger.spent()
    for line in posted:
        allowed[line] = allowed.get(line, 0) - 1
        if allowed[line] < 0:
            _fail(f"{line.name!r} was posted without a plan")
    committed = {record["reservation"] for record in ledger.records if record["kind"] == "commit"}
    return f"{len(posted)} posts, {len(committed)} of them completed" if not _streams(ledger) else "booked in full"


def _streams(ledger: Ledger) -> list[Plan]:
    return [plan for plan in ledger.plans() if plan.schedule is not None]


def _parts(manifest: dict[str, Any], ledger: Ledger) -> str:
    """Parts come in order, once each, under a stream that is booked; and this release is one that was made."""
    release, stream = manifest["settings"].get("release"), manifest["settings"].get("stream")
    known = {plan.schedule.name: plan.schedule for plan in _streams(ledger) if plan.schedule is not None}
    for at, record in enumerate(ledger.records):
        if record["kind"] == "part":
            if record["stream"] not in known:
                _fail("a part of a stream that is not booked")
            Parts.of(ledger.records[:at], record["stream"]).check_next(record["name"], record["release"])
        elif record["kind"] == "commit" and ledger.records[record["reservation"]]["kind"] == "part":
            part = ledger.records[record["reservation"]]
            Parts.of(ledger.records[:at], part["stream"]).check_commit(part["seq"])
    if stream is None and not known:
        return ""
    if stream is None or stream not in known or not 1 <= release <= Parts.of(ledger.records, stream).complete:
        _fail("it is of another stream, or of a release that was not made")
    return f"release {release} of {known[str(stream)].horizon} of the stream {str(stream)[:8]}"


def _private(ledger: Ledger) -> str:
    check_private(Model("release", "factors", {}, {}, None, ledger))  # pyright: ignore[reportArgumentType]
    guarantee = ledger.guarantee()
    return f"epsilon = {at_most(guarantee.epsilon)}, delta = {guarantee.delta:g}, {guarantee.unit}"


def _agreement(ledger: Ledger) -> str:
    first, second = accountants(ledger, ledger.guarantee())
    detail = f"{at_most(first.epsilon, 7)} ({first.name}) and {at_most(second.epsilon, 7)} ({second.name})"
    # The second is an upper bound by a coarser road; only for Gaussian posts is it tight.
    if first.epsilon > second.epsilon * (1.0 + 1e-4) + 1e-6:
        _fail(f"the first is above the second: {detail}")
    gaussian = ledger.guarantee().price.gaussian
    if gaussian and second.epsilon > first.epsilon * (1.0 + 1e-4) + 1e-6:
        _fail(f"the second is above the first: {detail}")
    return detail


def _report(path: Path, manifest: dict[str, Any], ledger: Ledger) -> str:
    """Compute the report again: every field and page, letter by letter, if this is the version that wrote them."""
    from lowkey import __version__

    raw = json.loads((path / REPORT).read_text("utf-8"))
    same_version = manifest["lowkey"] == __version__
    report = build_report(manifest, ledger)
    computed = _plain(report)
    for name in computed if same_version else ACROSS_VERSIONS:
        if name not in raw or not _close(raw[name], computed[name]):
            _fail(f"{name!r} differs")
    if not same_version:
        return f"numbers checked; the words are those of lowkey {manifest['lowkey']}, this is {__version__}"
    stated = type(report).model_validate(raw)
    for name, text in ((REPORT, report_text(stated)), (REPORT_PAGE, report_page(stated)), (CARD, model_card(stated))):
        if (path / name).read_text("utf-8") != text:
            _fail(f"{name} says something else")
    return ""


def _plain(value: PrivacyReport) -> dict[str, Any]:
    return json.loads(value.model_dump_json())


def _close(a: Any, b: Any) -> bool:
    """Equal, but for the last digits of a number: libraries of another version may round them differently."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_close(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_close(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def _usable(path: Path) -> str:
    """Recommend to somebody new, and to somebody with a few items at the top of the range: every score is a number."""
    model = load(path)
    limits, some = model.domain.rating_range, model.domain.ids(range(min(5, model.domain.n_items - 1))).tolist()
    ids, scores = model.recommend({} if limits else [], n=1)
    if some:
        _, more = model.recommend(dict.fromkeys(some, limits[1]) if limits else some, n=1)
        scores = [*scores, *more]
    if not all(map(math.isfinite, scores)):
        _fail("its scores are no numbers")
    return f"{model.method}, {model.domain!r}; the best for somebody new is {str(ids[0])[:60]!r}"
