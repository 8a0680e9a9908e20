"""How a model was fitted, and fingerprints of its rows, in a file."""

from __future__ import annotations

import re
from dataclasses import fields
from math import prod
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kpp.io.fields import is_number, require, whole
from kpp.io.schema import Field, FieldTable, required
from kpp.models.linear import KPPLinearModel
from kpp.models.nested import NESTED
from kpp.models.penalties import grids_of
from kpp.models.plans import Splitter
from kpp.models.record import CALLER_WEIGHTS, CLASS_WEIGHTS, FOLDS, FitRecord
from kpp.models.regimes import ALPHA_SELECTIONS, REGIMES

# Came later than the others, within a format.
LATER: FieldTable = {
    "target_digest": Field(since=2, default=None),
    "n_candidates": Field(since=2, default=1),
}
RECORD = required(*(f.name for f in fields(FitRecord) if f.name not in LATER)) | LATER
DIGEST = re.compile(r"[0-9a-f]{32}")


def decode_record(stored: Any, model: KPPLinearModel) -> FitRecord:
    """Put a record together, and compare it with the model; rebuild that of an older file."""
    if stored is None:
        return _rebuilt(model)
    one_of = {
        "center": ("zero", "partition"),
        "folds": FOLDS,
        "alpha_selection": ("given", *ALPHA_SELECTIONS),
        "class_weight": CLASS_WEIGHTS,
    }
    require(stored["regime"] == model.regime_, "the record is of another regime")
    for name, known in one_of.items():
        value = stored[name]
        require(isinstance(value, str) and value in known, f"{name} of the fit must be known")
    selected = stored["alpha_selection"] == model.alpha_selection_
    require(selected, "alpha_selection of the fit must be the model's")
    centred = stored["center"] == "zero" or REGIMES[model.regime_].splits_rows
    require(centred, "this regime has no centre")
    for name in ("alphas_given", "fit_intercept"):
        require(isinstance(stored[name], bool), f"{name} of the fit must be true or false")
    weights, trees = stored["caller_weights"], stored["independent_trees"]
    named = isinstance(weights, tuple) and all(isinstance(name, str) for name in weights)
    require(named and set(weights) <= set(CALLER_WEIGHTS), "caller_weights must be known")
    told = isinstance(trees, tuple) and all(isinstance(value, bool) for value in trees)
    require(told and trees, "independent_trees must be true or false")
    n_rows = np.iinfo(np.int32).max
    n_groups = stored["n_groups"]
    most = 0 if n_groups is None else whole(n_groups, "n_groups", 1, n_rows)
    whole(stored["largest_group"], "largest_group", 1, n_rows if most else 1)
    whole(stored["divided_groups"], "divided_groups", 0, most)
    require(is_number(stored["tol"]), "tol of the fit must be a number")
    whole(stored["max_iter"], "max_iter", 0, 2**62)
    counts = REGIMES[model.regime_].leaves_folds_out
    if model.alpha_selection_ == NESTED:
        require(counts and model.folds_ is not None, "only parts without their folds choose alone")
        grids = [grid for _, grid in grids_of(model)]
        right = all(len(grid) == len(model.folds_ or ()) for grid in grids)
        require(right, "an alpha for every part")
        # Each block has a layer in every part, part by part.
        used = [[fit.alpha for fit in model.fits_[k :: len(grids)]] for k in range(len(grids))]
        right = all(np.array_equal(*pair) for pair in zip(used, grids, strict=True))
        require(right, "the alphas of the parts must be those of their layers")
        counts = False
    # A choice among the alphas that are shown was one among as many, at least.
    least = prod(len(grid) for _, grid in grids_of(model)) if counts else 1
    whole(stored["n_candidates"], "n_candidates", least, 2**62 if counts else 1)
    digest = stored["target_digest"]
    right = digest is None or (isinstance(digest, str) and DIGEST.fullmatch(digest) is not None)
    require(right, "target_digest must be 32 hexadecimal digits")
    return FitRecord(**stored)


def decode_fingerprints(stored: Any, n_rows: int) -> Any:
    """Return the fingerprints of all rows that were given to fit; None for an older file."""
    if stored is not None:
        right = isinstance(stored, np.ndarray) and stored.shape == (n_rows,)
        require(right and stored.dtype == np.uint64, "one fingerprint for each row of the fit")
    return stored


def _rebuilt(model: KPPLinearModel) -> FitRecord:
    """What the parameters say, which is all that an older file has."""
    splitter = Splitter(model.cv, None, is_classifier(model))
    try:
        return FitRecord.of(
            model,
            folds="none" if model.folds_ is None else splitter.kind(is_grouped=False),
            is_weighted=model.sample_weight_ is not None,
        )
    except (TypeError, ValueError, OverflowError) as error:
        require(False, f"its parameters are not those of a fit: {error}")
        raise
