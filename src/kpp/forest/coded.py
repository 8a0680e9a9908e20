"""`CodedRows`: the columns of a table as numbers, its categories by their codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_array

from kpp._checks import is_missing
from kpp._rows import columns_of
from kpp._typing import AnyArray, FloatArray
from kpp.forest.others import AnyOther, other_of

if TYPE_CHECKING:
    from kpp.forest.arrays import Forest

# The columns that declare their categories: of pandas, and of polars.
CATEGORY_TYPES = ("CategoricalDtype", "Categorical", "Enum")
# Kinds of NumPy's types that are numbers; complex ones are refused by scikit-learn's checks.
NUMBERS = "biufc"


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows of a table as numbers: read once for a fit, whose forests each take what they know.

    Parameters
    ----------
    values : float64 array of shape (n_rows, n_columns)
        Numbers as they are, categories as codes, NaN for what is missing.
    categories : dict of int to array
        Columns of categories: the categories in the order of their codes.
    names : tuple of str, optional
        Names of the columns.
    ordered : frozenset of int
        Columns of categories that declare an order.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.coded import CodedRows
    >>> rows = CodedRows.read(np.array([["b", 1.5], [None, 2.5], ["a", 3.5]], dtype=object))
    >>> rows.values.tolist()
    [[1.0, 1.5], [nan, 2.5], [0.0, 3.5]]
    >>> rows.categories[0].tolist()
    ['a', 'b']
    """

    values: FloatArray
    categories: dict[int, AnyArray]
    names: tuple[str, ...] | None = None
    ordered: frozenset[int] = frozenset()

    @classmethod
    def read(cls, X: Any, *, allows_infinity: bool = False) -> CodedRows:
        """Read the columns of a data frame, or of an array of objects.

        Parameters
        ----------
        X : data frame or array of shape (n_rows, n_columns)
            Numbers, booleans, strings and declared categories; all of these may be missing.
        allows_infinity : bool
            Whether numbers may be infinite.

        Returns
        -------
        rows : CodedRows

        Raises
        ------
        ValueError
            For a column of anything else, by its name.
        """
        given = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        columns = columns_of(X)
        values = np.empty((len(X), len(columns)))
        categories: dict[int, AnyArray] = {}
        for j, column in enumerate(columns):
            name = f"column {j}" if given is None else f"column {given[j]!r}"
            known = categories_of(column, name)
            if known is None:
                values[:, j] = numbers_of(column, name)
            else:
                categories[j] = known
                values[:, j] = category_codes(np.asarray(column), known)
        check_array(
            values,
            ensure_all_finite=False if allows_infinity else "allow-nan",
            input_name="X",
        )
        ordered = frozenset(j for j in categories if _declares_order(columns[j]))
        return cls(values, categories, None if given is None else tuple(given), ordered)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.values), self.values.shape[1]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> CodedRows:
        return replace(self, values=self.values[rows])

    def of_forest(self, forest: Forest) -> FloatArray:
        """Return the rows in a forest's own codes; what it does not know is missing, or other.

        Parameters
        ----------
        forest : Forest
            Grown on such rows, or on anything with these columns.

        Returns
        -------
        values : float64 array of shape (n_rows, n_columns)
        """
        values = self.values
        if values.shape[1] != forest.n_features:
            return values  # which is refused by the number of its columns
        changed = values.copy()
        for j in sorted(self.categories.keys() | forest.categories.keys()):
            known = forest.categories.get(j)
            if known is None:
                used = (forest.feature == j).any() or (forest.term_columns == j).any()
                if used:
                    raise ValueError(
                        f"The given forest ({forest.source}) reads {self.names_of([j])[0]} as "
                        "numbers, and it holds categories: give the column as the forest was "
                        "grown on it."
                    )
            elif j in self.categories:
                name = self.names_of([j])[0]
                if other_of(known) is AnyOther.CODE:
                    raise ValueError(_only_codes(name, "it holds names"))
                # By name, once for each category.
                code = category_codes(self.categories[j], known, name)
                changed[:, j] = _taken(np.append(code, np.nan), values[:, j])
            else:
                changed[:, j] = codes_of_column(forest, j, values[:, j], self.names_of([j])[0])
        return changed

    def names_of(self, columns: Iterable[int]) -> list[str]:
        """What errors call some columns."""
        return [
            f"column {j}" if self.names is None else f"column {self.names[j]!r}" for j in columns
        ]

    def columns_named(self, chosen: Any) -> AnyArray:
        """Numbers of columns that are given by number, by name or by a mask."""
        chosen = np.asarray(chosen)
        if chosen.dtype.kind in "biu":
            return np.arange(self.shape[1])[chosen]
        known = list(self.names or ())
        lacking = [name for name in chosen.tolist() if name not in known]
        if lacking:
            raise ValueError(f"There is no column {lacking[0]!r} among {known}.")
        return np.array([known.index(name) for name in chosen.tolist()], dtype=np.int64)


