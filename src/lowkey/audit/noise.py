"""Lab room: the noise of real posts: its law, tails and lattice, and whether two posts or two runs share any of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from lowkey.audit.canaries import History
from lowkey.audit.game import Played
from lowkey.audit.precision import DRAWS, WIDTH, ours
from lowkey.privacy.noise import MIN_SCALE, NoiseSource

FALSE_ALARM = 1e-7  # of each check, for noise that is right
MOST = 200_000  # numbers that the law is judged by
LOW_BITS = 3


@dataclass(frozen=True)
class Finding:
    """One property of the noise: what was looked at, the figure, and how likely one as odd is if all is right."""

    what: str
    figure: str
    chance: Any

    @property
    def ok(self) -> bool:
        return bool(self.chance >= FALSE_ALARM)


def look_at(history: History, played: Played, source: NoiseSource) -> list[Finding]:
    noise = played.noise.astype(np.float64)
    pooled = noise.ravel()[:: max(1, noise.size // MOST)]
    far = int((np.abs(pooled) > 3.5).sum())
    expected = pooled.size * 2.0 * stats.norm.sf(3.5)
    tail = min(1.0, 2.0 * min(stats.poisson.cdf(far, expected), stats.poisson.sf(far - 1, expected)))
    law = stats.kstest(pooled, "norm")
    return [
        *_widths(history, noise),
        Finding("its law", f"Kolmogorov-Smirnov distance {law.statistic:.2g} over {pooled.size:,} draws", law.pvalue),
        Finding("its tails", f"{far} draws beyond 3.5 widths, {expected:.0f} expected", tail),
        _between_runs(noise),
        _between_posts(history, noise),
        _lattice(history, played),
        _laplace(source),
    ]


def _widths(history: History, noise: np.ndarray) -> list[Finding]:
    """The width at each post, on and off the diagonal of a symmetric one: the worst of them."""
    worst = Finding("its width", "no noise", 0.0)
    chances: list[Finding] = []
    for entry, span in zip(history.known.entries, history.spans, strict=True):
        part = noise[:, span].reshape(len(noise), *np.atleast_1d(entry.units).shape)
        wide = history.scale[span].reshape(part.shape[1:])
        for scale in np.unique(wide):
            some = part[:, wide == scale]
            square = float(np.sum(some**2))
            chance = 2.0 * min(stats.chi2.cdf(square, some.size), stats.chi2.sf(square, some.size))
            width = math.sqrt(square / some.size)
            chances.append(Finding("its width", f"{width:.4f} of what is claimed at {entry.statistic.name!r}", chance))
    if chances:
        worst = min(chances, key=lambda finding: finding.chance)
        worst = Finding(worst.what, f"{worst.figure}, the furthest off", min(1.0, worst.chance * len(chances)))
    return [worst]


def _between_runs(noise: np.ndarray) -> Finding:
    """The largest correlation between two runs' noise; of independent runs it has a spread of 1/sqrt(numbers)."""
    table = np.corrcoef(noise)
    np.fill_diagonal(table, 0.0)
    pairs = len(noise) * (len(noise) - 1) / 2
    most = float(np.abs(table).max())
    chance = min(1.0, 2.0 * pairs * stats.norm.sf(math.atanh(min(most, 1.0 - 1e-12)) * math.sqrt(noise.shape[1] - 3)))
    return Finding("between runs", f"largest correlation {most:.3f} of {pairs:,.0f}", chance)


def _between_posts(history: History, noise: np.ndarray) -> Finding:
    """The same between two posts of one run, number by number as far as both go."""
    most, chance, pairs = 0.0, 1.0, 0
    for i, one in enumerate(history.spans):
        for other in history.spans[:i]:
            n = min(one.stop - one.start, other.stop - other.start)
            a, b = (noise[:, s.start : s.start + n].ravel() for s in (one, other))
            r = float(np.corrcoef(a, b)[0, 1])
            pairs += 1
            most = max(most, abs(r))
            chance = min(
                chance, 2.0 * stats.norm.sf(abs(math.atanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))) * math.sqrt(a.size - 3))
            )
    return Finding("between posts", f"largest correlation {most:.3f} of {pairs}", min(1.0, chance * max(pairs, 1)))


def _lattice(history: History, played: Played) -> Finding:
    """Posts lie on the grid of their statistic (refined where the noise is narrow), and the noise fills its low bits."""
    counts, off = np.zeros(1 << LOW_BITS, np.int64), 0
    for entry, span, (units, posted) in zip(history.known.entries, history.spans, played.last, strict=True):
        narrowest = 1.0 / history.scale[span].max()  # of the noise, in grid units
        finer = max(0, math.ceil(math.log2(MIN_SCALE / narrowest)))
        fine = np.ravel(posted) / entry.statistic.grid.step * 2.0**finer
        off += int((fine != np.round(fine)).sum())
        drawn = (fine - np.ravel(units) * 2.0**finer).astype(np.int64)[history.scale[span] == history.scale[span].max()]
        counts += np.bincount(drawn & ((1 << LOW_BITS) - 1), minlength=1 << LOW_BITS)
    chance = float(stats.chisquare(counts).pvalue) if not off else 0.0
    return Finding(
        "its lattice", f"{off} posts off the grid; the low bits are even to {counts.std() / counts.mean():.1%}", chance
    )


def _laplace(source: NoiseSource) -> Finding:
    """The other law, which these posts may not use: twice the sum of unit Laplace sizes is chi-square."""
    drawn = ours("laplace", source)(0.0, DRAWS) / WIDTH
    size = 2.0 * float(np.abs(drawn).sum())
    chance = 2.0 * min(stats.chi2.cdf(size, 2 * DRAWS), stats.chi2.sf(size, 2 * DRAWS))
    return Finding("Laplace noise", f"{size / 2 / DRAWS:.4f} of the width that is claimed", chance)
