"""`lowkey bench`: splits as the papers have them, rows that resume, tables that say what the rows say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from lowkey.cli.main import run
from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.errors import InputError
from lowkey.evaluation.protocol import evaluate
from lowkey.evaluation.splits import Split
from lowkey.methods.bias.baseline import Bias
from lowkey_lab import bounds, compare, datasets, gains, sources, tables, tuning
from lowkey_lab.liang import liang_split


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A hundred users with 15 of 20 items each, ids as text."""
    rng = np.random.default_rng(0)
    lines = ["who,what,stars"]
    for user in range(100):
        lines += [f"u{user},film {item},{rng.integers(1, 6)}" for item in rng.permutation(20)[:15]]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def lowkey(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: fits are forked, and a test process may have run parallel kernels."""
    command = [sys.executable, "-c", "from lowkey.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_file_is_compared_resumed_and_shown_in_every_format(file: Path, tmp_path: Path) -> None:
    results = tmp_path / "rows.jsonl"
    options = ["bench", "--data", file, "--user", "who", "--item", "what", "--rating", "stars", "--scale", "1", "5"]
    options += [
        "--methods",
        "bias,Bias",
        "--epsilons",
        "1,5",
        "--draws",
        "2",
        "--jobs",
        "2",
        "--quiet",
        "--results",
        results,
    ]
    first = lowkey(*options, "--table", "markdown", "--figures", tmp_path / "figures")
    assert first.returncode == 0, first.stderr
    rows = compare.read(results)
    # "bias" without noise, and what the private ones are measured by
    exact = ["ALS", "Bias", "EASE", "Popularity", "bias", "trivial", "two ridges"]
    assert sorted(row["method"] for row in rows if row["epsilon"] is None) == exact
    assert sorted((row["method"], row["epsilon"], row["draw"]) for row in rows if row["epsilon"]) == [
        ("bias", e, d) for e in (1.0, 5.0) for d in (0, 1)
    ]
    private = next(row for row in rows if row["epsilon"] == 1.0)
    assert private["booked_epsilon"] <= 1.0
    assert private["fit_seconds"] > 0.0 < private["cpu_seconds"]
    assert private["versions"]["lowkey"]
    assert private["how_tuned"] == "defaults, from public facts"
    means = [np.mean([row["rmse"] for row in rows if row["epsilon"] == e]) for e in (1.0, 5.0)]
    assert all(f"{mean:.4f} ± " in first.stdout for mean in means)
    assert "not private" in first.stdout
    assert "| data | measure | epsilon | simplest | bias | tuned, no noise | gain kept |" in first.stdout
    drawn = {f"{name}.{ending}" for name in ("quality", "slices", "time") for ending in ("svg", "png")}
    assert {path.name for path in (tmp_path / "figures").iterdir()} == drawn
    # Half a line, as an interruption leaves it: it is run again, the others are not.
    lines = results.read_text().splitlines()
    results.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:40])
    second = lowkey(*options, "--table", "latex")
    assert second.returncode == 0, second.stderr
    assert len(compare.read(results)) == len(lines)
    assert second.stdout.startswith(r"\begin{tabular}")


def test_bad_input_is_one_line_and_exit_code_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, word in (
        (["--data", "no-such"], "jester"),
        (["--data", file, "--rating", "stars"], "--scale"),
        (["--data", "jester", "--epsilons", "one"], "numbers"),
        (["--data", "jester", "--table", "word"], "markdown"),
    ):
        assert run(["bench", "--quiet", *map(str, options)]) == 2
        complaint = capsys.readouterr().err
        assert word in complaint
        assert len(complaint.strip().splitlines()) == 1


def test_absent_data_say_where_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOWKEY_DATA", str(tmp_path))
    for name in ("ml-10m", "ml-20m", "netflix-top400", "ml-25m"):
        with pytest.raises(InputError, match=r"https://.*nothing is downloaded"):
            datasets.load(name)


def test_original_movielens_files_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOWKEY_DATA", str(tmp_path))
    (tmp_path / "ml-10M100K").mkdir()
    rng = np.random.default_rng(1)
    lines = [f"{u}::{i}::{rng.integers(1, 11) / 2}::1" for u in range(1, 41) for i in rng.permutation(30)[:20] + 1]
    (tmp_path / "ml-10M100K" / "ratings.dat").write_text("\n".join(lines) + "\n")
    assert sources.checksum("ml-10m") == "no checksum listed"
    split = datasets.load("ml-10m")
    train = split.train._open_csr()
    assert train.shape == (40, 30)
    # 80/10/10 of 800: five standard deviations of a binomial are 56 and 42.
    assert abs(train.nnz - 640) < 60
    assert abs(split.held_out.nnz - 80) < 45
    assert train.multiply(split.held_out).nnz == 0


def test_liangs_split_holds_out_users_and_a_fifth_of_their_items() -> None:
    rng = np.random.default_rng(2)
    users = np.repeat(np.arange(300), 25)
    items = np.concatenate([np.sort(rng.permutation(80)[:25]) for _ in range(300)])
    table = {"user": users, "item": items, "rating": rng.choice([3.0, 4.0, 5.0], len(users))}
    train, histories, held_out = liang_split(table, held_out_users=40)
    liked = np.bincount(users[table["rating"] >= 4.0], minlength=300)
    assert train.shape[0] == (liked >= 5).sum() - 80
    assert histories.shape == held_out.shape == (40, train.shape[1])
    counts = np.diff(histories.indptr) + np.diff(held_out.indptr)
    np.testing.assert_array_equal(np.diff(held_out.indptr), (0.2 * counts).astype(int))
    assert histories.multiply(held_out).nnz == 0
    assert set(np.unique(train.data)) == {1.0}
    # Draw for draw: the held-out users are the last of the old generator's permutation of the kept users.
    kept = np.flatnonzero(liked >= 5)
    np.random.seed(98765)
    tested = np.sort(kept[np.random.permutation(len(kept))][-40:])
    np.testing.assert_array_equal(counts, liked[tested])


def test_the_most_rated_items_keep_their_order() -> None:
    rows = scipy.sparse.csr_array(np.array([[1, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 1]], np.float32))
    assert datasets.most_rated(rows, 2).toarray().tolist() == [[1, 1]] * 3
    assert datasets.most_rated(rows, 3).shape == (3, 3)


def test_slices_hold_a_third_of_the_ratings_each_and_every_item_once() -> None:
    split = datasets.made_up(0, 4000, 200)
    slices = compare.popularity_slices(split)
    counts = np.bincount(split.train._open_csr().indices, minlength=200)
    np.testing.assert_array_equal(sum(members.astype(int) for members in slices.values()), 1)
    shares = [counts[members].sum() / counts.sum() for members in slices.values()]
    assert max(abs(share - 1 / 3) for share in shares) < 0.05
    assert counts[slices[compare.SLICES[0]]].min() >= counts[slices[compare.SLICES[2]]].max()
    figures = evaluate(Bias().fit(split.train), split.histories, split.held_out, slices=slices)
    parts = [figures[f"rmse, {name}"] for name in slices]
    held = [slices[name][split.held_out.indices].mean() for name in slices]
    assert np.dot(np.square(parts), held) == pytest.approx(figures["rmse"] ** 2)


def row(method: str, epsilon: float | None, draw: int, value: float, protocol: str = tuning.DEFAULTS, **settings) -> dict:
    shared = {"data": "d", "settings": settings, "tuning": protocol, "cpu_seconds": 1.0, "fit_memory_gb": 0.5}
    return {**shared, "method": method, "epsilon": epsilon, "draw": draw, "rmse": value}


def test_mean_and_standard_error() -> None:
    lines = tables.comparison([row("m", 1.0, d, v) for d, v in enumerate((1.0, 1.2, 1.7))] + [row("B", None, 0, 0.5)])
    # Standard deviation sqrt(0.13), over the root of three draws.
    assert lines[1][3] == f"1.3000 ± {np.sqrt(0.13 / 3):.4f}"
    assert lines[2][3:5] == ["–", "0.5000"]
    assert tables.as_markdown(lines).splitlines()[1] == "| " + " | ".join(["---"] * len(lines[0])) + " |"


def test_oracle_tuning_shows_the_best_candidate_by_mean_and_says_so() -> None:
    rows = [row("m", 1.0, d, v, tuning.ORACLE, rank=4) for d, v in enumerate((0.8, 1.4))]
    rows += [row("m", 1.0, d, v, tuning.ORACLE, rank=8) for d, v in enumerate((0.9, 1.1))]
    line = tables.comparison(rows)[1]
    assert line[3].startswith("1.0000")
    assert "not private" in line[5]
    assert "NOT PRIVATE" in tuning.statement("moments", tuning.ORACLE)


def test_the_gain_kept_is_that_of_the_best_private_method_between_the_bounds() -> None:
    """1.0 trivial, 0.8 without noise: 0.95 is a quarter of the way; below popularity the share is negative."""
    rows = [row("trivial", None, 0, 1.0), row("two ridges", None, 0, 0.85), row("ALS", None, 0, 0.8)]
    rows += [row("bias", 1.0, 0, 0.95), row("factors", 1.0, 0, 0.99), row("factors", 5.0, 0, 0.8)]
    header, *found = gains.lines(rows)
    assert header == ["data", "measure", "epsilon", "simplest", "bias", "factors", "tuned, no noise", "gain kept"]
    assert [line[-1] for line in found] == ["25% (bias)", "100% (factors)"]
    assert {line[-2] for line in found} == {"0.8000 (ALS)"}
    lists = [{**row("lists", 1.0, 0, 0.0), "recall@20": 0.25}, {**row("Popularity", None, 0, 0.0), "recall@20": 0.3}]
    lists += [{**row("EASE", None, 0, 0.0), "recall@20": 0.4}]
    assert gains.lines(lists)[-1][-2:] == ["0.4000 (EASE)", "-50% (lists)"]
    even = [row("trivial", None, 0, 1.0), row("two ridges", None, 0, 1.1), row("bias", 1.0, 0, 0.99)]
    assert gains.lines(even)[-1][-1] == "–"  # nothing to gain


def test_bounds_are_those_of_a_plain_definition() -> None:
    """Two users tested on two items, everything by hand: the mean of training is 3, and one rating of 5 is shown."""
    domain = Domain(2, (1.0, 5.0))
    train = scipy.sparse.csr_array(np.array([[2.0, 4.0], [2.0, 4.0]], np.float32))
    shown = scipy.sparse.csr_array(np.array([[5.0, 0.0]], np.float32))
    held = scipy.sparse.csr_array(np.array([[0.0, 5.0]], np.float32))
    split = Split(Ratings.from_csr(train, domain), shown, held)
    assert bounds.trivial(split, (1.0, 5.0)) == pytest.approx(5.0 - (3.0 + 2.0 / 1.5))  # the least damping is the best
    assert bounds.two_ridges(split, (1.0, 5.0)) < bounds.trivial(split, (1.0, 5.0))
    assert bounds.measured("EASE", split) == {"recall@2": 1.0}
    binary = Split(Ratings.from_csr(train, Domain(2, None, "binary")), shown, held)
    assert bounds.measured("trivial", binary) == {}


def test_ease_recommends_what_is_popular_to_somebody_without_a_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of forty items are popular, in no order of the catalogue, and all three are held out."""
    monkeypatch.setattr(bounds, "LIST", 3)
    train = np.zeros((30, 40), np.float32)
    train[np.arange(30), np.arange(30)] = 1.0
    train[:, [7, 23, 38]] = 1.0
    held = np.zeros((1, 40), np.float32)
    held[0, [7, 23, 38]] = 1.0
    rows = [scipy.sparse.csr_array(part) for part in (train, np.zeros_like(held), held)]
    split = Split(Ratings.from_csr(rows[0], Domain(40, None, "binary")), rows[1], rows[2])
    assert bounds.ease(split) == 1.0


def test_oracle_tasks_run_every_candidate() -> None:
    tasks = compare.tasks("jester", ["svd", "Bias"], [1.0], 2, tuning=tuning.ORACLE)
    assert len(tasks) == 2 * len(tuning.candidates("svd")) + 1
    assert len({task.key() for task in tasks}) == len(tasks)
    assert {} in tuning.candidates("svd")
    assert json.loads(tasks[0].key())["tuning"] == "oracle"