def needs_reading(X: Any) -> bool:
    """Whether a table has a column that is not simply numbers: strings, categories, objects.

    Parameters
    ----------
    X : anything
        Data frames and arrays of objects may have one; nothing else is read so.

    Returns
    -------
    needs_reading : bool
        Not for an array of objects whose texts are all numbers: these count as numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.coded import needs_reading
    >>> needs_reading(np.array([["a"], ["b"]], dtype=object)), needs_reading(np.eye(2))
    (True, False)
    """
    if hasattr(X, "columns"):
        return any(
            declares_categories(column) or np.asarray(column).dtype.kind not in NUMBERS
            for column in columns_of(X)
        )
    if not (isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 2):
        return False
    return any(isinstance(cell, str) and not _is_number(cell) for cell in X.ravel().tolist())


def categories_of(column: Any, name: str) -> AnyArray | None:
    """The categories that a column holds, in order; None for a column of numbers.

    Parameters
    ----------
    column : Series or array of shape (n_rows,)
        One column.
    name : str
        What an error calls it.

    Returns
    -------
    categories : object array or None
        Strings are sorted. A declared type of categories has an order of its own, which is kept,
        without the categories that no row has.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.coded import categories_of
    >>> categories_of(np.array(["b", None, "a"], dtype=object), "column 0").tolist()
    ['a', 'b']
    """
    declared = _declared(column) if declares_categories(column) else None
    values = np.asarray(column)
    if declared is None and values.dtype.kind in NUMBERS:
        return None
    if values.dtype.kind in "mM":
        if declared is None:
            raise ValueError(_refused(name, "dates or times", "make numbers or texts of them"))
        # In their own type: as numbers they would not know their unit.
        return np.unique(values[~np.isnat(values)])
    listed = values.tolist()
    present = _distinct(listed, name)
    if declared is not None:
        known = [value for value in declared if value in present]
        return _objects(known)
    kinds = {type(value) for value in present}
    if kinds and all(issubclass(kind, str) for kind in kinds):
        return _objects(sorted(present))
    if all(issubclass(kind, Real | Decimal | np.bool_) for kind in kinds):
        return None
    told = " and ".join(sorted(kind.__name__ for kind in kinds))
    texts = any(issubclass(kind, str) for kind in kinds)
    remedy = "make them all texts or all numbers" if texts else "make numbers or texts of them"
    raise ValueError(_refused(name, f"values of type {told}", remedy))


def numbers_of(column: Any, name: str) -> FloatArray:
    """A column of numbers and booleans as floats; NaN for what is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.coded import numbers_of
    >>> numbers_of(np.array([True, None, 2], dtype=object), "column 0").tolist()
    [1.0, nan, 2.0]
    """
    values = np.asarray(column)
    if values.dtype.kind == "O":
        values = np.array([np.nan if is_missing(v) else v for v in values.tolist()], dtype=object)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The {name} was numbers when the model was fitted, and holds other values now: {error}"
        ) from error


def category_codes(values: AnyArray, categories: AnyArray, name: str = "column") -> FloatArray:
    """Position of each value among the categories, NaN where it is not one of them.

    Where `AnyOther` is one of them it has all the others, and only a missing value is NaN. Texts
    in place of numbers, or numbers in place of texts, are then refused: they are no further
    categories, but another way to write them.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.coded import category_codes
    >>> from kpp.forest.others import AnyOther
    >>> values = np.array(["b", "a", None, "c"], dtype=object)
    >>> category_codes(values, np.array(["a", "b"]))
    array([ 1.,  0., nan, nan])
    >>> category_codes(values, np.array(["a", "b", AnyOther.NAME], dtype=object))
    array([ 1.,  0., nan,  2.])
    """
    listed, given = categories.tolist(), values.tolist()
    code_of = {category: float(code) for code, category in enumerate(listed)}
    codes = np.array([code_of.get(value, np.nan) for value in given], dtype=np.float64)
    if other_of(categories) is not None:
        for i in np.flatnonzero(np.isnan(codes)).tolist():
            value = given[i]
            if is_missing(value):
                continue
            if len(listed) > 1 and isinstance(value, str) != isinstance(listed[0], str):
                raise ValueError(
                    f"The {name} holds {value!r}, and the forest knows its categories as "
                    f"{listed[0]!r}: give the column as the forest was grown on it."
                )
            codes[i] = len(listed) - 1
    return codes


