"""The rooms: every module says where it stands, and imports, opens, prints and draws only what its room may.

Read from the syntax trees, so a rule also sees imports inside functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "lowkey"
MODULES = sorted(SOURCE.rglob("*.py"))
LABORATORY = sorted((SOURCE.parents[1] / "lab" / "src" / "lowkey_lab").rglob("*.py"))  # a distribution of its own
ROOMS = {
    "data": "Vault", "engines": "Vault", "kernels": "Kernel", "privacy": "Gate", "linalg": "Public", "methods": "Public",
    "release": "Public", "report": "Public", "cli": "Public", "serving": "Local", "evaluation": "Lab",
    "testing": "Lab", "audit": "Lab",
}  # fmt: skip
TOP_LEVEL = "Public"  # __init__, errors, model, ...
LAB = ("evaluation", "testing", "audit")
MOST_LINES = 300
MOST_LINES_OF_THE_LABORATORY = 400

# Which folders of ours a folder may import. errors.py, lazy.py and threads.py are for everybody, and a folder for itself.
MAY_IMPORT = {
    "privacy": set(),
    "data": {"privacy"},  # for what "closed" means
    "linalg": set(),
    "kernels": {"data", "privacy", "linalg"},
    "engines": {"data", "privacy", "kernels"},
    # a user's device shares the arithmetic of the kernels, and their source of noise, never the data or the engines
    "serving": {"kernels", "linalg", "privacy"},
}

# Who may open what. The names are those of methods; whoever else mentions one is listed by the failing test.
OPENERS = {
    "_open": {"privacy/billboard.py"},
    "_select": {"privacy/billboard.py"},
    "_units": {"privacy/sums.py"},
    "_parts": {"engines/local.py"},
    # public.py: of people who are not protected
    "_open_csr": {"data/ratings.py", "data/public.py", "evaluation/", "audit/stand_in.py"},
    "_open_keys": {"data/ratings.py", "evaluation/", "audit/stand_in.py"},
    "_open_rows": {"engines/", "data/ratings.py", "data/uncatalogued.py"},
    # positions.py declares public who rated what, for the methods that protect values only and say so
    "_open_whole": {"engines/", "data/positions.py", "audit/canaries.py"},
    "_open_frame": {"engines/spark.py", "data/spark_rows.py", "data/spark_timed.py"},
    "_blocks": {"engines/spark.py"},
    "_open_ids": {"data/uncatalogued.py", "engines/local.py"},
    "_open_item_keys": {"data/uncatalogued.py", "engines/spark.py"},
    "_open_blocks": {"engines/"},
    "blocks": {"engines/spark_tasks.py", "data/"},  # of bare rows that somebody has opened
}  # fmt: skip
INPUT_OUTPUT = {"open", "print", "input", "exec", "eval", "compile", "breakpoint"}
OUTSIDE = {"logging", "os", "sys", "io", "pathlib", "socket", "subprocess", "tempfile", "time", "random", "secrets"}
OUTSIDE |= {"warnings"}
PICKLES = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def where(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def folder(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0] if path.parent != SOURCE else ""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> Iterator[str]:
    """Full names of what a module imports at run time; what stands under TYPE_CHECKING is for the checker alone."""
    skipped = {
        id(inner)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree(path)):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{where(path)}: relative imports hide the room"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))


every_module = pytest.mark.parametrize("path", MODULES, ids=where)


@every_module
def test_the_docstring_names_the_room(path: Path) -> None:
    text = ast.get_docstring(tree(path)) or ""
    room = ROOMS.get(folder(path)) if folder(path) else TOP_LEVEL
    assert room is not None, f"a new folder {folder(path)!r}: which room is it?"
    assert text.startswith(f"{room} room: "), f"{where(path)} starts with {text[:30]!r}"


@every_module
def test_no_module_is_too_long_or_called_utils(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES
    assert not re.search(r"(^|_)(utils?|helpers?|managers?|common|misc)$", path.stem)


@every_module
def test_imports_stay_within_the_rooms(path: Path) -> None:
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("lowkey.")}
    here = folder(path)
    if here not in (*LAB, "cli"):  # the commands `demo`, `evaluate` and `bench` are the lab's
        assert not ours & set(LAB), f"{where(path)} imports the lab"
    if here in MAY_IMPORT:
        assert ours - {here, "errors", "lazy", "threads"} <= MAY_IMPORT[here], f"{where(path)} imports {sorted(ours)}"


@every_module
def test_the_product_does_not_know_its_laboratory(path: Path) -> None:
    """Commands come from it by entry point alone; so `pip install lowkey` brings neither it nor matplotlib."""
    assert not {name.split(".")[0] for name in imports(path)} & {"lowkey_lab", "matplotlib"}
    assert "lowkey_lab" not in {node.value.split(".")[0].split(":")[0] for node in ast.walk(tree(path))
                                if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip


@pytest.mark.parametrize("path", LABORATORY, ids=lambda path: path.name)
def test_the_laboratory_says_so(path: Path) -> None:
    assert (ast.get_docstring(tree(path)) or "").startswith("Lab room: ")
    assert len(path.read_text().splitlines()) <= MOST_LINES_OF_THE_LABORATORY


def test_there_is_a_laboratory() -> None:
    assert len(LABORATORY) > 20


@every_module
def test_nothing_is_pickled_or_evaluated(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & PICKLES
    names = {call.func.id for call in calls(path) if isinstance(call.func, ast.Name)}
    assert not names & {"eval", "exec", "compile", "__import__"}
    assert "allow_pickle=True" not in path.read_text().replace(" ", "")


@every_module
def test_private_containers_are_opened_by_few(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and node.attr in OPENERS:
            if where(path) == "privacy/sums.py" or (node.attr == "_units" and ast.unparse(node.value) != "unreleased"):
                continue  # the closed class itself, or somebody's own function of that name
            allowed = {*OPENERS[node.attr], "testing/"}  # which looks at the raw sums of users whom it made up
            assert any(where(path).startswith(place) for place in allowed), f"{where(path)}:{node.lineno} uses {node.attr}"


def test_one_line_opens_a_private_sum() -> None:
    lines = [
        (where(path), node.lineno)
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr == "_open" and folder(path) != "testing"
    ]
    assert [place for place, _ in lines] == ["privacy/billboard.py"], lines


def test_noise_is_applied_in_one_place() -> None:
    """A mechanism's ``apply`` is called for the billboard alone, and by a mechanism that stands on another."""
    places = {
        where(path)
        for path in MODULES
        for call in calls(path)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "apply" and folder(path) not in LAB
    }
    assert places == {"privacy/mechanisms.py"}


