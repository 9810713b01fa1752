"""Each printed algorithm against a second implementation, written from the paper's text in loops, that shares no code.

Both see the same random numbers: a tape records what the first one draws. Agreement is to 1e-9 of the result's size; the
sizes, weights, ranks and samples are uneven, so that a transposed matrix or a forgotten weight shows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.special
import scipy.stats

from lowkey_lab.dpals_table4 import ML_10M, ML_10M_DELTA
from lowkey_lab.printed import dpals, dpfw, dplmc, dprgrad, one_bit


class Tape:
    """A generator that keeps every array it gave."""

    def __init__(self, seed: int) -> None:
        self.rng, self.kept = np.random.default_rng(seed), list[Any]()

    def __getattr__(self, name: str) -> Any:
        def drawn(*args: Any, **kwargs: Any) -> Any:
            self.kept.append(getattr(self.rng, name)(*args, **kwargs))
            return self.kept[-1]

        return drawn


def close(a: Any, b: Any) -> None:
    assert np.abs(np.asarray(a) - b).max() <= 1e-9 * np.abs(b).max()


def uneven_rows(seed: int, n_users: int = 60, n_items: int = 23, most: int = 20) -> Any:
    """Rows of 0 to ``most`` ratings, items of uneven popularity."""
    rng = np.random.default_rng(seed)
    chance = rng.dirichlet(np.full(n_items, 0.8)) * 0.5 + 0.5 / n_items
    rows = scipy.sparse.lil_array((n_users, n_items))
    for i in range(n_users):
        for j in rng.choice(n_items, rng.integers(0, most + 1), replace=False, p=chance):
            rows[i, j] = rng.normal()
    return rows.tocsr()


# DPALS ------------------------------------------------------------------------------------------------------------------
def dpals_by_hand(rows: Any, s: dpals.Settings, tape: list[Any]) -> Any:
    """Algorithms 3 and 1 in dictionaries and loops; ``tape`` holds the draws in the order of the text."""
    m, k, r = rows.shape[1], s.max_ratings, s.rank
    people = [dict(zip(rows[[i]].indices, np.clip(rows[[i]].data, -s.entry_bound, s.entry_bound), strict=True))
              for i in range(rows.shape[0])]  # fmt: skip
    draws = iter(tape)

    def some(of: list[dict[int, float]]) -> list[dict[int, float]]:
        order = iter(next(draws))
        out = []
        for person in of:
            keys = {j: next(order) for j in person}
            kept = sorted(keys, key=lambda j: keys[j])[:k]
            out.append({j: person[j] for j in sorted(kept)})
        return out

    def counted(of: list[dict[int, float]]) -> Any:
        return np.array([sum(j in person for person in of) for j in range(m)]) + s.sigma_pre * next(draws)

    mean, weights, frequent = 0.0, np.ones(m), set(range(m))
    if s.sigma_pre is not None:
        counts = counted(some(people))
        frequent = set(sorted(range(m), key=lambda j: -counts[j])[: math.ceil(s.frequent * m)])
        people = [{j: person[j] for j in sorted(sorted(set(person) & frequent, key=lambda j: counts[j])[:k])}
                  for person in people]  # fmt: skip
        counts = counted(people)
        if not s.unobserved:
            total = sum(sum(person.values()) for person in people) + s.entry_bound * math.sqrt(k) * s.sigma_pre * next(
                draws
            )
            mean = total / (sum(map(len, people)) + math.sqrt(k) * s.sigma_pre * next(draws))
            people = [{j: value - mean for j, value in person.items()} for person in people]
        weights = np.maximum(counts, 1.0) ** s.item_exponent
        weights = weights / (weights.sum() / m)
    z = sum(max(len(person), 1) ** s.user_exponent for person in people) / len(people)
    v = next(draws)
    if s.orthonormal:
        v = v @ np.real(scipy.linalg.sqrtm(np.linalg.inv(v.T @ v)))
    v = np.array([v[j] if j in frequent else np.zeros(r) for j in range(m)])
    sampled = people if s.sigma_pre is not None else some(people)
    for _ in range(s.n_iter):
        u = []
        for person in people:
            a = s.ridge * max(len(person), 1) ** s.user_exponent / z * np.eye(r) + s.unobserved * v.T @ v
            b = np.zeros(r)
            for j, value in person.items():
                a, b = a + np.outer(v[j], v[j]), b + value * v[j]
            x = np.linalg.inv(a) @ b
            u.append(x * min(1.0, s.factor_norm / max(np.linalg.norm(x), 1e-300)))
        noise_g = next(draws)
        noise_k = next(draws) if s.unobserved else None
        noise_b = next(draws)
        new = np.zeros((m, r))
        for j in range(m):
            g = np.triu(noise_g[j])
            ridge = s.ridge * weights[j] * np.eye(r)
            x = (0.0 if s.ridge_last else ridge) + s.factor_norm**2 * s.sigma_gram * (g + g.T - np.diag(np.diag(g)))
            y = s.factor_norm * s.entry_bound * s.sigma_rhs * noise_b[j]
            if noise_k is not None:
                g = np.triu(noise_k[0])
                whole = sum(np.outer(one, one) for one in u)
                mirrored = g + g.T - np.diag(np.diag(g))
                x = x + s.unobserved * (whole + s.factor_norm**2 * s.sigma_unobserved * mirrored)
            for i, person in enumerate(sampled):
                if j in person:
                    x, y = x + np.outer(u[i], u[i]), y + person[j] * u[i]
            values, vectors = np.linalg.eigh(x)
            positive = vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T + (ridge if s.ridge_last else 0.0)
            new[j] = np.linalg.pinv(positive, rcond=1e-10) @ y if j in frequent else 0.0
        v = new @ np.real(scipy.linalg.sqrtm(np.linalg.inv(new.T @ new))) if s.orthonormal else new
    return v


PLAIN = dpals.Settings(3, 2, 4, 0.7, 1.3, 0.9, factor_norm=0.8, entry_bound=1.5)
RATINGS = dpals.Settings(3, 2, 5, 0.7, 1.3, 0.9, 0.8, 1.5, False, False, 0.5, 1.0, sigma_pre=1.7, frequent=0.6)
LISTS = replace(RATINGS, unobserved=0.3, sigma_unobserved=2.0)
FORMS = {
    "Algorithm 1": PLAIN,
    "Algorithms 1 and 3": RATINGS,
    "loss (35) with lambda_0": LISTS,
    "ridge last": replace(RATINGS, ridge_last=True),
}


@pytest.mark.parametrize("settings", FORMS.values(), ids=FORMS)
def test_dpals_is_what_the_text_says(settings: dpals.Settings) -> None:
    rows, tape = uneven_rows(1), Tape(2)
    model = dpals.fit(rows, settings, tape)  # pyright: ignore[reportArgumentType]
    close(model.items, dpals_by_hand(rows, settings, tape.kept))


class TwoStreams:
    """Noise from one generator and lots from another, so that the noise is the same however many ratings draw lots."""

    def __init__(self) -> None:
        self.standard_normal = np.random.default_rng(3).standard_normal
        self.random = np.random.default_rng(4).random


@pytest.mark.parametrize("settings", [RATINGS, LISTS], ids=["ratings", "lists"])
def test_a_row_that_stands_for_three_users_is_three_rows(settings: dpals.Settings) -> None:
    rows, s = uneven_rows(1), replace(settings, max_ratings=23)  # nothing is left out by lot
    once: Any = dpals.fit(rows, replace(s, copies=3.0), TwoStreams())  # pyright: ignore[reportArgumentType]
    stacked = scipy.sparse.csr_array(scipy.sparse.vstack([rows] * 3))
    thrice: Any = dpals.fit(stacked, s, TwoStreams())  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(once.items, thrice.items, rtol=1e-6, atol=1e-9)
    assert once.mean == pytest.approx(thrice.mean)


def test_the_power_start_fails_as_printed_and_is_tried_again() -> None:
    rows, tape = uneven_rows(3), Tape(4)
    w = dpals.power_start(rows, 3, 99.0, 0.5, tape)  # pyright: ignore[reportArgumentType]
    first, *noise = tape.kept
    by_hand, gram = first / np.linalg.norm(first), rows.toarray().T @ rows.toarray()
    for step in noise:
        by_hand = gram @ by_hand + 0.5 * step
        by_hand = by_hand / np.linalg.norm(by_hand)
    close(w, by_hand)
    assert dpals.power_start(rows, 3, 1.0, 0.5, np.random.default_rng(0)) is None  # nothing is that incoherent
    with pytest.raises(ArithmeticError, match="no start within 3 tries"):
        dpals.retried(rows, 3, 1.0, 0.5, np.random.default_rng(0), tries=3)


def test_the_guarantees_of_table_4() -> None:
    """By the paper's own formulas 1.001, 5.008, 10.041, 19.824; with the mean priced 0.833, 4.740, 10.155, 18.667."""
    found = []
    for column in ML_10M:
        s = dpals.Settings(column.rank, column.n_iter, column.max_ratings, column.reg, column.gram_noise,
                           column.rhs_noise, sigma_pre=column.preprocessing_noise)  # fmt: skip
        found.append(dpals.held(s, ML_10M_DELTA))
    assert [round(one.claimed, 3) for one in found] == [1.001, 5.008, 10.041, 19.824]
    assert [round(one.epsilon, 3) for one in found] == [0.833, 4.740, 10.155, 18.667]
    leaking = dpals.Settings(3, 2, 5, 1.0, 9.0, 9.0, user_exponent=1.0)
    assert dpals.held(leaking, 1e-5).word == "refuted"
    assert math.isinf(dpals.held(leaking, 1e-5).epsilon)


