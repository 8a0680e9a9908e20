"""Section 7 of the paper, and bounds that are not trivial: what is guaranteed about the risk."""

from kpp.bounds.betting import folds_betting, held_out_betting
from kpp.bounds.binomial import held_out_binomial
from kpp.bounds.combined import bounded_prediction
from kpp.bounds.folds_kl import folds_binomial, folds_kl
from kpp.bounds.gains import GainInterval, entropy_gain_limits, variance_gain_limits
from kpp.bounds.informed import informed_bounds
from kpp.bounds.kl import binary_kl, held_out_kl, kl_inverse, smallest_rows
from kpp.bounds.oracles import PartitionOracles, TreeOracles, partition_oracles
from kpp.bounds.path import BoundPath, bound_path
from kpp.bounds.rademacher import rademacher_complexity
from kpp.bounds.refinement import RefinementOracle, common_refinement
from kpp.bounds.report import risk_bounds
from kpp.bounds.results import Assumption, Bound, BoundReport
from kpp.bounds.ridge import BiasVariance, bias_variance, effective_dimension
from kpp.bounds.spectrum import Estimate, Spectrum, gram_spectrum
from kpp.bounds.uniform import logistic_loss_terms, squared_loss_terms

__all__ = [
    "Assumption",
    "BiasVariance",
    "Bound",
    "BoundPath",
    "BoundReport",
    "Estimate",
    "GainInterval",
    "PartitionOracles",
    "RefinementOracle",
    "Spectrum",
    "TreeOracles",
    "bias_variance",
    "binary_kl",
    "bound_path",
    "bounded_prediction",
    "common_refinement",
    "effective_dimension",
    "entropy_gain_limits",
    "folds_betting",
    "folds_binomial",
    "folds_kl",
    "gram_spectrum",
    "held_out_betting",
    "held_out_binomial",
    "held_out_kl",
    "informed_bounds",
    "kl_inverse",
    "logistic_loss_terms",
    "partition_oracles",
    "rademacher_complexity",
    "risk_bounds",
    "smallest_rows",
    "squared_loss_terms",
    "variance_gain_limits",
]
