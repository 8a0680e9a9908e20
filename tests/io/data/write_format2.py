"""How the files of format 2 in this folder were written.

They stay as they are: newer versions of this package must read them, so they are not to be
written again.

Run as ``python write_format2.py FOLDER``. Beside each file goes what `write_format1` puts there,
the coefficients, intercepts and rows of all linear layers, and what the bare ensemble predicts.
"""

import json
import sys
from pathlib import Path

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingClassifier

from kpp import KPPClassifier, KPPRegressor


def layers_of(fits):
    """Linear layers as plain numbers; None where there are none."""
    if fits is None:
        return None
    return [
        {
            "node_coef": fit.node_coef.tolist(),
            "intercept": fit.intercept.tolist(),
            "rows": fit.rows.tolist(),
            "alpha": fit.alpha,
        }
        for fit in fits
    ]


def write(model, X, folder, name):
    from write_format1 import write as write_plain  # beside this script

    write_plain(model, X, folder, name)
    path = folder / f"{name}.json"
    plain = json.loads(path.read_text())
    plain["fits"], plain["fold_fits"] = layers_of(model.fits_), layers_of(model.fold_fits_)
    first = model.forest_[0][1] if isinstance(model.forest_, list) else model.forest_
    plain["bare"] = first.bare_scores(X).tolist()
    path.write_text(json.dumps(plain))


def main(folder):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(24, 2))
    y = X[:, 0] + rng.normal(size=24)
    trees = ExtraTreesRegressor(4, max_depth=2, random_state=0)
    options = {"alphas": [0.1, 1.0], "random_state": 0}
    write(KPPRegressor(trees, cv=2, **options).fit(X, y), X[:8], folder, "format2_regressor")
    averaged = KPPRegressor(trees, regime="cross-fit", cv=3, **options).fit(X, y)
    write(averaged, X[:8], folder, "format2_cross_fit")
    centred = KPPRegressor(trees, regime="honest", center="partition", cv=2, **options).fit(X, y)
    write(centred, X[:8], folder, "format2_centred")
    # Groups of trees with weights of their own, and a score for each class.
    boosted = GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0)
    labels = np.array(["no", "perhaps", "yes"])[np.digitize(X[:, 1], [-0.5, 0.5])]
    classifier = KPPClassifier(boosted, cv=2, alphas=[0.01, 0.1], random_state=0).fit(X, labels)
    write(classifier, X[:8], folder, "format2_classifier")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