# Private Frank-Wolfe ----------------------------------------------------------------------------------------------------
def test_frank_wolfe_is_what_the_text_says() -> None:
    rows, tape = uneven_rows(5), Tape(6)
    s = dpfw.Settings(4, 2.0, 9.0, 0.8, failure=0.2)
    ours = dpfw.frank_wolfe(rows, s, tape)  # pyright: ignore[reportArgumentType]
    dense, seen = rows.toarray(), rows.toarray() != 0
    n_users, n_items = dense.shape
    norms = np.linalg.norm(dense, axis=1)
    dense = np.array(
        [row if norm <= s.row_norm else row * s.row_norm / norm for row, norm in zip(dense, norms, strict=True)]
    )
    y, v, value, noise = np.zeros_like(dense), np.zeros(n_items), 0.0, iter(tape.kept)
    for t in range(1, s.n_iter + 1):
        biased = value + np.sqrt(s.sigma * np.log(n_items / 0.2) * np.sqrt(n_items))
        w = np.zeros((n_items, n_items))
        for i in range(n_users):
            a = np.where(seen[i], y[i] - dense[i], 0.0)
            new = (1 - 1 / s.n_iter) * y[i] - s.nuclear_norm / s.n_iter * (a @ v / biased) * v
            size = np.linalg.norm(new[seen[i]])
            y[i] = s.row_norm * new / size if size >= s.row_norm else new
            a = np.where(seen[i], y[i] - dense[i], 0.0)
            w += np.outer(a, a)
        if t < s.n_iter:
            w = w + s.sigma * next(noise)
            _, values, right = np.linalg.svd(w)
            v, value = right[0], np.sqrt(values[0])
    close(ours.rows(), y)


