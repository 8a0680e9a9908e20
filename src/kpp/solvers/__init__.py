"""Solvers see a map and a loss, never a forest."""

from kpp.solvers.logistic import LogisticPath, logistic_path
from kpp.solvers.ridge import RidgePath, ridge_path

__all__ = ["LogisticPath", "RidgePath", "logistic_path", "ridge_path"]
