"""The audit is audited: near the claim on sound code, seldom above it, loud about broken noise, plain about bad input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from scipy import stats

import lowkey as lk
from lowkey.audit import holders
from lowkey.audit.bounds import Scores, noise_width
from lowkey.audit.canaries import BEYOND, choose_history, worst_canaries
from lowkey.audit.game import play
from lowkey.audit.precision import attack_precision, haney, mironov, naive, ours
from lowkey.audit.result import Layer
from lowkey.audit.sign_sums import one_bit_sums
from lowkey.audit.stand_in import made_up_rows, stand_in_domain, through_a_file
from lowkey.audit.tasks import one_bit
from lowkey.audit.verdict import above_claim, as_finding
from lowkey.cli.main import run
from lowkey.errors import InputError
from lowkey.kernels.catalogue import Holders
from lowkey.kernels.one_bit import ClampedGradient
from lowkey.privacy.accounting import gaussian_mu
from lowkey.privacy.noise import NoiseSource, SeededNoise

MU = gaussian_mu(1.0, 1e-5)
EASY = {"layers": [2], "canaries": 20_000, "seed": 1}


def made_scores(rng: np.random.Generator, width: float = 1.0, shared: float = 0.1) -> Scores:
    """Gaussian scores whose noise is in part that of the whole run, as posts that all canaries move make it."""
    inside = rng.random((40, 200)) < 0.5
    own = rng.standard_normal(inside.shape) * np.sqrt(1.0 - shared)
    values = width * (own + np.sqrt(shared) * rng.standard_normal((40, 1)))
    return Scores(values + MU * inside, inside, np.full(200, MU))


def test_bounds_hold_as_often_as_they_say() -> None:
    """Over 400 games of known mu, at 95 %. More than 38 misses of 400 have a chance of 1e-4 if each has 5 %."""
    rng = np.random.default_rng(5)
    most = int(stats.binom.isf(1e-4, 400, 0.05))
    games = [made_scores(rng) for _ in range(400)]
    assert sum(game.gaussian(0.95)[1] > MU for game in games) <= most
    assert sum(game.free(0.95) > MU for game in games) <= most
    assert np.median([game.gaussian(0.95)[1] for game in games]) > 0.8 * MU


def test_half_the_noise_is_seen_by_every_bound() -> None:
    game = made_scores(np.random.default_rng(6), width=0.5)
    assert game.gaussian(0.99999)[1] > MU
    assert game.free(0.99999) > MU


def test_the_width_of_noise_is_bounded_as_often_as_it_says() -> None:
    """Of 400 games along directions that are far from orthogonal, at 95 %: more than 38 misses have a chance of 1e-4."""
    rng = np.random.default_rng(7)
    directions = rng.standard_normal((30, 5)) + np.array([3.0, 0.0, 0.0, 0.0, 0.0])
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    degrees = 30**2 / ((directions @ directions.T) ** 2).sum()
    squares = ((rng.standard_normal((400, 25, 5)) @ directions.T) ** 2).mean(axis=2)
    widest = np.array([noise_width(game, degrees, 0.95)[1] for game in squares])
    assert (widest < 1.0).sum() <= stats.binom.isf(1e-4, 400, 0.05)
    assert np.median(widest) < 1.5
    assert noise_width(squares[0] / 4.0, degrees, 0.99999)[1] < 1.0


def test_noise_that_is_too_narrow_for_one_kind_of_user_is_found() -> None:
    """Half as wide along users with one rating, and as it should be along all others."""
    domain = stand_in_domain()
    history = choose_history(lambda: lk.DPMoments(1.0, 1e-5), domain, *through_a_file(domain, made_up_rows(domain, 3)), 5)
    rng = np.random.default_rng(1)
    canaries = worst_canaries(history, 100, rng)
    assert (canaries.kinds == BEYOND).sum() > 5
    assert (canaries.kinds[: canaries.chosen] != BEYOND).all()
    played = play(history, canaries, 25, rng, NoiseSource())
    assert above_claim(history, played, history.mu) == []
    narrow = [np.where(canaries.kinds == 1, along / 2.0, along) for along in played.along]
    found = above_claim(history, replace(played, along=narrow), history.mu)
    assert any("users with 1 ratings" in line for line in found), found


def test_code_that_breaks_down_fails_in_one_line() -> None:
    class Broken(NoiseSource):
        def rounded_gaussian(self, scale: float, size: int):
            raise AttributeError("nothing of this message is shown")

    found = lk.audit(lk.DPBias(1.0, 1e-5), noise=Broken(), **EASY)
    assert found.failed == [2]
    assert "breaks down under attack: AttributeError in line" in str(found)
    assert "nothing of" not in str(found)


def test_a_sound_method_comes_near_its_claim_and_not_above() -> None:
    """At 99.9 %, which fails one time in a thousand; 20,000 scores are worth four fifths of the claim."""
    found = lk.audit(lk.DPBias(1.0, 1e-5), layers=[1, 2, 4], canaries=20_000, confidence=0.999, seed=1)
    assert found.ok, str(found)
    assert found.lower_epsilon <= found.epsilon
    assert found.free_epsilon <= found.epsilon
    assert 0.75 < found.measured_epsilon < 1.25
    assert all(post.reached > 0.5 for post in found.posts)
    assert "<svg" in found.plot()


def test_noise_that_is_half_as_wide_fails_two_layers() -> None:
    found = lk.audit(lk.DPBias(1.0, 1e-5), noise=SeededNoise(3, factor=0.5), **{**EASY, "layers": [2, 4]})
    assert found.failed == [2, 4]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_user_who_counts_twice_is_found(adjacency: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same canaries, of whom the engine sees each one twice: no statistics are needed to see that."""
    domain = stand_in_domain()
    crowd = through_a_file(domain, made_up_rows(domain, 3))
    history = choose_history(lambda: lk.DPBias(1.0, 1e-5, adjacency), domain, *crowd, 5)
    canaries = worst_canaries(history, 20, np.random.default_rng(1))
    assert canaries.best.max() <= history.mus.max() * (1.0 + 1e-9)
    whole = type(history).data
    monkeypatch.setattr(type(history), "data", lambda self, people: whole(self, [*people, people[-1]]))
    with pytest.raises(AssertionError, match="told apart"):
        play(history, canaries, 3, np.random.default_rng(2), NoiseSource())


