"""scikit-learn estimators."""

from kpp.models.embedding import KPPEmbedding

__all__ = ["KPPEmbedding"]