def test_private_svd_is_what_the_text_says_and_what_it_costs() -> None:
    rows, tape = uneven_rows(7), Tape(8)
    ours = dpfw.private_svd(rows, 4, 1.5, 0.6, tape)  # pyright: ignore[reportArgumentType]
    w = 0.6 * tape.kept[0]
    for row in rows.toarray():
        row = row * min(1.0, 1.5 / max(np.linalg.norm(row), 1e-300))
        w = w + np.outer(row, row)
    top = scipy.linalg.svd(w)[2][:4]
    close(ours.rows(), rows.shape[0] * rows.shape[1] / rows.nnz * rows.toarray() @ top.T @ top)
    # printed noise at T = 1 is worth mu = epsilon/sqrt(64 log(1/delta)); with T rounds, at most twice that and less
    sigma = dpfw.printed_sigma(2.0, 1e-6, 3.0, 12)
    mu = dpfw.frank_wolfe_mu(12, 3.0, sigma)
    assert mu == pytest.approx(2.0 * math.sqrt(161.0 / (64.0 * 12 * math.log(1e6))))
    assert dpfw.frank_wolfe_held(dpfw.Settings(12, 3.0, 1.0, sigma), 1e-6, 2.0).epsilon < 2.0


# DPLMC ------------------------------------------------------------------------------------------------------------------
def test_dplmc_is_what_the_text_says() -> None:
    rng, tape = np.random.default_rng(9), Tape(10)
    m, n, r = 40, 17, 3
    y = rng.normal(size=(m, r)) @ rng.normal(size=(r, n)) + 0.1 * rng.normal(size=(m, n))
    seen = (rng.random((m, n)) < 0.6).astype(float)
    began = dplmc.private_start(y, seen, r, 2.5, 0.9, 0.7, tape)  # pyright: ignore[reportArgumentType]
    s = dplmc.Settings(r, 3, 0.01, 1.2, 1.4, 2.0, 0.3, 0.4)
    ours = dplmc.descent(y, seen, began, s, tape)  # pyright: ignore[reportArgumentType]

    p = seen.sum() / (m * n)
    cut = np.array([seen[i] * y[i] * min(1.0, 2.5 / np.linalg.norm(seen[i] * y[i])) for i in range(m)])
    mirrored = lambda noise: np.triu(noise[0]) + np.triu(noise[0], 1).T
    a = sum(0.9**2 * np.outer(row, row) / p**2 for row in cut) + 0.7 * mirrored(tape.kept[0])
    left, values, _ = np.linalg.svd(a)
    v, u = left[:, :r] * np.sqrt(values[:r]), np.array([0.9 * row @ left[:, :r] / np.sqrt(values[:r]) / p for row in cut])
    close(began.users @ began.items.T, u @ v.T)  # singular vectors have no signs
    u, v = began
    draws = iter(tape.kept[1:])
    for _ in range(s.n_iter):
        first, second = mirrored(next(draws)), next(draws)
        o = np.array([seen[i] * (v @ u[i] - y[i]) for i in range(m)])
        capped = np.array([row * min(1.0, 2.0 / np.linalg.norm(row)) for row in o])
        balance = sum(np.outer(x, x) for x in u) - v.T @ v + 0.3 * first
        step = sum(np.outer(capped[i], u[i]) for i in range(m)) + 0.4 * second
        new = v - 0.01 / p * step + 0.005 * v @ balance
        new = np.array([x * min(1.0, 1.4 / np.linalg.norm(x)) for x in new])
        u = np.array([u[i] - 0.01 / p * o[i] @ v - 0.005 * u[i] @ balance for i in range(m)])
        u, v = np.array([x * min(1.0, 1.2 / np.linalg.norm(x)) for x in u]), new
    close(ours.users, u)
    close(ours.items, v)


