"""Bad input for every option that reads data or asks for lists: one line, exit code 2, no private value."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer

import lowkey as lk
from lowkey.cli.main import build_app, run
from lowkey.methods import registry

SECRET = "canary-5150"
READ = "--user who --item film --rating stars --items items.txt --epsilon 2 --delta 1e-5 --out made"
SWAPPED = READ.replace("--user who --item film", "--user film --item who")
CURVE = "--user who --item film --rating stars --scale 1 5 --items items.txt --delta 1e-5"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small table of somebody's, with its catalogue, and a release of means."""
    place = tmp_path_factory.mktemp("options")
    films = [f"f{i}" for i in range(30)]
    rows = [f"{SECRET}-{u},{films[(u * 7 + k) % 30]},{1 + (u + k) % 5},{k}" for u in range(200) for k in range(6)]
    (place / "r.csv").write_text("who,film,stars,when\n" + "\n".join(rows) + "\n")
    (place / "items.txt").write_text("\n".join(films) + "\n")
    (place / "titles.csv").write_text("item,title\n" + "".join(f"{f},Film {f}\n" for f in films))
    (place / "mine.csv").write_text("item,rating\nf1,5\nf2,1\n")
    domain = lk.Domain(films, (1, 5), expected_users=200)
    ratings = lk.read_ratings(place / "r.csv", domain, user="who", item="film", rating="stars")
    lk.DPFactors(8.0, 1e-5, rank=2).fit(ratings).release(place / "release")
    return place


WRONG = {
    f"release r.csv {READ} --scale 1 5 --delimiter ;;": "delimiter",
    f"release r.csv {READ} --scale 1 5 --delimiter ;": "none of the names",
    f"release r.csv {READ} --scale 1 5 --decimal x": "decimal",
    f"release r.csv {READ} --scale 1 5 --encoding klingon": "encoding",
    f"release r.csv {READ} --scale 1 5 --quote ab": "quote",
    f"release r.csv {READ} --scale 1 5 --missing maybe": "missing",
    f"release r.csv {READ} --scale 1 5 --time who": "column names",
    f"release r.csv {READ} --scale 1 5 --time nowhen": "'nowhen'",
    f"release r.csv {READ} --scale 1 5 --query ratings": "query",
    f"release r.csv {READ} --counts 1": "--counts",
    f"release r.csv {READ} --counts 20 --scale 1 5": "more than one of them",
    f"release r.csv {READ} --scale 1 5 --null 3": "missing values",
    f"release r.csv {READ} --scale 1 5 --format jsonl": "JSON",
    f"release r.csv {READ} --scale 1 5 --format arrow": "Arrow",
    f"release sqlite:///none.db {READ} --scale 1 5 --query ratings": "does not exist",
    f"release postgresql://me:{SECRET}@127.0.0.1:1/none {READ} --scale 1 5 --query ratings": "does not answer",
    f"release file:///nowhere/{SECRET}.parquet {READ} --scale 1 5": "nothing can be read",
    f"curve r.csv {CURVE} --epsilons 0": "--epsilons",
    f"curve r.csv {CURVE} --figure c.png": "--figure",
    "recommend release --history mine.csv --only nothing": "items",
    "recommend release --history mine.csv --exclude nothing": "exclude",
    "recommend release --history mine.csv --why nothing": "item",
    "recommend release --history mine.csv --titles none.csv": "--titles",
    "recommend release --history r.csv --user who": "--out",
    "recommend release --history r.csv --user who --item film --rating stars --out lists.xls": "--out",
    "recommend release --history mine.csv -n 0": "n: ",
    "recommend release --history none.csv": "none.csv",
    "recommend release --history r.csv --user nobody --item film --rating stars --out lists.parquet": "'nobody'",
    f"release r.csv {READ} --scale 1 5 --unknown-items maybe": "unknown",
    f"release r.csv {READ} --scale 1 5 --duplicates often": "duplicates",
    f"release r.csv {READ} --scale 1 5 --about r.csv": "--about",
    f"release r.csv {READ} --scale 1 5 --sign r.csv": "a secret key",
    f"release r.csv {READ} --scale 1 5 --total-epsilon 4": "--ledger",
    f"release r.csv {READ} --scale 1 5 --resume": "--resume",
    f"release r.csv {READ} --scale 1 5 --for fame": "--for",
    f"release r.csv {READ} --scale 1 5 --method magic": "magic",
    f"release r.csv {READ} --scale 1 5 --set rank": "--set",
    f"release r.csv {READ} --scale 1 5 --expected-users 0": "expected",
    f"release r.csv {SWAPPED} --scale 1 5": "exchanged",
    f"curve r.csv {CURVE} --k 0": "k: ",
    f"curve r.csv {CURVE} --epsilons one": "--epsilons",
    "evaluate release r.csv --user who --item film --rating stars --fold-in 2": "fold_in",
    "evaluate release r.csv --user who --item film --rating stars --delimiter ;": "none of the names",
    "export release --to pdf --out made": "--to",
    "export release --to web --precision float1 --out made": "precision",
    "export release --to npy --key mine.csv --out made": "a public key",
    "serve release --key mine.csv": "a public key",
    "serve release --token-file mine.csv": "--token-file",
    "verify nowhere": "release folder",
    "plan --every 7x --for 1y --total-epsilon 4 --delta 1e-6": "--every",
    "plan --every 7d --for 1y --total-epsilon -4 --delta 1e-6": "epsilon",
    "plan --every 7d --for 1y --total-epsilon 4 --delta 1e-6 --half-life 0": "half",
    "refresh r.csv --out made": "--stream",
    "refresh r.csv --out made --stream s --user who --item film --time when --rating stars --scale 1 5 --items items.txt "
    "--first 0 --releases 0 --total-epsilon 1 --delta 1e-6": "release",
    "similar release nothing": "item",
    "similar release f1 -n 99": "n",
}


