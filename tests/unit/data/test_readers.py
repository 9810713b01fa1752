"""Readers: every format gives the same rows, and what is wrong is said without a private value."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import random
import traceback
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowkey.data import Domain, from_frame, read_catalogue, read_ratings, read_uncatalogued
from lowkey.data.ids import tidy_text, user_keys
from lowkey.errors import InputError, without_values

MOVIELENS = {"user": "userId", "item": "movieId", "rating": "rating"}
ROWS = [("ann", 31, 2.5), ("bob", 31, 4.0), ("ann", 7, 5.0), ("cy", 1029, 0.5), ("bob", 7, 3.0)]
CATALOGUE = [7, 31, 1029, 5000]
DOMAIN = Domain(CATALOGUE, (0.5, 5.0))
EXPECTED = [[5.0, 2.5, 0, 0], [3.0, 4.0, 0, 0], [0, 0, 0.5, 0]]  # ann, bob, cy
KEYS = user_keys(pa.array(["ann", "bob", "cy"]))


def lines(rows, delimiter, header=None):
    body = [delimiter.join([user, str(item), str(rating), "978300760"]) for user, item, rating in rows]
    return "\n".join(([header] if header else []) + body) + "\n"


TEXTS = {
    "ratings.csv": lines(ROWS, ",", "userId,movieId,rating,timestamp"),
    "ratings.tsv": lines(ROWS, "\t", "userId\tmovieId\trating\ttimestamp"),
    "ratings.dat": lines(ROWS, "::"),
    "u.data": lines(ROWS, "\t"),
    "ua.base": lines(ROWS, "\t"),
    "ml.inter": lines(ROWS, "\t", "userId:token\tmovieId:token\trating:float\ttimestamp:float"),
}


def columns(rows=ROWS):
    users, items, ratings = zip(*rows, strict=True)
    return {"userId": list(users), "movieId": list(items), "rating": list(ratings)}


def assert_expected(ratings):
    assert ratings._open_csr().toarray().tolist() == EXPECTED
    assert ratings._open_keys().tolist() == KEYS.tolist()


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
def test_text_formats(tmp_path, name, compression):
    path = tmp_path / (name + compression)
    if compression == ".zst":
        with pa.output_stream(path, compression="zstd") as stream:
            stream.write(TEXTS[name].encode())
    else:
        path.write_bytes(gzip.compress(TEXTS[name].encode()) if compression else TEXTS[name].encode())
    assert_expected(read_ratings(path, DOMAIN, **MOVIELENS))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_parquet(tmp_path, kind):
    table = pa.table(columns())
    table = table.set_column(0, "userId", table.column(0).cast(kind)).append_column("more", pa.array(range(5)))
    pq.write_table(table, tmp_path / "r.parquet", row_group_size=2)
    assert_expected(read_ratings(tmp_path / "r.parquet", DOMAIN, **MOVIELENS))


def test_a_folder_of_parquet_files_in_the_order_of_their_names(tmp_path):
    again = [*ROWS, ("ann", 7, 1.0)]
    for part, rows in enumerate((again[:2], again[2:3], again[3:])):
        (tmp_path / "sub").mkdir(exist_ok=True)
        pq.write_table(pa.table(columns(rows)), tmp_path / "sub" / f"part-{part}.parquet")
    (tmp_path / "sub" / "_SUCCESS").touch()
    (tmp_path / "sub" / ".part-9.parquet").write_text("not for us")
    last = read_ratings(tmp_path, DOMAIN, **MOVIELENS, duplicates="last")._open_csr().toarray()
    assert last.tolist() == [[1.0, 2.5, 0, 0], *EXPECTED[1:]]


def test_names_with_the_type_of_recbole(tmp_path):
    path = tmp_path / "x.inter"
    path.write_text(TEXTS["ml.inter"])
    assert_expected(read_ratings(path, DOMAIN, user="userId:token", item="movieId:token", rating="rating:float"))


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas categories": lambda c: pd.DataFrame({**c, "userId": pd.Categorical(c["userId"], ["zoe", "cy", "bob", "ann"])}),
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "polars categories": lambda c: pl.DataFrame(c).with_columns(pl.col("userId").cast(pl.Categorical)),
    "arrow": pa.table,
    "arrow decimals": lambda c: pa.table({**c, "rating": pa.array(c["rating"]).cast(pa.decimal128(4, 2))}),
    "string views": lambda c: pa.table({**c, "userId": pa.array(c["userId"], pa.string_view())}),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_frames(frame):
    assert_expected(from_frame(FRAMES[frame](columns()), DOMAIN, **MOVIELENS))


def test_text_ids_keep_their_zeros_and_numbers_in_text_files_their_meaning(tmp_path):
    (tmp_path / "a.csv").write_text("u,i,r\n007,0012,1\n7, 12,2\n")
    text = read_ratings(tmp_path / "a.csv", Domain(["12", "0012"], (0, 5)), user="u", item="i", rating="r")
    assert text._open_csr().toarray().tolist() == [[0, 1], [2, 0]]
    numbers = read_ratings(tmp_path / "a.csv", Domain([12], (0, 5)), user="u", item="i", rating="r")
    assert numbers._open_csr().toarray().tolist() == [[1], [2]]


def test_a_user_may_be_called_NA(tmp_path):
    (tmp_path / "a.csv").write_text('u,i\nNA,"0"\nnull,1\n')
    ratings = read_ratings(tmp_path / "a.csv", Domain(2, feedback="binary"), user="u", item="i")
    assert ratings._open_csr().toarray().tolist() == [[1, 0], [0, 1]]


def test_binary_feedback_needs_no_ratings_and_leaves_them_unread(tmp_path):
    binary = Domain(CATALOGUE, feedback="binary")
    frame = pa.table({**columns(), "rating": ["a", "b", "c", "d", "e"]})
    pq.write_table(frame, tmp_path / "r.parquet")
    for ratings in (
        from_frame(frame, binary, user="userId", item="movieId"),
        read_ratings(tmp_path / "r.parquet", binary, **MOVIELENS),
    ):
        assert ratings._open_csr().toarray().tolist() == (np.array(EXPECTED) > 0).tolist()


# --- properties -------------------------------------------------------------------------------------------------


def tidy_texts(max_size=None):
    """Ids in the spelling that is kept: what becomes of others is in test_spellings.py."""
    return st.text(max_size=max_size).map(lambda text: tidy_text(pa.array([text]), "ids")[0].as_py()).filter(bool)


@st.composite
def tables(draw):
    user = draw(st.sampled_from([tidy_texts(4), st.integers(-(2**63), 2**63 - 1), st.integers(0, 5), st.uuids().map(str)]))
    users = draw(st.lists(user, min_size=1, max_size=6, unique=True))
    rating = st.sampled_from([1.0, 2.0, 3.5, 5.0])
    return draw(st.lists(st.tuples(st.sampled_from(users), st.integers(0, 4), rating), min_size=1, max_size=30))


def read_rows(rows, duplicates, high=200):
    users, items, values = zip(*rows, strict=True)
    frame = pa.table({"u": users, "i": items, "r": values})
    return from_frame(frame, Domain(5, (1, high)), user="u", item="i", rating="r", duplicates=duplicates, check_axes=False)


@given(tables(), st.sampled_from(["last", "mean", "sum"]))
def test_rows_are_those_of_a_dictionary(rows, duplicates):
    seen: dict = {}
    for user, item, value in rows:
        seen.setdefault((user, item), []).append(value)
    settle = {"last": lambda v: v[-1], "mean": lambda v: sum(v) / len(v), "sum": sum}[duplicates]
    users = sorted({user for user, _ in seen}, key=lambda u: u.encode() if isinstance(u, str) else u)
    expected = np.zeros((len(users), 5))
    for (user, item), values in seen.items():
        expected[users.index(user), item] = np.float32(settle(values))
    ratings = read_rows(rows, duplicates)
    assert np.array_equal(ratings._open_csr().toarray(), expected)
    assert ratings._open_keys().tolist() == user_keys(pa.array(users)).tolist()


def test_sums_are_checked_when_they_are_made_and_not_before():
    assert read_rows([("a", 0, 0.75), ("a", 0, 0.75)], "sum")._open_csr().data.tolist() == [1.5]
    with pytest.raises(InputError, match=r"sums of rating column 'r'.*outside the range"):
        read_rows([("a", 0, 4.0), ("a", 0, 4.0)], "sum", high=5)


@given(tables(), st.sampled_from(["mean", "sum"]), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(rows, duplicates, order: random.Random):
    shuffled = rows.copy()
    order.shuffle(shuffled)
    first, second = read_rows(rows, duplicates), read_rows(shuffled, duplicates)
    for one, other in zip(first._open_blocks(3), second._open_blocks(3), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@given(tables(), st.data())
def test_a_user_who_leaves_changes_nobody_else(rows, data):
    leaver = data.draw(st.sampled_from(rows))[0]
    rest = [row for row in rows if row[0] != leaver]
    if not rest:
        return
    before, after = read_rows(rows, "sum"), read_rows(rest, "sum")
    kept = np.isin(before._open_keys(), after._open_keys())
    assert kept.sum() == len(kept) - 1
    assert np.array_equal(before._open_csr().toarray()[kept], after._open_csr().toarray())


# --- bad input --------------------------------------------------------------------------------------------------

CANARY_USER, CANARY_RATING, CANARY_ITEM = "canary-7319", 4.7319, 66173
BAD_ROW, N_ROWS = 4211, 9173  # where the trouble is, and how many rows there are
SECRETS = [CANARY_USER, "7319", "66173", *map(str, range(BAD_ROW - 2, BAD_ROW + 4)), str(N_ROWS), str(N_ROWS + 1)]


def assert_silent(error):
    assert "\n" not in str(error)
    seen = [error]
    for link in seen:
        said = f"{link} {link!r} {link.args} {getattr(link, '__notes__', '')} {traceback.format_exception_only(link)}"
        assert not [secret for secret in SECRETS if secret in said], said
        seen += [chained for chained in (link.__cause__, link.__context__) if chained is not None]


def canary_columns(column, value):
    """A clean table but for one value; every rating and every user of it is a canary."""
    table = {
        "userId": [CANARY_USER] * N_ROWS,
        "movieId": list(range(N_ROWS)),
        "rating": [CANARY_RATING] * N_ROWS,
    }
    table[column][BAD_ROW] = value
    return table


CANARY_DOMAIN = Domain(N_ROWS, (0.5, 5.0))
TROUBLE = {
    "outside the range": ("rating", 66173.0),
    "below the range": ("rating", -66173.0),
    "nan": ("rating", float("nan")),
    "infinite": ("rating", float("inf")),
    "no rating": ("rating", None),
    "text for a rating": ("rating", CANARY_USER),
    "no user": ("userId", None),
    "unknown item": ("movieId", CANARY_ITEM),
    "no item": ("movieId", None),
    "text for an item": ("movieId", CANARY_USER),
    "fraction for an item": ("movieId", 66173.5),
    "duplicate": ("movieId", 3),
}


def as_text(table, delimiter):
    cells = [["" if cell is None else str(cell) for cell in row] for row in zip(*table.values(), strict=True)]
    return "\n".join(delimiter.join(row) for row in [list(table), *cells]) + "\n"


def as_parquet(table, path):
    kinds = {name: {type(cell) for cell in cells} for name, cells in table.items()}
    one_type = {name: [str(c) for c in cells] if str in kinds[name] else cells for name, cells in table.items()}
    pq.write_table(pa.table({name: one_type[name] if None not in table[name] else table[name] for name in table}), path)


@pytest.mark.parametrize("trouble", TROUBLE)
@pytest.mark.parametrize("source", ["csv", "parquet", "pandas", "polars", "dat"])
def test_trouble_is_named_without_private_values(tmp_path, trouble, source):
    table = canary_columns(*TROUBLE[trouble])
    path = tmp_path / f"ratings.{source}"
    if source == "csv":
        path.write_text(as_text(table, ","))
    elif source == "dat":
        rows = zip(*table.values(), strict=True)
        path.write_text("".join("::".join(["" if c is None else str(c) for c in row]) + "::1\n" for row in rows))
    elif source == "parquet":
        as_parquet(table, path)
    frames = {"pandas": pd.DataFrame, "polars": lambda t: pl.DataFrame(t, strict=False)}
    read, data = (from_frame, frames[source](table)) if source in frames else (read_ratings, path)
    with pytest.raises(InputError) as caught:
        read(data, CANARY_DOMAIN, **MOVIELENS)
    assert_silent(caught.value)


@pytest.mark.parametrize("source", ["csv", "parquet", "frame"])
def test_exchanged_columns(tmp_path, source):
    table = {"userId": [f"canary-7319-{i}" for i in range(50)], "movieId": list(range(50)), "rating": [1.0] * 50}
    exchanged = {"user": "movieId", "item": "userId", "rating": "rating"}
    domain = Domain(50, (0.5, 5.0))
    (tmp_path / "r.csv").write_text(as_text(table, ","))
    as_parquet(table, tmp_path / "r.parquet")
    read, data = (from_frame, pd.DataFrame(table)) if source == "frame" else (read_ratings, tmp_path / f"r.{source}")
    with pytest.raises(InputError, match="exchanged") as caught:
        read(data, domain, **exchanged)
    assert_silent(caught.value)


def test_exchanged_numbers_and_unknown_items():
    frame = pd.DataFrame({"userId": [900, 901], "movieId": [0, 1], "rating": [1, 2]})
    domain = Domain(3, (0.5, 5))
    exchanged = {"user": "movieId", "item": "userId", "rating": "rating"}
    for words in ({}, {"unknown_items": "drop"}):
        with pytest.raises(InputError, match="look exchanged"):
            from_frame(frame, domain, **exchanged, **words)
    with pytest.raises(InputError, match=r"not in the catalogue.*drop.*exchanged"):
        from_frame(frame, domain, **exchanged, check_axes=False)
    with pytest.raises(InputError, match=r"no id that is in the catalogue"):
        from_frame(frame, domain, **exchanged, unknown_items="drop", check_axes=False)
    frame.loc[1, "movieId"] = 77
    kept = from_frame(frame, domain, **MOVIELENS, unknown_items="drop")
    assert kept._open_csr().toarray().tolist() == [[1, 0, 0], [0, 0, 0]]  # the second user stays, without ratings


EMPTY = {"nothing.csv": "", "header.csv": "userId,movieId,rating\n", "u.data": "", "ratings.dat": "", "blank.csv": "\n\n"}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_text_files(tmp_path, name):
    (tmp_path / name).write_text(EMPTY[name])
    with pytest.raises(InputError):
        read_ratings(tmp_path / name, DOMAIN, **MOVIELENS)


def test_empty_parquet_files_folders_and_frames(tmp_path):
    pq.write_table(pa.table(columns()).slice(0, 0), tmp_path / "r.parquet")
    with pytest.raises(InputError, match="no rows"):
        read_ratings(tmp_path / "r.parquet", DOMAIN, **MOVIELENS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no Parquet file"):
        read_ratings(tmp_path / "empty", DOMAIN, **MOVIELENS)
    with pytest.raises(InputError, match="no rows"):
        from_frame(pl.DataFrame(columns()).clear(), DOMAIN, **MOVIELENS)


NOT_THAT_FORMAT = {
    "text.parquet": TEXTS["ratings.csv"].encode(),
    "cut.parquet": b"PAR1\x15\x04",
    "binary.csv": bytes(range(256)) * 10,
    "bad.csv.gz": b"this is no gzip",
    "ragged.csv": f"userId,movieId,rating\n{CANARY_USER},1\n".encode(),
    "latin.csv": f"userId,movieId,rating\n{CANARY_USER}\xe9,7,1\n".encode("latin-1"),
    "one-colon.dat": f"{CANARY_USER}:7:4.7319:1\n".encode(),
    "commas.tsv": TEXTS["ratings.csv"].encode(),
}


@pytest.mark.parametrize("name", NOT_THAT_FORMAT)
def test_files_that_are_not_what_their_name_says(tmp_path, name):
    (tmp_path / name).write_bytes(NOT_THAT_FORMAT[name])
    with pytest.raises(InputError) as caught:
        read_ratings(tmp_path / name, DOMAIN, **MOVIELENS)
    assert_silent(caught.value)


def test_missing_columns_are_listed_next_to_those_that_exist(tmp_path):
    (tmp_path / "r.csv").write_text(TEXTS["ratings.csv"])
    with pytest.raises(InputError, match=r"no 'score' beside 'userId', 'movieId', needed"):
        read_ratings(tmp_path / "r.csv", DOMAIN, user="userId", item="movieId", rating="score")
    as_parquet(columns(), tmp_path / "r.parquet")
    with pytest.raises(InputError, match=r"no 'u' among 'userId', 'movieId', 'rating'"):
        read_ratings(tmp_path / "r.parquet", DOMAIN, user="u", item="i", rating="r")
    (tmp_path / "u.data").write_text(TEXTS["u.data"])
    with pytest.raises(InputError, match=r"no 'item' among 'userId', 'movieId', 'rating', 'timestamp'"):
        read_ratings(tmp_path / "u.data", DOMAIN, user="userId", item="item", rating="rating")


def test_a_first_row_is_not_listed_as_if_it_were_a_header(tmp_path):
    headerless = f"{CANARY_USER},66173,4.7319\nann,7,3\n"
    (tmp_path / "r.csv").write_text(headerless)
    (tmp_path / "r.inter").write_text(headerless.replace(",", "\t"))
    for read in (
        lambda: read_ratings(tmp_path / "r.csv", DOMAIN, **MOVIELENS),
        lambda: read_ratings(tmp_path / "r.inter", DOMAIN, **MOVIELENS),
        lambda: from_frame(pd.read_csv(io.StringIO(headerless)), DOMAIN, **MOVIELENS),
    ):
        with pytest.raises(InputError, match="first line") as caught:
            read()
        assert_silent(caught.value)


def test_a_column_that_occurs_twice(tmp_path):
    (tmp_path / "r.csv").write_text("userId,movieId,rating,rating\nann,7,1,2\n")
    with pytest.raises(InputError, match="'rating' more than once"):
        read_ratings(tmp_path / "r.csv", DOMAIN, **MOVIELENS)
    frame = pd.DataFrame([["ann", 7, 1, 2]], columns=["userId", "movieId", "rating", "rating"])
    with pytest.raises(InputError):
        from_frame(frame, DOMAIN, **MOVIELENS)


WRONG_OPTIONS = {
    "no rating column": ({"rating": None}, "rating: got no column name"),
    "one column for two": ({"item": "userId"}, "column names"),
    "another duplicates": ({"duplicates": "first"}, "duplicates"),
    "another unknown_items": ({"unknown_items": "keep"}, "unknown_items"),
    "another format": ({"format": "xlsx"}, "format"),
}


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_wrong_options(tmp_path, name):
    (tmp_path / "r.csv").write_text(TEXTS["ratings.csv"])
    options, said = WRONG_OPTIONS[name]
    with pytest.raises(InputError, match=said):
        read_ratings(tmp_path / "r.csv", DOMAIN, **{**MOVIELENS, **options})


def test_paths_formats_and_domains_that_are_missing(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_ratings(tmp_path / "none.csv", DOMAIN, **MOVIELENS)
    (tmp_path / "r.xyz").write_text(TEXTS["ratings.csv"])
    with pytest.raises(InputError, match="does not tell"):
        read_ratings(tmp_path / "r.xyz", DOMAIN, **MOVIELENS)
    assert_expected(read_ratings(tmp_path / "r.xyz", DOMAIN, **MOVIELENS, format="csv"))
    for no_domain in (None, [7, 31]):
        with pytest.raises(InputError, match="domain"):
            read_ratings(tmp_path / "r.xyz", no_domain, **MOVIELENS)  # pyright: ignore


def test_what_is_no_frame():
    for thing in ([1, 2], {"userId": ["ann"]}, zipfile.ZipFile, np.ones(3)):
        with pytest.raises(InputError, match="frame"):
            from_frame(thing, DOMAIN, **MOVIELENS)


def test_errors_forget_what_caused_them_and_survive_a_pickle():
    def fails():
        raise ValueError(CANARY_USER)

    error = InputError(what="file", got="trouble", needed="none", try_="again")
    with pytest.raises(InputError) as caught:
        without_values(fails, error)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "file: got trouble, needed none. Try again."


# --- catalogues, private and public -----------------------------------------------------------------------------


def test_a_private_catalogue_is_closed_until_items_are_named(tmp_path):
    (tmp_path / "r.csv").write_text(as_text(columns(), ","))
    rows = read_uncatalogued(tmp_path / "r.csv", **MOVIELENS, rating_range=(0.5, 5))
    assert repr(rows) == "UncataloguedRatings(closed, private catalogue, ratings 0.5..5)"
    assert len(rows._open_ids()) == 3
    ids = rows._open_ids().to_pylist()
    assert ids == sorted(["7", "31", "1029"])
    found = {}
    for at, block in enumerate(rows._open_blocks(1)):
        for code, value in zip(block.items, block.values, strict=True):
            found[at, ids[code]] = value
    assert found == {(0, "7"): 5.0, (0, "31"): 2.5, (1, "7"): 3.0, (1, "31"): 4.0, (2, "1029"): 0.5}
    named = rows.with_items(["7", "never seen", "31"], expected_users=3)
    assert named._open_csr().toarray().tolist() == [[5.0, 0, 2.5], [3.0, 0, 4.0], [0, 0, 0]]
    assert [block.items.tolist() for block in named._open_blocks(1)] == [[0, 2], [0, 2], []]  # rising, unlike the codes
    assert named._open_keys().tolist() == KEYS.tolist()
    assert named.domain == Domain(["7", "never seen", "31"], (0.5, 5), expected_users=3)


def test_a_private_catalogue_in_parquet_keeps_the_type_of_its_ids(tmp_path):
    as_parquet(columns(), tmp_path / "r.parquet")
    rows = read_uncatalogued(tmp_path / "r.parquet", user="userId", item="movieId", feedback="binary")
    assert rows._open_ids().to_pylist() == [7, 31, 1029]
    assert rows.with_items([1029, 7])._open_csr().toarray().tolist() == [[0, 1], [0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("c.csv", "movieId,title\n31,A\n7,B\n", [31, 7]),
        ("c.csv", "movieId\n031\n7\n", ["031", "7"]),
        ("c.tsv", 'movieId\ttitle\nx\t1\n"y z"\t2\n', ["x", "y z"]),
        ("c.txt", "b\n\na \n", ["b", "a"]),
        ("c.txt", "\ufeff10\n-2\n", [10, -2]),
    ],
)
def test_catalogue_files(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_catalogue(tmp_path / name, item="movieId").to_pylist() == expected


def test_bad_catalogue_files(tmp_path):
    pq.write_table(pa.table({"movieId": ["1", "2"], "year": [1.5, 2.0]}), tmp_path / "c.parquet")
    assert read_catalogue(tmp_path / "c.parquet", item="movieId").to_pylist() == ["1", "2"]
    (tmp_path / "c.csv").write_text("movieId,title\n31,A\n,B\n")
    (tmp_path / "c.inter").write_text("movieId:token\n31\n")
    (tmp_path / "empty.csv").write_text("")
    for name, item, said in [
        ("c.parquet", None, "item: got no column name"),
        ("c.parquet", "id", "no 'id' among 'movieId', 'year'"),
        ("c.parquet", "year", "integers or text"),
        ("c.csv", "movieId", "missing values"),
        ("c.csv", "id", "no 'id' among 'movieId', 'title'"),
        ("c.inter", "movieId", "format inter"),
        ("empty.csv", "movieId", "cannot be read"),
        ("none.csv", "movieId", "does not exist"),
    ]:
        with pytest.raises(InputError, match=said):
            read_catalogue(tmp_path / name, item=item)


# --- real files -------------------------------------------------------------------------------------------------

DATA = Path(os.environ.get("LOWKEY_DATA", Path(__file__).parents[4] / "shared" / "data"))


@pytest.mark.parametrize(
    ("name", "rating_range"),
    [("ml-100k", (1, 5)), ("ml-1m", (1, 5)), ("jester", (-9.95, 10)), ("rc", (0, 2)), ("msweb", None)],
)
def test_real_ratings(name, rating_range):
    path = DATA / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"needs {path}; set LOWKEY_DATA to the folder of rating data")
    table = pl.read_parquet(path)
    items = table["item"].unique().sort()
    domain = Domain(items, rating_range, "ratings" if rating_range else "binary")
    csr = read_ratings(path, domain, user="user", item="item", rating="rating")._open_csr()
    by_user = table.sort("user", "item")
    assert csr.shape == (table["user"].n_unique(), len(items))
    assert np.array_equal(domain.ids(csr.indices), by_user["item"].to_numpy())
    assert np.array_equal(np.diff(csr.indptr), by_user.group_by("user", maintain_order=True).len()["len"].to_numpy())
    if rating_range:
        assert np.array_equal(csr.data, by_user["rating"].to_numpy())


def test_real_duplicates():
    path = DATA / "ciaodvd.parquet"
    if not path.exists():
        pytest.skip(f"needs {path}; set LOWKEY_DATA to the folder of rating data")
    table = pl.read_parquet(path)
    domain = Domain(table["item"].unique(), (0, 5))
    names = {"user": "user", "item": "item", "rating": "rating"}
    with pytest.raises(InputError, match="more than once"):
        read_ratings(path, domain, **names)
    mean = read_ratings(path, domain, **names, duplicates="mean")._open_csr()
    assert mean.nnz == table.select("user", "item").unique().height
    expected = table.group_by("user", "item").agg(pl.col("rating").mean())["rating"].sum()
    assert mean.data.sum(dtype=np.float64) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("unknown_items", ["error", "drop"])
def test_rows_that_come_user_by_user_are_those_in_any_order(unknown_items: str) -> None:
    """In runs, some cut by the chunks of a table, of users in falling order, with a user who comes up again at the end."""
    rng = np.random.default_rng(5)
    users = np.append(np.repeat(np.arange(900, 0, -1), 30), np.full(9, 450))
    items = np.concatenate([*(rng.permutation(40)[:30] for _ in range(900)), np.arange(40, 49)])
    table = pa.table({"user": users, "item": items, "rating": rng.integers(1, 6, len(users)).astype(float)})
    domain = Domain(range(0, 49, 1 if unknown_items == "error" else 2), (1.0, 5.0))
    options = {"user": "user", "item": "item", "rating": "rating", "unknown_items": unknown_items, "check_axes": False}
    rising = table.take(np.argsort(users, kind="stable"))
    cut = pa.concat_tables([table.slice(at, 16_999) for at in range(0, len(table), 16_999)])
    shuffled = table.take(rng.permutation(len(table)))
    whole = [from_frame(t, domain, **options)._open_rows().whole() for t in (shuffled, cut, rising)]
    for other in whole[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(whole[0], other, strict=True))