def test_precision_attacks_break_the_naive_build_and_not_ours() -> None:
    found = attack_precision(NoiseSource())
    assert {(a.build, a.broken) for a in found} == {("lowkey", False), ("naive", True)}


@pytest.mark.parametrize(("attack", "kind"), [(mironov, "laplace"), (haney, "gaussian")])
def test_precision_attacks_learn_nothing_where_there_is_nothing(attack, kind: str) -> None:
    """Control: told nothing of the sum, the same attack on the naive build is at chance (five standard errors)."""
    blind = naive(kind, np.random.default_rng(1))
    guesses, right = attack(lambda total, size: blind(0.0, size))
    assert abs(right - 0.5) < 5.0 * 0.5 / np.sqrt(max(guesses, 1))
    assert attack(ours(kind, NoiseSource()))[0] > 1000


def test_a_sign_is_worth_its_epsilon() -> None:
    """Clopper-Pearson at 99.99 %."""
    found = one_bit(1.0, 0.0, 0.9999, 1)
    assert found.ok
    assert 0.9 < found.lower_epsilon <= 1.0


@pytest.mark.parametrize("measure", [one_bit_sums, holders.catalogue])
def test_signs_in_noisy_sums_and_holders_of_ids_come_near_the_claim_and_not_above(measure) -> None:
    """At 99.99 %."""
    found = measure(1.0, 1e-5, 0.9999, 1)
    assert found.ok, str(found)
    assert 0.75 < found.lower_epsilon <= found.epsilon
    assert 0.75 < found.free_epsilon <= found.epsilon


