"""What can go wrong with a file."""

from __future__ import annotations


class FileFormatError(ValueError):
    """A file that is not a model, is damaged, or says what no saved model says.

    Everything that `load` refuses about the content of a file is this error, whatever is wrong
    with it. Files that are not there, or may not be read, are Python's own `OSError`.
    """


class CannotSaveError(TypeError):
    """Something in a model that a file of data cannot hold, such as a function.

    The message names where it stands and says what to do instead.
    """


class FileVersionWarning(UserWarning):
    """The preparation steps of a file were fitted by other versions of their libraries."""
