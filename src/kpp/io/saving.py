"""`save`: a model into one file, all of it or nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kpp._atomic import write_file
from kpp._optional import optional
from kpp.forest.arrays import Forest
from kpp.io.container import MAX_DOCUMENT, MAX_HEADER, most_bytes, most_values, pack
from kpp.io.errors import CannotSaveError, FileFormatError
from kpp.io.kinds import KnownKinds
from kpp.io.strict_json import count_values, dump_json, load_json
from kpp.io.writer import Writer
from kpp.models.classifier import KPPClassifier
from kpp.models.embedding import KPPEmbedding
from kpp.models.regressor import KPPRegressor
from kpp.scores import AdditiveForest

FORMAT_VERSION = 2
ESTIMATORS = (KPPRegressor, KPPClassifier, KPPEmbedding)


def save(model: Any, path: Any, *, compression: int = 6, metadata: Any = None) -> Path:
    """Write a fitted model to a file of data: no pickle, nothing that runs when it is read.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier, KPPEmbedding, AdditiveForest, Forest or Pipeline
        Fitted. A Pipeline has one of the estimators as its last step, and before it steps of
        scikit-learn and skrub that docs/files.md lists, ``skrub.TableVectorizer`` among them.
    path : str or Path
        The file; by custom its name ends in ``.kpp``. An existing file is replaced at the very
        end, at once: whatever happens before, it is still the old one.
    compression : int, default=6
        Level of zlib, from 0 (none, fast) to 9. The model that is read back is the same.
    metadata : dict, optional
        Plain data of your own (texts, numbers, lists, dicts), which `describe` gives back.

    Returns
    -------
    path : Path
        Where the file is.

    Raises
    ------
    CannotSaveError
        For anything in the model that is not data, such as a function given as ``node_weight``;
        the message names it and says what to do.
    sklearn.exceptions.NotFittedError
        For a model that has not been fitted.

    Notes
    -----
    The file is written beside its final place, forced to the disk, and renamed. Parameters that
    are ``FrozenEstimator`` come back as the `Forest` that was read from them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPRegressor
    >>> from kpp.io import load, save
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KPPRegressor("extra-trees", n_estimators=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(model, Path(folder) / "diabetes.kpp")
    ...     again = load(path)
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    if (
        not isinstance(compression, int)
        or isinstance(compression, bool)
        or not (0 <= compression <= 9)
    ):
        raise ValueError(f"compression must be an integer from 0 to 9; got {compression!r}.")
    _check_model(model)
    kinds = KnownKinds()
    writer = Writer(kinds)
    writer.value(model, type(model).__name__)
    document = {
        "objects": writer.objects,
        "libraries": library_versions(kinds.libraries),
        "metadata": _plain(metadata),
    }
    text = dump_json(document)
    chunks = pack(FORMAT_VERSION, text, writer.arrays, compression)
    # The limits of the reader, checked here: no file is written that cannot be read back.
    too_many = count_values(text) > most_values(sum(map(len, chunks)))
    if too_many or len(text) > MAX_DOCUMENT or len(chunks[0]) > MAX_HEADER:
        raise CannotSaveError(
            f"Names, categories, vocabularies and metadata take {len(text)} bytes of JSON, beside "
            f"{len(writer.arrays)} arrays; files hold at most {MAX_DOCUMENT} bytes of it, and a "
            f"header of {MAX_HEADER}. Prepare columns of many different texts with fewer n-grams, "
            "or outside of the saved model."
        )
    if writer.text_bytes > most_bytes(sum(map(len, chunks))):
        raise CannotSaveError(
            f"Arrays of texts take {writer.text_bytes} bytes, because each entry takes the room of "
            "the longest, and files hold no more than 100 times their own size. Shorten the "
            "longest texts, or give them as an array of objects."
        )
    write_file(path, lambda beside: _write_chunks(beside, chunks))
    return Path(path)


def _write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    with open(path, "wb") as file:
        file.writelines(chunks)


def library_versions(used: set[str]) -> dict[str, str]:
    """Versions of the libraries that a model was made with."""
    import numpy
    import scipy
    import sklearn

    from kpp import __version__

    versions = {
        "kpp": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    if "skrub" in used:
        for name in ("skrub", "pandas"):
            versions[name] = optional(name, "A model with a TableVectorizer", "cli").__version__
    return versions


def _check_model(model: Any) -> None:
    # By exact type: a subclass may hold what the file has no place for.
    if type(model) in (Forest, AdditiveForest):
        return
    last = model
    if type(model) is Pipeline and model.steps:
        last = model.steps[-1][1]
    if type(last) not in ESTIMATORS:
        inside = "" if last is model else f" that ends in {type(last).__name__}"
        raise CannotSaveError(
            f"Cannot save {type(model).__name__}{inside}: expected a fitted KPPRegressor, "
            "KPPClassifier or KPPEmbedding, a Pipeline that ends in one of them, an "
            "AdditiveForest or a Forest. A fitted ensemble is saved by "
            "save(Forest.from_model(ensemble), path)."
        )
    check_is_fitted(last, "map_")


def _plain(metadata: Any) -> Any:
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise CannotSaveError(f"metadata must be a dict; got {type(metadata).__name__}.")
    try:
        text = dump_json(metadata)
    except (TypeError, ValueError) as error:
        raise CannotSaveError(f"metadata must be plain data, as JSON has it: {error}") from error
    try:
        read = load_json(text, len(text) + 1)
    except FileFormatError as error:
        raise CannotSaveError(f"metadata must be plain data: {error}") from error
    # JSON turns keys into texts and tuples into lists; what comes back must be what was given.
    if read != metadata:
        raise CannotSaveError("metadata must be plain data: keys are texts, and lists are lists.")
    return metadata
