"""No curator to trust: every device flips its likes and dislikes at random before it sends them.

Run: python examples/randomised_at_home.py
"""

import math

import numpy as np
import scipy.sparse

import lowkey as lk

rng = np.random.default_rng(0)
truth = np.outer(rng.choice([-1, 1], 300), rng.choice([-1, 1], 60))  # who likes what
seen = rng.random(truth.shape) < 0.4
epsilon = 2.0

sent = truth[seen].astype(float)
sent[:] = lk.randomize_signs(sent, epsilon)  # on the devices; each like is private from here on
rows = scipy.sparse.csr_array((sent, np.nonzero(seen)), shape=truth.shape)

domain = lk.Domain(60, rating_range=(-1.0, 1.0))
scores = lk.OneBit(flip_probability=1.0 / (1.0 + math.exp(epsilon))).complete(rows, domain=domain)
print(f"signs that were sent right:           {np.mean(sent == truth[seen]):.3f}")
print(f"signs that were never sent, right:    {np.mean(np.sign(scores[~seen]) == truth[~seen]):.3f}")
