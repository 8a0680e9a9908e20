"""`outline`: what a saved model is, from a small part of its file.

Of the objects of this package only the fields that are shown are read; the arrays of forests,
weights, coefficients and rows, which are nearly all of a file, are not. The preparation is built,
since only its own steps can say which columns they make.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from kpp.forest.layout import MAX_NODES
from kpp.io.container import Container
from kpp.io.fields import integers, is_number, labels, require, whole
from kpp.io.forests import MOST_COLUMNS
from kpp.io.kinds import KnownKinds
from kpp.io.left_rows import MOST_ROWS
from kpp.io.loading import (
    FileSummary,
    differing_versions,
    in_file,
    read_document,
    summarize,
    warn_of_versions,
)
from kpp.io.reader import Reader
from kpp.io.schema import complete
from kpp.io.values import TAG, Fields, Kind
from kpp.models.regimes import REGIMES

PIPELINE = "sklearn.Pipeline"
ESTIMATOR = ("n_features_in_", "feature_names_in_", "blocks")
LINEAR = (*ESTIMATOR, "classes_", "alpha_", "regime_", "n_rows_left")
# Which fields are read, by kind. Of those with a star the shape is enough.
READ = {
    "kpp.Forest": ("tree_sizes",),
    "kpp.PathMap": ("forest", "*leaves"),
    "kpp.LinearMap": ("*values",),
    "kpp.AdditiveForest": ("forest",),
    "kpp.KPPEmbedding": ESTIMATOR,
    "kpp.KPPRegressor": LINEAR,
    "kpp.KPPClassifier": LINEAR,
}
TASKS = {
    "kpp.KPPEmbedding": "embedding",
    "kpp.KPPRegressor": "regression",
    "kpp.KPPClassifier": "classification",
}


@dataclass(frozen=True)
class ModelOutline:
    """What a saved model is.

    Parameters
    ----------
    summary : FileSummary
        What the file says of itself.
    kind : str
        Class of the model; behind a preparation, that of the last step.
    n_trees, n_nodes : int
        Of all its forests.
    n_bytes_taken : int
        Bytes of the file that were read, and whose checksums are right.
    preparation : transformer, Pipeline of transformers, or None
        The fitted steps before the model.
    task : {"classification", "regression", "embedding"} or None
        None for a forest.
    classes : array of shape (n_classes,) or None
        Of a classifier.
    regime : str or None
        Which labels the forest has seen.
    alpha : float or None
        Penalty.
    n_rows : int or None
        Rows of the linear layer, or of the embedding.
    columns : namespace or None
        With ``n_features_in_`` and, where the fit has seen names, ``feature_names_in_``, as
        the model has them.
    """

    summary: FileSummary
    kind: str
    n_trees: int
    n_nodes: int
    n_bytes_taken: int
    preparation: Any = None
    task: str | None = None
    classes: Any = None
    regime: str | None = None
    alpha: float | None = None
    n_rows: int | None = None
    columns: Any = None


def outline(path: Any) -> ModelOutline:
    """Read what a saved model is, without the arrays that are nearly all of its file.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    found : ModelOutline

    Raises
    ------
    FileFormatError
        For a file that `save` cannot have written, as far as this can be seen here: the header, the
        size of the file, and the parts that were read. That all of it is right only `load` knows.

    Warns
    -----
    FileVersionWarning
        As `load`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier, save
    >>> from kpp.io import outline
    >>> model = KPPClassifier("extra-trees", n_estimators=50, alpha=0.01, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(model.fit(*load_iris(return_X_y=True)), Path(folder) / "iris.kpp")
    ...     found = outline(path)
    >>> found.task, found.n_trees, found.n_rows, found.classes.tolist()
    ('classification', 50, 150, [0, 1, 2])
    >>> found.n_bytes_taken < found.summary.n_bytes
    True
    """
    with open(path, "rb") as file:
        found, differing = in_file(path, lambda: _outline(Container(file)))
    warn_of_versions(differing)
    checked: ModelOutline = found
    return checked


@dataclass(frozen=True)
class _Sketch:
    """Some fields of an object, by name."""

    kind: str
    fields: Fields


class _Sketcher(Reader):
    """Reads some fields of the objects of this package, and those of others whole."""

    def __init__(self, container: Container, kinds: KnownKinds) -> None:
        parts = len(container.entries)
        super().__init__(container.array, parts, kinds, container.text_bytes, container.version)
        self._entries = container.entries

    def fields_of(self, kind: Kind, raw: Fields) -> Fields:
        if kind.name not in READ:
            return super().fields_of(kind, raw)
        # Their names can be checked without their values.
        table = {name: replace(field, inside=None) for name, field in kind.fields.items()}
        complete(raw, table, self._version, kind.name)
        return {
            name.removeprefix("*"): self._shape_of(raw[name[1:]])
            if name.startswith("*")
            else self.value(raw[name])
            for name in READ[kind.name]
            if name.removeprefix("*") in raw  # some may be missing
        }

    def built(self, kind: Kind, fields: Fields) -> Any:
        if kind.name in READ:
            return _Sketch(kind.name, fields)
        if kind.name == PIPELINE and any(isinstance(s, _Sketch) for s in _steps(fields)):
            return _Sketch(PIPELINE, fields)  # the model itself is not built
        return super().built(kind, fields)

    def check_that_all_was_used(self) -> None:
        """Most of it was not."""

    def _shape_of(self, value: Any) -> tuple[int, ...]:
        tagged = isinstance(value, dict) and value.get(TAG) == "array"
        number: Any = value.get("part") if tagged else None
        right = type(number) is int and 0 < number < len(self._entries)
        require(right, "leaves must be an array")
        return self._entries[number].shape


def _steps(fields: Fields) -> list[Any]:
    parameters = fields["parameters"]
    steps = parameters.get("steps") if isinstance(parameters, dict) else None
    pairs = steps if isinstance(steps, list) else []
    return [pair[1] for pair in pairs if isinstance(pair, tuple) and len(pair) == 2]


def _outline(container: Container) -> tuple[ModelOutline, list[str]]:
    document = read_document(container)
    kinds = KnownKinds()
    last = _Sketcher(container, kinds).objects(document["objects"])
    require(isinstance(last, _Sketch), "the file holds no model")
    steps = _steps(last.fields)[:-1] if last.kind == PIPELINE else []
    differing = differing_versions(document["libraries"], kinds.libraries) if steps else []
    model = _steps(last.fields)[-1] if last.kind == PIPELINE else last
    estimator = isinstance(model, _Sketch) and model.kind in TASKS
    require(estimator or last.kind in ("kpp.Forest", "kpp.AdditiveForest"), "no model")
    found = _of_model(model, summarize(container, document))
    found = replace(found, preparation=_preparation(steps))
    return replace(found, n_bytes_taken=container.n_bytes_taken), differing


def _preparation(steps: list[Any]) -> Any:
    """As `kpp.models.pipelines.split_pipeline` gives it."""
    real = [step for step in steps if not (step is None or isinstance(step, str))]
    named = [(f"step{k}", step) for k, step in enumerate(real)]
    return None if not real else real[0] if len(real) == 1 else Pipeline(named)


def _of_model(model: _Sketch, summary: FileSummary) -> ModelOutline:
    fields, blocks = model.fields, [model]
    if model.kind in TASKS:
        pair = fields["blocks"]
        right = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], list) and pair[1]
        require(right, "a model needs a map")
        terms = [block for block in pair[1] if _is(block, "kpp.LinearMap")]
        blocks = [block for block in pair[1] if _is(block, "kpp.PathMap")]
        require(blocks and len(blocks) + len(terms) == len(pair[1]), "a block must be a map")
    sizes = [_tree_sizes(block) for block in blocks]
    found = ModelOutline(
        summary=summary,
        kind=model.kind.partition(".")[2],
        n_trees=sum(map(len, sizes)),
        n_nodes=int(sum(size.sum() for size in sizes)),
        n_bytes_taken=0,
    )
    if model.kind not in TASKS:
        return found
    leaves = blocks[0].fields["leaves"]
    require(len(leaves) == 2, "leaves must be by tree and row")
    found = replace(found, task=TASKS[model.kind], n_rows=leaves[1], columns=_columns(fields))
    if model.kind == "kpp.KPPEmbedding":
        return found
    if fields.get("n_rows_left") is not None:
        found = replace(found, n_rows=whole(fields["n_rows_left"], "n_rows_left", 1, MOST_ROWS))
    alpha = fields["alpha_"]
    # A blend has one for each block.
    alphas = list(alpha.values()) if isinstance(alpha, dict) and alpha else [alpha]
    require(all(is_number(a) and a > 0 for a in alphas), "alpha_ must be positive")
    require(fields["regime_"] in REGIMES, "the regime must be known")
    classes = fields["classes_"]
    if model.kind == "kpp.KPPClassifier":
        classes = labels(classes, "classes_")
    one = None if isinstance(alpha, dict) else float(alpha)
    return replace(found, classes=classes, regime=fields["regime_"], alpha=one)


def _tree_sizes(block: _Sketch) -> Any:
    forest = block if block.kind == "kpp.Forest" else block.fields["forest"]
    require(_is(forest, "kpp.Forest"), "a map needs a forest")
    return integers(forest.fields["tree_sizes"], "tree_sizes", None, 1, MAX_NODES)


def _is(thing: Any, kind: str) -> bool:
    return isinstance(thing, _Sketch) and thing.kind == kind


def _columns(fields: Fields) -> SimpleNamespace:
    n_columns = whole(fields["n_features_in_"], "columns", 1, MOST_COLUMNS)
    found = SimpleNamespace(n_features_in_=n_columns)
    names = fields["feature_names_in_"]
    if names is not None:
        right = isinstance(names, np.ndarray) and names.shape == (n_columns,)
        require(right and all(isinstance(n, str) for n in names.tolist()), "names must be text")
        found.feature_names_in_ = names
    return found
