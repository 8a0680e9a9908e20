"""What command and report mean by the contributions that they show; said once."""

from __future__ import annotations


def attribution_words(*, is_classifier: bool) -> str:
    """Say what the contributions of variables to the score of a row are.

    Examples
    --------
    >>> from kpp.tables.conventions import attribution_words
    >>> attribution_words(is_classifier=False)
    'Contributions of variables start from the mean prediction of the rows of the fit.'
    """
    if not is_classifier:
        return "Contributions of variables start from the mean prediction of the rows of the fit."
    return (
        "Contributions of variables are to the score (log-odds) of the predicted class, unless "
        "another is named, and start from its mean over the rows of the fit."
    )
