"""Monitor drift: are this month's rows still like those of the fit, and what does it change?

A model is fitted on rows of a built-in data set, and asked about two samples of new rows: one like
the old ones, and one of heavier patients whose blood pressure is often not recorded.
Run: ``python examples/monitor_drift.py [PICTURE]``; a picture needs the extra ``plot``.
"""

import sys

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.utils import shuffle

from kpp import KPPRegressor, check_data, drift


def main(picture=None):
    """Print what a monitor would tell, month by month."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X, y = shuffle(X, y, random_state=0)
    print("The table of the fit:", check_data(X, y).codes or "no findings")

    # Rows that the fit does not use are the reference: with them the test is exact.
    fitted, held_out, april, may = X[:220], X[220:300], X[300:370], X[370:].copy()
    forest = {"n_estimators": 50, "alpha": 1.0, "random_state": 0}
    model = KPPRegressor("random-forest", **forest).fit(fitted, y[:220])

    may["bmi"] += 4.0
    may.loc[may.index[::4], "bp"] = np.nan

    for month, rows in (("April", april), ("May", may)):
        found = drift(model, rows, held_out)
        print(f"\n{month}: {found}")
    if picture is not None:
        found.plot().figure_.savefig(picture, dpi=150)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:2])