@pytest.mark.parametrize("path", [p for p in MODULES if folder(p) == "kernels"], ids=where)
def test_kernels_are_pure(path: Path) -> None:
    """No input or output, no logging, no clock, no randomness, no state of the module that changes."""
    assert not {name.split(".")[0] for name in imports(path)} & OUTSIDE
    names = {call.func.id for call in calls(path) if isinstance(call.func, ast.Name)}
    assert not names & INPUT_OUTPUT
    assert not [node for node in ast.walk(tree(path)) if isinstance(node, (ast.Global, ast.Nonlocal))]
    assert "np.random" not in ast.unparse(tree(path))


@every_module
def test_only_the_command_line_and_the_lab_print(path: Path) -> None:
    if folder(path) in ("cli", *LAB):
        return
    names = {call.func.id for call in calls(path) if isinstance(call.func, ast.Name)}
    assert "print" not in names
    assert not {name.split(".")[0] for name in imports(path)} & {"logging", "warnings"}


@every_module
def test_randomness_is_secret_or_seeded_in_public(path: Path) -> None:
    """Noise comes from privacy/noise.py, and from a key its words by privacy/aes.py, which draws none.

    Methods, and maths on public arrays, may read streams with a public seed.
    Data that is made up, and the lab, seed their own.
    """
    here = where(path)
    if here == "privacy/noise.py" or here.startswith("data/synthetic") or folder(path) in LAB:
        return
    sources = {"random", "secrets"} if here == "privacy/aes.py" else {"random", "secrets", "randomgen"}
    assert not {name.split(".")[0] for name in imports(path)} & sources
    for call in calls(path):
        text = ast.unparse(call.func)
        if "random" not in text or not text.startswith(("np.", "numpy.")):
            continue
        seeds = " ".join(ast.unparse(argument) for argument in call.args)
        assert folder(path) in ("methods", "linalg"), f"{here}:{call.lineno} draws {text}"
        chained = text.startswith("np.random.default_rng(")  # default_rng(...).normal(...): its own call is checked too
        assert chained or (text == "np.random.default_rng" and re.fullmatch(r".*seed.*|\d+", seeds)), (
            f"{here}:{call.lineno}"
        )


@pytest.mark.parametrize("path", [p for p in MODULES if folder(p) == "serving"], ids=where)
def test_the_local_room_keeps_nothing(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & OUTSIDE
    names = {call.func.id for call in calls(path) if isinstance(call.func, ast.Name)}
    assert not names & INPUT_OUTPUT
    assert not {"cache", "lru_cache"} & {name.rsplit(".", 1)[-1] for name in imports(path)}


def test_bounds_are_never_read_off_the_data() -> None:
    """No maximum, mean or unique of ratings outside the lab: what is inferred is private."""
    suspicious = re.compile(r"\b(ratings|rows|csr|_values|block\.values)\b[\w.()]*\.(max|min|mean|std|unique)\(")
    found = [
        f"{where(path)}:{number}"
        for path in MODULES
        if folder(path) in ("methods", "kernels", "engines", "privacy")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if suspicious.search(line.split("#")[0])
    ]
    assert not found
