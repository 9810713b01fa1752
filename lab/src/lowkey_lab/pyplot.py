"""Lab room: matplotlib, where it is installed, drawing to files only."""

from __future__ import annotations

from typing import Any

from lowkey.errors import refuse


def pyplot() -> Any:
    """``matplotlib.pyplot``. Ask before a long computation whose result is to be drawn."""
    try:
        import matplotlib
    except ImportError:
        refuse("figures", got="no matplotlib", needed="the package", try_="pip install 'lowkey[plots]', or no figures")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
