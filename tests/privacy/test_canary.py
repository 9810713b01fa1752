"""Canaries: planted users, items and ratings that must not be found in errors, logs, reprs, output or release files."""

from __future__ import annotations

import logging
import math
import re
import struct
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from estimators import CASES, DOMAINS, N_ITEMS, Case

import lowkey as lk
from lowkey.data.ids import user_keys
from lowkey.errors import LowkeyError

N_USERS, N_RATINGS = 1237, 7422  # exact counts are private too
CANARY_USER = "kanarie-user-6f1d"
CANARY_ITEM = "kanarie-item-9c2e"
CANARY_RATING = 3.1415927  # on a scale of stars nobody else gives it
WRONG_RATING = 987.6543
TRACES = [CANARY_USER, CANARY_ITEM, "kanarie", "3.14159", "987.65"]


def planted(domain: lk.Domain) -> pd.DataFrame:
    """Users called kanarie-user-6f1d-00000 and so on, six ratings each."""
    rng = np.random.default_rng(8)
    ids = domain.ids(np.arange(N_ITEMS))
    items = np.concatenate([rng.permutation(N_ITEMS)[:6] for _ in range(N_USERS)])
    ratings = rng.choice([0.5, 1.0, 4.0, 5.0], N_RATINGS)
    ratings[::7] = CANARY_RATING
    users = [f"{CANARY_USER}-{u:05d}" for u in np.repeat(np.arange(N_USERS), 6)]
    return pd.DataFrame({"who": users, "what": ids[items], "stars": ratings})


def columns(domain: lk.Domain) -> dict[str, str]:
    return {"user": "who", "item": "what"} | ({} if domain.feedback == "binary" else {"rating": "stars"})


def assert_silent(text: str) -> None:
    for trace in TRACES:
        assert trace not in text
    for count in (N_USERS, N_RATINGS):
        assert not re.search(rf"(?<![\w.]){count}(?![\w.])|(?<![\w.]){count:,}(?![\w.])", text), count


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_of_a_user_is_in_a_release(
    case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """From a frame to the folder that may be published, with every logger open."""
    caplog.set_level(logging.DEBUG)
    domain = DOMAINS[case.feedback]
    frame = planted(domain)
    ratings = lk.from_frame(frame, domain, **columns(domain))
    billboard = lk.Billboard(tmp_path / "ledger.jsonl")
    engine = lk.LocalEngine(n_jobs=1)
    estimator = case.make().fit(ratings, engine=engine, billboard=billboard)
    things = [ratings, estimator, vars(estimator), estimator.model_, estimator.guarantee_]
    for thing in (*things, billboard, billboard.ledger, engine):
        assert_silent(repr(thing))
        assert_silent(str(thing))
    files = list(estimator.release(tmp_path / "release").iterdir())
    assert len(files) >= 6
    files += [tmp_path / "ledger.jsonl", tmp_path / "ledger.jsonl.head"]
    keys = user_keys(_arrow(frame["who"].unique()))
    secrets = [struct.pack("<f", CANARY_RATING), struct.pack("<d", CANARY_RATING), *(key.tobytes() for key in keys)]
    for file in files:
        content = file.read_bytes()
        assert_silent(content.decode("utf-8", errors="replace"))
        assert not [secret for secret in secrets if secret in content], file.name
    assert_silent(caplog.text)
    assert_silent("".join(capfd.readouterr()))


WRONG: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "a rating above the range": lambda f: f.assign(stars=f["stars"].where(f.index != 17, WRONG_RATING)),
    "a rating that is no number": lambda f: f.assign(stars=f["stars"].where(f.index != 17, math.nan)),
    "an infinite rating": lambda f: f.assign(stars=f["stars"].where(f.index != 17, math.inf)),
    "text for a rating": lambda f: f.assign(stars=f["stars"].astype(object).where(f.index != 17, "kanarie")),
    "an item that is not in the catalogue": lambda f: f.assign(what=f["what"].where(f.index != 17, CANARY_ITEM)),
    "a missing item": lambda f: f.assign(what=f["what"].where(f.index != 17, None)),
    "a missing user": lambda f: f.assign(who=f["who"].where(f.index != 17, None)),
    "the same pair twice": lambda f: pd.concat([f, f.iloc[17:18]]),
    "columns exchanged": lambda f: f.rename(columns={"who": "what", "what": "who"}),
    "numbers among the users": lambda f: f.assign(who=f["who"].astype(object).where(f.index != 17, 6)),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("road", ["frame", "csv", "parquet"])
def test_errors_about_the_data_show_nothing_of_it(
    wrong: Callable[[pd.DataFrame], pd.DataFrame], road: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The message, the whole traceback and whatever is chained to it."""
    caplog.set_level(logging.DEBUG)
    domain = DOMAINS["ratings"]
    frame = wrong(planted(domain))
    path = tmp_path / f"ratings.{road}"
    if road == "csv":
        frame.to_csv(path, index=False)
    elif road == "parquet":
        try:
            frame.to_parquet(path)
        except Exception:
            pytest.skip("a file with columns of mixed types cannot be written in the first place")

    def read() -> Any:
        if road == "frame":
            return lk.from_frame(frame, domain, **columns(domain))
        return lk.read_ratings(path, domain, **columns(domain))

    try:
        read()
    except LowkeyError as error:
        assert_silent(str(error))
        assert_silent("".join(traceback.format_exception(error)))
        for chained in (error.__cause__, error.__context__):
            assert chained is None
    else:
        # In text everything is text: a number among the users is one more name, and empty cells may be read as missing.
        assert road == "csv", "wrong input was taken"
        assert wrong is WRONG["numbers among the users"]
    assert_silent(caplog.text)


def test_the_command_line_shows_nothing_of_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Right input and wrong input through `lowkey release`."""
    from lowkey.cli.main import run

    domain = DOMAINS["ratings"]
    frame = planted(domain)
    (tmp_path / "items.txt").write_text("\n".join(domain.item_ids.to_pylist()) + "\n")
    for name, content, code in (("right", frame, 0), ("wrong", WRONG["a rating above the range"](frame), 2)):
        content.to_parquet(tmp_path / f"{name}.parquet")
        arguments = [
            *("release", str(tmp_path / f"{name}.parquet"), "--user", "who", "--item", "what", "--rating", "stars"),
            *("--scale", "0.5", "5", "--items", str(tmp_path / "items.txt"), "--epsilon", "2", "--delta", "1e-5"),
            *("--out", str(tmp_path / name)),
        ]
        assert run(arguments) == code
        assert_silent("".join(capfd.readouterr()))


def test_the_canaries_would_be_found() -> None:
    """Control: each way of looking finds what it looks for."""
    for text in (f"user {CANARY_USER}-00017", "rating 3.1415927", f"{N_USERS} users", f"{N_RATINGS:,} rows", "987.6543"):
        with pytest.raises(AssertionError):
            assert_silent(text)
    assert_silent("0.1237 and 51237 and a1237b and 12.7422")


def _arrow(values: Any) -> Any:
    import pyarrow as pa

    return pa.array(list(values))