def codes_of_column(forest: Forest, j: int, column: Any, name: str) -> FloatArray:
    """A column of a forest's categories as places among them; see `category_codes`.

    Parameters
    ----------
    forest : Forest
        Knows column j by its categories.
    j : int
        The column.
    column : Series or array of shape (n_rows,)
        Its values. Of a column that the forest knows by codes, the codes: whole numbers. A
        declared type of pandas has codes, and they are taken, as the library does it.
    name : str
        What an error calls it.

    Returns
    -------
    codes : float64 array of shape (n_rows,)
    """
    known = forest.categories[j]
    if j in forest.whole_categories:
        column = np.trunc(numbers_of(column, name))
    if other_of(known) is not AnyOther.CODE:
        return category_codes(np.asarray(column), known, name)
    if _type_name(column) == "CategoricalDtype":
        column = column.cat.codes.to_numpy(dtype=np.float64)
        column[column < 0] = np.nan
    try:
        numbers = numbers_of(column, name)
    except ValueError as error:
        raise ValueError(_only_codes(name, "it holds other values")) from error
    if j in forest.missing_values:
        low, high = forest.missing_values[j]
        compared = numbers.astype(forest.dtype)
        numbers[(compared >= low) & (compared <= high)] = np.nan
    parts = numbers[np.floor(numbers) < numbers]
    if len(parts):
        raise ValueError(_only_codes(name, f"it holds {parts[0]:g}"))
    return category_codes(numbers, known, name)


def _only_codes(name: str, what: str) -> str:
    return (
        f"The forest knows the categories of {name} by their codes, whole numbers, and {what}: "
        "give the codes that its model was fitted on."
    )


def codes_among(codes: FloatArray, n_codes: int, chosen: AnyArray) -> AnyArray:
    """Place of each code among some chosen ones; their number for any other, and for NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from kpp.forest.coded import codes_among
    >>> codes_among(np.array([2.0, 1.0, np.nan, 0.0]), 3, np.array([0, 2])).tolist()
    [1, 2, 2, 0]
    """
    place = np.full(n_codes + 1, len(chosen), dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    return _taken(place, codes)


def _taken(values: AnyArray, codes: FloatArray) -> AnyArray:
    """The value of each code; the last one for NaN."""
    at = np.where(np.isnan(codes), len(values) - 1, codes)
    return np.asarray(values[at.astype(np.int64)])


def declares_categories(column: Any) -> bool:
    """Whether a column has a type that declares its categories."""
    return _type_name(column) in CATEGORY_TYPES


def _declares_order(column: Any) -> bool:
    kind = _type_name(column)
    return kind == "Enum" or (kind == "CategoricalDtype" and bool(column.dtype.ordered))


def _type_name(column: Any) -> str:
    dtype = getattr(column, "dtype", None)
    # polars gives a type, or an instance of it.
    return str(getattr(dtype, "__name__", type(dtype).__name__))


def _declared(column: Any) -> list[Any]:
    """The categories of a type that declares them, in its order."""
    kind = _type_name(column)
    if kind == "CategoricalDtype":
        listed: list[Any] = column.cat.categories.tolist()
    elif kind == "Enum":
        listed = column.dtype.categories.to_list()
    else:  # numbered as they came
        listed = sorted(column.drop_nulls().unique().to_list())
    return listed


def _distinct(values: list[Any], name: str) -> set[Any]:
    try:
        return {value for value in set(values) if not is_missing(value)}
    except TypeError as error:  # lists, dicts, arrays
        kinds = (type(v).__name__ for v in values if getattr(v, "__hash__", None) is None)
        kind = next(kinds, type(values[0]).__name__)
        raise ValueError(
            _refused(name, f"values of type {kind}", "make columns of numbers or texts of them")
        ) from error


def _refused(name: str, what: str, remedy: str) -> str:
    return (
        f"The {name} holds {what}. A column is numbers, booleans, texts or categories, missing or "
        f"not: {remedy}, or leave it out."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _objects(values: list[Any]) -> AnyArray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
