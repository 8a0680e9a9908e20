r"""Clipped linear terms as an embedding: main effects without trees.

.. math::
    \Psi_j(x) = c\, \frac{\min(\max(x_j, l_j), h_j) - m_j}{\sigma_j}

with :math:`l_j, h_j` the training range, :math:`m_j, \sigma_j` mean and standard deviation of the
training column, and c such that the norm is at most 1. Beyond the range nothing changes, so the
norm is bounded and a linear layer on it never extrapolates. No label has a part in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from kpp._checks import check_sample_weight
from kpp._parallel import one_blas_thread
from kpp._rows import columns_of
from kpp._shown import Shown
from kpp._typing import AnyArray, BoolArray, FloatArray, OffsetArray
from kpp.forest.coded import CodedRows
from kpp.geometry.maps import MapBlock

# Standard deviations between these leave room for their inverses and for squares of coordinates.
SMALLEST, LARGEST = 1e-290, 1e290
# So few rows are embedded all columns at once, instead of column by column.
FEW_ROWS = 32


@dataclass(frozen=True, eq=False)
class LinearTerms(Shown):
    r"""Which columns have a linear term, and how a value becomes a coordinate.

    A column of numbers that varies has one coordinate, :math:`c\,(\mathrm{clip}(x_j) - m_j) /
    \sigma_j`; a missing value has 0 there, as the mean has. A column with missing values in
    training has a second one, c where the value is missing and 0 elsewhere. Columns without
    numbers have none.

    Parameters
    ----------
    column : int array of shape (p,)
        Column of X that each coordinate reads.
    is_missing : bool array of shape (p,)
        Whether the coordinate says that the value is missing.
    low, high : arrays of shape (p,)
        The training range; 0 and 1 where `is_missing`.
    mean, sd : arrays of shape (p,)
        Of the training values; 0 and 1 where `is_missing`.
    factor : float
        c.
    n_features : int
        Columns of X.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.geometry.linear import LinearTerms
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [np.nan, 1.0]])
    >>> terms = LinearTerms.fit(X)
    >>> terms.column.tolist(), terms.is_missing.tolist()
    ([0, 0], [False, True])
    >>> terms.coordinates([[5.0, 1.0], [np.nan, 1.0]]).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    column: OffsetArray
    is_missing: BoolArray
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    sd: FloatArray
    factor: float
    n_features: int

    @classmethod
    def fit(cls, X: Any, sample_weight: Any = None, *, without: Iterable[int] = ()) -> LinearTerms:
        """Read ranges, means and standard deviations from columns.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
            Rows. Columns of a data frame that hold no numbers are passed over.
        sample_weight : array of shape (n_rows,), optional
            Weights of the rows. A row of weight 0 counts as if it were not there.
        without : iterable of int
            Columns to pass over: numbers that are codes of categories.

        Returns
        -------
        terms : LinearTerms
        """
        columns, skipped = columns_of(X), set(without)
        weight = check_sample_weight(sample_weight, len(X))
        found: list[tuple[int, bool, float, float, float, float]] = []
        for j, own_column in enumerate(columns):
            values = None if j in skipped else numbers_in(own_column)
            if values is None:
                continue
            values, own = values[weight > 0], weight[weight > 0]
            missing, finite = np.isnan(values), np.isfinite(values)
            term = _term(values[finite], own[finite])
            if term is not None:
                found.append((j, False, *term))
            if missing.any() and not missing.all():
                found.append((j, True, 0.0, 1.0, 0.0, 1.0))
        # One array for each number of a term, also where there is none.
        column, is_missing, low, high, mean, sd = (
            np.array([term[k] for term in found], dtype=np.float64) for k in range(6)
        )
        terms = cls(
            column.astype(np.int64),
            is_missing.astype(bool),
            *(low, high, mean, sd),
            factor=1.0,
            n_features=len(columns),
        )
        largest = terms.sup_norm()
        return terms if largest == 0 else terms.scaled(1.0 / largest)

    def __len__(self) -> int:
        return len(self.column)

    def scaled(self, factor: float) -> LinearTerms:
        """Return the same terms with another factor c."""
        return LinearTerms(
            self.column,
            self.is_missing,
            self.low,
            self.high,
            self.mean,
            self.sd,
            factor,
            self.n_features,
        )

    def coordinates(self, X: Any) -> FloatArray:
        """Embed rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        values : array of shape (n_rows, p), in Fortran's order
            Each entry rises with its column, also as rounded: what a box of inputs can do to it
            is seen at its ends.
        """
        if isinstance(X, CodedRows):
            X = X.values
        if not hasattr(X, "columns"):
            X = np.asarray(X)
        if len(X.shape) != 2 or X.shape[1] != self.n_features:
            raise ValueError(
                f"X must have {self.n_features} columns, as in the fit; got shape {tuple(X.shape)}."
            )
        if type(X) is np.ndarray and X.dtype.kind == "f" and len(X) <= FEW_ROWS:
            # All terms at once: for a single row the loop below takes longer than its trees.
            values = X[:, self.column].astype(np.float64, copy=False)
            missing = np.isnan(values)
            own = (np.clip(values, self.low, self.high) - self.mean) * self.slope
            absent = np.where(self.is_missing, self.factor, 0.0)
            present = np.where(self.is_missing, 0.0, own)
            return np.asfortranarray(np.where(missing, absent, present))
        columns = columns_of(X)
        out = np.empty((len(X), len(self)), order="F")
        read: dict[int, FloatArray] = {}
        for k, j in enumerate(self.column.tolist()):
            if j not in read:
                read[j] = _numbers(columns[j], j)
            out[:, k] = self.coordinate(k, read[j])
        return out

    def coordinate(self, k: int, values: FloatArray) -> FloatArray:
        """One coordinate of values of its column, shape (n,)."""
        missing = np.isnan(values)
        if self.is_missing[k]:
            return np.where(missing, self.factor, 0.0)
        slope = self.slope[k]
        own = (np.clip(values, self.low[k], self.high[k]) - self.mean[k]) * slope
        return np.where(missing, 0.0, own)

    @property
    def slope(self) -> FloatArray:
        """What a step of one in a column adds to its coordinate, shape (p,)."""
        return self.factor / self.sd

    @property
    def least(self) -> FloatArray:
        """Smallest value of each coordinate, shape (p,)."""
        return (self.low - self.mean) * self.slope

    @property
    def most(self) -> FloatArray:
        """Largest value of each coordinate, shape (p,)."""
        return (self.high - self.mean) * self.slope

    def sup_norm(self, center: FloatArray | None = None) -> float:
        r"""Largest :math:`\|\Psi(x) - c\|` over all rows x; attained.

        Parameters
        ----------
        center : array of shape (p,), optional
            The vector c; 0 by default.

        Returns
        -------
        norm : float
        """
        center = np.zeros(len(self)) if center is None else np.asarray(center, dtype=np.float64)
        least, most = self.least - center, self.most - center
        farthest = np.maximum(np.square(least), np.square(most))
        # Of a column with two coordinates a row has a number or misses it: not both at once.
        here = np.where(self.is_missing, np.square(center), farthest)
        away = np.where(self.is_missing, np.square(most), np.square(center))
        present = np.bincount(self.column, here, minlength=self.n_features)
        absent = np.bincount(self.column, away, minlength=self.n_features)
        return float(np.sqrt(np.maximum(present, absent).sum()))

    @property
    def names(self) -> AnyArray:
        """``kpp_x{column}``, and ``kpp_x{column}_missing``; object array of shape (p,)."""
        ends = np.where(self.is_missing, "_missing", "").tolist()
        pairs = zip(self.column.tolist(), ends, strict=True)
        return np.array([f"kpp_x{j}{end}" for j, end in pairs], dtype=object)


