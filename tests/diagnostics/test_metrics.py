"""The metrics that dashboard, report and command share, beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from kpp.diagnostics import classification_metrics, regression_metrics
from kpp.diagnostics.metrics import brier_score

N_ROWS = 80


def weights(kind):
    random = np.random.default_rng(1)
    return {"none": None, "some": random.integers(0, 4, N_ROWS).astype(float)}[kind]


@pytest.mark.parametrize("kind", ["none", "some"])
def test_numbers(kind):
    random = np.random.default_rng(0)
    y, guess, weight = random.normal(size=N_ROWS), random.normal(size=N_ROWS), weights(kind)
    assert regression_metrics(y, guess, weight) == pytest.approx(
        {
            "rmse": root_mean_squared_error(y, guess, sample_weight=weight),
            "mae": mean_absolute_error(y, guess, sample_weight=weight),
            "r2": r2_score(y, guess, sample_weight=weight),
        }
    )


def test_a_constant_target_has_no_variance_to_explain():
    assert np.isnan(regression_metrics(np.ones(3), np.ones(3))["r2"])
    assert np.isnan(regression_metrics(np.ones(1), np.zeros(1))["r2"])


@pytest.mark.parametrize("kind", ["none", "some"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_classes(kind, n_classes):
    random = np.random.default_rng(0)
    codes, weight = random.integers(0, n_classes, N_ROWS), weights(kind)
    probability = random.dirichlet(np.ones(n_classes), N_ROWS).round(2)  # with ties
    probability /= probability.sum(axis=1, keepdims=True)
    probability[0] = np.eye(n_classes)[(codes[0] + 1) % n_classes]  # sure, and wrong
    label = probability.argmax(axis=1)
    score = probability[:, 1] if n_classes == 2 else probability
    assert classification_metrics(codes, probability, weight=weight) == pytest.approx(
        {
            "accuracy": accuracy_score(codes, label, sample_weight=weight),
            "balanced_accuracy": balanced_accuracy_score(codes, label, sample_weight=weight),
            "auc": roc_auc_score(codes, score, multi_class="ovr", sample_weight=weight),
            "log_loss": log_loss(codes, probability, sample_weight=weight),
            "brier": brier_score(probability, codes, weight),
        }
    )
    other = classification_metrics(codes, probability, prediction=codes, weight=weight)
    assert (other["accuracy"], other["balanced_accuracy"]) == (1.0, 1.0)


def test_a_class_that_is_absent():
    probability = np.tile([0.2, 0.3, 0.5], (4, 1))
    found = classification_metrics(np.array([0, 0, 2, 2]), probability)
    assert np.isnan(found["auc"])
    assert found["balanced_accuracy"] == 0.5  # over the two that are there
