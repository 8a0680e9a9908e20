"""Which values of foreign objects are harmless, class by class; asked on saving and on loading.

Three kinds of harm remain when every value is data. Some values make a method open files or
directories, or run long (names, patterns). Some are positions that compiled code of scipy follows
without looking, such as the columns of a sparse matrix. And some would be called or formatted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from kpp.io.fields import MOST_THREADS
from kpp.io.values import DTYPES, TIME_ZONE, TYPES

# scikit-learn's own pattern. Any other could be one that takes exponential time.
TOKENS = r"(?u)\b\w\w+\b"
DATE_PARTS = (
    *("year", "month", "day", "hour", "minute", "second", "microsecond", "nanosecond"),
    *("total_seconds", "weekday", "day_of_year"),
)
LONGEST_FORMAT = 100
# Cells of a dtype of texts all take this many letters.
LONGEST_CELL = 256
# As numpy names numbers: "float", "f4", "<i8".
NUMBER = re.compile(r"[<>=|]?[A-Za-z]{1,10}\d{0,3}")
DATE_DTYPES = (
    ("pandas", "DatetimeTZDtype"),
    *(("polars", name) for name in ("Date", "Datetime")),
)


class RefusalError(Exception):
    """Why an object is refused."""


def check_any(thing: Any) -> None:
    """What no object may have."""
    own = vars(thing)
    n_jobs = own.get("n_jobs")
    if n_jobs is not None:
        valid = isinstance(n_jobs, int | np.integer) and abs(int(n_jobs)) <= MOST_THREADS
        _require(valid, f"n_jobs must be None or at most {MOST_THREADS}.")
    for name, value in own.items():
        if name.endswith(("dtype", "dtype_")):
            _require(_is_dtype(value), f"{name} is not a dtype of plain numbers or dates.")
    memory = own.get("memory")
    _require(memory is None, "a cache on disk (memory) is not saved: set_params(memory=None).")
    seed = own.get("random_state")
    _require(
        seed is None or isinstance(seed, int | np.integer),
        "random_state must be an integer or None: the state of a generator is not data.",
    )


def limit_jobs(thing: Any) -> None:
    """Let no file choose how many processes start: at most as many as there are processors."""
    own = vars(thing)
    if own.get("n_jobs") is not None:
        own["n_jobs"] = min(own["n_jobs"], os.cpu_count() or 1)


def _is_dtype(value: Any) -> bool:
    """Whether a dtype makes no library open a file, and no cell take much room."""
    if isinstance(value, np.dtype):
        return value.kind in "biufOmM" or (value.kind == "U" and value.itemsize <= 4 * LONGEST_CELL)
    if isinstance(value, str):
        if value in DTYPES:
            return True
        try:
            return bool(NUMBER.fullmatch(value)) and np.dtype(value).kind in "biufO"
        except TypeError:
            return False
    return value is None or any(value is t for t in TYPES.values()) or _is_date_dtype(value)


def _is_date_dtype(value: Any) -> bool:
    kind = type(value)
    return (kind.__module__.partition(".")[0], kind.__name__) in DATE_DTYPES


def _require(condition: Any, what: str) -> None:
    if not condition:
        raise RefusalError(what)


def _check_identity(thing: Any) -> None:
    _require(
        thing.func is None and thing.inverse_func is None,
        "its function is code, and files hold data only. Do this step outside of the saved "
        "model, or by one of scikit-learn's own classes.",
    )


def _check_one_hot(thing: Any) -> None:
    """The columns of ones that it writes: a sparse matrix does not check them."""
    _require(np.dtype(thing.dtype).kind in "biuf", "dtype must be a number.")
    combiner = thing.feature_name_combiner
    _require(combiner == "concat", "feature_name_combiner must be 'concat', not code.")
    if not hasattr(thing, "categories_"):
        return
    _check_categories(thing)
    n_columns = len(thing.categories_)
    grouped = [len(known) for known in thing.categories_]
    _require(type(thing._infrequent_enabled) is bool, "_infrequent_enabled is not a boolean.")
    if thing._infrequent_enabled:
        rare, mappings = thing._infrequent_indices, thing._default_to_infrequent_mappings
        _require(isinstance(rare, list) and len(rare) == n_columns, "rare categories differ.")
        _require(isinstance(mappings, list) and len(mappings) == n_columns, "mappings differ.")
        for k, (own, mapping) in enumerate(zip(rare, mappings, strict=True)):
            _require((own is None) == (mapping is None), "rare categories without a mapping.")
            if own is None:
                continue
            n_known = grouped[k]
            _require(own.ndim == 1 and len(own) > 0, "no rare categories.")
            _require(mapping.shape == (n_known,), "a mapping of other categories.")
            # Rare categories share one column.
            grouped[k] = n_known + 1 - len(own)
            _positions(own, n_known)
            _positions(mapping, grouped[k])
    drop = thing._drop_idx_after_grouping
    if drop is not None:
        _require(isinstance(drop, np.ndarray) and drop.shape == (n_columns,), "dropped columns.")
        for k, position in enumerate(drop.tolist()):
            if position is not None:
                _positions(np.array([position]), grouped[k])
                grouped[k] -= 1
    _require(list(thing._n_features_outs) == grouped, "the number of its columns differs.")


def _check_categories(thing: Any) -> None:
    """Numbers are looked up by bisection, which needs their order."""
    _require(isinstance(thing.categories_, list), "categories_ is not a list.")
    _require(thing.n_features_in_ == len(thing.categories_), "columns and categories differ.")
    for known in thing.categories_:
        _require(isinstance(known, np.ndarray) and known.ndim == 1, "categories of a wrong type.")
        values = known.tolist()
        # A missing value, None or NaN, comes last, and has no order.
        if values and (values[-1] is None or values[-1] != values[-1]):
            values.pop()
        if not all(isinstance(value, str) for value in values):
            rising = all(a < b for a, b in pairwise(values))
            numbers = all(isinstance(value, int | float) for value in values)
            _require(numbers and rising, "categories that are numbers must rise.")


def _positions(values: Any, n: int) -> None:
    whole = isinstance(values, np.ndarray) and values.dtype.kind in "iu"
    _require(whole and (values >= 0).all() and (values < n).all(), "a position out of range.")


def _check_vectorizer(thing: Any) -> None:
    """Its vocabulary numbers the columns of a sparse matrix."""
    _require(thing.input == "content", "input must be 'content': files are not read.")
    _require(thing.encoding == "utf-8", "encoding must be 'utf-8'.")
    _require(thing.analyzer in ("word", "char", "char_wb"), "analyzer must be a name, not code.")
    _require(thing.token_pattern == TOKENS, "token_pattern must be the default one.")
    _require(thing.preprocessor is None and thing.tokenizer is None, "preprocessors are code.")
    _require(np.dtype(thing.dtype).kind in "iuf", "dtype must be a number.")
    low, high = thing.ngram_range
    _require(type(low) is int and type(high) is int and 0 < low <= high < 100, "ngram_range.")
    if hasattr(thing, "vocabulary_"):
        known = thing.vocabulary_
        _require(isinstance(known, dict), "the vocabulary is not a dict.")
        _require(all(type(word) is str for word in known), "words must be text.")
        whole = all(isinstance(place, int | np.integer) for place in known.values())
        places = sorted(int(place) for place in known.values()) if whole else None
        _require(places == list(range(len(known))), "the vocabulary must number its words.")


def _check_svd(thing: Any) -> None:
    if hasattr(thing, "components_"):
        components = thing.components_
        right = isinstance(components, np.ndarray) and components.ndim == 2
        _require(right and components.dtype.kind == "f", "components_ must be a matrix.")


def _check_columns(thing: Any) -> None:
    # Names of columns are made by formatting; anything but the name itself could be huge.
    _require(thing.rename_columns == "{}", "rename_columns must be '{}'.")


def _check_dates(thing: Any) -> None:
    _require(thing.periodic_encoding in (None, "circular"), "splines of dates are not saved.")
    parts = getattr(thing, "extracted_features_", [])
    _require(all(part in DATE_PARTS for part in parts), "a part of a date that is not known.")


def _check_parsed(thing: Any) -> None:
    dtype = getattr(thing, "output_dtype_", None)
    valid = dtype is None or isinstance(dtype, np.dtype) or _is_date_dtype(dtype)
    _require(valid, "output_dtype_ is not a dtype of dates.")  # pandas opens files for texts
    for name in ("format", "format_"):
        form = getattr(thing, name, None)
        short: bool = form is None or (type(form) is str and len(form) <= LONGEST_FORMAT)
        _require(short, f"{name} must be None or a text of at most {LONGEST_FORMAT} letters.")
    # pandas takes "dateutil/..." for the path of a file.
    zone = getattr(thing, "output_time_zone_", None)
    plain = zone is None or (isinstance(zone, str) and TIME_ZONE.fullmatch(zone))
    _require(plain, f"the time zone {zone!r} is not a plain name.")


def check_booster(thing: Any) -> None:
    """Parameters of other libraries' boosters: numbers and words, no places on a disk."""
    parameters = thing.get_params(deep=False)
    _require(isinstance(parameters, dict), "parameters must be by name.")
    for name, value in parameters.items():
        _require(isinstance(name, str), "parameters must be by name.")
        _require(_is_setting(value), f"{name} is no number, word, or list of these: {value!r}.")


def _is_setting(value: Any, depth: int = 3) -> bool:
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_setting(part, depth - 1) for part in value)
    if isinstance(value, dict):
        return depth > 0 and all(
            _is_setting(part, depth - 1) for pair in value.items() for part in pair
        )
    if isinstance(value, str):
        # Some of their parameters name files that a fit writes, or libraries that it loads.
        return len(value) <= LONGEST_FORMAT and not set(value) & set("/\\")
    return value is None or isinstance(value, bool | int | float | np.number)


CHECKS: dict[str, Callable[[Any], None]] = {
    "sklearn.FunctionTransformer": _check_identity,
    "sklearn.OneHotEncoder": _check_one_hot,
    "sklearn.CountVectorizer": _check_vectorizer,
    "sklearn.TfidfVectorizer": _check_vectorizer,
    "sklearn.TruncatedSVD": _check_svd,
    "skrub.ApplyToCols": _check_columns,
    "skrub.ApplyToEachCol": _check_columns,
    "skrub.DatetimeEncoder": _check_dates,
    "skrub.ToDatetime": _check_parsed,
}
