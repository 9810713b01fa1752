"""Lab room: matplotlib, drawing to files only."""

from __future__ import annotations

from typing import Any


def pyplot() -> Any:
    """``matplotlib.pyplot``, loaded when the first figure is drawn."""
    import matplotlib

    matplotlib.use("Agg")
    # Drawings for the docs: letters stay letters, and the same rows give the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lowkey", "font.family": "sans-serif"})
    import matplotlib.pyplot as plt

    return plt
