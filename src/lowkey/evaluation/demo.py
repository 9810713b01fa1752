"""Lab room: `lowkey demo`: made-up film fans, from their ratings to a checked release, in under a minute."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowkey.cli.screen import Screen
from lowkey.errors import refuse

if TYPE_CHECKING:
    from lowkey.data.ratings import Ratings
    from lowkey.methods.base import Recommender

USERS, FILMS, RATINGS_PER_USER = 20_000, 600, 50.0
EPSILON, DELTA = 1.0, 1e-6
HARDLY_PRIVATE = 20.0
NOT_PRIVATE = ("Bias", "Popularity")  # not ALS: compiling it takes longer than all the rest
LIKED, DISLIKED = "Space Opera", "Western"  # the genres of the demo's visitor
MEASURES = ("rmse", "better of two")


def demo(
    out: Annotated[Path, typer.Option(help="Where to put the demo's files.")] = Path("lowkey-demo"),
    seed: Annotated[int, typer.Option(help="Makes another crowd.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Train, compare, release and check a private recommender on made-up data, and make its page. Takes under a minute.

    Example: lowkey demo
    """
    screen = Screen(quiet)
    with screen.working("Starting (the first time, some code is compiled)"):
        from lowkey.privacy.price import at_most
        from lowkey.release import verify
        from lowkey.release.site import write_site

    release, site = _place(out)
    with screen.working("Making up film fans"):
        ratings = _make_up(out, seed)
    screen.say(f"{USERS:,} film fans, {FILMS:,} films, a million ratings: all made up, nobody is real.\n")
    private = _compare(ratings, seed, screen)
    guarantee = private.guarantee_
    with screen.working("Writing and checking the release"):
        private.release(release)
        checks = verify(release)
        write_site(release, site, heading="Which film next?")
    screen.say(
        f"The guarantee (epsilon = {at_most(guarantee.epsilon, 4)}, delta = {guarantee.delta:g}) in plain words:", "bold"
    )
    screen.say(f"  {guarantee.sentence()}\n")
    _show_visit(private, out, screen)
    good = sum(check.ok for check in checks)
    screen.say(f"The release is in {release}/: {good} of its {len(checks)} claims hold, checked without the data.", "bold")
    screen.say(f"  read    {release}/privacy_report.html")
    screen.say(f"  check   lowkey verify {release}")
    screen.say(f"  use     lowkey recommend {release} --history {out}/mine.csv\n")
    screen.say("The same for a file of your own; here with the demo's:", "bold")
    screen.say(
        f"  lowkey release {out}/ratings.parquet --user user --item item --rating rating --scale 0.5 5 "
        f"--items {out}/catalogue.txt --for ratings --epsilon {EPSILON:g} --delta {DELTA:g} --out my-release\n"
    )
    screen.say("And a page that recommends in the visitor's browser and sends nothing:", "bold")
    screen.say(f"  open {site}/index.html")
    if good < len(checks):
        raise typer.Exit(1)


def _place(out: Path) -> tuple[Path, Path]:
    """The demo's folders for the release and its page, cleared of an earlier demo's and of nothing else."""
    from lowkey.release import folder, site

    if out.exists() and not out.is_dir():
        refuse("--out", got=f"{str(out)!r}, which is a file", needed="a folder", try_="another name")
    places = {out / "release": {*folder.FILES, folder.POSTS, folder.MANIFEST}, out / "site": set(site.SITE_FILES)}
    for place, names in places.items():
        if place.is_dir() and {entry.name for entry in place.iterdir()} <= names:
            for entry in place.iterdir():
                entry.unlink()
    out.mkdir(parents=True, exist_ok=True)
    return out / "release", out / "site"


def _make_up(out: Path, seed: int) -> Ratings:
    """A crowd as files: its ratings, which are read back, its catalogue, and the history of a visitor."""
    import numpy as np

    from lowkey.data.domain import Domain
    from lowkey.data.readers import read_ratings
    from lowkey.data.synthetic import write_taste

    facts = write_taste(out / "ratings.parquet", USERS, FILMS, RATINGS_PER_USER, seed)
    films = facts["items"]
    (out / "catalogue.txt").write_text("\n".join(films) + "\n", "utf-8")
    ratings = read_ratings(out / "ratings.parquet", Domain(**facts), user="user", item="item", rating="rating")
    by_fame = np.argsort(-np.bincount(ratings._open_csr().indices, minlength=FILMS), kind="stable")
    famous = [films[i] for i in by_fame]
    liked = [film for film in famous if film.startswith(LIKED)][:8]
    others = [film for film in famous if film.startswith(DISLIKED)][:5]
    with open(out / "mine.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "rating"])
        writer.writerows([[film, 5.0] for film in liked] + [[film, 1.5] for film in others])
    return ratings


def _compare(ratings: Ratings, seed: int, screen: Screen) -> Recommender:
    """Fit the private method and its baselines without a tenth of the users, and measure them on these."""
    from lowkey.evaluation.commands import show_figures
    from lowkey.evaluation.protocol import evaluate
    from lowkey.evaluation.splits import hold_out_users
    from lowkey.methods.choice import default_method
    from lowkey.methods.registry import estimator

    split = hold_out_users(ratings, 0.1, seed=seed)
    private: Any = estimator(default_method(ratings.domain, EPSILON, DELTA, "ratings"))
    contestants: dict[str, Any] = {
        f"private ({private.__name__}, epsilon {EPSILON:g})": private(epsilon=EPSILON, delta=DELTA),
        f"hardly private (the same, epsilon {HARDLY_PRIVATE:g})": private(epsilon=HARDLY_PRIVATE, delta=DELTA),
    }
    contestants |= {f"not private ({name})": estimator(name)() for name in NOT_PRIVATE}
    figures = {}
    with screen.working("Fitting and measuring", len(contestants)) as advance:
        for name, model in contestants.items():
            found = evaluate(model.fit(split.train), split.histories, split.held_out)
            figures[name] = {measure: found[measure] for measure in MEASURES if measure in found}
            advance()
    show_figures(screen, f"On {split.held_out.shape[0]:,} fans whom no model has seen", figures)
    screen.say(
        "rmse: the error in stars. better of two: how often the film a fan liked more comes first; a coin gets 0.5.\n"
    )
    return next(iter(contestants.values()))


def _show_visit(private: Recommender, out: Path, screen: Screen) -> None:
    from lowkey.cli.recommend import read_history

    ids, scores = private.recommend(read_history(out / "mine.csv", "item", "rating"), n=5)
    screen.say(f"For a visitor who likes {LIKED}s and no {DISLIKED}s ({out}/mine.csv), from their own history alone:")
    for film, score in zip(ids, scores, strict=True):
        screen.say(f"  {score:.2f}  {film}")
    screen.say()
