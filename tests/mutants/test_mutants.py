"""The catalogue fits the tree, and the command tells killed from surviving and stale mutants, on a tree of three files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from catalogue import PACKAGE, Mutant, Stale, load
from run import ROOT, main, wider_tests
from workshop import NoVerdict, Workshop, users_of

MUTANTS = load()
SOURCE = "def clip(x, bound):\n    return min(x, bound)\n"
TEST = "from lowkey.kernel import clip\n\ndef test_clip():\n    assert clip(3, 2) == 2\n"
UNCLIPPED = Mutant("unclipped", "toy", "", PACKAGE / "kernel.py", "min(x, bound)", "x", ("tests/privacy/test_clip.py",))
LOWER = replace(UNCLIPPED, name="lower", new="min(x, abs(bound))")
SLOW_TEST = """
import os, pathlib, time

def test_clip():
    new = pathlib.Path("{0}.new")
    new.write_text(str(os.getpid()))
    new.rename("{0}")
    time.sleep(600)
"""
BUGS = """
[[mutant]]
name = "toy"
bug = ""
file = "kernel.py"
old = "{}"
new = "{}"
tests = ["tests/privacy/test_clip.py"]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for file, text in {PACKAGE / "kernel.py": SOURCE, PACKAGE / "__init__.py": "", Path("pyproject.toml"): ""}.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    (root / "tests/privacy").mkdir(parents=True)
    (root / "tests/privacy/test_clip.py").write_text(TEST)
    return root


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_fits_the_tree(mutant: Mutant) -> None:
    mutant.check(ROOT)


def test_there_are_enough_of_every_class() -> None:
    kinds = {mutant.kind for mutant in MUTANTS}
    assert len(MUTANTS) >= 40
    assert min(sum(mutant.kind == kind for mutant in MUTANTS) for kind in kinds) >= 3


@pytest.mark.parametrize(
    "change",
    [
        {"old": "max(x, bound)"},  # not there
        {"old": "bound"},  # there twice
        {"file": PACKAGE / "gone.py"},
        {"tests": ("tests/privacy/test_gone.py",)},
        {"tests": ("tests/privacy/test_clip.py::test_gone",)},
    ],
    ids=str,
)
def test_a_stale_mutant_is_an_error(tree: Path, change: dict) -> None:
    UNCLIPPED.check(tree)
    with pytest.raises(Stale, match="unclipped"):
        replace(UNCLIPPED, **change).check(tree)


def test_a_clone_has_the_bug_and_the_clean_copy_has_not(tree: Path) -> None:
    (tree / "tests/mutants").mkdir()
    with Workshop(tree) as workshop:
        with workshop.clone(UNCLIPPED) as clone:
            assert "return x" in (clone / UNCLIPPED.file).read_text()
            assert workshop.run(clone, UNCLIPPED.tests).failed == "tests/privacy/test_clip.py::test_clip"
        assert not clone.exists()
        assert (workshop.clean / UNCLIPPED.file).read_text() == SOURCE
        assert workshop.run(workshop.clean, UNCLIPPED.tests).failed is None
        assert not (workshop.clean / "tests/mutants").exists()  # the test above would kill every mutant
        with workshop.clone(LOWER) as clone:
            assert workshop.run(clone, LOWER.tests).failed is None
        with pytest.raises(NoVerdict):  # no test at all is not a test that passes
            workshop.run(workshop.clean, ("tests/privacy/test_clip.py::test_gone",))


def test_a_bug_may_take_two_changes(tree: Path) -> None:
    """Each deletion alone is no bug where a bound is held twice; an exchange that no longer fits makes the mutant stale."""
    (tree / PACKAGE / "second.py").write_text("LIMIT = 2\n")
    held_twice = SOURCE.replace("def", "from lowkey.second import LIMIT\n\ndef").replace(
        "min(x, bound)", "min(x, bound, LIMIT)"
    )
    (tree / UNCLIPPED.file).write_text(held_twice)
    one = replace(UNCLIPPED, old="min(x, bound, LIMIT)", new="min(x, LIMIT)")
    both = replace(one, also=((PACKAGE / "second.py", "LIMIT = 2", "LIMIT = 99"),))
    with Workshop(tree) as workshop:
        for mutant, killed in ((one, False), (both, True)):
            with workshop.clone(mutant) as clone:
                assert (workshop.run(clone, mutant.tests).failed is not None) == killed
    with pytest.raises(Stale, match=r"second\.py"):
        replace(one, also=((PACKAGE / "second.py", "LIMIT = 3", "LIMIT = 99"),)).check(tree)


