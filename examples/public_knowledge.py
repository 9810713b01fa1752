"""Public ratings and features as a free prior, and films that nobody rated. Run: python examples/public_knowledge.py"""

import numpy as np
import pyarrow as pa

import lowkey as lk

rng = np.random.default_rng(1)
kinds = np.array(["comedy", "drama", "noir"])[rng.integers(0, 3, 120)]
effects = np.where(kinds == "noir", 0.8, -0.2) + rng.normal(0.0, 0.2, 120)  # a made-up world likes noir


def people(number: int, first: int) -> pa.Table:
    who, what = np.nonzero(rng.random((number, 120)) < 0.3)
    stars = np.clip(3.0 + effects[what] + rng.normal(0.0, 0.8, len(what)), 1.0, 5.0)
    return pa.table({"user": who + first, "film": what, "stars": stars})


columns = {"user": "user", "item": "film", "rating": "stars"}
domain = lk.Domain(120, (1.0, 5.0), expected_users=1000)
ratings = lk.from_frame(people(1000, 0), domain, **columns)
features = pa.table({"film": range(120), "kind": kinds})
public = lk.Public(ratings=people(100, 5000), features=features, **columns)  # a hundred gave theirs openly

model = lk.DPFactors(epsilon=1.0, delta=1e-6).fit(ratings, public=public)
print(model.guarantee_)

more = model.add_items([1000, 1001], pa.table({"kind": ["noir", "drama"]}))
print("two new films, expected:", np.round(more.predict({0: 3.0}, [1000, 1001]), 2))
print("at most two of ten are new:", more.recommend({0: 3.0}, n=10, new_share=0.2)[0])
