"""Linear terms and their map, in a file.

A file holds the coordinates of the rows of the fit, not the rows: they must be coordinates that
some row has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._typing import FloatArray
from kpp.geometry.linear import LARGEST, SMALLEST, LinearMap, LinearTerms
from kpp.geometry.maps import NORMALIZATIONS
from kpp.io.fields import floats, integers, is_number, require, whole
from kpp.io.schema import required
from kpp.io.values import Fields, Kind
from kpp.io.writer import Writer
from kpp.scores import LinearScores

NUMBERS = ("low", "high", "mean", "sd")
TERMS = required("column", "is_missing", *NUMBERS, "factor", "n_features")
MAP = required("terms", "values", "normalize")
SCORES = required("name", "terms", "coef")
# Relative: a coordinate is one rounded difference times a rounded slope.
ROUNDING = 1e-12
MOST_COLUMNS = 2**31 - 1


def encode_terms(terms: LinearTerms, writer: Writer, where: str) -> Fields:
    """Take linear terms apart."""
    arrays = {name: getattr(terms, name) for name in ("column", "is_missing", *NUMBERS)}
    return {
        **{name: writer.value(value, where) for name, value in arrays.items()},
        "factor": float(terms.factor),
        "n_features": int(terms.n_features),
    }


def decode_terms(fields: Fields) -> LinearTerms:
    """Put linear terms together."""
    n_features = whole(fields["n_features"], "columns", 1, MOST_COLUMNS)
    column = integers(fields["column"], "columns of terms", None, 0, n_features - 1)
    shape, missing = column.shape, fields["is_missing"]
    right = isinstance(missing, np.ndarray) and missing.dtype == bool and missing.shape == shape
    require(right, "is_missing must be a boolean for each term")
    low, high, mean, sd = (floats(fields[name], f"{name} of terms", shape) for name in NUMBERS)
    # In the order of their columns, what misses last: no term stands twice.
    require((np.diff(2 * column + missing) > 0).all(), "terms must be in order, each once")
    require((low < high).all() and (low <= mean).all() and (mean <= high).all(), "ranges of terms")
    require((sd > SMALLEST).all() and (sd < LARGEST).all(), "spreads of terms")
    of_missing = [(low, 0.0), (high, 1.0), (mean, 0.0), (sd, 1.0)]
    alike = all((values[missing] == known).all() for values, known in of_missing)
    require(alike, "terms of what misses are 0 or 1")
    factor = fields["factor"]
    require(is_number(factor) and 0 < factor <= 1 / SMALLEST, "the factor of terms")
    terms = LinearTerms(column, missing, low, high, mean, sd, float(factor), n_features)
    with np.errstate(over="ignore", invalid="ignore"):
        require(np.isfinite(terms.sup_norm()), "the coordinates must be finite")
    return terms


def encode_map(embedding: LinearMap, writer: Writer, where: str) -> Fields:
    """Take the embedding of linear terms, at the rows of its fit, apart."""
    return {
        "terms": writer.value(embedding.terms, where),
        "values": writer.value(np.ascontiguousarray(embedding.values), where),
        "normalize": embedding.normalize,
    }


def decode_map(fields: Fields) -> LinearMap:
    """Put an embedding of linear terms together."""
    terms, values = fields["terms"], fields["values"]
    require(isinstance(terms, LinearTerms), "a map of linear terms needs them")
    n_rows = len(values) if isinstance(values, np.ndarray) and values.ndim == 2 else 0
    floats(values, "coordinates", (n_rows, len(terms)))
    slack = ROUNDING * np.maximum(np.abs(terms.least), np.abs(terms.most))
    inside = (values >= terms.least - slack).all() and (values <= terms.most + slack).all()
    require(inside, "coordinates must be within their ranges")
    flags = values[:, terms.is_missing]
    require(((flags == 0) | (flags == terms.factor)).all(), "what misses is missing, or is not")
    require(fields["normalize"] in NORMALIZATIONS, "normalize must be 'forest' or 'tree'")
    return LinearMap(terms, np.asfortranarray(values), normalize=fields["normalize"])


def scores_fields(linear: tuple[LinearScores, ...]) -> list[Fields]:
    """Take what linear terms add to scores apart."""
    return [
        {"name": terms.name, "terms": terms.terms, "coef": np.ascontiguousarray(terms.coef)}
        for terms in linear
    ]


def decode_scores(stored: Any, n_scores: int, n_features: int) -> tuple[LinearScores, ...]:
    """Put what linear terms add to scores together."""
    require(isinstance(stored, list), "linear terms must be a list")
    found = []
    for own in stored:
        require(isinstance(own, dict), "linear terms must be by name")
        terms = own["terms"]
        require(isinstance(own["name"], str), "linear terms need a name")
        right = isinstance(terms, LinearTerms) and terms.n_features == n_features
        require(right, "linear terms of other columns")
        coef = floats(own["coef"], "coefficients of terms", (n_scores, len(terms)))
        found.append(LinearScores(own["name"], terms, coef))
    return tuple(found)


def largest_sums(linear: tuple[LinearScores, ...], n_scores: int) -> FloatArray:
    """The most that linear terms can add to each score, by magnitude; shape (n_scores,)."""
    total = np.zeros(n_scores)
    with np.errstate(over="ignore", invalid="ignore"):
        for terms in linear:
            size = np.maximum(np.abs(terms.terms.least), np.abs(terms.terms.most))
            total = total + (np.abs(terms.coef) * size).sum(axis=1)
    return total


KINDS: dict[type, Kind] = {
    LinearTerms: Kind("kpp.LinearTerms", TERMS, encode_terms, decode_terms),
    LinearMap: Kind("kpp.LinearMap", MAP, encode_map, decode_map),
}