class LinearMap(MapBlock):
    r"""The embedding of clipped linear terms, at given rows.

    Parameters
    ----------
    terms : LinearTerms
        Ranges and scales.
    values : array of shape (n_rows, p), optional
        Coordinates of the rows, from ``terms.coordinates``. No rows by default.
    normalize : {"forest", "tree"}
        That of its neighbours; it changes nothing here.

    References
    ----------
    Beyond the paper: see docs/proofs.md, "Linear terms".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpp.geometry.linear import LinearMap, LinearTerms
    >>> X, _ = load_iris(return_X_y=True)
    >>> psi = LinearMap(LinearTerms.fit(X)).on(X)
    >>> psi.shape
    (150, 4)
    >>> bool(psi.row_norms().max() <= psi.sup_norm() <= 1 + 1e-15)
    True
    """

    def __init__(
        self, terms: LinearTerms, values: FloatArray | None = None, *, normalize: str = "forest"
    ) -> None:
        if values is None:
            values = np.empty((0, len(terms)), order="F")
        if values.ndim != 2 or values.shape[1] != len(terms):
            raise ValueError(
                f"values must have shape (n_rows, {len(terms)}); got {values.shape}. Use "
                "map.on(X), which finds them."
            )
        super().__init__(len(values), len(terms))
        self.terms = terms
        self.values = values
        self.normalize = normalize

    def on(self, X: Any) -> LinearMap:
        """Return the same embedding at the rows of X; routed rows know their coordinates."""
        known = getattr(X, "coordinates_of", None)
        return self.at_values(self.terms.coordinates(X) if known is None else known(self.terms))

    def rows(self, index: Any) -> LinearMap:
        """Return the same embedding at some of its rows (a slice, mask or row numbers)."""
        return self.at_values(np.asfortranarray(self.values[index]))

    def at_values(self, values: FloatArray) -> LinearMap:
        """Return the same embedding at coordinates that ``terms`` gave; they are not checked."""
        other = copy(self)
        other.values, other.shape = values, (len(values), self.shape[1])
        return other

    def at_routed(self, routed: Sequence[AnyArray]) -> LinearMap:
        """Return the same embedding at rows whose coordinates are known."""
        (own,) = routed
        return self.at_values(own)

    def normalized(self, normalize: str) -> LinearMap:
        """Return the same rows; only the name of the normalisation changes."""
        if normalize == self.normalize:
            return self
        other = copy(self)
        other.normalize = normalize
        return other

    @one_blas_thread()
    def _matvec(self, w: Any) -> FloatArray:
        product: FloatArray = self.values @ np.ravel(w)
        return product

    @one_blas_thread()
    def _rmatvec(self, r: Any) -> FloatArray:
        product: FloatArray = self.values.T @ np.ravel(r)
        return product

    @one_blas_thread()
    def gram_matvec(self, r: Any, *, at: LinearMap | None = None) -> FloatArray:
        r"""Multiply the Gram by a vector or by columns, :math:`\Psi' \Psi^\top r`."""
        product: FloatArray = self._other(at).values @ (self.values.T @ self.row_columns(r))
        return product

    def row_norms(self, *, squared: bool = False) -> FloatArray:
        r"""Norms :math:`\|\Psi(x_i)\|`, shape (n,)."""
        norms = np.square(self.values).sum(axis=1)
        return norms if squared else np.sqrt(norms)

    def sup_norm(self, center: FloatArray | None = None) -> float:
        r"""Largest :math:`\|\Psi(x) - c\|` over all rows x, c = 0 by default; attained."""
        return self.terms.sup_norm(center)

    @one_blas_thread()
    def gram(self, other: LinearMap | None = None) -> FloatArray:
        r"""Inner products :math:`\langle \Psi(x_i), \Psi(z_j) \rangle`, shape (n, n')."""
        product: FloatArray = self.values @ self._other(other).values.T
        return product

    def distances(self, other: LinearMap | None = None) -> FloatArray:
        r"""Squared distances, from differences: exactly 0 for rows with the same coordinates."""
        theirs = self._other(other)
        if not len(self.terms):
            return np.zeros((self.shape[0], theirs.shape[0]))
        found: FloatArray = cdist(self.values, theirs.values, "sqeuclidean")
        return found

    def to_csr(self) -> sparse.csr_matrix:
        """Write the matrix out, shape (n, p)."""
        return sparse.csr_matrix(self.values)

    @property
    def coordinate_names(self) -> AnyArray:
        """Names of the coordinates, shape (p,)."""
        return self.terms.names

    @property
    def coordinate_variable(self) -> AnyArray:
        """Column of X that each coordinate reads, shape (p,)."""
        return self.terms.column

    def _other(self, other: LinearMap | None) -> LinearMap:
        if other is None:
            return self
        if other.terms is not self.terms:
            raise ValueError("Both sides must be rows of one embedding: use map.on(X).")
        return other