@pytest.mark.parametrize("kept", ["scores", "gradient"])
def test_one_of_the_two_bounds_on_a_gradient_is_not_enough(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def contributions(self: ClampedGradient, signs: np.ndarray, scores: np.ndarray) -> np.ndarray:
        scores = np.clip(scores, -self.entry_bound, self.entry_bound) if kept == "scores" else scores
        gradient = -signs * self.link.slope(signs * scores)
        gradient = np.clip(gradient, -self.gradient_bound, self.gradient_bound) if kept == "gradient" else gradient
        return np.trunc(gradient / self.statistics[0].grid.step).astype(np.int64)

    monkeypatch.setattr(ClampedGradient, "contributions", contributions)
    (layer,) = one_bit_sums(1.0, 1e-5, 0.95, 1).layers
    assert layer.figure.startswith("gradient: " if kept == "scores" else "gradient, wide clamp: "), layer
    assert not layer.ok


@pytest.mark.parametrize(("ids", "says"), [(1.0, "cost more"), (2.0, "more ids than is declared")])
def test_users_who_hold_ids_beyond_their_bounds_are_found(ids: float, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of twice the weight; and counts under twice the cap."""
    run = Holders.run

    def wrong(self, block, local, sums):
        counted = {"catalogue": np.zeros_like(sums["catalogue"])}
        run(Holders(int(ids * self.max_items), self.max_catalogue), block, local, counted)
        sums["catalogue"] += 2 * counted["catalogue"]

    monkeypatch.setattr(Holders, "run", wrong)
    failed: list[Layer] = []
    with as_finding(failed, 2):
        failed += holders.catalogue(1.0, 1e-5, 0.95, 1).layers
    assert not failed[0].ok
    assert says in failed[0].figure


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--canaries", "100"], "canaries: got 100 scores"),
        (["--confidence", "2"], "confidence"),
        (["--layers", "5"], "--layers"),
        (["--method", "nothing"], "method"),
        (["--method", "bias", "--set", "x=1"], "--set"),
        (["--like", "nowhere"], "release folder"),
        (["--attach"], "--attach: got no --like"),
        (["nowhere.csv"], "ratings file"),
        (["--method", "bias", "--epsilon", "-1"], "epsilon"),
        (["--set", "rank=4"], "--set: got no --method"),
        (["--method", "stream", "--layers", "1"], "--method stream"),
        (["--method", "bias", "--seed", "-1"], "--seed"),
        (["--method", "bias", "--plot", "nowhere/a.svg"], "--plot"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", *arguments]) == 2
    (said,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("lowkey:")]  # beside progress
    assert says in said


def test_only_private_recommenders_are_audited() -> None:
    with pytest.raises(InputError, match="private recommender"):
        lk.audit(lk.ALS())


def test_like_a_release_and_attached_to_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    rows = (rng.random((200, 30)) < 0.2).astype(float)
    domain = lk.Domain(30, feedback="binary", expected_users=200)
    folder = tmp_path / "release"
    lk.DPBias(2.0, 1e-5).fit(lk.Ratings.from_csr(scipy.sparse.csr_array(rows), domain)).release(folder)
    before = (folder / "manifest.json").read_text()
    arguments = ["audit", "--like", str(folder), "--attach", "--canaries", "4000", "--layers", "1,2", "--seed", "1"]
    assert run(arguments) == 0
    assert "of 2.000 claimed" in capfd.readouterr().out
    assert (folder / "manifest.json").read_text() != before
    assert all(check.ok for check in lk.verify(folder))
    for name in ("privacy_report.html", "MODEL_CARD.md", "privacy_report.json"):
        text = (folder / name).read_text()
        assert "A passed audit is no proof" in text
        assert "Layer 2 canaries" in text
