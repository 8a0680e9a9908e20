"""The task is found from the target, by a rule that is said."""

import numpy as np
import pandas as pd
import pytest

from kpp.tables.errors import UserError
from kpp.tables.target import labels_like, read_target

N = 60
RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["yes", "no"] * 30, "classification"),
        ([True, False] * 30, "classification"),
        ([True, False, None] * 20, "classification"),
        (pd.Categorical([1, 2, 3] * 20), "classification"),
        ([0, 1] * 30, "classification"),
        ([0.0, 1.0] * 30, "classification"),
        (list(range(10)) * 6, "classification"),
        (list(range(11)) * 6, "regression"),
        (list(range(17)) * 60, "regression"),
        ([str(k) for k in range(17)] * 6, "classification"),
        (list(range(21)) * 3, "regression"),
        (list(range(N)), "regression"),
        ([1, 2, 3, None] * 15, "classification"),
        ([1.5, 2.5, 3.5] * 20, "regression"),
        ([1.0, 2.0, 3.0] * 20, "regression"),
        (RANDOM.normal(size=N), "regression"),
        ([1, 2, 3, 4], "regression"),
    ],
)
def test_task(values, task):
    found = read_target(pd.DataFrame({"y": values}), "y", "auto", "x.csv")
    assert found.task == task
    assert "'y'" in found.reason
    # What would be refused is not offered: texts are no numbers.
    other = "classification" if task == "regression" else "regression"
    try:
        read_target(pd.DataFrame({"y": values}), "y", other, "x.csv")
    except UserError:
        assert "--task" not in found.reason
    else:
        assert f"--task {other} overrides" in found.reason


def test_a_task_that_could_be_another_says_why():
    found = read_target(pd.DataFrame({"y": list(range(17)) * 60}), "y", "auto", "x.csv")
    assert found.reason == (
        "'y' holds 17 different whole numbers, which are taken as classes up to 10; "
        "--task classification overrides this"
    )


def test_labels_keep_their_type():
    def values(column, task="auto"):
        return read_target(pd.DataFrame({"y": column}), "y", task, "x.csv").values

    assert values([2, 1, None, 2] * 5).dtype == np.int64
    assert values([2, 1, None, 2] * 5).tolist()[:3] == [2, 1, 2]
    assert values([True, None, False] * 5).dtype == bool
    assert values(["b", "a"] * 5).tolist()[:2] == ["b", "a"]
    assert values([0.5, 1.5] * 5, "classification").tolist()[:2] == ["0.5", "1.5"]
    assert values([1, 2] * 5, "regression").dtype == np.float64


@pytest.mark.parametrize(
    ("column", "task", "message"),
    [
        ([None, None], "auto", "no values at all"),
        (pd.to_datetime(["2020-01-01"] * 4), "auto", "holds dates"),
        ([f"text {k}" for k in range(40)], "auto", "40 different texts in 40 rows"),
        (["a", "b"], "regression", "holds texts such as 'a'"),
        ([1.0, np.inf, 2.0], "regression", "infinite"),
    ],
)
def test_what_cannot_be_a_target(column, task, message):
    with pytest.raises(UserError, match=message):
        read_target(pd.DataFrame({"y": column}), "y", task, "x.csv")


def test_labels_of_another_file():
    assert labels_like(pd.Series([1.0, 0.0]), np.array([0, 1]), "y").tolist() == [1, 0]
    assert labels_like(pd.Series([1, 2]), np.array(["1", "2"]), "y").tolist() == ["1", "2"]
    with pytest.raises(UserError, match=r"holds 3, which the model has not seen.* 0, 1"):
        labels_like(pd.Series([1, 3]), np.array([0, 1]), "y")
    with pytest.raises(UserError, match="classes are 0, 1"):
        labels_like(pd.Series(["yes", "no"]), np.array([0, 1]), "y")


TRUTHS = np.array([False, True])


@pytest.mark.parametrize(
    "given",
    [
        [True, False, True],
        [1, 0, 1],
        [1.0, 0.0, 1.0],
        ["true", "false", "TRUE"],
        ["True", " False", "1"],
        pd.array([True, False, True], dtype="boolean"),
        pd.Categorical(["true", "false", "true"]),
    ],
)
def test_true_and_false_however_they_are_written(given):
    found = labels_like(pd.Series(given), TRUTHS, "y")
    assert found.dtype == bool
    assert found.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("given", "unknown"),
    [(["yes", "no"], "'no', 'yes'"), ([1, 2], "'2'"), ([0.5, 2.0], "'0.5', '2.0'"), (["t"], "'t'")],
)
def test_labels_that_are_neither_true_nor_false_are_refused(given, unknown):
    with pytest.raises(UserError, match=f"holds {unknown}, which the model has not seen.* True"):
        labels_like(pd.Series(given), TRUTHS, "y")
