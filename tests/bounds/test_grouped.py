"""The bound that counts groups, number by number."""

import numpy as np
import pytest
from scipy.stats import beta
from sklearn.datasets import load_breast_cancer, load_diabetes

from bounds.betting_by_hand import REL, betting_limit
from kpp import KPPClassifier, KPPRegressor, risk_bounds

GROUPS = np.repeat(np.arange(40), np.arange(40) % 4 + 1)  # of one to four rows


def mean_of_groups(values):
    return np.mean([np.mean(values[group == GROUPS]) for group in range(40)])


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_the_bound_by_groups_by_hand(task):
    load = load_breast_cancer if task == "classes" else load_diabetes
    X, y = load(return_X_y=True)
    kind = KPPClassifier if task == "classes" else KPPRegressor
    model = kind(n_estimators=5, alpha=0.1, random_state=0).fit(X[100:300], y[100:300])
    rows, target = X[300:400], y[300:400]
    assert len(GROUPS) == 100
    limits = (50.0, 250.0)
    options = {} if task == "classes" else {"y_range": limits}
    report = risk_bounds(model, rows, target, sample="test", groups=GROUPS, **options)
    bound = report["held-out bound by groups"]
    if task == "classes":
        scale, losses = 1.0, (model.predict(rows) != target).astype(float)
        shares = [mean_of_groups(target == k) for k in (0, 1)]
        trivial = 1 - max(shares)
    else:
        scale = 200.0**2
        losses = np.square(np.clip(target, *limits) - np.clip(model.predict(rows), *limits))
        trivial = mean_of_groups(np.square(target - mean_of_groups(target)))
    risk = mean_of_groups(losses)
    assert 0 < risk < scale
    own = [np.mean(losses[group == GROUPS]) / scale for group in range(40)]
    total = scale * betting_limit(own)
    assert bound.empirical_risk == pytest.approx(risk, rel=1e-12)
    assert bound.total == pytest.approx(total, rel=REL)
    assert bound.complexity == 0
    assert bound.trivial_level == pytest.approx(trivial, rel=1e-12)
    assert bound.details == {"groups": 40, "smallest": 1, "largest": 4}
    assert bound.n_rows == 100


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_the_bound_of_rows_by_hand(task):
    """Errors have Clopper and Pearson's limit, squared losses what betting leaves."""
    load = load_breast_cancer if task == "classes" else load_diabetes
    X, y = load(return_X_y=True)
    kind = KPPClassifier if task == "classes" else KPPRegressor
    model = kind(n_estimators=5, alpha=0.1, random_state=0).fit(X[100:300], y[100:300])
    rows, target = X[300:400], y[300:400]
    limits = (50.0, 250.0)
    options = {} if task == "classes" else {"y_range": limits}
    report = risk_bounds(model, rows, target, sample="test", groups=np.arange(100), **options)
    bound, alone = report["held-out bound"], report["held-out bound by groups"]
    if task == "classes":
        wrong = int((model.predict(rows) != target).sum())
        assert 0 < wrong < 100
        total, rel = beta.ppf(0.95, wrong + 1, 100 - wrong), 1e-12
    else:
        errors = np.clip(target, *limits) - np.clip(model.predict(rows), *limits)
        total, rel = betting_limit(np.square(errors / 200)) * 200.0**2, REL
    assert bound.total == pytest.approx(total, rel=rel)
    # Groups of one row are rows.
    assert alone.total == pytest.approx(bound.total, rel=1e-12)
