"""Fingerprints of rows: 64 bits that say whether two rows are equal, and nothing else of them."""

from __future__ import annotations

from collections.abc import Hashable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, betaincinv
from scipy.stats import binom

from kpp._rows import columns_of
from kpp._typing import AnyArray, BoolArray, FloatArray

Prints = NDArray[np.uint64]

# Constants of the splitmix64 generator.
STEP = 0x9E3779B97F4A7C15
FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
HALF = np.uint64(32)
LOWER = np.uint64(0xFFFFFFFF)
# How seldom halves of fingerprints coincide so often by chance before it counts.
SELDOM = 1e-6


def row_fingerprints(X: Any) -> Prints:
    """Return 64 bits for each row: equal for rows that are equal in every column.

    Numbers count by their value, whatever type holds them; -0.0 is 0.0, all missing values are
    one, other values count by their text. The upper half sees the values in single precision, so
    that rows are known again after a cast. Different rows share all bits with probability
    2 to the power -64.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_columns)
        Rows.

    Returns
    -------
    fingerprints : uint64 array of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from kpp._fingerprints import row_fingerprints
    >>> a, b, c = row_fingerprints(np.array([[1.0, -0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> bool(a == b), bool(a == c)
    (True, False)
    """
    return _together(*_hashes(X))


def rounded_fingerprints(X: Any) -> Prints:
    """Return 64 bits for each row: equal for rows that are equal in single precision.

    Unlike those of `row_fingerprints`, which tell apart what single precision does not, they are
    the same for a table and for its copy after a cast.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_columns)
        Rows.

    Returns
    -------
    fingerprints : uint64 array of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from kpp._fingerprints import rounded_fingerprints
    >>> X = np.random.default_rng(0).normal(size=(5, 2))
    >>> one, other = rounded_fingerprints(X), rounded_fingerprints(X.astype(np.float32))
    >>> bool((one == other).all())
    True
    """
    return _hashes(X)[1]


def array_digest(values: Any) -> str:
    """Return 128 bits, as text, that tell an array of numbers, in its order, from any other.

    Parameters
    ----------
    values : array of shape (n,) or (n, k)
        Numbers; of what type does not count, nor the sign of 0.

    Returns
    -------
    digest : str

    Examples
    --------
    >>> from kpp._fingerprints import array_digest
    >>> array_digest([1, 2]) == array_digest([1.0, 2.0]) != array_digest([2, 1])
    True
    """
    numbers = np.asarray(values, dtype=np.float64) + 0.0
    numbers = np.ascontiguousarray(numbers.reshape(len(numbers), -1))
    return blake2b(numbers.tobytes() + str(numbers.shape).encode(), digest_size=16).hexdigest()


def among(X: Any, known: Prints) -> BoolArray:
    """Say which rows have a fingerprint among known ones.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_columns)
        Rows.
    known : uint64 array
        From `row_fingerprints`, of rows that may have had another precision.

    Returns
    -------
    found : bool array of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from kpp._fingerprints import among, row_fingerprints
    >>> X = np.random.default_rng(0).normal(size=(5, 2))
    >>> among(X[3:].astype(np.float32), row_fingerprints(X[:4])).tolist()
    [True, False]
    """
    double, single = _hashes(X)
    # The second: the known rows were in single precision, these are not.
    found = np.isin(_together(double, single), known) | np.isin(single, known)
    # Equal in single precision only: cast the other way round, or with other last bits, as a
    # product of matrices of another shape has them.
    halves = np.isin(single >> HALF, known >> HALF) & ~found
    if n_halves := int(halves.sum()):
        if bool((double == single).all()):
            by_chance = bdtrc(n_halves - 1, len(halves), len(known) / 2**32) > SELDOM
        else:
            by_chance = n_halves <= most_by_chance(known >> HALF, len(halves))
        found = found if by_chance else found | halves
    return np.asarray(found, dtype=bool)


def most_by_chance(known: Prints, n_rows: int) -> float:
    """How many of independent rows equal a known one, at most, except with probability 2e-4.

    An independent row equals a known one about as often as a known row equals another: given all
    of them, each is as likely to be the new one.
    """
    n_twins = int(with_twin(known).sum())
    # Upper limit of a binomial share, and then of the count.
    most = 1.0 if n_twins >= len(known) else betaincinv(n_twins + 1, len(known) - n_twins, 1 - 1e-4)
    return float(binom.ppf(1 - 1e-4, n_rows, most))


def with_twin(fingerprints: Prints) -> BoolArray:
    """Say which rows have the fingerprint of another; shape (n_rows,)."""
    _, place, count = np.unique(fingerprints, return_inverse=True, return_counts=True)
    return np.asarray(count[place.ravel()] > 1, dtype=bool)


def _together(double: Prints, single: Prints) -> Prints:
    return (single >> HALF << HALF) | (double & LOWER)


def _hashes(X: Any) -> tuple[Prints, Prints]:
    """Hashes of the rows in double and in single precision; the same where nothing is lost."""
    double = np.zeros(len(X), dtype=np.uint64)
    single = double.copy()
    for j, column in enumerate(columns_of(X)):
        values, text = _canonical(column)
        salt = np.uint64(STEP * (j + 1) % 2**64)
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32).astype(np.float64)
        for state, numbers in ((double, values), (single, rounded)):
            bits = numbers.view(np.uint64)
            if text is not None:
                bits = np.where(text > 0, text, bits)
            state[:] = _mixed(state ^ _mixed(bits + salt))
    return double, single


def _canonical(column: Any) -> tuple[FloatArray, Prints | None]:
    """The numbers of a column, and hashes of what are none; 0 there for numbers."""
    values: AnyArray = np.asarray(column)
    text = None
    if values.dtype.kind not in "fiub":
        values, text = _of_objects(values)
    numbers = values.astype(np.float64) + 0.0  # which makes -0.0 to 0.0
    numbers[np.isnan(numbers)] = np.nan  # of one sign and payload
    return np.ascontiguousarray(numbers), text


def _of_objects(values: AnyArray) -> tuple[FloatArray, Prints]:
    numbers, text = np.zeros(len(values)), np.zeros(len(values), dtype=np.uint64)
    known: dict[Any, tuple[float, int]] = {}
    for i, value in enumerate(values.tolist()):
        value = value if isinstance(value, Hashable) else str(value)
        if value not in known:
            known[value] = _of_object(value)
        numbers[i], text[i] = known[value]
    return numbers, text


def _of_object(value: Any) -> tuple[float, int]:
    try:
        # A forest that takes numbers reads them from texts too.
        return float(value), 0
    except (TypeError, ValueError, OverflowError):
        pass
    missing = value is None or str(value) in ("<NA>", "NaT")
    if missing:
        return np.nan, 0
    digest = blake2b(str(value).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return 0.0, int.from_bytes(digest, "little") | 1


def _mixed(bits: Prints) -> Prints:
    """The finaliser of splitmix64: every bit of the input moves every bit of the result."""
    bits = (bits ^ (bits >> np.uint64(30))) * FACTORS[0]
    bits = (bits ^ (bits >> np.uint64(27))) * FACTORS[1]
    return bits ^ (bits >> np.uint64(31))
