"""How the files of format 1 in this folder were written.

They stay as they are: newer versions of this package must read them, so they are not to be
written again.

Run as ``python write_format1.py FOLDER``. Beside each file goes a JSON text with the trees as
nested lists, taken from the collapsed model, and the scores of some rows, added up from them by the
walk below in plain Python.
"""

import json
import sys
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier

from kpp import KPPClassifier, KPPRegressor
from kpp.io import save


def walk(tree, row):
    """Follow a row down a tree of nested lists to the value of its leaf."""
    while len(tree) > 1:
        column, threshold, missing_left, codes_left, left, right = tree
        x = row[column]
        if x is None:
            goes_left = missing_left
        elif codes_left is None:
            goes_left = x <= threshold
        else:
            goes_left = x in codes_left
        tree = left if goes_left else right
    return tree[0]


def added(numbers):
    """Sum in order, rounded at every step; `sum` carries the rounding along from Python 3.12 on."""
    return reduce(add, numbers, 0.0)


def scores(plain):
    """One list per score: the intercept plus the trees, added in order."""
    return [
        [added(walk(tree, row) for tree in trees) + b for row in plain["rows"]]
        for trees, b in zip(plain["trees"], plain["intercept"], strict=True)
    ]


def nested(collapsed, score, v):
    forest = collapsed.forest
    if forest.left[v] < 0:
        return [float(collapsed.node_values[score, v])]
    codes, threshold = None, float(forest.threshold[v])
    if forest.split_kind[v] == 2:
        first, last = forest.category_offsets[v : v + 2]
        words = forest.category_bits[first:last].tolist()
        codes = [c for c in range(32 * len(words)) if words[c // 32] >> c % 32 & 1]
        threshold = None
    children = [nested(collapsed, score, int(c)) for c in (forest.left[v], forest.right[v])]
    return [int(forest.feature[v]), threshold, bool(forest.missing_left[v]), codes, *children]


def write(model, X, folder, name):
    save(model, folder / f"{name}.kpp")
    collapsed = model.collapse()
    # Numbers in the forest's own precision, categories by their codes (here equal to them).
    rows = np.asarray(X, dtype=collapsed.forest.dtype).astype(float)
    plain = {
        "rows": [[None if np.isnan(x) else x for x in row] for row in rows.tolist()],
        "trees": [
            [nested(collapsed, k, int(root)) for root in collapsed.forest.roots]
            for k in range(len(collapsed.intercept))
        ],
        "intercept": collapsed.intercept.tolist(),
    }
    plain["scores"] = scores(plain)
    (folder / f"{name}.json").write_text(json.dumps(plain))


def main(folder):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(24, 2))
    X[::5, 1] = np.nan
    trees = ExtraTreesRegressor(4, max_depth=2, random_state=0)
    regressor = KPPRegressor(trees, cv=2, alphas=[0.1, 1.0], random_state=0)
    write(regressor.fit(X, X[:, 0] + rng.normal(size=24)), X[:8], folder, "format1_regressor")
    X = np.column_stack([rng.integers(0, 3, 60), rng.normal(size=60)])
    y = np.array(["no", "perhaps", "yes"])[np.digitize(X[:, 1] + 5 * (X[:, 0] % 2), [1.0, 5.0])]
    boosted = HistGradientBoostingClassifier(
        max_iter=2, max_leaf_nodes=3, min_samples_leaf=4, categorical_features=[0]
    )
    X[3, 0] = np.nan
    classifier = KPPClassifier(boosted, alpha=0.05).fit(X, y)
    write(classifier, X[:8], folder, "format1_classifier")
    # Two models whose linear layers format 1 does not hold.
    X = rng.normal(size=(24, 2))
    y = X[:, 0] + rng.normal(size=24)
    options = {"cv": 3, "alphas": [0.1, 1.0], "random_state": 0}
    averaged = KPPRegressor(trees, regime="cross-fit", **options).fit(X, y)
    write(averaged, X[:8], folder, "format1_cross_fit")
    save(averaged.collapse(), folder / "format1_collapsed.kpp")
    centred = KPPRegressor(trees, regime="honest", center="partition", **options).fit(X, y)
    write(centred, X[:8], folder, "format1_centred")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