def test_dplmcs_noise_is_worth_what_the_notes_say() -> None:
    """mu^2 = epsilon^2/(4(ln(1/delta) + epsilon)) for replaced users, whatever T and omega are."""
    for epsilon, n_iter, balance in ((2.0, 10, 0.05), (20.0, 60, 0.7)):
        noise = dplmc.printed_noise(epsilon, 1e-5, n_iter, balance, 3.0, 9.0)
        s = dplmc.Settings(5, n_iter, 0.1, 3.0, 3.0, 9.0, *noise)
        replaced = math.sqrt(n_iter * (2.0 * (9.0 / noise[0]) ** 2 + 4.0 * (27.0 / noise[1]) ** 2))
        assert replaced**2 == pytest.approx(epsilon**2 / (4.0 * (math.log(1e5) + epsilon)))
        assert dplmc.descent_mu(s) <= replaced
        assert dplmc.held(s, 1e-5, epsilon).epsilon < epsilon
        assert dplmc.held(s, 1e-5, epsilon, start_mu=0.1).word == "none proven"


# One-bit completion -----------------------------------------------------------------------------------------------------
def some_signs(link: str) -> one_bit.Signs:
    rng = np.random.default_rng(11)
    shape = (14, 9)
    truth = np.outer(rng.uniform(-1, 1, 14), rng.uniform(-1, 1, 9))
    cells = np.sort(rng.choice(126, 80, replace=False))
    chance = scipy.special.expit if link == "logistic" else scipy.special.ndtr
    values = np.where(rng.random(80) < chance(truth.ravel()[cells]), 1.0, -1.0)
    return one_bit.Signs(shape, cells, values, 5.0, 0.8, link, tol=1e-6, max_iter=3000)


