"""Lab room: the audit's own figures, on demand: claimed against measured, false alarms over 200 audits, black-box attacks.

``python -m lowkey_lab.audit_tables claims|alarms|membership`` prints one table each; ``claims`` also draws its figure. What
was measured is kept until a source changes, so a run that was ended goes on.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import lowkey as lk
from lowkey.audit.canaries import choose_history, worst_canaries
from lowkey.audit.command import DEFAULTS
from lowkey.audit.game import play
from lowkey.audit.membership import attack_membership, no_noise
from lowkey.audit.stand_in import made_up_rows, opened, people_of, stand_in_domain, through_a_file
from lowkey.audit.verdict import above_claim
from lowkey.methods.registry import estimator
from lowkey.privacy.noise import NoiseSource
from lowkey_lab.pyplot import pyplot

EPSILONS = (0.5, 1.0, 4.0, 10.0)
DELTA = 1e-5
FIGURE = Path("docs/figures/audit-claims.svg")
AUDITS, ALARM_CANARIES, ALARM_RUNS = 200, 200, 25
USERS, ITEMS, FITS, TARGETS = 400, 100, 80, 8
DATA: dict[str, tuple[str, Any]] = {  # file: rating range or binary, and the method that is attacked
    "ml-100k": ("ratings", lambda epsilon: lk.DPBias(epsilon, DELTA)),
    "jester": ("ratings", lambda epsilon: lk.DPFactors(epsilon, DELTA, rank=4, n_iter=2)),
    "msweb": ("binary", lambda epsilon: lk.DPMoments(epsilon, DELTA)),
}


def claims() -> None:
    """Lower bounds at four epsilons, for the six methods of a bare `lowkey audit`."""
    lower: dict[str, list[float]] = {}
    print("| method | " + " | ".join(f"epsilon {e:g}" for e in EPSILONS) + " |\n|---|" + "---|" * len(EPSILONS))
    for name, small in DEFAULTS.items():
        pairs = [kept(partial(_bounds, name, epsilon, small), "claims", name, epsilon) for epsilon in EPSILONS]
        method = estimator(name).__name__
        print(f"| {method} | " + " | ".join(f"{gaussian:.3f} ({free:.3f})" for gaussian, free in pairs) + " |", flush=True)
        lower[method] = [gaussian for gaussian, _ in pairs]
    draw(lower)


def _bounds(name: str, epsilon: float, small: dict[str, Any]) -> list[float]:
    found = lk.audit(_made(name, epsilon, small), layers=[2], seed=1)
    return [found.lower_epsilon, found.free_epsilon]


def draw(lower: dict[str, list[float]]) -> None:
    """The measured share of each claim: 1 is all of it, and nothing may lie above."""
    chart, axis = pyplot().subplots(figsize=(6.4, 3.8), layout="constrained")
    axis.axhline(1.0, color="#59626e", linestyle="--", linewidth=1, label="the claim")
    for at, (method, bounds) in enumerate(lower.items()):
        places = [i + 0.1 * (at - 2.5) for i in range(len(EPSILONS))]
        shares = [bound / epsilon for bound, epsilon in zip(bounds, EPSILONS, strict=True)]
        axis.plot(places, shares, "o", markersize=6, label=method)
    axis.set(xlabel="epsilon claimed", ylabel="share of it that was measured (95 %)", ylim=(0.7, 1.05))
    axis.set_xticks(range(len(EPSILONS)), [f"{e:g}" for e in EPSILONS])
    axis.legend(frameon=False, fontsize=9, ncols=4, loc="lower center")
    chart.savefig(FIGURE, dpi=100)


def alarms() -> int:
    """How often, of 200 audits of sound code, a 95 % lower bound lies above the claim, and how often a verdict is wrong."""
    above = free = wrong = 0
    for at, (name, small) in enumerate(DEFAULTS.items()):
        audits = AUDITS // len(DEFAULTS) + (at < AUDITS % len(DEFAULTS))
        found = kept(partial(_alarms_of, name, small, audits), "alarms", name, audits)
        above, free, wrong = above + int(found[0]), free + int(found[1]), wrong + int(found[2])
        print(f"{name}: {audits} audits, bounds above the claim {found[0]:.0f} and {found[1]:.0f}", flush=True)
    most = int(stats.binom.isf(0.001, AUDITS, 0.05))
    print(
        f"{AUDITS} audits: {above} Gaussian and {free} form-free bounds above the claim at 95 % (10 expected at most, more "
        f"than {most} in one case of a thousand); {wrong} wrong verdicts."
    )
    return int(max(above, free) > most or wrong > 0)


def _alarms_of(name: str, small: dict[str, Any], audits: int) -> list[float]:
    """Gaussian bounds above the claim, form-free ones, and wrong verdicts."""
    domain, rng, counts = stand_in_domain(), np.random.default_rng(1), np.zeros(3)
    crowd = through_a_file(domain, made_up_rows(domain, 3))
    history = choose_history(lambda: _made(name, 1.0, small), domain, *crowd, 5)
    canaries = worst_canaries(history, ALARM_CANARIES, rng)
    for _ in range(audits):
        played = play(history, canaries, ALARM_RUNS, rng, NoiseSource())
        bounds = played.scores().gaussian(0.95)[1], played.scores().free(0.95)
        counts += [bounds[0] > history.mu, bounds[1] > history.mu, bool(above_claim(history, played, history.mu))]
    return counts.tolist()


def membership() -> int:
    """The black-box attack on public data sets, at epsilon 1, 10 and without noise."""
    print("| data | method | epsilon 1 (bound) | epsilon 10 (bound) | no noise |\n|---|---|---|---|---|")
    bad = 0
    for name, (_, make) in DATA.items():
        cells = []
        for epsilon, noisy in ((1.0, True), (10.0, True), (10.0, False)):
            attack = partial(_attacked, name, epsilon, noisy)
            success, lower, allowed = kept(attack, "membership", name, epsilon, noisy)
            bad += lower > allowed if noisy else success < 0.9
            cells.append(f"{success:.1%}" + (f" ({allowed:.1%})" if noisy else ""))
        print(f"| {name} | {type(make(1.0)).__name__} | " + " | ".join(cells) + " |", flush=True)
    return bad


def _attacked(name: str, epsilon: float, noisy: bool) -> list[float]:
    """The share of coins guessed right, its lower bound, and the largest that the report allows."""
    feedback, make = DATA[name]
    domain, crowd = _part_of(name, feedback)
    people, rng, noise = people_of(crowd), np.random.default_rng(2), None if noisy else no_noise()
    order = sorted(range(len(people)), key=lambda i: -len(people[i][0]))[:TARGETS]
    others = [person for i, person in enumerate(people) if i not in order]
    targets = [people[i] for i in order]
    found = attack_membership(lambda: make(epsilon), domain, others, targets, rng, 0.999, noise, FITS)
    return [found.success, found.lower, found.allowed]


def kept(measure: Callable[[], list[float]], *key: Any) -> list[float]:
    """What was measured with these very sources before, or is now."""
    file, name = _kept_file(), json.dumps(key)
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    found = {line["key"]: line["found"] for line in map(json.loads, lines)}
    if name not in found:
        found[name] = measure()
        with file.open("a", encoding="utf-8") as more:
            more.write(json.dumps({"key": name, "found": found[name]}) + "\n")
    return found[name]


@cache
def _kept_file() -> Path:
    version = hashlib.sha256()
    for source in sorted(Path(lk.__file__).parent.rglob("*.py")):
        version.update(source.read_bytes())
    return Path(tempfile.gettempdir()) / f"lowkey-audit-tables-{version.hexdigest()[:16]}.jsonl"


def _made(name: str, epsilon: float, small: dict[str, Any]) -> Any:
    kind: Any = estimator(name)
    return kind(epsilon=epsilon, delta=DELTA, **small)


def _part_of(name: str, feedback: str) -> Any:
    """The most rated items of a public data set, and some of its users."""
    from lowkey_lab.datasets import load

    rows = load(name).train
    domain, (crowd, _) = rows.domain, opened(rows)
    counts = np.bincount(np.concatenate([items for items, _ in crowd]), minlength=domain.n_items)
    kept = np.sort(np.argsort(-counts)[:ITEMS])
    place = np.full(domain.n_items, -1)
    place[kept] = np.arange(len(kept))
    cut = [(place[items], values) for items, values in crowd]
    cut = [(items[items >= 0].astype(np.int32), values[items >= 0]) for items, values in cut]
    cut = [row for row in cut if len(row[0])][:USERS]
    scale = {} if feedback == "binary" else {"rating_range": domain.rating_range}
    small = lk.Domain(len(kept), feedback=feedback, expected_users=len(cut), **scale)
    return small, through_a_file(small, cut)


if __name__ == "__main__":
    sys.exit({"claims": claims, "alarms": alarms, "membership": membership}[sys.argv[1]]())
