"""Lab room: what the trace regression paper claims of its rates, and what the rows of ``trace`` say.

Paper: Zha 2024 (DP-RGrad), Theorem 3 and the discussion in section 5. Deviates: the estimator is our sound form.
"""

from __future__ import annotations

from typing import Any

from lowkey_lab.claims import Claim, Outcome
from lowkey_lab.trace import averaged, over_n_and_epsilon, records_against_responses, slopes

Row = dict[str, Any]


def rates(quick: bool) -> Outcome:
    """Error against n, epsilon and the smallest singular value."""
    if quick:
        sizes = over_n_and_epsilon(True, first=1500, steps=4, d=6)
        gap = records_against_responses(True, scales=(0.5, 8.0), n=20_000, d=8)
    else:
        sizes, gap = over_n_and_epsilon(), records_against_responses()
    return Outcome([*slope_claims(sizes), *gap_claims(gap)], {"trace-n-and-epsilon": sizes, "trace-sigma-r": gap})


def slope_claims(rows: list[Row]) -> list[Claim]:
    (statistical, error_1), (privacy, error_2), (in_mu, error_3) = slopes(rows).values()
    return [
        Claim(
            "The statistical error falls like n^(-1/2).",
            f"slope of the non-private error in n: {statistical:.3f} ± {error_1:.3f}",
            abs(statistical + 0.5) < 0.05 + 2.0 * error_1,
            "Theorem 3, u1",
            "like: within 0.05, and two standard errors, of that slope",
        ),
        Claim(
            "The cost of privacy falls like (n epsilon)^(-1), up to logarithms.",
            f"slope of the privacy part in n epsilon: {privacy:.3f} ± {error_2:.3f}; in n mu: {in_mu:.3f} ± {error_3:.3f}",
            abs(privacy + 1.0) < 0.15 + 2.0 * error_2,
            "Theorem 3, u2",
            "like: within 0.15 (logarithms), and two standard errors, of that slope",
        ),
    ]


def gap_claims(rows: list[Row]) -> list[Claim]:
    """How much the error grows from the smallest to the largest sigma_r, the errors' spread being fixed."""
    means = averaged(rows, ("sigma_r", "kind", "protect"), ("error",))
    scales = sorted({row["sigma_r"] for row in rows})

    def growth(kind: str, protect: str) -> float:
        found = {row["sigma_r"]: row["error"] for row in means if (row["kind"], row["protect"]) == (kind, protect)}
        return found[scales[-1]] / found[scales[0]]

    sound, published = growth("sound", "records"), growth("published", "records")
    responses = growth("sound", "responses")
    span = f"from sigma_r = {scales[0]:g} to {scales[-1]:g}"
    return [
        Claim(
            "While the measurements X are private too, the cost of privacy cannot be freed of the factor sigma_r.",
            f"{span} the error grows {sound:.2f}-fold with our falling bounds ({published:.2f}-fold as published)",
            sound > 2.0,
            "section 5",
            "freed: grows less than twofold",
        ),
        Claim(
            "With public X (weak privacy) the factor sigma_r is gone.",
            f"{span} the error grows {responses:.2f}-fold",
            responses < 2.0,
            "Theorem 7",
            "gone: grows less than twofold",
        ),
    ]
