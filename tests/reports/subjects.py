"""Small fitted models of every kind with test rows, each made once."""

from functools import cache

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPClassifier, KPPRegressor
from kpp.reports import report_data

SMALL = {"n_estimators": 10, "random_state": 0}
MAX_ROWS = 6

# What files of strangers hold: as names of columns, of classes, and as values.
HOSTILE = [
    "<script>alert('name')</script>",
    "</script><script>alert('end')</script>",
    "<img src=x onerror=alert('image')>",
    "\"' onmouseover=alert('attribute') x='",
    "{{7*7}}{% raw %}",
    "javascript:alert('link')",
    "<!-- <script>",
    "]]>&amp;&lt;b&gt;",
    "\u202eright to left\u202c \u2066x",
    "line\u2028separator\u2029\x00\x07\n\ttabs",
    "long " + 400 * "x",
    "👩‍👩‍👧 emoji \U0001f9ea",
    "${alert('template')}`",
    "",
]


def hostile_frame(n_rows=60, seed=0):
    """Columns and values that try to become markup, beside numbers that are not finite."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({name: rng.normal(size=n_rows) for name in HOSTILE[:-2]})
    X[HOSTILE[-2]] = pd.Categorical(rng.choice(HOSTILE[:5], n_rows))
    X[HOSTILE[-1]] = pd.Categorical(rng.choice(HOSTILE[8:10], n_rows))
    X.iloc[::7, 0] = np.nan
    X.iloc[::11, 1] = np.inf
    X.iloc[::13, 1] = -np.inf
    X.index = [HOSTILE[i % len(HOSTILE)] + str(i) for i in range(n_rows)]
    y = np.where(X.iloc[:, 2] + (X[HOSTILE[-2]] == HOSTILE[0]) > 0.3, HOSTILE[0], HOSTILE[4])
    return X, y


def _diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return X[:160], y[:160].to_numpy()


def _cancer():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X[:200], np.where(y[:200] == 1, "benign", "malignant")


def table(n_rows=90, seed=0):
    """Numbers, names, dates and gaps."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n_rows),
            "colour": rng.choice(["red", "blue", "green"], n_rows),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n_rows), "D"),
        }
    )
    X.loc[::9, "size"] = np.nan
    y = (X["colour"] == "red") + X["size"].fillna(2.0)
    return X, y.to_numpy()


def _kinds():
    cancer, diabetes, iris = _cancer(), _diabetes(), load_iris(return_X_y=True)
    two = np.column_stack([diabetes[1], diabetes[0]["bmi"]])
    other = ExtraTreesClassifier(10, random_state=1).fit(cancer[0][:60], cancer[1][:60])
    boosted = HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=5)
    return {
        "binary": (KPPClassifier("extra-trees", cv=3, **SMALL), *cancer),
        "multiclass": (KPPClassifier("extra-trees", alpha=1e-3, **SMALL), *iris),
        "regression": (KPPRegressor("extra-trees", cv=3, **SMALL), *diabetes),
        "several targets": (KPPRegressor("extra-trees", alpha=0.1, **SMALL), diabetes[0], two),
        "honest": (
            KPPClassifier("extra-trees", alpha=1e-3, regime="honest", center="partition", **SMALL),
            *cancer,
        ),
        "cross-fit": (
            KPPRegressor("extra-trees", alpha=0.1, regime="cross-fit", cv=3, **SMALL),
            *diabetes,
        ),
        "two left out": (
            KPPClassifier("extra-trees", regime="cross-validated", cv=3, **SMALL),
            *cancer,
        ),
        "cross-validated": (
            KPPRegressor("extra-trees", alpha=0.1, regime="cross-validated", cv=3, **SMALL),
            *diabetes,
        ),
        "fixed": (
            KPPClassifier(FrozenEstimator(other), regime="fixed", alpha=1e-3),
            cancer[0][60:],
            cancer[1][60:],
        ),
        "leaves": (KPPRegressor("extra-trees", alpha=0.1, coordinates="leaf", **SMALL), *diabetes),
        "arrays": (
            KPPRegressor("extra-trees", alpha=0.1, **SMALL),
            diabetes[0].to_numpy(),
            diabetes[1],
        ),
        "boosted": (KPPRegressor(boosted, alpha=0.1, random_state=0), *diabetes),
        "scaled": (
            make_pipeline(StandardScaler(), KPPClassifier("extra-trees", alpha=1e-3, **SMALL)),
            cancer[0],
            cancer[1],
        ),
    }


@cache
def made(kind):
    """A fitted model, its test rows, and its training rows; every third row is a test row."""
    if kind == "hostile":
        X, y = hostile_frame()
        model = KPPClassifier("boosted", n_estimators=10, alpha=1e-2, random_state=0)
    elif kind == "large":
        X, y = _diabetes()
        y = 1e4 * y
        model = KPPRegressor("extra-trees", alpha=0.1, **SMALL)
    elif kind == "table":
        from skrub import TableVectorizer

        X, y = table()
        model = make_pipeline(TableVectorizer(), KPPRegressor("extra-trees", alpha=0.1, **SMALL))
    else:
        model, X, y = _kinds()[kind]
    test = np.arange(len(y)) % 3 == 0
    take = (lambda rows: X.iloc[rows]) if hasattr(X, "iloc") else (lambda rows: X[rows])
    train_X, train_y = take(np.flatnonzero(~test)), y[~test]
    model.fit(train_X, train_y)
    return model, take(np.flatnonzero(test)), y[test], (train_X, train_y)


@cache
def data_of(kind):
    """The data of a report on one kind of model, with its training rows."""
    model, X, y, train = made(kind)
    return report_data(model, X, y, train=train, max_rows=MAX_ROWS, times=False)


KINDS = [*_kinds(), "table", "hostile"]
