"""`save`: a model into one file, all of it or nothing."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kpp._optional import optional
from kpp.export.collapse import CollapsedForest
from kpp.forest.arrays import Forest
from kpp.io.container import MAX_DOCUMENT, MAX_HEADER, most_values, pack
from kpp.io.errors import CannotSaveError
from kpp.io.kinds import KnownKinds
from kpp.io.strict_json import count_values, dump_json, load_json
from kpp.io.writer import Writer
from kpp.models.classifier import KPPClassifier
from kpp.models.embedding import KPPEmbedding
from kpp.models.regressor import KPPRegressor

FORMAT_VERSION = 1
ESTIMATORS = (KPPRegressor, KPPClassifier, KPPEmbedding)


def save(model: Any, path: Any, *, compression: int = 6, metadata: Any = None) -> Path:
    """Write a fitted model to a file of data: no pickle, nothing that runs when it is read.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier, KPPEmbedding, CollapsedForest, Forest or Pipeline
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
    >>> model = KPPRegressor(n_estimators=10, random_state=0).fit(X, y)
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
    too_many = count_values(text) > most_values(sum(map(len, chunks)))
    if too_many or len(text) > MAX_DOCUMENT or len(chunks[0]) > MAX_HEADER:
        raise CannotSaveError(
            f"Names, categories, vocabularies and metadata take {len(text)} bytes of JSON, beside "
            f"{len(writer.arrays)} arrays; files hold at most {MAX_DOCUMENT} bytes of it, and a "
            f"header of {MAX_HEADER}. Prepare columns of many different texts with fewer n-grams, "
            "or outside of the saved model."
        )
    target = Path(os.path.realpath(path))
    _write(target, chunks)
    return Path(path)


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
    if type(model) in (Forest, CollapsedForest):
        return
    last = model
    if type(model) is Pipeline and model.steps:
        last = model.steps[-1][1]
    if type(last) not in ESTIMATORS:
        inside = "" if last is model else f" that ends in {type(last).__name__}"
        raise CannotSaveError(
            f"Cannot save {type(model).__name__}{inside}: expected a fitted KPPRegressor, "
            "KPPClassifier or KPPEmbedding, a Pipeline that ends in one of them, a "
            "CollapsedForest or a Forest. A fitted ensemble is saved by "
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
    if load_json(text, len(text) + 1) != metadata:
        raise CannotSaveError("metadata must be plain data: keys are texts, and lists are lists.")
    return metadata


def _write(target: Path, chunks: Iterable[bytes]) -> None:
    """Write a file beside the target, and let it take the target's place when it is whole."""
    mode = None
    if target.exists():
        mode = target.stat().st_mode
        if not stat.S_ISREG(mode):
            raise OSError(f"{target} is not a regular file, and is not replaced by a model.")
        if not os.access(target, os.W_OK):
            raise PermissionError(f"{target} may not be written.")
    beside = target.parent / f".kpp-{secrets.token_hex(8)}.tmp"
    try:
        with open(beside, "xb") as file:  # with the permissions of any new file
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(beside, stat.S_IMODE(mode))
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the new name, too, is to survive a loss of power
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
