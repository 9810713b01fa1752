"""The page on serving: its Python runs, and every option that it, the Dockerfile and the unit name is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import typer

from lowkey.cli.main import build_app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "serve.md"


def test_the_python_of_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    done = subprocess.run([sys.executable, "-c", blocks[0]], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "can guess which with at most" in done.stdout


def test_every_option_that_is_named_is_there() -> None:
    command = typer.main.get_command(build_app()).commands["serve"]  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    examples = [ROOT / "examples" / "serve" / name for name in ("Dockerfile", "lowkey-serve.service")]
    lines = [line for path in examples for line in path.read_text().splitlines() if re.match("ENTRYPOINT|ExecStart", line)]
    assert len(lines) == 2
    named = {option for text in lines for option in re.findall(r"--[a-z-]+", text)}
    named |= set(re.findall(r"`(--[a-z-]+)", PAGE.read_text()))
    assert len(named) > 8
    assert named <= known
