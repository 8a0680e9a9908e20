"""`load` and `describe`: a file back into a model, or what it says of itself."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from kpp.forest.arrays import Forest
from kpp.io.container import DEFAULT_MAX_BYTES, Container
from kpp.io.errors import FileFormatError, FileVersionWarning
from kpp.io.kinds import KnownKinds
from kpp.io.reader import Reader
from kpp.io.saving import ESTIMATORS, library_versions
from kpp.scores import AdditiveForest

# Names and versions are shown to people.
PLAIN = re.compile(r"[A-Za-z0-9._+!-]{1,60}")
# Libraries whose fitted steps a file may hold, and what to compare for each.
STEPS_OF = {"sklearn": ("scikit-learn",), "skrub": ("skrub", "pandas")}


@dataclass(frozen=True)
class FileSummary:
    """What a file says of itself.

    Parameters
    ----------
    format_version : int
        Version of the file format.
    kind : str
        Class of the model.
    libraries : dict of str to str
        Versions of the libraries that it was saved with.
    metadata : dict
        What was given to `save`.
    n_bytes : int
        Size of the file.
    n_bytes_read : int
        Size of its content when it is read.
    """

    format_version: int
    kind: str
    libraries: dict[str, str]
    metadata: dict[str, Any]
    n_bytes: int
    n_bytes_read: int


def load(path: Any, *, max_bytes: int = DEFAULT_MAX_BYTES) -> Any:
    """Read a model that `save` wrote; nothing in the file is ever run.

    Parameters
    ----------
    path : str or Path
        The file.
    max_bytes : int, default=4294967296
        Most bytes that its content may take; more is refused before anything is allocated.

    Returns
    -------
    model : KPPRegressor, KPPClassifier, KPPEmbedding, AdditiveForest, Forest or Pipeline
        Its scores are those of the saved model, to the last bit.

    Raises
    ------
    FileFormatError
        For any file that `save` cannot have written: damaged, cut off, altered, or made up.
    ImportError
        For a model with a preparation by skrub, where skrub is not installed.

    Warns
    -----
    FileVersionWarning
        Where preparation steps were fitted by other versions of scikit-learn or skrub.

    Notes
    -----
    A file that is accepted cannot run code, read or write other files, or make compiled loops leave
    their arrays. That a model predicts well, or is the one that you expect, no format can
    promise: load files of people that you trust to train it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from kpp.io import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "no-model.kpp"
    ...     _ = path.write_bytes(b"something else")
    ...     load(path)
    Traceback (most recent call last):
        ...
    kpp.io.errors.FileFormatError: ...no-model.kpp: This is not a file of kpp.save...
    """
    with open(path, "rb") as file:
        model, differing = in_file(path, lambda: _load(Container(file, max_bytes)))
    warn_of_versions(differing)
    return model


def describe(path: Any) -> FileSummary:
    """Read what a file says of itself, without its arrays and without building the model.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    summary : FileSummary

    Raises
    ------
    FileFormatError
        For a file that `save` cannot have written, as far as this can be seen here.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from kpp import Forest
    >>> from kpp.forest import Tree
    >>> from kpp.io import describe, save
    >>> stump = Tree(left=[1, -1, -1], right=[2, -1, -1], feature=[0] * 3, threshold=[0.5] * 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(Forest.from_trees([stump], n_features=1), Path(folder) / "stump.kpp",
    ...                 metadata={"note": "one split"})
    ...     summary = describe(path)
    >>> summary.kind, summary.metadata, summary.format_version
    ('kpp.Forest', {'note': 'one split'}, 2)
    """
    with open(path, "rb") as file:
        found: FileSummary = in_file(path, lambda: _describe(Container(file)))
    return found


def in_file(path: Any, read: Callable[[], Any]) -> Any:
    """Read, and turn whatever goes wrong about the content into one error that names the file."""
    try:
        return read()
    except (OSError, ImportError, MemoryError):
        raise
    except FileFormatError as error:
        raise FileFormatError(f"{Path(path)}: {error}") from error
    except Exception as error:  # whatever a strange value runs into: the file is refused
        raise FileFormatError(f"{Path(path)}: not a saved model: {error}") from error


def warn_of_versions(differing: list[str]) -> None:
    """Warn the caller of a public function of steps that other versions have fitted."""
    if differing:
        warnings.warn(
            f"The preparation steps of this model were fitted with {', '.join(differing)}. They "
            "may break, or prepare rows differently: compare predictions, or fit and save anew.",
            FileVersionWarning,
            stacklevel=3,
        )


def _describe(container: Container) -> FileSummary:
    return summarize(container, read_document(container))


def summarize(container: Container, document: dict[str, Any]) -> FileSummary:
    """What the header and the document say."""
    objects = document["objects"]
    last = objects[-1] if isinstance(objects, list) and objects else None
    kind = last.get("kind") if isinstance(last, dict) else None
    if not isinstance(kind, str):
        raise FileFormatError("The document must hold a table of objects.")
    return FileSummary(
        format_version=container.version,
        kind=kind,
        libraries=document["libraries"],
        metadata=document["metadata"],
        n_bytes=container.size,
        n_bytes_read=sum(entry.n_bytes for entry in container.entries),
    )


def read_document(container: Container) -> dict[str, Any]:
    """Read part 0, and check what stands beside the objects."""
    document: Any = container.document()
    if not isinstance(document, dict) or document.keys() != {"objects", "libraries", "metadata"}:
        raise FileFormatError("The document must hold objects, libraries and metadata.")
    libraries = document["libraries"]
    plain = isinstance(libraries, dict) and all(
        isinstance(text, str) and PLAIN.fullmatch(text)
        for pair in libraries.items()
        for text in pair
    )
    if not plain:
        raise FileFormatError("Libraries must have versions.")
    if not isinstance(document["metadata"], dict):
        raise FileFormatError("Metadata must be by name.")
    checked: dict[str, Any] = document
    return checked


def _load_objects(container: Container) -> tuple[Any, list[str]]:
    """The model, and the libraries of its preparation whose versions are others here."""
    document = read_document(container)
    kinds = KnownKinds()
    reader = Reader(
        container.array, len(container.entries), kinds, container.text_bytes, container.version
    )
    model = reader.objects(document["objects"])
    # A file may hold any known object as its last; only models are given out.
    if type(model) is not Pipeline:
        _check_type(model, (*ESTIMATORS, Forest, AdditiveForest))
        return model, []
    _check_type(model.steps[-1][1], ESTIMATORS)
    return model, differing_versions(document["libraries"], kinds.libraries)


def _check_type(model: Any, known: tuple[type, ...]) -> None:
    if type(model) not in known:
        raise FileFormatError("The file holds no model.")


def differing_versions(saved: dict[str, str], used: set[str]) -> list[str]:
    """Libraries of fitted steps whose versions are others here."""
    here = library_versions(used)
    return [
        f"{name} {saved.get(name, 'unknown')} (here {here[name]})"
        for library in sorted(used & STEPS_OF.keys())
        for name in STEPS_OF[library]
        if saved.get(name) != here[name]
    ]


# Readers of old versions stay when the format changes; 1 and 2 differ in their fields only.
READERS: dict[int, Callable[[Container], tuple[Any, list[str]]]] = {
    1: _load_objects,
    2: _load_objects,
}


def _load(container: Container) -> tuple[Any, list[str]]:
    return READERS[container.version](container)
