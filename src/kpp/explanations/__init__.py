"""Section 5 of the paper, and what its users ask next: why this prediction."""

from kpp.explanations._rule import Rule
from kpp.explanations.attribution import Attribution, AttributionSummary
from kpp.explanations.cells import words_of_nodes
from kpp.explanations.distances import DistanceExplanation, explain_distance
from kpp.explanations.explain import explain
from kpp.explanations.interactions import Interactions, explain_interactions
from kpp.explanations.leverage import LeaveOneOut, leave_one_out
from kpp.explanations.plots import (
    AttributionBarDisplay,
    BeeswarmDisplay,
    DependenceDisplay,
    DistanceDisplay,
    InteractionDisplay,
    RuleDisplay,
    WaterfallDisplay,
)
from kpp.explanations.rules import RuleExplanation, explain_rules
from kpp.explanations.training_rows import TrainingRowExplanation, explain_training_rows

__all__ = [
    "Attribution",
    "AttributionBarDisplay",
    "AttributionSummary",
    "BeeswarmDisplay",
    "DependenceDisplay",
    "DistanceDisplay",
    "DistanceExplanation",
    "InteractionDisplay",
    "Interactions",
    "LeaveOneOut",
    "Rule",
    "RuleDisplay",
    "RuleExplanation",
    "TrainingRowExplanation",
    "WaterfallDisplay",
    "explain",
    "explain_distance",
    "explain_interactions",
    "explain_rules",
    "explain_training_rows",
    "leave_one_out",
    "words_of_nodes",
]