@pytest.mark.parametrize("line", WRONG)
def test_bad_input_is_one_line_without_a_value(folder: Path, line: str, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(folder)
    assert run(shlex.split(line)) == 2
    printed = capsys.readouterr()
    said = [words for words in printed.err.splitlines() if words.startswith("lowkey: ")]  # beside what is under way
    assert len(said) == 1
    assert printed.err.rstrip().endswith(said[0])
    assert WRONG[line] in said[0]
    assert SECRET not in printed.err + printed.out
    assert not (folder / "made").exists()


def test_lists_reasons_and_likeness_with_titles(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(folder)

    def asked(line: str) -> Any:
        assert run(shlex.split(f"{line} --json")) == 0
        return json.loads(capsys.readouterr().out)

    few = asked("recommend release --history mine.csv -n 2 --only f3 --only f4 --only f5 --exclude f4 --titles titles.csv")
    assert sorted(few["items"]) == ["f3", "f5"]
    assert few["titles"] == [f"Film {item}" for item in few["items"]]
    seen = asked("recommend release --history mine.csv -n 30 --include-seen")
    assert {"f1", "f2"} <= set(seen["items"])
    why = asked("recommend release --history mine.csv --why f7")
    assert {part["item"] for part in why["parts"]} == {"f1", "f2"}
    model = lk.load("release")
    assert asked("similar release f1 -n 3")["items"] == model.similar_items("f1", 3).ids.tolist()
    everybody = "recommend release --history r.csv --user who --item film --rating stars -n 4"
    assert asked(f"{everybody} --out lists.parquet")["columns"] == ["user", "item", "score", "rank"]
    assert len(pq.read_table("lists.parquet")) == 4 * 200


def test_a_bad_line_is_named_and_can_be_skipped(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(folder)
    lines = '{"history": {"f1": 5}}\n\n{"history": {"%s": 5}}\n{"history": {"f2": 3}, "who": 7}\n' % SECRET  # noqa: UP031
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert run(shlex.split("recommend release --history - -n 2")) == 2
    printed = capsys.readouterr()
    assert "line 3 of the input" in printed.err
    assert len(printed.out.splitlines()) == 1
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert run(shlex.split("recommend release --history - -n 2 --skip-bad")) == 0
    printed = capsys.readouterr()
    assert printed.err.count("line 3") == 1
    assert SECRET not in printed.err
    assert [json.loads(line).get("who") for line in printed.out.splitlines()] == [None, 7]


def test_help_keeps_its_brackets_and_lists_the_methods(capsys: Any) -> None:
    command = typer.main.get_command(build_app())
    helps = [option.help or "" for one in command.commands.values() for option in getattr(one, "params", [])]  # type: ignore[attr-defined]
    assert len(helps) > 100
    assert not [text for text in helps if re.search(r"(?<!\\)\[", text)]  # unescaped, rich takes them for mark-up
    assert run(["release", "--help"]) == 0
    shown = " ".join(re.sub(r"[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    assert "[default: by a public rule]" in shown
    for method in registry.private_methods():
        assert method in shown


def test_curve_is_quick_where_the_catalogue_is_large_unless_all_is_asked_for() -> None:
    from lowkey.evaluation.commands import QUICK_HEAD, _quick

    large, small = (lk.DPLists(1.0, 1e-6).resolve(lk.Domain(n, feedback="binary")) for n in (50_000, 300))
    assert large.largest_head > QUICK_HEAD
    assert _quick(large).largest_head == QUICK_HEAD
    assert _quick(small) is small
    means = lk.DPBias(1.0, 1e-6).resolve(lk.Domain(300, (1.0, 5.0)))  # a method without a head
    assert _quick(means) is means
