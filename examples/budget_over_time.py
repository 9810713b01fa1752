"""Several releases about the same people share one budget, and the ledger refuses the one too many.

Run: python examples/budget_over_time.py
"""

from pathlib import Path
from tempfile import mkdtemp

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.errors import BudgetError

ratings = taste(3000, 100, 30, seed=2).ratings()
ledger = Path(mkdtemp()) / "people.jsonl"
total = (2.0, 1e-6)

for week in range(1, 10):
    board = lk.Billboard(lk.Ledger(ledger, total=total))  # the file remembers what earlier weeks spent
    try:
        lk.DPBias(epsilon=0.8, delta=1e-6).fit(ratings, billboard=board)
    except BudgetError as error:
        print(f"week {week}: {error}")
        break
    print(f"week {week}: epsilon is now {board.ledger.guarantee().epsilon:.3f} of {total[0]:g}")
