"""Lab room: DPFactors with each lever switched off once: ``python -m lowkey.bench.factors --data ml-1m --epsilon 1``.

The levers that have no switch are the method's shape: bias first, one shared second-moment matrix, joint clipping.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from lowkey.bench import compare

SWITCHES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "exact items' side (noise_aware=False)": {"noise_aware": False},
    "equal weights (weight_power=0)": {"weight_power": 0.0},
    "last round alone (averaged=1)": {"averaged": 1},
    "first bound for all (falling_bound=False)": {"falling_bound": False},
    "half the rounds (n_iter=4)": {"n_iter": 4},
    "rank 20, whatever the noise": {"rank": 20},
}


def ablation(data: str, epsilons: list[float], draws: int) -> list[list[str]]:
    """Rows of text: the switch, then mean RMSE and its standard error at every epsilon."""
    lines = [["DPFactors", *(f"eps {e:g}" for e in epsilons)]]
    todo = {name: compare.tasks(data, ["factors"], epsilons, draws, {"factors": s}) for name, s in SWITCHES.items()}
    todo["DPBias"] = compare.tasks(data, ["bias"], epsilons, draws)
    rows = compare.run([task for tasks in todo.values() for task in tasks])
    at = 0
    for name, tasks in todo.items():
        mine = rows[at : at + len(tasks)]
        at += len(tasks)
        lines.append([name, *(_cell([row["rmse"] for row in mine if row["epsilon"] == e]) for e in epsilons)])
    return lines


def _cell(values: list[float]) -> str:
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--draws", type=int, default=2)
    given = parser.parse_args()
    for line in ablation(given.data, given.epsilon, given.draws):
        print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
