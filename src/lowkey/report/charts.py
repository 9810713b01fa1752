"""Public room: the report's charts, as inline SVG. Drawn 360 units wide, so that letters stay legible on a phone.

Colours come from the page's style sheet by class, for light and dark alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from lowkey.report.contents import History, Point, Post

WIDTH, HEIGHT = 360, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 22, 26, 44
Places = Sequence[tuple[float, float]]
# For a chart that stands alone, without the page's style sheet.
STANDALONE = (
    "<style>text{font:11.5px system-ui,sans-serif;fill:#1b1f24}.middle{text-anchor:middle}.end{text-anchor:end}"
    ".grid{stroke:#d8dbd3}.dot{fill:#1f5fa8}.line{fill:none;stroke:#1f5fa8;stroke-width:2}.area{fill:#1f5fa822}"
    ".seen{fill:none;stroke:#b3541e;stroke-width:2}.guess{fill:none;stroke:#59626e;stroke-dasharray:4 4}"
    "</style>"
)
ON_WHITE = (
    "svg{font:11px system-ui,sans-serif;background:#fff}text{fill:#333}.middle{text-anchor:middle}.end{text-anchor:end}"
    ".grid{stroke:#e2e2e2}.line{fill:none;stroke:#1f6feb;stroke-width:2}.dot{fill:#1f6feb}.guess{fill:none;stroke:#777;"
    "stroke-dasharray:4 3}.soft{fill:#666}"
)
ROOM = 0.08  # of the range of a quality, above and below


def share_bars(posts: Sequence[Post]) -> str:
    """One bar per kind of post, its rounds together, as wide as the page: its share of the budget."""
    alike = {post.what: [other for other in posts if other.what == post.what] for post in posts}
    totals = {what: (sum(post.posts for post in found), sum(post.share for post in found)) for what, found in alike.items()}
    rows = (
        f"<div><span>{escape(what)}<i> {count} {'post' if count == 1 else 'posts'}</i></span>"
        f"<b>{100.0 * share:.1f} %</b><hr><hr class='part' style='width:{100.0 * share:.1f}%'></div>"
        for what, (count, share) in totals.items()
    )
    return f'<div class="shares">{"".join(rows)}</div>'


def history_chart(history: History) -> str:
    """One bar for each release on the ledger, however many: what its number is, the caption says."""
    count, top = len(history.values), 1.05 * max(history.values)
    y, width = _scale(0.0, top, HEIGHT - BOTTOM, TOP), (WIDTH - LEFT - RIGHT) / count
    marks = sorted({1, count, *(round(1 + (count - 1) * part / 4) for part in range(5))})
    bars = (
        f'<rect class="bar" x="{LEFT + i * width + 0.1 * width:.1f}" y="{y(value):.1f}" width="{0.8 * width:.1f}" '
        f'height="{HEIGHT - BOTTOM - y(value):.1f}"/>'
        for i, value in enumerate(history.values)
    )
    across = [(LEFT + (mark - 0.5) * width, str(mark)) for mark in marks]
    labels = [f'<text class="middle" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}">{label}</text>' for x, label in across]
    grid = _grid([], [(y(tick), f"{tick:g}") for tick in _ticks(top)])
    return _svg(history.of, HEIGHT, [*grid, *bars, *labels, *_titles("release", history.of)])


def curve_chart(curve: Sequence[Point], epsilon: float, delta: float) -> str:
    """Epsilon against delta: every point of the line holds; the dot is the one that is stated."""
    top = 1.05 * max(epsilon, *(point.epsilon for point in curve))
    x, y = _scale(-12.0, -2.0, LEFT, WIDTH - RIGHT), _scale(0.0, top, HEIGHT - BOTTOM, TOP)
    line = [(x(math.log10(point.delta)), y(point.epsilon)) for point in curve]
    parts = [
        *_grid([(x(e), f"1e{e}") for e in (-12, -10, -8, -6, -4, -2)], [(y(t), f"{t:g}") for t in _ticks(top)]),
        _path(line, "line"),
        _dot(x(min(-2.0, max(-12.0, math.log10(delta) if delta else -12.0))), y(epsilon)),
        *_titles("delta", "epsilon"),
    ]
    return _svg("Epsilon as a function of delta", HEIGHT, parts)


def trade_off_chart(detected: Callable[[float], float], seen: Places = (), style: str = "") -> str:
    """The attacker's best detection rate against the false alarm rate; the diagonal is guessing.

    ``seen`` is what an audit's attack reached: (falsely accused, found).
    """
    x, y = _scale(0.0, 1.0, LEFT, WIDTH - RIGHT), _scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    alarms = [0.0, *(1e-4 * 10 ** (i / 10) for i in range(30)), *(0.1 + 0.9 * i / 45 for i in range(46))]
    line = [(x(a), y(detected(a))) for a in alarms]
    ticks = [(t, f"{100 * t:.0f} %") for t in (0.0, 0.25, 0.5, 0.75, 1.0)]
    parts = [
        style,
        *_grid([(x(t), label) for t, label in ticks], [(y(t), label) for t, label in ticks]),
        _path([*line, (x(1.0), y(0.0)), (x(0.0), y(0.0))], "area"),
        _path([(x(0.0), y(0.0)), (x(1.0), y(1.0))], "guess"),
        _path(line, "line"),
        *([_path([(x(a), y(found)) for a, found in seen], "seen"), _key(x(0.3), y(0.2))] if seen else []),
        f'<text x="{x(0.62):.0f}" y="{y(0.5):.0f}">guessing</text>',
        *_titles("falsely accused", "found, at most"),
    ]
    return _svg("What an attacker can at best detect", HEIGHT, parts)


def quality_figure(measure: str, found: Mapping[float, float], levels: Mapping[str, float], chosen: float | None) -> str:
    """``found`` is the quality of each epsilon, ``levels`` are lines across (floor, ceiling); ``chosen`` gets a dot."""
    values = [*found.values(), *levels.values()]
    spread = max(max(values) - min(values), 1e-9)
    low, high = min(values) - ROOM * spread, max(values) + ROOM * spread
    ends = [math.log2(epsilon) for epsilon in found] or [0.0]
    x = _scale(min(ends) - 0.3, max(ends) + 0.3, LEFT, WIDTH - RIGHT)
    y = _scale(low, high, HEIGHT - BOTTOM, TOP)
    ticks = [low + ROOM * spread + spread * at / 4.0 for at in range(5)]
    parts = [
        *_grid([(x(math.log2(e)), f"{e:g}") for e in found], [(y(t), f"{t:.3g}") for t in ticks]),
        *(_path([(LEFT, y(level)), (WIDTH - RIGHT, y(level))], "guess") for level in levels.values()),
        _path([(x(math.log2(e)), y(value)) for e, value in found.items()], "line"),
        *(  # at either end, as floor and ceiling may be one line
            f'<text class="soft {kind}" x="{at}" y="{y(level) - 4:.1f}">{name}</text>'
            for (name, level), kind, at in zip(levels.items(), ("", "end"), (LEFT + 4, WIDTH - RIGHT - 4), strict=True)
        ),
        *(_dot(x(math.log2(e)), y(value)) for e, value in found.items() if e == chosen),
        *_titles("epsilon", measure),
    ]
    drawing = _svg(f"{measure} against epsilon", HEIGHT, [f"<style>{ON_WHITE}</style>", *parts])
    return drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    body = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">{body}</svg>'


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _ticks(top: float) -> list[float]:
    """Four or five round numbers from 0 to ``top``."""
    raw = top / 4.0
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(s * unit for s in (1.0, 2.0, 5.0, 10.0) if s * unit >= raw)
    return [i * step for i in range(int(top / step) + 1)]


def _grid(across: Sequence[tuple[float, str]], up: Sequence[tuple[float, str]]) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    return [
        *(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>' for x, _ in across),
        *(f'<text class="middle" x="{x:.1f}" y="{bottom + 18}">{escape(label)}</text>' for x, label in across),
        *(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>' for y, _ in up),
        *(f'<text class="end" x="{LEFT - 5}" y="{y + 4:.1f}">{escape(label)}</text>' for y, label in up),
    ]


def _titles(across: str, up: str) -> list[str]:
    return [
        f'<text class="middle" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 6}">{escape(across)}</text>',
        f'<text x="0" y="10">{escape(up)}</text>',
    ]


def _path(places: Places, kind: str) -> str:
    steps = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(places))
    return f'<path class="{kind}" d="{steps}"/>'


def _key(x: float, y: float) -> str:
    """What the two lines of a measured trade-off are."""
    return (
        f'<path class="line" d="M{x:.0f} {y:.0f} h18"/><text x="{x + 24:.0f}" y="{y + 4:.0f}">allowed by the claim</text>'
        f'<path class="seen" d="M{x:.0f} {y + 18:.0f} h18"/><text x="{x + 24:.0f}" y="{y + 22:.0f}">measured</text>'
    )


def _dot(x: float, y: float) -> str:
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
