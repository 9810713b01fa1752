"""The bill of materials of an installed lowkey (CycloneDX 1.5, JSON): what it needs to run, with versions, licences and the
hashes of requirements.lock. `make sbom` prints it; the same environment gives the same text.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parents[1] / "requirements.lock"


def needed(name: str, extras: frozenset[str] = frozenset()) -> list[str]:
    """What a package requires here, by its own words."""
    wanted = [Requirement(text) for text in distribution(name).requires or []]
    chosen = [r for r in wanted if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in extras | {""})]
    return sorted({canonicalize_name(requirement.name) for requirement in chosen})


def closure(name: str, extras: frozenset[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    waiting = [(name, extras)]
    while waiting:
        name, extras = waiting.pop()
        if name not in found:
            try:
                found[name] = needed(name, extras)
            except PackageNotFoundError:
                sys.exit(f"{name} is not installed: make the environment first")
            waiting += [(other, frozenset[str]()) for other in found[name]]
    return found


def hashes() -> dict[str, list[str]]:
    entries = re.findall(r"^(\S+)==\S+((?: \\\n    --hash=sha256:[0-9a-f]{64})+)", LOCK.read_text(), re.MULTILINE)
    return {canonicalize_name(name): re.findall(r"[0-9a-f]{64}", listed) for name, listed in entries}


def component(name: str, known: dict[str, list[str]]) -> dict[str, Any]:
    facts = distribution(name).metadata
    license = facts.get("License-Expression") or next(
        (c.rpartition(" :: ")[2] for c in facts.get_all("Classifier") or [] if c.startswith("License")), None
    )
    return {
        "type": "library",
        "bom-ref": reference(name),
        "name": name,
        "version": facts["Version"],
        "purl": reference(name),
        **({"licenses": [{"license": {"name": license}}]} if license else {}),
        **({"hashes": [{"alg": "SHA-256", "content": digest} for digest in known[name]]} if name in known else {}),
    }


def reference(name: str) -> str:
    return f"pkg:pypi/{name}@{distribution(name).version}"


def bill(extras: frozenset[str]) -> dict[str, Any]:
    graph, known = closure("lowkey", extras), hashes()
    content = {
        "metadata": {"component": {**component("lowkey", {}), "type": "application"}},
        "components": [component(name, known) for name in sorted(graph) if name != "lowkey"],
        "dependencies": [
            {"ref": reference(name), "dependsOn": [reference(other) for other in graph[name]]} for name in sorted(graph)
        ],
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "serialNumber": f"urn:uuid:{number}", **content
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(bill(frozenset(sys.argv[1:])), indent=1))
