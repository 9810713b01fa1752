"""The shape of the house: short files and functions, no imports in a circle, and every method known everywhere.

Read from the syntax trees, so that imports inside functions count too.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from estimators import BASELINES, CASES
from test_rooms import MODULES, SOURCE, imports, tree, where

import lowkey as lk
from lowkey.methods import registry

MOST_LINES, MOST_PARAMETERS = 60, 8
# Not counted, and why:
# - __init__, whose parameters are an estimator's hyper-parameters (12 at most);
# - what numba compiles: arrays and bounds go in one by one, as a compiled loop knows no objects of ours;
COMPILED = re.compile(r"njit|_compiled|intrinsic|overload")
OPTIONS = {  # - the command line's options, and the keywords of public readers, one per choice that a caller has;
    "cli/export.py:export",
    "cli/plan.py:plan",
    "cli/release.py:release",
    "cli/recommend.py:recommend",
    "cli/refresh.py:refresh",
    "cli/serve.py:serve",
    "evaluation/commands.py:evaluate",
    "evaluation/commands.py:curve",
    "audit/command.py:audit",
    "data/readers.py:from_frame",
    "data/readers.py:read_ratings",
    "data/readers.py:read_uncatalogued",
    "data/spark_rows.py:from_spark",
}
FOREIGN = "linalg/blas.py"  # - signatures of BLAS and LAPACK.
API_PAGE = SOURCE.parents[1] / "docs" / "api.md"


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef))


def parameters(function: ast.FunctionDef) -> int:
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


@pytest.mark.parametrize("path", MODULES, ids=where)
def test_functions_are_short_and_take_few_things(path: Path) -> None:
    for function in functions(path):
        name = f"{where(path)}:{function.name}"
        compiled = any(COMPILED.search(ast.unparse(decorator)) for decorator in function.decorator_list)
        if name in OPTIONS or compiled or where(path) == FOREIGN:
            continue
        assert function.end_lineno is not None
        assert function.end_lineno - function.lineno < MOST_LINES, name
        most = 12 if function.name == "__init__" else MOST_PARAMETERS
        assert parameters(function) <= most, name


@pytest.mark.parametrize("place", [*registry.PRIVATE.values(), *registry.BASELINES.values(), *registry.TASKS.values()])
def test_methods_have_few_hyper_parameters(place: str) -> None:
    module, _, name = place.partition(":")
    assert len(getattr(import_module(module), name)._get_param_names()) <= 12


def test_the_exceptions_are_needed() -> None:
    found = {f"{where(path)}:{f.name}" for path in MODULES for f in functions(path) if parameters(f) > MOST_PARAMETERS}
    assert found >= OPTIONS


def module_name(path: Path) -> str:
    parts = ("lowkey", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph() -> dict[str, set[str]]:
    """Which modules of ours a module imports, at any time; with a module come the packages that it is in."""
    known = {module_name(path): path for path in MODULES}
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        targets: set[str] = set()
        for wanted in imports(path):
            while wanted and wanted not in known:
                wanted = wanted.rpartition(".")[0]
            while wanted:  # an import of a.b.c runs a and a.b too
                targets.add(wanted)
                wanted = wanted.rpartition(".")[0]
        own = {name.rsplit(".", depth)[0] for depth in range(name.count(".") + 1)}  # these run before it anyway
        graph[name] = targets - own
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Some circle, or nothing: leave out, again and again, what imports nothing that is left."""
    left = {name: set(targets) for name, targets in graph.items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    way: list[str] = []
    step = min(left, default="")
    while step and step not in way:
        way.append(step)
        step = min(left[step] & left.keys())
    return way[way.index(step) :] if way else []


def test_no_imports_in_a_circle() -> None:
    """Not even with imports inside functions. (Names that are loaded by text, in packages and commands, are no imports.)"""
    assert not circle(import_graph())


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == ["a", "b", "c"]


def test_every_recommender_of_the_registry_has_a_conformance_case() -> None:
    tested = {f"{case.estimator.__module__}:{case.estimator.__qualname__}" for case in (*CASES, *BASELINES)}
    assert {*registry.PRIVATE.values(), *registry.BASELINES.values()} <= tested


def test_every_method_is_on_the_api_page() -> None:
    page = set(re.findall(r"^::: (\S+)$", API_PAGE.read_text(), re.MULTILINE))
    places = [*registry.PRIVATE.values(), *registry.BASELINES.values(), *registry.TASKS.values()]
    needed = {place.replace(":", ".") for place in [*places, "lowkey.methods.recommender:DPRecommender"]}
    assert needed <= page, needed - page
    homes = {module_name(path) for path in MODULES}
    assert not [entry for entry in page if entry.rpartition(".")[0] not in homes and entry not in homes]


MADE_BY_OTHERS = {"Guarantee", "Model", "Moments", "Plan", "Ratings", "TimedRatings"}  # nobody writes their parameters down


@pytest.mark.parametrize("name", [name for name in lk.__all__ if name not in lk.MODULES])
def test_every_public_name_explains_its_parameters_and_has_an_example(name: str) -> None:
    """In numpydoc's sections; one line may name several parameters."""
    found = getattr(import_module(lk._HOME[name]), name)  # lk.audit is a package, once a part of it is loaded
    text = inspect.getdoc(found) or ""
    assert re.search(r"^Examples\n--------\n>>> ", text, re.MULTILINE)
    wanted = [] if name in MADE_BY_OTHERS else list(inspect.signature(found).parameters)
    if wanted:
        section = re.search(r"^Parameters\n----------\n(.*?)(?=^\w+\n---|\Z)", text, re.MULTILINE | re.DOTALL)
        assert section is not None
        heads = [line.partition(" : ")[0] for line in section[1].splitlines() if line and not line.startswith(" ")]
        assert {one.strip() for head in heads for one in head.split(",")} >= set(wanted)
