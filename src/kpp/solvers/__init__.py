"""Solvers see a map and a loss, never a forest."""

from kpp.solvers.clipped import ClippedProblem
from kpp.solvers.krylov import KrylovSpace
from kpp.solvers.logistic import logistic_path
from kpp.solvers.losses import LogLoss, Loss, SquaredLoss, log_loss
from kpp.solvers.newton import NewtonProblem
from kpp.solvers.pose import pose
from kpp.solvers.problem import LinearProblem, Solutions, mean_squared_spread
from kpp.solvers.regression_losses import ClippedLoss, HuberLoss, PinballLoss, PoissonLoss
from kpp.solvers.ridge import RidgeProblem, ridge_path
from kpp.solvers.stacking import stacking_weights

__all__ = [
    "ClippedLoss",
    "ClippedProblem",
    "HuberLoss",
    "KrylovSpace",
    "LinearProblem",
    "LogLoss",
    "Loss",
    "NewtonProblem",
    "PinballLoss",
    "PoissonLoss",
    "RidgeProblem",
    "Solutions",
    "SquaredLoss",
    "log_loss",
    "logistic_path",
    "mean_squared_spread",
    "pose",
    "ridge_path",
    "stacking_weights",
]
