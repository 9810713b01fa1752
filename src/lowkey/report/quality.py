"""Public room: quality against epsilon as a drawing of its own: an SVG file that opens anywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lowkey.report import charts
from lowkey.report.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH

STYLE = (
    "svg{font:11px system-ui,sans-serif;background:#fff}text{fill:#333}.middle{text-anchor:middle}.end{text-anchor:end}"
    ".grid{stroke:#e2e2e2}.line{fill:none;stroke:#1f6feb;stroke-width:2}.dot{fill:#1f6feb}.guess{fill:none;stroke:#777;"
    "stroke-dasharray:4 3}.soft{fill:#666}"
)
ROOM = 0.08  # of the range, above and below


def quality_figure(measure: str, found: Mapping[float, float], levels: Mapping[str, float], chosen: float | None) -> str:
    """``found`` is the quality of each epsilon, ``levels`` are lines across (floor, ceiling); ``chosen`` gets a dot."""
    values = [*found.values(), *levels.values()]
    spread = max(max(values) - min(values), 1e-9)
    low, high = min(values) - ROOM * spread, max(values) + ROOM * spread
    ends = [math.log2(epsilon) for epsilon in found] or [0.0]
    x = charts._scale(min(ends) - 0.3, max(ends) + 0.3, LEFT, WIDTH - RIGHT)
    y = charts._scale(low, high, HEIGHT - BOTTOM, TOP)
    ticks = [low + ROOM * spread + spread * at / 4.0 for at in range(5)]
    parts = [
        *charts._grid([(x(math.log2(e)), f"{e:g}") for e in found], [(y(t), f"{t:.3g}") for t in ticks]),
        *(charts._path([(LEFT, y(level)), (WIDTH - RIGHT, y(level))], "guess") for level in levels.values()),
        charts._path([(x(math.log2(e)), y(value)) for e, value in found.items()], "line"),
        *(  # at either end, as floor and ceiling may be one line
            f'<text class="soft {kind}" x="{at}" y="{y(level) - 4:.1f}">{name}</text>'
            for (name, level), kind, at in zip(levels.items(), ("", "end"), (LEFT + 4, WIDTH - RIGHT - 4), strict=True)
        ),
        *(charts._dot(x(math.log2(e)), y(value)) for e, value in found.items() if e == chosen),
        *charts._titles("epsilon", measure),
    ]
    drawing = charts._svg(f"{measure} against epsilon", HEIGHT, [f"<style>{STYLE}</style>", *parts])
    return drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"
