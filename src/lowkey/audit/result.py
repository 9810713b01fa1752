"""Lab room: what an audit found: four layers, each a line with its figure; and the picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lowkey.privacy.gaussian import gaussian_epsilon

NAMES = {1: "replay", 2: "canaries", 3: "black box", 4: "noise"}
NO_PROOF = (
    "A passed audit is no proof: it shows that these attacks found no more than the claim allows. The claim rests on the "
    "bounds in the code and on the ledger."
)


@dataclass(frozen=True)
class Layer:
    """One layer's verdict, and the figure that it rests on."""

    number: int
    ok: bool
    figure: str
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        return f"{self.number} {NAMES[self.number]:<10}{'ok  ' if self.ok else 'FAIL'}  {self.figure}"


@dataclass(frozen=True)
class PostFound:
    """One post: its claimed mu, the share of its sensitivity that somebody reached, and what was seen."""

    name: str
    claimed_mu: float
    reached: float
    noise_width: float  # in units of what is claimed
    lower_mu: float  # the worst canary's shift over the widest noise that the runs allow


@dataclass(frozen=True)
class AuditResult:
    """``lower_epsilon`` is what was measured, at ``confidence``; ``epsilon`` is what is claimed, both at ``delta``."""

    method: str
    adjacency: str
    epsilon: float
    delta: float
    confidence: float
    canaries: int = 0
    measured_epsilon: float = 0.0
    lower_epsilon: float = 0.0
    free_epsilon: float = 0.0  # without any form of the noise assumed
    typical_epsilon: float = 0.0
    layers: tuple[Layer, ...] = ()
    posts: tuple[PostFound, ...] = ()
    roc: tuple[tuple[float, float], ...] = ()  # accused, found: what the canaries' scores give
    mu: float = 0.0
    curator_only: bool = False

    @property
    def ok(self) -> bool:
        return all(layer.ok for layer in self.layers)

    @property
    def failed(self) -> list[int]:
        return [layer.number for layer in self.layers if not layer.ok]

    def __str__(self) -> str:
        title = f"{self.method}, epsilon {self.epsilon:.4g} at delta {self.delta:g}, {self.adjacency}"
        return "\n".join([title, *(f"  {layer}" for layer in self.layers)])

    def attached(self, same_plan: bool) -> list[str]:
        """For the report and the card of a release: what was measured, on whom, and what that does and does not show."""
        like = "the release's own plan" if same_plan else "the release's method and budget, and default settings"
        whom = f"Measured with lowkey {version('lowkey')} on people who are made up, with {like}; no rating was looked at."
        return [whom, *(f"Layer {layer}" for layer in self.layers), NO_PROOF]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok, "failed": self.failed}

    def plot(self, file: str | Path | None = None) -> str:
        """The canaries' detection against the claim's curve, as SVG; written to ``file`` if there is one."""
        from lowkey.report.charts import STANDALONE, trade_off_chart

        from scipy.stats import norm  # isort: skip

        allowed = lambda a: float(norm.cdf(self.mu + norm.ppf(a))) if 0.0 < a < 1.0 else float(a >= 1.0)
        chart = trade_off_chart(allowed, self.roc, STANDALONE)
        picture = chart.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        if file is not None:
            Path(file).write_text(picture, "utf-8")
        return picture


def roc_of(values: np.ndarray, inside: np.ndarray, points: int = 41) -> tuple[tuple[float, float], ...]:
    """The share of members above a threshold against the share of others, at many thresholds."""
    thresholds = np.quantile(values, np.linspace(1.0, 0.0, points))
    members, others = np.sort(values[inside]), np.sort(values[~inside])
    above = lambda some: 1.0 - np.searchsorted(some, thresholds, side="right") / len(some)
    return ((0.0, 0.0), *zip(above(others).tolist(), above(members).tolist(), strict=True), (1.0, 1.0))


def as_epsilon(mu: float, delta: float) -> float:
    return gaussian_epsilon(max(0.0, mu), delta)
