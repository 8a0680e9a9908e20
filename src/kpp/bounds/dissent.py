r"""How often one predictor that parts make together says other than they: no label is needed.

Wherever it is wrong, a part is wrong too, or says something else. So its error is at most the
mean error of the parts plus the mean share of parts that dissent (theorem 5 of docs/bounds.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._fingerprints import row_fingerprints, with_twin
from kpp._typing import AnyArray, FloatArray
from kpp.bounds.combined import votes
from kpp.bounds.held_out import held_out_bound
from kpp.bounds.results import Assumption
from kpp.bounds.samples import Sample, seen_rows
from kpp.models.intervals import predictors_of


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """What the parts of a model and the model itself say of rows without labels.

    Parameters
    ----------
    chosen : int array of shape (n_folds, n_rows)
        Class numbers that the parts choose.
    said : int array of shape (n_rows,)
        Those of the model.
    n_classes : int
        How many there are.
    assumption : Assumption
        Whether these rows may be fresh draws.
    """

    chosen: AnyArray
    said: AnyArray
    n_classes: int
    assumption: Assumption

    @classmethod
    def of(cls, sample: Sample, unlabelled: Any) -> Unlabelled:
        """Ask a model and its parts about further rows.

        Parameters
        ----------
        sample : Sample
            The rows of its fit.
        unlabelled : array-like or data frame of shape (n_unlabelled, n_features)
            Further rows.

        Returns
        -------
        unlabelled : Unlabelled
        """
        question, predictors = sample.question, predictors_of(sample.model, "risk_bounds")
        rows = question.rows(unlabelled)
        likely = predictors.probabilities
        chosen = np.array([likely(own).argmax(axis=1) for own in predictors.scores(rows)])
        said = likely(rows.scores).argmax(axis=1)
        declared = sample.independent_duplicates
        seen = seen_rows(question, rows, independent_duplicates=declared)
        twins = int(with_twin(row_fingerprints(rows.X)).sum())
        if seen is None and twins and not declared:
            seen = (
                f"{twins} of the {len(rows)} unlabelled rows equal another of them in every column"
            )
        fresh = Assumption(
            "fresh unlabelled rows",
            None if seen is None else False,
            seen or f"{len(rows)} rows without labels are taken as draws that fit has not used",
        )
        return cls(chosen, said, sample.n_classes, fresh)

    def from_the_model(self, delta: float) -> tuple[float, float]:
        """Mean share of parts that differ from the model, and its bound.

        Of two classes some part agrees with the mean of all scores.
        """
        n_folds = len(self.chosen)
        return self._bound(self.said, n_folds - (self.n_classes == 2), delta)

    def from_the_vote(self, delta: float) -> tuple[float, float]:
        r"""Mean share of parts that differ from the vote, and its bound.

        The class that is voted for has at least :math:`\lceil Q/K \rceil` votes.
        """
        n_folds = len(self.chosen)
        vote = votes(self.chosen, self.n_classes)
        return self._bound(vote, n_folds - -(-n_folds // self.n_classes), delta)

    def _bound(self, answer: AnyArray, most: int, delta: float) -> tuple[float, float]:
        """Of a share that is at most `most` parts of Q: in units of that it lies in [0, 1]."""
        n_folds = len(self.chosen)
        differ: FloatArray = (self.chosen != answer).sum(axis=0)
        if most == 0:
            return 0.0, 0.0
        # Where scores are near 0 rounding may let all differ.
        share = np.minimum(differ / most, 1.0)
        mean = float(share.mean())
        # Where it is one part at the most, a row has a dissenter or none: a count.
        bound = held_out_bound(share, delta, are_errors=most == 1)
        return mean * most / n_folds, bound * most / n_folds
