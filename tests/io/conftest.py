"""What the tests of files share: round trips, comparisons to the last bit, and mutations."""

import dataclasses
from functools import cached_property
from types import FunctionType, ModuleType, SimpleNamespace

import numpy as np
import pytest

from kpp import AdditiveForest, Forest
from kpp.forest.packed import PackedStatistics
from kpp.forest.statistics import NodeStatistics
from kpp.geometry import PathMap
from kpp.geometry.weights import DerivedWeights, PathWeights
from kpp.io import load, save
from kpp.io.container import Container, pack
from kpp.io.saving import FORMAT_VERSION
from kpp.io.strict_json import dump_json
from kpp.models.fits import LinearFit
from kpp.scores.additive import LayerBlock, ScoreBlock

# Kept only to save time, and made again when they are asked for.
CACHED = {
    name
    for cls in (Forest, PathMap, LinearFit, AdditiveForest)
    for name, value in vars(cls).items()
    if isinstance(value, cached_property)
} - {"parent", "source_leaf", "split_kind", "leaf_ids", "squared_scale"}


# Loaded objects that make what the rest implies, what they stand for, and what they make it from.
LEAN = {LayerBlock: ScoreBlock, PackedStatistics: NodeStatistics, DerivedWeights: PathWeights}
HIDDEN = {
    LayerBlock: CACHED | {"layer", "first"},
    PackedStatistics: {"_at_splits", "_at_leaves", "_together", "_is_leaf"},
    DerivedWeights: {"forest", "node_weight"},
    PathMap: CACHED | {"_leaf_places"},
}


def is_made(thing, name):
    """Whether a class makes an attribute when it is asked for."""
    return isinstance(getattr(type(thing), name, None), cached_property | property)


def differences(a, b, where="", seen=None):
    """Where two objects differ: types, attributes, dtypes, shapes, memory order, and every bit."""
    seen = set() if seen is None else seen
    if (id(a), id(b)) in seen:
        return []
    seen.add((id(a), id(b)))
    if LEAN.get(type(a), type(a)) is not LEAN.get(type(b), type(b)):
        return [f"{where}: {type(a).__name__} and {type(b).__name__}"]
    if isinstance(a, ModuleType | FunctionType):  # what they hold is not the model's
        return [] if a is b else [f"{where}: {a!r} and {b!r}"]
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return [f"{where}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"]
        if a.dtype == object:
            return differences(a.ravel().tolist(), b.ravel().tolist(), where, seen)
        if a.flags.c_contiguous != b.flags.c_contiguous and a.flags.forc:
            return [f"{where}: memory order"]
        return [] if a.tobytes() == b.tobytes() else [f"{where}: numbers"]
    if isinstance(a, np.dtype | type | str | bytes | int | slice | None):
        return [] if a == b else [f"{where}: {a!r} and {b!r}"]
    if type(a).__name__ == "DatetimeTZDtype":
        return [] if a == b else [f"{where}: {a!r} and {b!r}"]
    if isinstance(a, float | np.generic):
        return [] if a == b or (a != a and b != b) else [f"{where}: {a!r} and {b!r}"]
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return [f"{where}: lengths {len(a)} and {len(b)}"]
        pairs = enumerate(zip(a, b, strict=True))
        return [d for k, (x, y) in pairs for d in differences(x, y, f"{where}[{k}]", seen)]
    if isinstance(a, set):
        return [] if a == b else [f"{where}: {a} and {b}"]
    if isinstance(a, dict):
        if list(a) != list(b):
            return [f"{where}: keys {list(a)} and {list(b)}"]
        return [d for k in a for d in differences(a[k], b[k], f"{where}[{k!r}]", seen)]
    if hasattr(a, "equals"):  # a data frame
        return [] if a.equals(b) else [f"{where}: tables"]
    if dataclasses.is_dataclass(a) or hasattr(a, "__dict__"):
        own, other = (vars(x).keys() - HIDDEN.get(type(x), CACHED) for x in (a, b))
        names = own | other
        # What one does not hold it must be able to make.
        lost = [k for x in (a, b) for k in names if k not in vars(x) and not is_made(x, k)]
        if lost:
            return [f"{where}: attributes {sorted(lost)}"]
        pairs = ((k, getattr(a, k), getattr(b, k)) for k in sorted(names))
        return [d for k, x, y in pairs for d in differences(x, y, f"{where}.{k}", seen)]
    return [] if a == b else [f"{where}: {a!r} and {b!r}"]


@pytest.fixture
def again(tmp_path):
    """A model after it has been in a file."""

    def round_trip(model, **options):
        return load(save(model, tmp_path / "model.kpp", **options))

    return round_trip


@pytest.fixture
def differ():
    return differences


def unpack(path):
    """The document and the arrays of a file."""
    with open(path, "rb") as file:
        container = Container(file)
        arrays = [container.array(k) for k in range(1, len(container.entries))]
        return container.document(), arrays


def forge(path, document, arrays, version=FORMAT_VERSION):
    """Write a file with right checksums, whatever it holds; a document may be raw bytes."""
    text = document if isinstance(document, bytes) else dump_json(document)
    path.write_bytes(b"".join(pack(version, text, arrays, 0)))
    return path


@pytest.fixture
def files():
    """Take files apart and put others together."""
    return SimpleNamespace(unpack=unpack, forge=forge)
