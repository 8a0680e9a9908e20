"""scikit-learn's own checks for the estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from kpp import KPPClassifier, KPPRegressor

REGIMES = ["shared", "honest", "cross-fit"]


def expected_failures(estimator):
    return {
        # Folds and random thresholds depend on the number of rows, weighted or repeated;
        # scikit-learn's own forests fail this check too.
        "check_sample_weight_equivalence_on_dense_data": "folds are drawn by row",
    }


@parametrize_with_checks(
    [
        estimator(n_estimators=5, regime=regime)
        for estimator in (KPPRegressor, KPPClassifier)
        for regime in REGIMES
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore:The best alpha lies on:sklearn.exceptions.ConvergenceWarning")
def test_scikit_learns_checks(estimator, check):
    check(estimator)