def reference(data: one_bit.Signs, loss: Any) -> float:
    """The least loss over |X|_* <= radius and |X|_inf <= bound by another solver: projections by Dykstra, plain steps."""
    x, step = np.zeros(data.shape), 2.0

    def projected(target: Any) -> Any:
        point, ball, box = target, np.zeros(data.shape), np.zeros(data.shape)
        for _ in range(200):
            left, values, right = np.linalg.svd(point + ball, full_matrices=False)
            if values.sum() > data.radius:
                rest = (np.cumsum(values) - data.radius) / np.arange(1, len(values) + 1)
                values = np.maximum(values - rest[values > rest][-1], 0.0)
            inside = (left * values) @ right
            ball = point + ball - inside
            point = np.clip(inside + box, -data.bound, data.bound)
            box = inside + box - point
        return point

    for _ in range(300):
        slope = np.zeros(x.size)
        at = x.ravel()[data.cells]
        slope[data.cells] = (loss(at + 1e-6) - loss(at - 1e-6)) / 2e-6
        x = projected(x - step * slope.reshape(x.shape))
    return float(loss(x.ravel()[data.cells]).sum())


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("perturbation", ["input", "objective"])
def test_one_bits_optimum_is_the_texts(link: str, perturbation: str) -> None:
    data, tape = some_signs(link), Tape(12)
    log = (lambda x: -np.log1p(np.exp(-x))) if link == "logistic" else scipy.special.log_ndtr
    chance = scipy.special.expit if link == "logistic" else scipy.special.ndtr
    if perturbation == "input":
        ours = one_bit.input_perturbation(data, 1.3, tape)  # pyright: ignore[reportArgumentType]
        p = 1.0 / (1.0 + math.exp(1.3))
        signs = np.where(tape.kept[0] < p, -data.values, data.values)
        c = lambda x: chance(x) * (1 - p) + (1 - chance(x)) * p
        loss = lambda x: -0.5 * ((1 + signs) * np.log(c(x)) + (1 - signs) * np.log(1 - c(x)))
    else:
        ours = one_bit.objective_perturbation(data, 2.0, tape)  # pyright: ignore[reportArgumentType]
        y = data.values
        loss = lambda x: -0.5 * ((1 + y) * log(x) + (1 - y) * log(-x) + tape.kept[0] * x)
    values = np.linalg.svd(ours, compute_uv=False)
    assert values.sum() <= data.radius * 1.001
    assert np.abs(ours).max() <= data.bound * 1.001
    found, least = float(loss(ours.ravel()[data.cells]).sum()), reference(data, loss)
    assert found == pytest.approx(least, rel=1e-3)


def test_output_and_gradient_perturbation_have_the_printed_noise() -> None:
    data, tape = some_signs("logistic"), Tape(13)
    noisy = one_bit.output_perturbation(data, 1.5, tape)  # pyright: ignore[reportArgumentType]
    close(noisy - tape.kept[0], one_bit.completion(data))
    assert np.median(np.abs(tape.kept[0])) == pytest.approx(2 * 0.8 / 1.5 * math.log(2), rel=0.4)  # 126 draws, 4 errors
    # one step from 0 in a set that binds nowhere: x = -step * (clamped gradient + noise), and |h'/h| = 1/2 at 0
    wide, tape = replace(some_signs("logistic"), radius=1e4, bound=1e3), Tape(14)
    x = one_bit.gradient_perturbation(wide, 500.0, 1, tape)  # pyright: ignore[reportArgumentType]
    step = 4.0 * 126 / 80  # 1 over the largest curvature 1/4, over the share observed
    expected = -step * (-wide.values / 2.0 + tape.kept[0])
    close(x.ravel()[wide.cells], expected)
    assert one_bit.held("objective", "logistic", 1.5).epsilon == 3.0
    assert [one_bit.held(p, "probit", 1.0).word for p in ("input", "objective", "gradient", "output")] == [
        "proven", "none proven", "proven", "refuted"]  # fmt: skip


def test_output_perturbation_is_refuted_by_an_attack() -> None:
    """All like all; of the last user one sign is known, on which the whole row hangs. Does that row sum to more than 0?

    Of 4,000 releases each way; the bounds on both chances fail together once in 10^4 runs, and then by luck alone.
    """
    side, draws, epsilon = 20, 4_000, 1.0
    seen = np.ones((side, side), bool)
    seen[-1, 1:] = False
    counts = []
    for last in (1.0, -1.0):
        signs = np.ones((side, side))
        signs[-1, 0] = last
        cells = np.flatnonzero(seen)
        given = one_bit.Signs((side, side), cells, signs.ravel()[cells], float(side), 1.0, "logistic", 1e-5)
        minimiser, rng = one_bit.completion(given), np.random.default_rng(int(last) + 2)
        rows = [one_bit.output_perturbation(given, epsilon, rng, minimiser)[-1].sum() > 0.0 for _ in range(draws)]
        counts.append(sum(rows))
    low = scipy.stats.beta.ppf(5e-5, counts[0], draws - counts[0] + 1)
    high = scipy.stats.beta.ppf(1 - 5e-5, counts[1] + 1, draws - counts[1])
    assert math.log(low / high) > epsilon
    assert one_bit.held("output", "logistic", epsilon).word == "refuted"


