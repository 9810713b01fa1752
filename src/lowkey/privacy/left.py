"""Gate room: what still fits a total beside what was spent and what fits under way hold: as an epsilon to ask for.

The price of Gaussian posts grows with mu, so the largest mu that fits is found by halving, with the very price that the
ledger refuses by; a plan made for an epsilon has a smaller mu than the epsilon's own, so that what is named here fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lowkey.errors import BudgetError, PlanError
from lowkey.privacy.book import Book
from lowkey.privacy.gaussian import bisect, gaussian_epsilon, gaussian_mu
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.plan import Line
from lowkey.privacy.price import at_most

NUMBERS = 1 << 24  # of a fit that is not known yet: only the resolution of the sampler follows from it
LEAST = 1e-3  # an epsilon below it buys nothing


def fitting_mu(
    book: Book, total: tuple[float, float], held: Sequence[Line] = (), numbers: int = NUMBERS, own_delta: float = 0.0
) -> float:
    """The largest mu of further Gaussian posts, so many numbers in all, beside which the total holds; 0 if none does."""
    epsilon, delta = total

    def fits(mu: float) -> bool:
        try:
            return book.price(delta - own_delta, (*held, Line("more", Gaussian(1.0 / mu), numbers))).epsilon <= epsilon
        except PlanError:  # delta is used up
            return False

    if own_delta >= delta:
        return 0.0
    least, most = gaussian_mu(LEAST / 2.0, delta), gaussian_mu(epsilon, delta)
    return bisect(fits, least, most, 1e-9) if least < most and fits(least) else 0.0


def epsilon_of(mu: float, delta: float) -> float:
    """The epsilon to ask for, four digits rounded down; 0 where it would buy nothing."""
    epsilon = gaussian_epsilon(mu, delta) if mu > 0.0 and delta > 0.0 else 0.0
    if epsilon < LEAST:
        return 0.0
    digits = 10.0 ** (3 - math.floor(math.log10(epsilon)))
    return math.floor(epsilon * (1.0 - 1e-7) * digits) / digits


def too_much(book: Book, more: Sequence[Line], held: Sequence[Line], delta: float | None, place: object) -> BudgetError:
    """What a spend is refused with: what would fit in its place, for the delta that was asked for."""
    assert book.total is not None
    epsilon, of_total = book.total
    numbers = max(1, sum(line.times * line.size for line in more))
    own = sum(line.times * line.mechanism.own_delta for line in more)
    asked = of_total if delta is None else delta
    fits = epsilon_of(fitting_mu(book, book.total, held, numbers, own), asked - own)
    where = "" if place is None else f" lowkey ledger plan {place} divides it;"
    return BudgetError(
        what=f"the budget of these people {'would be' if fits else 'is'} used up",
        got=f"{at_most(book.price(of_total).epsilon, 4)} of epsilon = {epsilon:g} spent at delta = {of_total:g}"
        + (", fits that are under way" if held else "")
        + ", and this needs more than is left",
        needed=f"at most epsilon = {fits:g} at delta = {asked:g}" if fits else "nothing more on this ledger",
        try_=(f"epsilon={fits:g}, which fits;{where}" if fits else "what was released, which may be used for ever;")
        + " what has been spent can't be bought back",
    )
