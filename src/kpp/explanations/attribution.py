"""`Attribution`: what each variable, or node, adds to each score; and its summary over rows."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from kpp._checks import is_missing
from kpp._optional import optional
from kpp._shown import Shown
from kpp._typing import AnyArray, FloatArray
from kpp.explanations.by_tree import TreeParts
from kpp.explanations.outputs import place_of

# Deviation from the model's own score that is still rounding, relative to the numbers added.
TOLERANCE = 1e-10
BASELINE = "(baseline)"


@dataclass(frozen=True, eq=False, repr=False)
class Attribution(Shown):
    r"""Scores, taken apart exactly: the baseline plus the values is the score of every row.

    .. math:: g(x_i) = c_0 + \sum_j \Psi_j(x_i)

    The object adds its numbers up when it is made, and keeps the largest deviation from the
    model's own scores as `residual`. Make one with `explain`.

    Parameters
    ----------
    values : array of shape (n_rows, n_features) or (n_rows, n_features, n_outputs)
        :math:`\Psi_j(x_i)`. At ``level="node"`` a CSR matrix of shape (n_rows, n_nodes), and a
        list of them, one per output, where there are several; dense arrays where centred.
    baseline : float, or array of shape (n_outputs,)
        :math:`c_0`.
    scores : array of shape (n_rows,) or (n_rows, n_outputs)
        What the model itself predicts; for a classifier its decision function.
    feature_names : tuple of str
        Names of the columns of X, of the nodes, or of the blocks. Behind the preparation of a
        Pipeline, of the raw columns.
    level : {"variable", "node", "shapley", "block"}
        What the values belong to.
    centered : bool
        Whether values are relative to the mean over the rows of the fit.
    outputs : tuple
        What the scores stand for: classes, or numbers of targets. One where there is one score;
        for two classes the second.
    regime : str
        Which labels the forest has seen.
    data : array or data frame of shape (n_rows, n_features), optional
        The rows' own values of the features, as the user has them (at ``level="node"``: as the
        model does). None behind a preparation for rows that were routed before.
    index : pandas Index, optional
        Labels of the rows of a data frame.
    trees : TreeParts, optional
        For sums by tree.

    Attributes
    ----------
    residual : float
        Largest absolute deviation of the sums from `scores`.
    """

    values: Any
    baseline: Any
    scores: FloatArray
    feature_names: tuple[str, ...]
    level: str = "variable"
    centered: bool = False
    outputs: tuple[Hashable, ...] = (0,)
    regime: str = "shared"
    data: Any = None
    index: Any = None
    trees: TreeParts | None = None
    residual: float = field(init=False)

    def __post_init__(self) -> None:
        total = self.baseline + _row_sums(self.values)
        deviation = np.abs(total - self.scores)
        object.__setattr__(self, "residual", float(deviation.max(initial=0.0)))
        # NaN must not pass, hence the negation.
        # Large values of both signs may cancel to a small score: rounding is relative to what was
        # added.
        size = np.abs(self.baseline) + _row_sums(self.values, absolute=True)
        if (
            self.level != "shapley"
            and not (deviation <= TOLERANCE * np.maximum(size, 1e-300)).all()
        ):
            raise ArithmeticError(
                f"The contributions miss the model's score by {self.residual:.3g}: the model was "
                "changed after its fit, or its coefficients are not finite."
            )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.scores)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        centered = ", centered=True" if self.centered else ""
        outputs = f", n_outputs={len(self.outputs)}" if self._several else ""
        return (
            f"Attribution(level={self.level!r}{centered}, n_rows={self.n_rows}, "
            f"n_features={len(self.feature_names)}{outputs}, residual={self.residual:.1e})"
        )

    @property
    def _several(self) -> bool:
        return self.scores.ndim == 2

    def for_output(self, output: Any) -> Attribution:
        """Return the attribution of one output: a class, or the number of a target.

        Parameters
        ----------
        output : object
            One of `outputs`.

        Returns
        -------
        attribution : Attribution
        """
        k = place_of(output, self.outputs)
        if k is None:
            raise ValueError(f"output must be one of {list(self.outputs)}; got {output!r}.")
        if not self._several:
            return self
        listed = isinstance(self.values, list)
        return replace(
            self,
            values=self.values[k] if listed else np.ascontiguousarray(self.values[..., k]),
            baseline=float(self.baseline[k]),
            scores=np.ascontiguousarray(self.scores[:, k]),
            outputs=(self.outputs[k],),
            trees=None if self.trees is None else self.trees.of_score(k),
        )

    def negated(self, output: Hashable) -> Attribution:
        """Return the attribution of minus the score, under the name of its own output.

        Parameters
        ----------
        output : object
            What minus the score stands for: the first of two classes.

        Returns
        -------
        attribution : Attribution
        """
        return replace(
            self,
            values=-self.values,
            baseline=-self.baseline,
            scores=-self.scores,
            outputs=(output,),
            trees=None if self.trees is None else self.trees.negated(),
        )

    def summary(self) -> AttributionSummary:
        r"""Mean absolute value per variable, with its spread over trees.

        The mean absolute value is itself a sum over trees,

        .. math::
            \frac1n \sum_i |\Psi_j(x_i)| = \sum_t c_{tj}, \qquad
            c_{tj} = \frac1n \sum_i \mathrm{sign}(\Psi_j(x_i))\, \Psi_{tj}(x_i)

        and the spread is :math:`\sqrt K` times the standard deviation of the K numbers
        :math:`c_{tj}`: its standard error, if the trees are exchangeable draws (random forests;
        not the rounds of a booster).

        Returns
        -------
        summary : AttributionSummary
        """
        several = [self.for_output(output) for output in self.outputs]
        single = [one._summary() for one in several]
        if not self._several:
            return single[0]
        by_tree = None
        if all(one.by_tree is not None for one in single):
            by_tree = np.stack([one.by_tree for one in single if one.by_tree is not None], axis=2)
        return AttributionSummary(
            feature_names=self.feature_names,
            mean_abs=np.stack([one.mean_abs for one in single], axis=1),
            mean=np.stack([one.mean for one in single], axis=1),
            spread=np.stack([one.spread for one in single], axis=1),
            by_tree=by_tree,
            outputs=self.outputs,
        )

    def _means(self) -> tuple[FloatArray, FloatArray]:
        """Means over rows of the absolute value and of the value, of one output."""
        n_rows = max(1, self.n_rows)
        mean_abs = np.asarray(abs(self.values).sum(axis=0)).ravel() / n_rows
        return mean_abs, np.asarray(self.values.sum(axis=0)).ravel() / n_rows

    def _summary(self) -> AttributionSummary:
        n_rows = max(1, self.n_rows)
        mean_abs, mean = self._means()
        by_tree, spread = None, np.full(len(mean), np.nan)
        if self.trees is not None:
            # c_tj of `summary`: with the signs as factors the trees' parts add up to the mean
            # absolute value.
            by_tree = self.trees.sums(np.sign(self.values) / n_rows)
            n_trees = len(by_tree)
            if n_trees > 1:
                # The standard error of a sum of K exchangeable parts, not of their mean.
                spread = np.sqrt(n_trees) * by_tree.std(axis=0, ddof=1)
        return AttributionSummary(
            feature_names=self.feature_names,
            mean_abs=mean_abs,
            mean=mean,
            spread=spread,
            by_tree=by_tree,
            outputs=self.outputs,
        )

    def to_frame(self) -> Any:
        """Return the baseline and the values as a pandas data frame.

        Returns
        -------
        frame : pandas.DataFrame of shape (n_rows, 1 + n_features)
            Its rows sum to the scores, and have the labels of the rows of X. The columns of
            several outputs stand side by side, under the outputs. Sparse at ``level="node"``.
        """
        pd = optional("pandas", "to_frame()")
        if self._several:
            frames = [self.for_output(output).to_frame() for output in self.outputs]
            return pd.concat(frames, axis=1, keys=self.outputs, names=["output", "feature"])
        names = list(self.feature_names)
        if sparse.issparse(self.values):
            frame = pd.DataFrame.sparse.from_spmatrix(self.values, self.index, names)
        else:
            frame = pd.DataFrame(self.values, self.index, names)
        frame.insert(0, BASELINE, float(self.baseline))
        return frame

    def to_shap(self) -> Any:
        """Return a ``shap.Explanation``, which shap's own plots take; needs the extra ``shap``.

        Returns
        -------
        explanation : shap.Explanation
            Values of shape (n_rows, n_features) or (n_rows, n_features, n_outputs); plots take one
            output, ``explanation[..., k]``. Categories are drawn by their order and shown by
            name.
        """
        shap = optional("shap", "to_shap()", "shap")
        if self.level in ("node", "block"):
            raise ValueError(
                "shap's plots are of variables: use level='variable' or level='shapley'."
            )
        base = np.broadcast_to(self.baseline, self.scores.shape).copy()
        numbers = shown = None
        if self.data is not None:
            columns = [column_of(self.data, j) for j in range(len(self.feature_names))]
            numbers = np.column_stack([as_numbers(column) for column in columns])
            shown = np.empty(numbers.shape, dtype=object)
            for j, column in enumerate(columns):
                shown[:, j] = column
        return shap.Explanation(
            values=self.values,
            base_values=base,
            data=numbers,
            display_data=shown,
            feature_names=list(self.feature_names),
            output_names=[str(output) for output in self.outputs] if self._several else None,
        )


@dataclass(frozen=True, eq=False)
class AttributionSummary(Shown):
    """An attribution over many rows, one number per variable; from `Attribution.summary`.

    Parameters
    ----------
    feature_names : tuple of str
        Names of the variables (or nodes).
    mean_abs : array of shape (n_features,) or (n_features, n_outputs)
        Mean over rows of the absolute value.
    mean : array of shape (n_features,) or (n_features, n_outputs)
        Mean over rows of the value.
    spread : array of shape (n_features,) or (n_features, n_outputs)
        Standard error of `mean_abs` over trees; NaN where there are no values by tree.
    by_tree : array of shape (n_trees, n_features) or (n_trees, n_features, n_outputs), optional
        The part of each tree in `mean_abs`; adds up to it, linear terms aside.
    outputs : tuple
        What the scores stand for.
    """

    feature_names: tuple[str, ...]
    mean_abs: FloatArray
    mean: FloatArray
    spread: FloatArray
    by_tree: FloatArray | None = None
    outputs: tuple[Hashable, ...] = (0,)

    def to_frame(self) -> Any:
        """Return a pandas data frame, the largest mean absolute value first.

        Returns
        -------
        frame : pandas.DataFrame
            One row per variable; columns mean_abs, spread and mean, of each output.
        """
        pd = optional("pandas", "to_frame()")
        names = list(self.feature_names)
        if self.mean_abs.ndim == 1:
            frame = pd.DataFrame(
                {"mean_abs": self.mean_abs, "spread": self.spread, "mean": self.mean}, names
            )
        else:
            columns = {
                (output, name): getattr(self, name)[:, k]
                for k, output in enumerate(self.outputs)
                for name in ("mean_abs", "spread", "mean")
            }
            frame = pd.DataFrame(columns, names)
            frame.columns.names = ["output", None]
        return frame.iloc[self.order]

    @property
    def order(self) -> AnyArray:
        """Numbers of the variables, the largest mean absolute value first; shape (n_features,)."""
        size = self.mean_abs if self.mean_abs.ndim == 1 else self.mean_abs.sum(axis=1)
        return np.argsort(-size, kind="stable")


def column_of(data: Any, j: int) -> AnyArray:
    """One column of an array, a pandas or a polars data frame."""
    if hasattr(data, "iloc"):
        return np.asarray(data.iloc[:, j])
    return np.asarray(data[:, j])


def as_numbers(column: AnyArray) -> FloatArray:
    """A column as numbers; categories by their order, NaN where missing."""
    return numbers_and_names(column)[0]


def numbers_and_names(column: AnyArray) -> tuple[FloatArray, list[str] | None]:
    """A column as numbers, NaN where missing; and the names of 0, 1, ... for one that has names.

    As soon as one value is a string all of them are names, also those that look like numbers.
    """
    # Floats, integers and booleans are numbers as they are.
    if column.dtype.kind in "fiub":
        return np.asarray(column, dtype=np.float64), None
    listed = column.tolist()
    known = np.array([not is_missing(value) for value in listed], dtype=bool)
    numbers = np.full(len(column), np.nan)
    if not any(isinstance(value, str) for value in listed):
        with suppress(TypeError, ValueError):
            numbers[known] = column[known].astype(np.float64)
            return numbers, None
    shown = [str(value) for value, there in zip(listed, known, strict=True) if there]
    names, codes = np.unique(np.array(shown, dtype=str), return_inverse=True)
    numbers[known] = codes
    return numbers, names.tolist()


def _row_sums(values: Any, *, absolute: bool = False) -> FloatArray:
    if isinstance(values, list):
        return np.stack([_row_sums(one, absolute=absolute) for one in values], axis=1)
    return np.asarray((abs(values) if absolute else values).sum(axis=1)).reshape(
        values.shape[:1] + values.shape[2:]
    )