def numbers_in(column: Any) -> FloatArray | None:
    """Return a column as float64, missing values as NaN; None where it holds no numbers."""
    # As an array, pandas' categories of numbers would become numbers, and its own types of numbers,
    # which know what is missing, objects.
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if kind in ("f", "i", "u", "b") and hasattr(column, "to_numpy"):
        known = {"na_value": np.nan} if hasattr(column, "isna") else {}
        own: FloatArray = column.to_numpy(dtype=np.float64, **known)
        return own
    if kind == "O":
        return None
    values = np.asarray(column)
    return values.astype(np.float64) if values.dtype.kind in "fiub" else None


def _numbers(column: Any, j: int) -> FloatArray:
    """A column that has a linear term, as numbers; also where it came as objects."""
    values = numbers_in(column)
    if values is not None:
        return values
    try:
        return np.asarray(column).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Column {j} of X has a linear term, and must hold numbers; got {column!r}."
        ) from error


def _term(values: FloatArray, weight: FloatArray) -> tuple[float, float, float, float] | None:
    """Range, mean and standard deviation of a column; None where it has no term."""
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    # Divided by a power of two no square overflows or vanishes, and no digit is lost.
    _, power = np.frexp(max(abs(low), abs(high)))
    own, share = np.ldexp(values, -power), weight / weight.sum()
    middle = float((share * own).sum())
    mean = min(max(float(np.ldexp(middle, power)), low), high)
    spread = np.sqrt((share * np.square(own - np.ldexp(mean, -power))).sum())
    sd = float(np.ldexp(spread, power))
    # A column that does not vary has no term, nor one whose spread numbers can hardly hold.
    usable = low < high and SMALLEST < sd < LARGEST and high / 2 - low / 2 < LARGEST
    return (low, high, mean, sd) if usable else None
