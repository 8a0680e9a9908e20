"""Defaults are promises: a call that leaves an argument out means the same in every version.

A change here changes what users get without their doing; it belongs in the changelog.
"""

import importlib
import inspect
import pkgutil

import pytest

ROOMS = ("bounds", "certificates", "geometry", "solvers")
# By the argument's name, whatever takes it.
EVERYWHERE = {
    "delta": 0.05,  # the docs speak of 95%
    "independent_duplicates": False,  # equal rows count as one unless the caller vouches for them
    "fit_intercept": True,
    "tol": 1e-4,
    "warn": True,
    "max_iter": 1000,
    "n_candidates": 1,  # of one fixed beforehand
    "n_cells": 1,
    "n_classes": 2,
    "squared": False,
    "centered": False,
    "distance": False,
    "allow_no_mass": False,
    "axis": 0,  # of rows
    "has_target": True,
    "is_weighted": False,
    "curve": False,
    "effort": 100_000,
    "most": 10**9,
    "n_pairs": 1000,
    "n_targets": 1,
    "random_state": 0,
    "exact_rows": 2000,
    "n_probes": 2,
    "n_steps": 30,
    "scale": 1.0,  # of a path: the unit of its steps
    "error": 0.0,
    "is_read": False,  # Huber's threshold is taken as given
    "rate": 1.0,
    "row": 0,  # the first of those that were certified
    "sum_to": 0.0,
}


def signatures(room):
    package = importlib.import_module(f"kpp.{room}")
    for found in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"kpp.{room}.{found.name}")
        for name, thing in vars(module).items():
            if getattr(thing, "__module__", "") != module.__name__:
                continue
            if inspect.isfunction(thing):
                yield f"{found.name}.{name}", inspect.signature(thing)
            elif inspect.isclass(thing):
                for key, method in vars(thing).items():
                    if inspect.isfunction(method) and (key == "__init__" or key[0] != "_"):
                        yield f"{found.name}.{name}.{key}", inspect.signature(method)


@pytest.mark.parametrize("room", ROOMS)
def test_defaults(room):
    found = {}
    for function, signature in signatures(room):
        for name, parameter in signature.parameters.items():
            if isinstance(parameter.default, int | float):
                found[f"{function}({name})"] = (parameter.default, EVERYWHERE.get(name, "unknown"))
    assert found
    assert {key: pair[0] for key, pair in found.items()} == {
        key: pair[1] for key, pair in found.items()
    }
