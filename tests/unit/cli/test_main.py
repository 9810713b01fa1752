"""The command line, as a newcomer meets it: what works, and one clear line with exit code 2 for everything wrong."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet
import pytest

import lowkey as lk
from lowkey.cli.main import COMMANDS, run
from lowkey.cli.options import delta_for
from lowkey.data.synthetic import taste
from lowkey.evaluation.commands import judge
from lowkey.methods import registry
from lowkey.methods.choice import default_method

GOOD = "--for ratings --user user --item item --rating rating --scale 0.5 5 --items catalogue.txt --epsilon 2 --delta 1e-5"


FILES = 1500, 80, 20  # users, items, ratings of a user


@pytest.fixture(scope="module")
def files(files: Path) -> Path:
    """And a history, and a release made from them."""
    films = (files / "catalogue.txt").read_text().splitlines()
    (files / "mine.csv").write_text(f'item,rating\n"{films[2]}",5\n"{films[7]}",1.5\n')
    with contextlib.chdir(files):
        assert run(shlex.split(f"release ratings.parquet {GOOD} --out made --quiet")) == 0
    return files


@pytest.fixture
def here(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(files)
    return files


def lowkey(line: str) -> int:
    return run(shlex.split(line))


def test_release_verify_explain_recommend(here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r"
    assert lowkey(f"release ratings.parquet {GOOD} --out {out}") == 0
    text = capsys.readouterr().out
    assert "before any data is read" in text
    assert "epsilon = 2" in text
    assert "success" in text
    assert lowkey(f"verify {out}") == 0
    text = capsys.readouterr().out
    assert text.count("\nyes") + text.startswith("yes") == len(lk.verify(out)) + 1  # the limit
    assert lowkey(f"explain {out}") == 0
    assert "tossing a coin" in capsys.readouterr().out
    assert lowkey(f"recommend {out} --history mine.csv -n 4 --json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["items"]) == 4
    assert set(answer["items"]) <= set(Path("catalogue.txt").read_text().splitlines())


def test_a_tampered_release_fails_with_one(here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r"
    lowkey(f"release ratings.parquet {GOOD} --out {out} --quiet")
    card = out / "MODEL_CARD.md"
    said = card.read_text()
    card.write_text(said.replace("delta = 1e-05", "delta = 1e-09"))
    assert card.read_text() != said
    assert lowkey(f"verify {out}") == 1
    assert "NO   MODEL_CARD.md" in capsys.readouterr().out
    assert lowkey(f"explain {out}") == 1
    (out / "manifest.json").unlink()
    assert lowkey(f"recommend {out} --history mine.csv") == 1


def test_dry_run_shows_the_price_and_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ratings.parquet").write_text("not even a parquet file: nobody looks")
    for catalogue in ("--items 1..300", "--private-catalogue"):
        options = "--user u --item i --binary --epsilon 1 --expected-users 5000 --out r --dry-run"
        assert lowkey(f"release ratings.parquet {catalogue} {options}") == 0
        text = capsys.readouterr().out
        assert "together at most epsilon = 1 at delta = 1e-06" in text
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["ratings.parquet"]


@pytest.mark.parametrize(
    "options",
    ["--binary", "--adjacency replace-one", "--method bias --set n_iter=1", "--expected-users 2000", "--format parquet"],
)
def test_options_that_a_newcomer_tries(here: Path, tmp_path: Path, options: str) -> None:
    base = GOOD.replace("--scale 0.5 5", "") if "--binary" in options else GOOD
    assert lowkey(f"release ratings.parquet {base} {options} --out {tmp_path / 'r'} --quiet") == 0
    assert all(check.ok for check in lk.verify(tmp_path / "r"))


def test_a_private_catalogue_is_selected_and_paid_for(here: Path, tmp_path: Path, capsys: Any) -> None:
    base = GOOD.replace("--items catalogue.txt", "--private-catalogue").replace("--epsilon 2", "--epsilon 1")
    assert lowkey(f"release ratings.parquet {base} --method bias --out {tmp_path / 'r'} --json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["epsilon"] <= 1.0
    assert 0 < answer["items"] < 80
    assert all(check.ok for check in lk.verify(tmp_path / "r"))
    posts = json.loads((tmp_path / "r" / "privacy_report.json").read_text())["posts"]
    assert posts[0]["fit"] == "PrivateCatalogue"
    assert posts[0]["share"] == pytest.approx(0.2, rel=1e-3)
    assert len({post["fit"] for post in posts[1:]}) == 1


WRONG = {
    "--epsilon 0": "epsilon",
    "--epsilon -1": "epsilon",
    "--epsilon inf": "epsilon",
    "--epsilon nan": "epsilon",
    "--epsilon many": "--epsilon",
    "--delta 0": "delta",
    "--delta 1": "delta",
    "--user nobody": "'nobody'",
    "--user item --item user": "catalogue",
    "--rating item": "column names",
    "--scale 5 0.5": "--scale",
    "--scale 0.5": "--scale",
    "--scale 2 4": "outside the range",
    "--items nowhere.txt": "nowhere.txt",
    "--items 9..1": "--items",
    "--items 1..9": "catalogue",
    "--binary": "--binary",
    "--private-catalogue": "--private-catalogue",
    "--adjacency remove": "--adjacency",
    "--method magic": "bias",
    "--method Popularity": "non-private",
    "--set n_iter": "NAME=VALUE",
    "--method bias --set n_iter=0": "1 or more",
    "--method bias --set n_iter=many": "a whole number",
    "--method bias --set speed=3": "n_iter",
    "--set epsilon=9": "--set",
    "--total-epsilon 3": "--ledger",
    "--total-epsilon 1 --ledger new.jsonl": "budget",
    "--expected-users 0": "expected_users",
    "--duplicates first": "--duplicates",
    "--unknown-items keep": "--unknown-items",
    "--format excel": "parquet",
    "--format csv": "first line",
    "--epsilom 2": "--epsilom",
    "--out .": "release folder",
    "--out nowhere/deep/r": "mkdir",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_every_wrong_option_is_one_line_and_exit_code_2(here: Path, tmp_path: Path, capsys: Any, wrong: str) -> None:
    assert lowkey(f"release ratings.parquet {GOOD} --out {tmp_path / 'r'} {wrong}") == 2
    complaint = [line for line in capsys.readouterr().err.splitlines() if "0:00:0" not in line and line.strip()]
    assert len(complaint) == 1, complaint
    assert complaint[0].startswith("lowkey: ")
    assert WRONG[wrong] in complaint[0]
    assert "Try" in complaint[0]
    assert not (tmp_path / "r").exists()


OTHERS = {
    "release": "file",
    "release ratings.parquet": "--epsilon",
    "release nowhere.parquet " + GOOD + " --out r": "nowhere.parquet",
    "release ratings.parquet --user user --item item --scale 1 5 --items 1..9 --epsilon 1 --delta 1e-5 --out r": "--rating",
    "recommend made": "--history",
    "recommend nowhere --history mine.csv": "nowhere",
    "recommend made --history nowhere.csv": "nowhere.csv",
    "recommend made --history mine.csv --item film": "'film'",
    "recommend made --history mine.csv -n 0": "needed 1 to 78",
    "recommend made --history catalogue.txt": "column",
    "verify nowhere": "nowhere",
    "verify": "folder",
    "export made": "--to",
    "export made --to pickle --out e": "npy",
    "export made --to npy --out .": "release folder",
    "plan": "--every",
    "plan --every 7 --for 1y --total-epsilon 4 --delta 1e-6": "--every",
    "plan --every 2y --for 1y --total-epsilon 4 --delta 1e-6": "1 to 100000",
    "plan --every 7d --for 1y --total-epsilon 0 --delta 1e-6": "epsilon",
    "curve ratings.parquet": "--items",
    "curve ratings.parquet --user user --item item --binary --items catalogue.txt --delta 1e-5 --epsilons a": "--epsilons",
    "evaluate made ratings.parquet": "--user",
    "evaluate made ratings.parquet --user user --item item --rating rating --k 900": "k",
    "nonsense": "nonsense",
    "--nonsense": "--nonsense",
}


@pytest.mark.parametrize("line", OTHERS)
def test_other_commands_complain_in_one_line_too(here: Path, capsys: Any, line: str) -> None:
    assert lowkey(line) == 2
    complaint = [text for text in capsys.readouterr().err.splitlines() if "0:00:0" not in text and text.strip()]
    assert len(complaint) == 1, complaint
    assert OTHERS[line] in complaint[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(capsys: Any, command: str) -> None:
    assert lowkey(f"{command} --help") == 0
    assert f"Example: lowkey {command}" in " ".join(capsys.readouterr().out.split())


def test_recommend_answers_many_people_on_stdin(here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    films = Path("catalogue.txt").read_text().splitlines()
    asked = [{"who": 1, "history": {films[0]: 5}}, {"who": 2, "history": {}}]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(map(json.dumps, asked)) + "\n"))
    assert lowkey("recommend made --history - -n 3") == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["who"] for answer in answers] == [1, 2]
    assert films[0] not in answers[0]["items"]
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"history": {"no such film": 3}}'))
    assert lowkey("recommend made --history -") == 2
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"history": {"no such film": 3}}'))
    assert lowkey("recommend made --history - --unknown-items drop") == 0


def test_evaluate_and_curve_say_that_they_are_not_private(here: Path, tmp_path: Path, capsys: Any) -> None:
    assert lowkey("evaluate made ratings.parquet --user user --item item --rating rating") == 0
    text = capsys.readouterr().out
    assert "rmse" in text
    assert "not private" in text
    line = "curve ratings.parquet --user user --item item --rating rating --scale 0.5 5 --items catalogue.txt --delta 1e-5"
    assert lowkey(f"{line} --for ratings --method bias --epsilons 0.01,1000,inf --figure {tmp_path / 'c.svg'} --json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["private"] is False
    figures = answer["figures"]
    assert list(figures) == ["epsilon 0.01", "epsilon 1000", "without noise", "averages"]
    assert figures["epsilon 1000"]["rmse"] < figures["epsilon 0.01"]["rmse"]
    assert figures["epsilon 1000"]["rmse"] == pytest.approx(figures["averages"]["rmse"], rel=0.05)
    drawing = ElementTree.parse(tmp_path / "c.svg")
    assert {text.text for text in drawing.iter() if text.tag.endswith("text")} >= {"epsilon", "rmse", "without noise"}


@pytest.mark.parametrize(
    ("private", "ceiling", "recommended", "words"),
    [
        ({0.5: 0.11, 1.0: 0.19, 2.0: 0.195}, 0.2, 1.0, "Recommended: epsilon 1,"),
        ({0.5: 0.05, 1.0: 0.09}, 0.2, None, "Most popular wins"),
        ({0.5: 0.11, 1.0: 0.12}, 0.2, None, "epsilon 1 comes nearest"),
        ({0.5: 0.11}, 0.1, None, "Most popular wins: by recall@20 the method brings nothing"),
    ],
)
def test_what_a_curve_recommends(private: Any, ceiling: float, recommended: float | None, words: str) -> None:
    figures = {epsilon: {"recall@20": value} for epsilon, value in {**private, math.inf: ceiling}.items()}
    verdict = judge(figures, {"recall@20": 0.1}, "recall@20", "most popular")
    assert (verdict.epsilon, verdict.floor, verdict.ceiling) == (recommended, 0.1, ceiling)
    assert words in verdict.sentence


def test_export(here: Path, tmp_path: Path) -> None:
    model = lk.load("made")
    assert lowkey(f"export made --to npy --out {tmp_path / 'n'} -q") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "n" / "item_bias.npy"), model.arrays["item_bias"])
    assert np.load(tmp_path / "n" / "items.npy").tolist() == model.domain.item_ids.to_pylist()
    assert lowkey(f"export made --to parquet --out {tmp_path / 'p'} -q") == 0
    table = pyarrow.parquet.read_table(tmp_path / "p" / "items.parquet")
    np.testing.assert_array_equal(table["item_bias"].to_numpy(), model.arrays["item_bias"])


CROWD = taste(400, 50, 15, seed=7)


def test_an_exported_index_finds_what_recommend_finds(tmp_path: Path) -> None:
    from usearch.index import Index

    model = lk.DPFactors(epsilon=20.0, delta=1e-5, rank=3).fit(CROWD.ratings())
    model.release(tmp_path / "release")
    assert lowkey(f"export {tmp_path / 'release'} --to usearch --out {tmp_path / 'u'} -q") == 0
    index = Index.restore(str(tmp_path / "u" / "items.usearch"))
    history = {CROWD.facts["items"][4]: 5.0, CROWD.facts["items"][9]: 1.5}
    query = np.append(model.transform(model.model_.histories(history))[0], 1.0).astype(np.float32)
    names = pyarrow.parquet.read_table(tmp_path / "u" / "items.parquet")["item"].to_pylist()
    ours, _ = model.recommend(history, n=5, exclude_seen=False)
    assert [names[key] for key in index.search(query, 5, exact=True).keys] == list(ours)


def test_an_index_of_item_weights_is_their_low_rank_form(tmp_path: Path, capsys: Any) -> None:
    rows = CROWD.csr.copy()
    rows.data[:] = 1.0
    likes = lk.DPMoments(epsilon=1.0, delta=1e-5).fit(rows, domain=lk.Domain(rows.shape[1], feedback="binary"))
    likes.release(tmp_path / "release")
    assert lowkey(f"export {tmp_path / 'release'} --to usearch --out {tmp_path / 'u'}") == 0
    assert "Low-rank form" in capsys.readouterr().out
    table = pyarrow.parquet.read_table(tmp_path / "u" / "items.parquet")
    assert table["vector"].null_count == rows.shape[1] - len(likes.model_.arrays["head"])
    assert table["item_weights"].type.list_size == len(likes.model_.arrays["head"])  # the whole ones are there, too


def test_a_plan_says_of_lists_what_a_release_says(here: Path, capsys: Any) -> None:
    year = "plan --every 6m --for 1y --total-epsilon 3 --delta 1e-5"
    assert lowkey(f"{year} --items catalogue.txt --expected-users 1500 --json") == 0
    planned = json.loads(capsys.readouterr().out)
    released = GOOD.replace("--for ratings", "--expected-users 1500 --dry-run")
    epsilon = f"--epsilon {planned['epsilon_each']}"
    assert lowkey(f"release ratings.parquet {released.replace('--epsilon 2', epsilon)}") == 0
    assert planned["lists"] in " ".join(capsys.readouterr().out.split())
    assert lowkey(f"{year} --items catalogue.txt") == 0
    assert "--expected-users and --items" in capsys.readouterr().out


def test_a_planned_year_fits_its_budget_exactly(here: Path, tmp_path: Path, capsys: Any) -> None:
    assert lowkey("plan --every 3m --for 1y --total-epsilon 3 --delta 1e-5 --json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["releases"] == 4
    assert planned["epsilon_each"] > 3 / 4
    # a method that posts all that it plans, whatever the posts say
    base = f"{GOOD} --method bias".replace("--epsilon 2", f"--epsilon {planned['epsilon_each']}")
    shared = f"--ledger {tmp_path / 'people.jsonl'} --total-epsilon 3"
    codes = [lowkey(f"release ratings.parquet {base} {shared} --out {tmp_path / str(i)} -q") for i in range(5)]
    assert codes == [0, 0, 0, 0, 2]
    assert "budget" in capsys.readouterr().err
    assert not (tmp_path / "4").exists()
    assert lk.load(tmp_path / "3").guarantee.epsilon == pytest.approx(3.0, rel=1e-3)
    assert lk.load(tmp_path / "3").guarantee.epsilon <= 3.0


def test_a_restored_ledger_is_refused_with_its_total(here: Path, tmp_path: Path, capsys: Any) -> None:
    """An old copy of the ledger has budget left; the anchor elsewhere, or the head that was noted, knows better."""
    people, elsewhere = tmp_path / "people", tmp_path / "elsewhere"
    people.mkdir()
    elsewhere.mkdir()
    line = f"release ratings.parquet {GOOD} --ledger {people / 'ledger.jsonl'} --total-epsilon 3"
    anchored = f"{line} --anchor {elsewhere / 'anchor'} --json"
    assert lk.Ledger(people / "ledger.jsonl", total=(3.0, 1e-5), anchor=elsewhere / "anchor").total == (3.0, 1e-5)
    shutil.copytree(people, tmp_path / "copy")
    assert lowkey(f"{anchored} --out {tmp_path / 'first'}") == 0
    head = json.loads(capsys.readouterr().out)["ledger_head"]
    shutil.rmtree(people)
    shutil.copytree(tmp_path / "copy", people)
    for refused in (anchored, f"{line} --expect-head {head}"):
        assert lowkey(f"{refused} --out {tmp_path / 'second'}") == 1
        assert "behind" in capsys.readouterr().err
        assert not (tmp_path / "second").exists()
    assert lowkey(f"release ratings.parquet {GOOD} --anchor {elsewhere / 'anchor'} --out {tmp_path / 'third'}") == 2
    assert "--ledger" in capsys.readouterr().err


def test_control_c_leaves_no_half_release_and_an_honest_ledger(
    here: Path, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    from lowkey.privacy.mechanisms import Gaussian

    original = Gaussian.apply

    def interrupted(self: Any, units: Any, statistic: Any, adjacency: Any, noise: Any) -> Any:
        if noise.private:  # the rehearsal before it, on made-up people, comes to its end
            raise KeyboardInterrupt
        return original(self, units, statistic, adjacency, noise)

    monkeypatch.setattr(Gaussian, "apply", interrupted)
    line = f"release ratings.parquet {GOOD} --ledger {tmp_path / 'people.jsonl'} --total-epsilon 2 --out {tmp_path / 'r'}"
    assert lowkey(line) == 130
    assert "what was reserved counts, and a release is there whole or not at all" in capsys.readouterr().err
    assert sorted(entry.name for entry in tmp_path.iterdir() if "people" not in entry.name) == []
    ledger = lk.Ledger(tmp_path / "people.jsonl")
    assert len(ledger.spent()) == 1  # reserved, so it counts, though nothing came out
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert lowkey(line) == 2  # the whole budget can't be had again


def test_an_unexpected_error_shows_no_message_of_its_own(here: Path, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    from lowkey.cli.table import Table

    def fail(*_: Any) -> None:
        raise RuntimeError("user canary-17 rated zebra 4.5")

    monkeypatch.setattr(Table, "read", fail)
    monkeypatch.delenv("LOWKEY_DEBUG", raising=False)
    assert lowkey(f"release ratings.parquet {GOOD} --out {tmp_path / 'r'} -q") == 1
    complaint = capsys.readouterr().err
    assert "RuntimeError" in complaint
    assert "canary" not in complaint


@pytest.mark.parametrize(
    ("feedback", "items", "users", "epsilon", "method"),
    [
        ("ratings", 50, None, 1.0, "factors"),
        ("ratings", 50, 900, 0.1, "bias"),
        ("ratings", 50, 900, 1.0, "factors"),
        ("ratings", 1700, 750, 1.0, "bias"),
        ("ratings", 50, 900, 1000.0, "moments"),
        ("ratings", 50, 100_000, 1.0, "moments"),
        ("ratings", 500, 100_000, 1.0, "factors"),
        ("binary", 50, 900, 1.0, "lists"),
        ("binary", 500, 6000, 1.0, "lists"),
    ],
)
def test_the_method_follows_from_public_facts(
    feedback: str, items: int, users: int | None, epsilon: float, method: str
) -> None:
    limits = (1.0, 5.0) if feedback == "ratings" else None
    domain = lk.Domain(items, limits, feedback, users)
    assert default_method(domain, epsilon, 1e-6, "ratings") == method
    assert default_method(domain, epsilon, 1e-6) == "lists"


def test_delta_from_expected_users_is_a_hundredth_of_their_share() -> None:
    for users in (1, 9, 10, 943, 1000, 130_000):
        delta = delta_for(None, users)
        assert delta is not None
        assert 1e-4 / users <= delta * 1.0000001
        assert delta <= 0.0100001 / users
    assert delta_for(0.3, 100) == 0.3


def test_start_up_is_quick_and_colours_can_be_had_off() -> None:
    """`lowkey --help` loads neither the compiler nor an accountant; NO_COLOR is respected."""
    code = (
        "import sys; from lowkey.cli.main import run; run(['--help']); "
        "heavy = {'numba', 'scipy', 'sklearn', 'dp_accounting', 'pyarrow'} & set(sys.modules); sys.exit(bool(heavy))"
    )
    env = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "\x1b[3" not in done.stdout  # no colour; bold is not a colour


def test_the_public_names_are_what_the_type_checker_is_told() -> None:
    import ast

    tree = ast.parse(Path(lk.__file__).read_text())
    told = next(node for node in tree.body if isinstance(node, ast.If)).body
    names = {alias.name: node.module for node in told if isinstance(node, ast.ImportFrom) for alias in node.names}
    table = {name: module for module, names in lk.HOMES.items() for name in names} | dict.fromkeys(lk.MODULES, "lowkey")
    assert names == table | registry.homes()
    for name in lk.__all__:
        assert getattr(lk, name) is not None
