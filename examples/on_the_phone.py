"""What an app does with a release: the history stays on the device, the item side came with the app.

Run: python examples/on_the_phone.py
"""

import numpy as np

import lowkey as lk
from lowkey.data.synthetic import taste

crowd = taste(5000, 200, 40, seed=3)
films = crowd.facts["items"]
shipped = lk.DPFactors(epsilon=2.0, delta=1e-6).fit(crowd.ratings()).model_

mine = {films[3]: 5.0, films[17]: 4.5, films[42]: 1.0}
user_vector = shipped.transform(shipped.histories(mine))[0]  # a small ridge regression, on the device

# The same ranking without lowkey: an inner product with each item's vector.
vectors = shipped.item_vectors()
scores = vectors @ np.append(user_vector, 1.0)
scores[shipped.domain.positions(list(mine))] = -np.inf
print([films[i] for i in np.argsort(-scores)[:3]])
print(list(shipped.recommend(mine, n=3)[0]))
