"""Public room: what an attacker can at best achieve against a ledger's posts, in numbers and in words.

The attacker knows everything except which of two neighbouring data sets was used, and tests for it; the bounds are those
of the price (privacy/price.py), and the words those of the unit.
"""

from __future__ import annotations

from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.price import percent
from lowkey.report.contents import Attack, Detection

FALSE_ALARMS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5)


def describe_attack(guarantee: Guarantee) -> Attack:
    price, unit = guarantee.price, guarantee.unit
    wrong, found = unit.accused
    words = (
        f"{unit.coin}. An attacker who sees the release and knows everything else, even all the other data, guesses at "
        f"most {percent(price.best_guess)} of them right on average; tossing the coin again gets 50 %. If the attacker may "
        f"falsely accuse 5 % of {wrong}, at most {percent(price.detected(0.05))} of {found} are found; accusing at random "
        "would find 5 %."
    )
    return Attack(
        best_success=price.best_guess,
        in_words=words,
        detections=tuple(Detection(false_alarms=a, detected=price.detected(a)) for a in FALSE_ALARMS),
        trade_off=price.trade_off,
        gaussian=price.gaussian,
        own_delta=price.own_delta,
        slack=price.slack,
    )
