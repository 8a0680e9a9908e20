"""What a fitted model is: a number for every node, and rows that were routed to them."""

from kpp.scores.additive import AdditiveForest, ScoreBlock
from kpp.scores.linear import LinearScores
from kpp.scores.rows import RoutedRows, routed_rows

__all__ = ["AdditiveForest", "LinearScores", "RoutedRows", "ScoreBlock", "routed_rows"]