def test_told_to_end_it_leaves_nothing(tree: Path, tmp_path: Path) -> None:
    """No folder, and no test that goes on running."""
    (tree / "tests/privacy/test_clip.py").write_text(SLOW_TEST.format(tmp_path / "started"))
    (tmp_path / "bugs").mkdir()
    (tmp_path / "bugs/toys.toml").write_text(BUGS.format("min(x, bound)", "x"))
    (tmp_path / "folders").mkdir()
    command = [sys.executable, str(ROOT / "tests/mutants/run.py"), "--root", str(tree), "--bugs", str(tmp_path / "bugs")]
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path / "folders")}, stdout=subprocess.DEVNULL)
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.05)
    test = int((tmp_path / "started").read_text())
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM
    assert not list((tmp_path / "folders").iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(test, 0)


@pytest.mark.parametrize(
    ("old", "new", "code", "says"),
    [
        ("min(x, bound)", "x", 0, "killed by privacy/test_clip.py::test_clip"),
        ("min(x, bound)", "min(x, abs(bound))", 1, "Survivors: toy."),
        ("min(x, boundary)", "x", 2, "STALE toy: its old text occurs 0 times"),
        ("return min(x, bound)", "return this is no Python", 2, "is no Python"),
    ],
    ids=["killed", "survives", "stale", "no Python"],
)
def test_the_command_says_what_became_of_a_mutant(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture, old: str, new: str, code: int, says: str
) -> None:
    (tmp_path / "bugs").mkdir()
    (tmp_path / "bugs/toys.toml").write_text(BUGS.format(old, new))
    assert main(["--root", str(tree), "--bugs", str(tmp_path / "bugs")]) == code
    assert says in capsys.readouterr().out


def test_a_failing_test_on_the_clean_tree_ends_it(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tree / "tests/privacy/test_clip.py").write_text(TEST.replace("== 2", "== 3"))
    (tmp_path / "bugs").mkdir()
    (tmp_path / "bugs/toys.toml").write_text(BUGS.format("min(x, bound)", "x"))
    assert main(["--root", str(tree), "--bugs", str(tmp_path / "bugs")]) == 2
    assert "fails without any mutant" in capsys.readouterr().out


def test_compiled_code_that_took_in_the_mutated_file_is_known() -> None:
    """Numba inlines the clip into the kernels, and their compiled code does not go by the clip's file."""
    users = {str(file.relative_to(PACKAGE)) for file in users_of(ROOT, PACKAGE / "kernels/bounding.py")}
    assert {"kernels/bounding.py", "kernels/bias.py", "kernels/als.py", "kernels/lmc.py"} <= users
    # A constant that was compiled in, through the clip; and a file whose names stand in no compiled function.
    assert users < {str(file.relative_to(PACKAGE)) for file in users_of(ROOT, PACKAGE / "privacy/sums.py")}
    assert users_of(ROOT, PACKAGE / "privacy/ledger.py") == {PACKAGE / "privacy/ledger.py"}


def test_the_wider_tests_are_those_of_privacy() -> None:
    names = {Path(file).name for file in wider_tests(ROOT)}
    assert {"test_replay.py", "test_gate.py", "test_gate_properties.py"} <= names
    assert "test_spark.py" not in names


def test_every_pattern_of_the_audit_table_names_a_mutant() -> None:
    """The long table is made on demand; this keeps its list of bugs from going stale."""
    from audited import AUDITS, arguments_for

    chosen = [mutant for mutant in load() if arguments_for(mutant)]
    assert len(chosen) >= 40
    for pattern, arguments, _ in AUDITS:
        assert any(arguments_for(mutant) and arguments_for(mutant)[0] == arguments.split() for mutant in chosen), pattern
