"""Objects of other libraries in a file: classes from a fixed list, with plain data inside.

A class is found by looking its name up in the tables below, never by importing what a file
names. Its parameters go through its own constructor, which for scikit-learn's and skrub's classes
only keeps them; the rest of its state is set as it was. Values are those of `kpp.io.values`: data,
and objects of these tables. What data could still do harm with (file names, patterns, positions
that compiled code follows) is checked class by class in `kpp.io.foreign_checks`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from kpp._optional import optional
from kpp.forest.boosters import LIBRARIES
from kpp.io.absent import AbsentEstimator
from kpp.io.errors import CannotSaveError, FileFormatError
from kpp.io.foreign_checks import CHECKS, RefusalError, check_any, check_booster, limit_jobs
from kpp.io.schema import required
from kpp.io.values import Fields, Kind
from kpp.io.writer import Writer

# Preparation steps, and what they are made of: saved with what a fit has learnt.
FITTED = {
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.impute": ("MissingIndicator", "SimpleImputer"),
    "sklearn.decomposition": ("PCA", "TruncatedSVD"),
    "sklearn.feature_extraction.text": ("CountVectorizer", "TfidfTransformer", "TfidfVectorizer"),
    "sklearn.preprocessing": (
        *("FunctionTransformer", "KBinsDiscretizer", "MaxAbsScaler", "MinMaxScaler"),
        *("OneHotEncoder", "OrdinalEncoder", "PowerTransformer", "QuantileTransformer"),
        *("RobustScaler", "StandardScaler"),
    ),
    "skrub": ("DatetimeEncoder", "StringEncoder", "TableVectorizer", "ToDatetime"),
    "skrub._apply_to_cols": ("ApplyToCols",),  # of skrub before 0.8; now as below
    "skrub._apply_to_each_col": ("ApplyToEachCol",),
    "skrub._check_input": ("CheckInputDataFrame",),
    "skrub._clean_categories": ("CleanCategories",),
    "skrub._clean_null_strings": ("CleanNullStrings",),
    "skrub._datetime_encoder": ("_CircularEncoder",),
    "skrub._drop_uninformative": ("DropUninformative",),
    "skrub._duration_to_float": ("DurationToFloat",),
    "skrub._table_vectorizer": ("PassThrough", "ShortReprDict"),
    "skrub._to_float": ("ToFloat",),
    "skrub._to_float32": ("ToFloat32",),  # of skrub before 0.7
    "skrub._to_str": ("ToStr",),
}
# Parameters of a model: ensembles that a fit clones and grows, and splitters. Never fitted.
UNFITTED = {
    "catboost": ("CatBoostClassifier", "CatBoostRegressor"),
    "lightgbm": ("LGBMClassifier", "LGBMRegressor"),
    "xgboost": ("XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor"),
    "kpp.forest": ("Ladders", "ObliqueForestClassifier", "ObliqueForestRegressor"),
    "sklearn.ensemble": (
        *("AdaBoostClassifier", "AdaBoostRegressor", "BaggingClassifier", "BaggingRegressor"),
        *("ExtraTreesClassifier", "ExtraTreesRegressor"),
        *("GradientBoostingClassifier", "GradientBoostingRegressor"),
        *("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
        *("IsolationForest", "RandomForestClassifier", "RandomForestRegressor"),
        "RandomTreesEmbedding",
    ),
    "sklearn.tree": (
        *("DecisionTreeClassifier", "DecisionTreeRegressor"),
        *("ExtraTreeClassifier", "ExtraTreeRegressor"),
    ),
    "sklearn.model_selection": (
        *("GroupKFold", "KFold", "LeaveOneGroupOut", "LeaveOneOut", "PredefinedSplit"),
        *("StratifiedGroupKFold", "StratifiedKFold"),
    ),
}
FIELDS = required("parameters", "state")
ATTRIBUTE = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Foreign:
    """A class of another library.

    Parameters
    ----------
    module, name : str
        Where it is imported from.
    fitted : bool
        Whether what it has learnt is kept.
    """

    module: str
    name: str
    fitted: bool

    @property
    def kind(self) -> str:
        """How files name it: by its library, not by the module, which moves."""
        return f"{self.library}.{self.name}"

    @property
    def library(self) -> str:
        """The package that it comes from."""
        return self.module.partition(".")[0]

    def load(self) -> Any:
        """Import the class; None where this version of its library has none."""
        if self.library == "skrub":
            optional("skrub", "A model with a TableVectorizer", "cli")
        try:
            return getattr(import_module(self.module), self.name, None)
        except ModuleNotFoundError:
            return None

    def check(self, thing: Any) -> None:
        """Refuse an object that holds more than harmless data."""
        if self.library in LIBRARIES:
            check_booster(thing)
        check_any(thing)
        CHECKS.get(self.kind, lambda _: None)(thing)


TABLE = {
    entry.name: entry
    for classes, fitted in ((FITTED, True), (UNFITTED, False))
    for entry in (Foreign(module, n, fitted) for module, names in classes.items() for n in names)
}
BY_KIND = {entry.kind: entry for entry in TABLE.values()}


def foreign_of(thing: Any) -> Kind | None:
    """The kind of an object of a listed class; subclasses are other classes."""
    if type(thing) is AbsentEstimator:
        return _kind(f"{thing.library}.{thing.name}")
    entry = TABLE.get(type(thing).__name__)
    if entry is None or type(thing).__module__.partition(".")[0] != entry.library:
        return None
    return _kind(entry.kind) if entry.load() is type(thing) else None


def foreign_named(name: str) -> Kind | None:
    """The kind of a name in a file."""
    return _kind(name) if name in BY_KIND else None


@cache
def _kind(name: str) -> Kind:
    entry = BY_KIND[name]

    def encode(thing: Any, writer: Writer, where: str) -> Fields:
        return _encode(entry, thing, writer, where)

    def decode(fields: Fields) -> Any:
        return _decode(entry, fields)

    return Kind(name, FIELDS, encode, decode)


def _encode(entry: Foreign, thing: Any, writer: Writer, where: str) -> Fields:
    where = f"{where}: {entry.name}"
    try:
        entry.check(thing)
    except RefusalError as reason:
        raise CannotSaveError(f"Cannot save {where}: {reason}") from None
    parameters = _parameters(entry, thing)
    # Splitters and ensembles are parameters here: what a fit may have left on them is not kept.
    state = {k: v for k, v in vars(thing).items() if k not in parameters} if entry.fitted else {}
    for name in state:
        if not _is_free(type(thing), name):
            raise CannotSaveError(f"Cannot save {where}: its attribute {name!r} is not data.")
    if entry.name in ("ApplyToCols", "ApplyToEachCol") and "_columns" in state:
        # A rule for columns is code; the columns that it chose are data.
        parameters["cols"] = list(state["_columns"])
    return {
        part: writer.value(values, where)
        for part, values in (("parameters", parameters), ("state", state))
    }


def _parameters(entry: Foreign, thing: Any) -> dict[str, Any]:
    if hasattr(thing, "get_params"):
        return dict(thing.get_params(deep=False))
    return {} if entry.fitted else dict(vars(thing))


def _decode(entry: Foreign, fields: Fields) -> Any:
    cls = entry.load()
    if cls is None and entry.library not in LIBRARIES:
        raise FileFormatError(
            f"The file needs {entry.name} of {entry.library}, which the installed version does "
            "not have. Install the version that it was saved with: describe(path).libraries."
        )
    parameters, state = fields["parameters"], fields["state"]
    for values in (parameters, state):
        if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
            raise FileFormatError(f"{entry.name}: values must have names.")
    if state.keys() & parameters.keys():
        raise FileFormatError(f"{entry.name}: a parameter stands twice.")
    if state and not entry.fitted:
        raise FileFormatError(f"{entry.name} is a parameter, and never fitted.")
    thing: Any
    if cls is None:  # a booster, of which its parameters are all that there is
        thing = AbsentEstimator(entry.library, entry.name, parameters)
    elif entry.fitted or hasattr(cls, "get_params"):
        try:
            thing = cls(**parameters)
        except TypeError as error:
            raise FileFormatError(
                f"{entry.name} of the installed {entry.library} does not take the saved "
                f"parameters ({error}). Install the version that the file was saved with: "
                "describe(path).libraries."
            ) from error
    else:  # a splitter, whose constructor gives its attributes other names
        thing, state = cls.__new__(cls), parameters
    for name in state:
        if not ATTRIBUTE.fullmatch(name) or not _is_free(cls, name):
            raise FileFormatError(f"{entry.name} has no attribute {name[:50]!r} to be set.")
    # Into the instance's own dict: no setter, property or `__setstate__` of the class runs.
    vars(thing).update(state)
    try:
        entry.check(thing)
    except FileFormatError:
        raise
    except Exception as reason:  # a check that stumbles over wrong types has found something
        raise FileFormatError(f"{entry.name}: {reason}") from reason
    limit_jobs(thing)
    return thing


def _is_free(cls: Any, name: str) -> bool:
    """Whether an attribute hides nothing of its class: no method, no property, no default."""
    return not hasattr(cls, name)
