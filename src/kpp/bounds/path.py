"""One bound along a path of alphas: at the alpha of the fit, and where the bound is smallest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._parallel import one_blas_thread
from kpp._shown import Shown
from kpp._typing import BoolArray, FloatArray
from kpp.bounds.assumptions import check_range
from kpp.bounds.informed import (
    Frame,
    clipped_risk,
    held_out_parts,
    informed_assumptions,
    informed_parts,
    make_frame,
    trivial_level,
)
from kpp.bounds.kl import kl_inverse, smallest_rows
from kpp.bounds.predictors import LinearPredictor
from kpp.bounds.results import Assumption, check_delta
from kpp.bounds.samples import Sample, ask_for_bounds, encode_target, sample_of
from kpp.bounds.terms import Parts
from kpp.models.linear import KPPLinearModel
from kpp.models.penalties import alpha_of
from kpp.solvers import Solutions, logistic_path, ridge_path

DEFAULT_STEPS = np.logspace(-2, 6, 17)


@dataclass(frozen=True, eq=False)
class BoundPath(Shown):
    r"""An informed bound for several alphas, on one map, one centre and one fit fold.

    All alphas are covered by one delta: the bound holds for every w at once.

    Parameters
    ----------
    name : str
        Which bound.
    quantity : str
        What is bounded.
    alphas : array of shape (n_alphas,)
        Penalties, rising; the last is infinite: the centre itself, :math:`w = w_0`.
    radius : array of shape (n_alphas,)
        :math:`B = \|w - w_0\|`.
    bound : array of shape (n_alphas,)
        The bound of w.
    fit_risk : array of shape (n_alphas,)
        Risk of w on the fit fold.
    test_risk : array of shape (n_alphas,) or None
        Risk of w on test rows, where some were given.
    chosen : int
        Place of the alpha of the fit.
    center_bound : float
        Plain held-out bound of the centre, at the same delta.
    trivial_level : float
        Error of the majority class, or variance, on the fit fold.
    n_rows : int
        n of the fit fold.
    n_cells : int
        N of the grid.
    delta : float
        Probability with which the bound may fail.
    regime : str
        Regime of the model.
    assumptions : tuple of Assumption
        Which conditions hold, which fail, and why; the same for all alphas.
    scale : float
        Largest loss: 1, or the squared width of the range of Y.
    """

    name: str
    quantity: str
    alphas: FloatArray
    radius: FloatArray
    bound: FloatArray
    fit_risk: FloatArray
    test_risk: FloatArray | None
    chosen: int
    center_bound: float
    trivial_level: float
    n_rows: int
    n_cells: int
    delta: float
    regime: str
    assumptions: tuple[Assumption, ...]
    scale: float = 1.0

    @property
    def is_guarantee(self) -> bool:
        """Whether no condition of the bound is known to fail."""
        return all(assumption.holds is not False for assumption in self.assumptions)

    @property
    def is_trivial(self) -> BoolArray:
        """Whether the bound is no better than the trivial level, shape (n_alphas,)."""
        return self.bound >= self.trivial_level

    @property
    def best(self) -> int:
        """Place of the alpha that minimises the bound."""
        return int(np.argmin(self.bound))

    @property
    def floor(self) -> float:
        r"""The bound of a centre without any loss: nothing can be smaller."""
        if self.name.startswith("PAC"):
            return float(kl_inverse(0.0, np.log(2 / self.delta) / self.n_rows)) * self.scale
        return float(np.sqrt(np.log(self.n_cells / self.delta) / (2 * self.n_rows))) * self.scale

    @property
    def rows_needed(self) -> int | None:
        """Smallest n at which a PAC-Bayes bound of the centre would not be trivial."""
        return smallest_rows(
            min(1.0, float(self.fit_risk[-1]) / self.scale),
            min(1.0, self.trivial_level / self.scale),
            delta=self.delta / 2,
        )

    @property
    def infeasible(self) -> str | None:
        """Why no fit could have given a bound below the trivial level; None if one could."""
        if self.floor >= self.trivial_level:
            return (
                f"even without any loss the bound is {self.floor:.3g} at n = {self.n_rows}, not "
                f"below {self.trivial_level:.3g}"
            )
        return None

    def to_frame(self) -> Any:
        """Return one line per alpha.

        Returns
        -------
        frame : pandas DataFrame
        """
        columns = {
            "alpha": self.alphas,
            "B": self.radius,
            "bound": self.bound,
            "fit_risk": self.fit_risk,
        }
        if self.test_risk is not None:
            columns["test_risk"] = self.test_risk
        frame = optional("pandas", "BoundPath.to_frame").DataFrame(columns)
        frame["chosen"] = np.arange(len(frame)) == self.chosen
        frame["best"] = np.arange(len(frame)) == self.best
        return frame


@one_blas_thread()
def bound_path(
    model: Any,
    X: Any,
    y: Any,
    *,
    bound: str | None = None,
    alphas: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    delta: float = 0.05,
    y_range: tuple[float, float] | None = None,
    independent_duplicates: bool = False,
) -> BoundPath:
    r"""Follow one informed bound over alphas, from the fit towards the centre.

    The linear layer is fitted again on the fit fold for every alpha, with the map, the centre and
    the weights of the model; at the model's own alpha it is the model. At an infinite alpha the
    predictor is the centre, and the bound is little more than a held-out bound of it: B, the risks
    of w and of the centre and the centre's own bound belong beside it.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline that ends in one
        Fitted, in the regime "honest" or "fixed".
    X, y : arrays of shape (n_rows, n_features) and (n_rows,)
        What was given to fit, all rows.
    bound : str, optional
        Name of the bound; "PAC-Bayes-kl, row margins" or "PAC-Bayes-kl, squared loss" by default.
    alphas : array-like, optional
        Penalties; by default ``alpha_`` times 10 to the powers -2, -1.5, ..., 6. ``alpha_`` and
        infinity are added.
    X_test, y_test : arrays, optional
        Rows that fit has not used.
    delta : float
        Probability with which the bound may fail, for all alphas together.
    y_range : tuple of float, optional
        As in `risk_bounds`.
    independent_duplicates : bool
        As in `risk_bounds`.

    Returns
    -------
    path : BoundPath

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kpp import KPPClassifier
    >>> from kpp.bounds import bound_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KPPClassifier(
    ...     n_estimators=50, regime="honest", center="partition", random_state=0
    ... ).fit(X, y)
    >>> path = bound_path(model, X, y)
    >>> bool(path.bound[path.best] <= path.bound[path.chosen])
    True
    >>> path.infeasible is None
    True
    """
    question = ask_for_bounds(model)
    check_delta(delta)
    limits = check_range(question, y_range)
    if (X_test is None) != (y_test is None):
        raise ValueError("X_test and y_test go together; one of them is missing.")
    regime = question.regime
    if regime.grows_on_fit_rows or regime.averages_folds:
        raise ValueError(
            f"bound_path needs regime='honest' or 'fixed'; got {regime.name!r}. Cross-fit models "
            "are bounded fold by fold, by risk_bounds."
        )
    sample = sample_of(question, X, y, "fit", independent_duplicates=independent_duplicates)
    n_classes = sample.n_classes
    frame = make_frame(sample, limits)
    if n_classes == 0 and not np.isfinite(frame.limits).all():
        raise ValueError(
            "There are no limits of Y: the fixed regime has no partition fold to take them from, "
            "and a constant target has no range. Give y_range."
        )
    grid, chosen = _alphas(question.model, alphas)
    predictors = _refit(sample, frame, grid)
    predictors[chosen] = sample.predictor
    name = bound or ("PAC-Bayes-kl, row margins" if n_classes else "PAC-Bayes-kl, squared loss")
    parts: list[Parts] = []
    for predictor in predictors:
        found = informed_parts(predictor, frame, delta)
        if name not in found:
            raise ValueError(f"bound must be one of {', '.join(map(repr, found))}; got {name!r}.")
        parts.append(found[name])
    test_risk, all_y = None, sample.all_target
    if X_test is not None:
        rows = question.rows(X_test)
        target = encode_target(question, y_test, len(rows))
        all_y = np.concatenate([all_y, target])
        at_test = [replace(p, rows=rows, map=rows.map, target=target) for p in predictors]
        test_risk = np.array([clipped_risk(p, frame.limits) for p in at_test])
    plain = held_out_parts(predictors[-1], frame.limits, delta)
    assert plain is not None
    counts = {
        "ramp": frame.grid.n_ramp,
        "clipped squared loss": frame.grid.n_clipped,
        "PAC-Bayes-kl, squared loss": frame.grid.n_pac_squared,
    }
    return BoundPath(
        name=name,
        quantity="0/1 error" if n_classes else "squared loss, clipped",
        alphas=grid,
        radius=np.array([frame.distances(p)[0] for p in predictors]),
        bound=np.array([part.total for part in parts]),
        fit_risk=np.array([part.empirical_risk for part in parts]),
        test_risk=test_risk,
        chosen=chosen,
        center_bound=plain.total,
        trivial_level=trivial_level(sample.target, n_classes),
        n_rows=len(sample.rows),
        n_cells=counts.get(name, frame.grid.n_pac),
        delta=delta,
        regime=regime.name,
        assumptions=informed_assumptions(sample, frame, all_y),
        scale=1.0 if n_classes else (frame.limits[1] - frame.limits[0]) ** 2,
    )


def _alphas(model: KPPLinearModel, alphas: Any) -> tuple[FloatArray, int]:
    own = alpha_of(model)
    given = own * DEFAULT_STEPS if alphas is None else np.asarray(alphas, dtype=float)
    if not (given > 0).all():
        raise ValueError(f"alphas must be positive; got {alphas!r}.")
    grid = np.union1d(given, [own, np.inf])
    return grid, int(np.searchsorted(grid, own))


def _refit(sample: Sample, frame: Frame, alphas: FloatArray) -> list[LinearPredictor]:
    """The linear layer for every alpha, around the centre; the last is the centre itself."""
    model, center = sample.model, frame.center_at(sample.predictor)
    embedding, y, offset = center.map, center.target, center.scores
    options: dict[str, Any] = {
        "fit_intercept": model.fit_record_.fit_intercept,
        "tol": 1e-10,
        "max_iter": model.fit_record_.max_iter,
    }
    finite = alphas[np.isfinite(alphas)]
    solved: Solutions
    if n := sample.n_classes:
        solved = logistic_path(
            embedding, y, finite, model.sample_weight_, n_classes=n, offset=offset, **options
        )
    else:
        solved = ridge_path(embedding, y - offset[:, 0], finite, model.sample_weight_, **options)
    found = [
        replace(
            center,
            node_coef=center.node_coef + embedding.rmatmat(dual).T,
            intercept=center.intercept + intercept,
        )
        for dual, intercept in zip(solved.dual, solved.intercept, strict=True)
    ]
    return [*found, center]