# Trace regression -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("least", [1.69, 0.4], ids=["equal covariances", "unequal covariances"])
def test_dprgrad_is_what_the_text_says(least: float) -> None:
    rng, tape = np.random.default_rng(15), Tape(16)
    n, d1, d2, r = 90, 7, 5, 2
    truth = rng.normal(size=(d1, r)) @ rng.normal(size=(r, d2))
    covariances = [np.diag(rng.permutation(np.linspace(least, 1.69, d1 * d2))) for _ in range(n)]
    x = np.array([(np.sqrt(c) @ rng.normal(size=d1 * d2)).reshape(d1, d2) for c in covariances])
    white = np.array([np.linalg.solve(c, one.ravel()).reshape(d1, d2) for c, one in zip(covariances, x, strict=True)])
    y = np.array([np.sum(one * truth) for one in x]) + 0.2 * rng.normal(size=n)
    s = dprgrad.Settings(r, 3.0, 1e-4, 4.0, 1.5, 0.2, covariance=1.69, least=least)
    path = dprgrad.fit(x, y, s, tape, None if least == 1.69 else white)  # pyright: ignore[reportArgumentType]

    rounds = math.ceil(math.log(n))
    whole = sum(y[i] * np.linalg.solve(covariances[i], x[i].ravel()).reshape(d1, d2) for i in range(n)) / n
    left, _, right = np.linalg.svd(whole)
    second = math.sqrt(1 / least) * (math.sqrt(1.69 * r) * 4.0 + 0.2) * math.sqrt(r) / n * math.log(n)
    third = math.sqrt(18 / 3.0**2 * math.log(3 / 1e-4))
    mirrored = lambda noise: np.triu(noise[0]) + np.triu(noise[0], 1).T
    noisy = [
        b @ b.T + second / 1.5 * third * mirrored(e) for b, e in ((left[:, :r], tape.kept[0]), (right[:r].T, tape.kept[1]))
    ]
    u, v = (np.linalg.svd(one)[0][:, :r] for one in noisy)
    # a rotation of u and v would turn the core's noise too, so compare the part that the noise leaves alone
    projected = u @ u.T @ whole @ v @ v.T
    core = tape.kept[2]
    assert np.linalg.norm(path[0] - projected) == pytest.approx(second * third * np.linalg.norm(mirrored(core)))
    m = path[0]
    delta_l = 0.5 / n * (0.2 + 1.5 * 1.3) * math.sqrt(1.69 * r * (d1 + d2) * math.log(n))
    spread = math.sqrt(2 * delta_l**2 * rounds**2 / 3.0**2 * math.log(1.25 * rounds / 1e-4))
    for noise in tape.kept[3:]:
        u, values, vt = np.linalg.svd(m)
        pu, pv = u[:, :r] @ u[:, :r].T, vt[:r].T @ vt[:r]
        g = sum((np.sum(x[i] * m) - y[i]) * x[i] for i in range(n)) / n
        flat = lambda a, pu=pu, pv=pv: pu @ a + a @ pv - pu @ a @ pv
        u, values, vt = np.linalg.svd(m - 0.5 * flat(g) + flat(spread * noise))
        m = u[:, :r] @ np.diag(values[:r]) @ vt[:r]
    assert len(path) == rounds + 1 == len(tape.kept) - 2
    close(path[-1], m)
    assert dprgrad.held(s).word == "refuted"


def test_copies_of_every_user_with_as_much_more_noise_are_the_same_frank_wolfe() -> None:
    """The synthetic set of Figure 2 rests on it: c copies, c times the noise, sqrt(c) times the nuclear norm."""
    rng = np.random.default_rng(3)
    dense = rng.standard_normal((60, 9)) * (rng.random((60, 9)) < 0.6)
    once = scipy.sparse.csr_array(dense)
    four = scipy.sparse.csr_array(np.vstack([dense] * 4))
    few = dpfw.frank_wolfe(once, dpfw.Settings(6, 2.0, 5.0, 3.0), np.random.default_rng(0))
    many = dpfw.frank_wolfe(four, dpfw.Settings(6, 2.0, 10.0, 12.0), np.random.default_rng(0))
    np.testing.assert_allclose(many.rows(slice(0, 60)), few.rows(), atol=1e-9)
