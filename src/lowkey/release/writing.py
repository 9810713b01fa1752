"""Public room: writes the folder that may be published, complete or not at all."""

from __future__ import annotations

import datetime
import math
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
from safetensors import SafetensorError

from lowkey.errors import InputError, VerifyError
from lowkey.privacy.chain import sync
from lowkey.privacy.price import at_most
from lowkey.release.folder import (
    CARD,
    FORMAT,
    ITEMS,
    LEDGER,
    MANIFEST,
    MODEL,
    REPORT,
    REPORT_PAGE,
    SIGNATURE,
    canonical,
    check_delta,
    check_destination,
    file_hash,
    files_of,
    read_manifest,
    with_id,
)
from lowkey.release.signing import Signer
from lowkey.release.tensors import describe, describe_origin, write_arrays, write_posts
from lowkey.report import PrivacyReport, build_report, model_card, report_page
from lowkey.report.questions import checked_about

if TYPE_CHECKING:
    from lowkey.model import Model  # which stands on this module
    from lowkey.privacy.guarantee import Guarantee
    from lowkey.privacy.ledger import Ledger

SOFTWARE = ("lowkey", "numpy", "scipy", "numba", "dp-accounting", "randomgen", "safetensors", "pyarrow")


def write_release(
    model: Model,
    folder: str | Path,
    about: Mapping[str, str] | None = None,
    signer: Signer | None = None,
    force: bool = False,
) -> Path:
    """Write ``model`` and the proof of its privacy to a new folder, which appears whole or not at all.

    ``about`` is what only the curator can say (questions.py), ``signer`` the curator's key. A delta that allows to publish
    somebody's whole row needs ``force``.
    """
    guarantee = check_private(model)
    if not force:
        check_delta(guarantee.price.delta, model.domain.expected_users)
    said = checked_about(about or {})
    path = check_destination(folder)
    parent = path.absolute().parent
    parent.mkdir(exist_ok=True)
    draft: Path | None = None
    try:
        # Beside its destination: a rename within one file system is atomic.
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.incomplete-", dir=parent))
        _fill(draft, model, said)
        if signer is not None:
            signer.sign(draft, f"release {read_manifest(draft)['id']}")
            os.chmod(draft / SIGNATURE, 0o644)
            sync(draft / SIGNATURE)
        os.chmod(draft, 0o755)
        sync(draft)
        os.rename(draft, path)
    except (OSError, SafetensorError) as error:
        raise InputError(
            what="the release can't be written",
            got=getattr(error, "strerror", None) or type(error).__name__,
            needed="a disk with room and permission",
            try_="another place; nothing was left behind",
        ) from None
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)  # gone already, if all went well
    with suppress(OSError):  # it is there and whole; only a loss of power in the next seconds could still take its name
        sync(parent)
    return path


def check_private(model: Model) -> Guarantee:
    """The guarantee; refuses what has none, or not the one that was asked for: published noise that is worth less."""
    guarantee = model.ledger.guarantee()
    reason = ""
    asked = [(plan, plan.settings.get("asked_epsilon", math.inf)) for plan in model.ledger.plans()]
    weaker = [(plan, epsilon) for plan, epsilon in asked if plan.price.epsilon > epsilon]
    if any(line.mechanism.kind == "none" for line in model.ledger.spent()):
        reason = "sums without noise on its ledger (a non-private baseline)"
    elif not guarantee.noise_is_private:
        reason = "noise from a test seed"
    elif not guarantee.epsilon < float("inf"):
        reason = "a guarantee that holds at no epsilon"
    elif not model.ledger.spent():
        reason = "a ledger without a post"
    elif weaker:
        plan, epsilon = weaker[0]
        reason = f"noise as published for epsilon = {epsilon:g}, with which only {at_most(plan.price.epsilon, 4)} holds"
    if reason:
        raise VerifyError(
            what=f"this {model.method} may not be released",
            got=reason,
            needed="a private fit",
            try_="an estimator whose name starts with DP, with an epsilon, the default noise and calibration",
        )
    return guarantee


def facts_of(model: Model, about: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The part of a manifest that is about the model; the report is made from this and the ledger."""
    return {
        "format": FORMAT,
        "lowkey": version("lowkey"),
        "software": software(),
        "created": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "method": model.method,
        "rule": model.rule,
        "settings": dict(model.settings),
        "arrays": describe(model),
        "domain": model.domain.to_json(),
        "ledger_head": model.ledger.head,
        "about": dict(about or {}),
        **({} if model.origin is None else {"made": describe_origin(model.origin)}),
    }


def software() -> dict[str, str]:
    return {name: version(name) for name in SOFTWARE}


def _fill(draft: Path, model: Model, about: Mapping[str, str]) -> None:
    facts = facts_of(model, about)
    write_arrays(draft / MODEL, model.arrays)
    if model.origin is not None:
        write_posts(draft, model.origin)
    pyarrow.parquet.write_table(pa.table({"item": model.domain.item_ids}), draft / ITEMS, compression="zstd")
    (draft / LEDGER).write_text(model.ledger.dumps(), "utf-8")
    write_words(draft, facts, model.ledger)


def write_words(draft: Path, facts: dict[str, Any], ledger: Ledger) -> str:
    """The report, the card and the manifest, which follow from the facts and the ledger; returns the release's id."""
    report = build_report(facts, ledger)
    (draft / REPORT_PAGE).write_text(report_page(report), "utf-8")
    (draft / CARD).write_text(model_card(report), "utf-8")
    (draft / REPORT).write_text(report_text(report), "utf-8")
    names = files_of(facts)
    for name in names:
        os.chmod(draft / name, 0o644)
        sync(draft / name)
    files = {name: {"bytes": (draft / name).stat().st_size, "sha256": file_hash(draft / name)} for name in names}
    manifest = with_id({**facts, "files": files})
    (draft / MANIFEST).write_text(canonical(manifest), "utf-8")
    sync(draft / MANIFEST)
    return manifest["id"]


def report_text(report: PrivacyReport) -> str:
    """The report as JSON, its fields in reading order."""
    return canonical(report.model_dump(mode="json"), sort_keys=False)
