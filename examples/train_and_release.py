"""From a crowd's ratings to a folder that may be published. Run: python examples/train_and_release.py"""

from pathlib import Path
from tempfile import mkdtemp

import lowkey as lk
from lowkey.data.synthetic import taste

crowd = taste(5000, 200, 40, seed=1)  # made-up film fans; lk.read_ratings reads your own file
ratings = crowd.ratings()
films = crowd.facts["items"]

model = lk.DPMoments(epsilon=1.0, delta=1e-6).fit(ratings)
print(model.guarantee_)

folder = model.release(Path(mkdtemp()) / "release")
print("everything checks:", all(check.ok for check in lk.verify(folder)))

again = lk.load(folder)
names, scores = again.recommend({films[0]: 5.0, films[1]: 1.0}, n=3)
for name, score in zip(names, scores, strict=True):
    print(f"{score:.2f}  {name}")
