"""Solvers see a map and a loss, never a forest."""

from kpp.solvers.logistic import LogisticPath, LogisticProblem, logistic_path
from kpp.solvers.ridge import RidgePath, RidgeProblem, ridge_path

__all__ = [
    "LogisticPath",
    "LogisticProblem",
    "RidgePath",
    "RidgeProblem",
    "logistic_path",
    "ridge_path",
]
