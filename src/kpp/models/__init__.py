"""scikit-learn estimators."""

from kpp.models.classifier import KPPClassifier
from kpp.models.embedding import KPPEmbedding
from kpp.models.fold_out import LeaveOneFoldOut
from kpp.models.interval_results import PredictionIntervals, PredictionSets
from kpp.models.of_pipelines import predict_interval, predict_set
from kpp.models.regressor import KPPRegressor

__all__ = [
    "KPPClassifier",
    "KPPEmbedding",
    "KPPRegressor",
    "LeaveOneFoldOut",
    "PredictionIntervals",
    "PredictionSets",
    "predict_interval",
    "predict_set",
]
