"""`FitRecord`: how a model was fitted, remembered for those who must know what holds of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._fingerprints import array_digest
from kpp.forest.grow import traits_of
from kpp.models.blocks import Blocks, blocks_of
from kpp.models.data import FitData, group_codes
from kpp.models.nested import NESTED
from kpp.models.plans import divided_groups

FOLDS = ("none", "random", "grouped", "stratified", "given")
CLASS_WEIGHTS = ("none", "balanced", "given")
# What a caller can weigh by, and may have made from labels.
CALLER_WEIGHTS = ("node_weight", "leaf_weight", "sample_weight", "class_weight")


@dataclass(frozen=True)
class FitRecord:
    """What a fit was asked for and given; ``set_params`` after the fit does not change it.

    Parameters
    ----------
    regime : str
        Which labels the forest has seen.
    center : {"zero", "partition"}
        What the penalty shrinks to.
    folds : {"none", "random", "grouped", "stratified", "given"}
        How rows came into folds: at random, in whole groups, by their class, or by a splitter
        that is not known.
    alpha_selection : str
        "given", or how alpha was chosen.
    alphas_given : bool
        Whether the caller gave the grid; of parts that choose for themselves also a single alpha.
    class_weight : {"none", "balanced", "given"}
        Weights of the classes.
    caller_weights : tuple of str
        Weights that the caller made, and that reach the representation: "node_weight" and
        "leaf_weight" as an array or a callable, "sample_weight", "class_weight" as a dict.
    n_groups : int or None
        Number of groups; None where none were given.
    largest_group : int
        Rows of the largest group; 1 where none were given.
    divided_groups : int
        Groups with rows in more than one fold.
    independent_trees : tuple of bool
        For each forest, whether its trees are independent given the rows that they were grown on.
    fit_intercept : bool
        Whether there is an intercept.
    tol : float
        Tolerance of the solver.
    max_iter : int
        Its limit.
    target_digest : str or None
        128 bits of the target that the linear layers were fitted on, which tell it from any other;
        None in older files.
    n_candidates : int
        Among how many fits of grids that were known beforehand alpha and weights were chosen, in
        the regime "cross-validated", whose bounds count them.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=5, alpha=1.0, random_state=0).fit(X, y)
    >>> model.set_params(regime="honest", alpha="auto").fit_record_.regime
    'shared'
    """

    regime: str
    center: str = "zero"
    folds: str = "none"
    alpha_selection: str = "given"
    alphas_given: bool = False
    class_weight: str = "none"
    caller_weights: tuple[str, ...] = ()
    n_groups: int | None = None
    largest_group: int = 1
    divided_groups: int = 0
    independent_trees: tuple[bool, ...] = (False,)
    fit_intercept: bool = True
    tol: float = 1e-8
    max_iter: int = 1000
    target_digest: str | None = None
    n_candidates: int = 1

    @property
    def is_grouped(self) -> bool:
        """Whether some group has several rows."""
        return self.largest_group > 1

    @classmethod
    def of(
        cls,
        estimator: Any,
        *,
        folds: str,
        data: FitData | None = None,
        test_rows: list[Any] | None = None,
        is_weighted: bool = False,
        target: Any = None,
        blocks: Blocks | None = None,
    ) -> FitRecord:
        """Read the parameters of an estimator that is being fitted.

        Parameters
        ----------
        estimator : KPPRegressor or KPPClassifier
            With `regime_` and `alpha_selection_`.
        folds : str
            Kind of its folds.
        data : FitData, optional
            Its rows, for the groups.
        test_rows : list of int arrays, optional
            Rows of each fold.
        is_weighted : bool
            Whether the caller gave weights of rows.
        target : array, optional
            Class numbers or numbers of the rows that the linear layers are fitted on.
        blocks : Blocks, optional
            The forests that are grown; those of its parameters by default.

        Returns
        -------
        record : FitRecord
        """
        by_class = getattr(estimator, "class_weight", None)
        given = {
            "node_weight": not isinstance(estimator.node_weight, str),
            "leaf_weight": estimator.leaf_weight is not None
            and not isinstance(estimator.leaf_weight, str | int | float | np.number),
            "sample_weight": is_weighted,
            "class_weight": by_class is not None and not isinstance(by_class, str),
        }
        of_classes = "given" if given["class_weight"] else "balanced"
        of_classes = "none" if by_class is None else of_classes
        n_groups, largest, divided = None, 1, 0
        if data is not None and data.groups is not None:
            codes = group_codes(data.groups)
            sizes = np.bincount(codes)
            n_groups, largest = len(sizes), int(sizes.max())
            divided = divided_groups(codes, test_rows or [])
        specs = (blocks_of(estimator) if blocks is None else blocks).specs
        return cls(
            regime=estimator.regime_,
            center=estimator.center,
            folds=folds,
            alpha_selection=estimator.alpha_selection_,
            # Parts that choose weights may have been given their only alpha.
            alphas_given=estimator.alphas is not None
            or (estimator.alpha_selection_ == NESTED and estimator.alpha != "auto"),
            class_weight=of_classes,
            caller_weights=tuple(name for name, is_given in given.items() if is_given),
            n_groups=n_groups,
            largest_group=largest,
            divided_groups=divided,
            independent_trees=tuple(traits_of(spec).independent_trees for _, spec in specs),
            fit_intercept=bool(estimator.fit_intercept),
            tol=float(estimator.tol),
            max_iter=int(estimator.max_iter),
            target_digest=None if target is None else array_digest(target),
        )
