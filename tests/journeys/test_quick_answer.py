"""An answer from a release waits for nothing that it does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from estimators import DOMAINS, base_ratings

import lowkey as lk

# What a fit, a plan, a cluster or the laboratory needs, and an answer does not.
NOT_NEEDED = {"dp_accounting", "pyspark", "pandas", "matplotlib", "lowkey_lab", "sklearn", "narwhals"}
ASK = """
import sys
from lowkey.cli.main import run
code = run(sys.argv[1:])
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
sys.exit(code)
"""


def test_recommend_loads_no_accountant_no_spark_and_no_laboratory(tmp_path: Path) -> None:
    domain = DOMAINS["ratings"]
    lk.DPBias(epsilon=1.0, delta=1e-6).fit(base_ratings(domain)).release(tmp_path / "release")
    (tmp_path / "mine.csv").write_text("item,rating\nfilm 03,4.5\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", ASK, "recommend", str(tmp_path / "release"), "--history", str(tmp_path / "mine.csv")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "film" in done.stdout
    loaded = set(done.stderr.split())
    assert "numba" in loaded  # the list is one of what was loaded
    assert not loaded & NOT_NEEDED
