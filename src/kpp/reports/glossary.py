"""The words of a report: one list, for the boxes where they stand and for the appendix."""

from __future__ import annotations

import re
from typing import Any

from kpp.reports.svg import escape, markup

GLOSSARY = {
    "alpha": "The penalty on the squared length of the coefficients. Larger is smoother.",
    "attribution": "The prediction, taken apart into what each variable adds. The parts sum to the "
    "prediction exactly; they describe the model, not what would happen if a value were changed.",
    "audit": "A check on these very rows that the identities of the theory hold up to rounding.",
    "baseline": "In tables of scores, the mean of the target, or the shares of classes, of the "
    "rows of the fit. In a waterfall, the mean score over the rows of the fit.",
    "calibration": "Whether events that are predicted with 30% happen in 30% of the rows.",
    "certificate": "A radius within which the model's answer provably does not change. It speaks "
    "of the model's answer, not of the truth.",
    "certified radius": "How far a row may move, in the forest's own distance δ_T, while the "
    "answer provably stays the same. 0: the next leaf may change it.",
    "CV+": "Intervals from the errors of predictors that had not seen the row (cross-conformal): "
    "they are ranked, and the interval is as wide as the rank that the level asks for.",
    "δ_T": "The forest's own squared distance between two rows: the weight of the paths between "
    "their leaves, over all trees, divided by the total weight. 0 for rows that share every leaf. "
    "δ_K divides each tree by its own weight and takes the mean over trees: another metric, of "
    "models that are fitted so.",
    "embedding": "One coordinate for every node of every tree. Squared distances in it are δ_T.",
    "guarantee": "A statement that holds with the given probability under conditions that are "
    "listed with it, and that were checked as far as data can tell.",
    "interval": "Two numbers between which the truth should lie, for a given share of new rows.",
    "leafwise": "The certificate that compares leaves, tree by tree. Never below the paper's.",
    "Lipschitz": "The paper's certificate, from the length of the coefficients alone.",
    "log loss": "Minus the logarithm of the probability that the model gave to the true class, on "
    "average. 0 is perfect; being sure and wrong costs most.",
    "log-odds": "The logarithm of the probability of a class over that of not being it. 0 is even; "
    "each unit multiplies the odds by 2.7.",
    "margin": "How far the score is from another answer.",
    "node": "A cell of a tree: the rows that give the same answers on the way down to it.",
    "out of fold": "Predicted by a model that did not see the row: rows are dealt into folds, and "
    "each fold is predicted by a fit on the others.",
    "R²": "The share of the target's variance that is predicted: 1 is perfect, 0 is as good as the "
    "mean.",
    "raw radius": "A certificate in the units of the columns: every column may move by this many "
    "of its standard deviations at once.",
    "regime": "Which labels the trees had seen when the linear layer was fitted. It decides which "
    "bounds are guarantees.",
    "RMSE": "Root mean squared error: the typical size of an error, in units of the target; large "
    "errors count more.",
    "rule": "A cell of a tree as conditions, with what being in it adds to the prediction.",
    "score": "What the linear layer adds up: the prediction of a regression, the log-odds of a "
    "class.",
    "set": "The classes that cannot be ruled out at a given share of new rows; one class where the "
    "model is sure.",
    "trivial": "A bound that is no better than what takes no model: the error of one class for all "
    "rows, the variance, the logistic loss of equal probabilities, or the largest squared error of "
    "predicting 0. Each bound says which.",
}
PAPER = "The number of a regime in the paper. "
# Regimes by their numbers in the paper, as they are shown beside their names.
REGIMES = {
    "PB-01": PAPER + "The forest was fixed beforehand, on other data.",
    "PB-02": PAPER + "Honest: one part of the rows grew the trees, another fitted the linear "
    "layer.",
    "PB-03": PAPER + "Fold by fold, the trees were grown on other folds than the linear layer.",
    "after PB-03": PAPER + "Cross-validated: every fold has a predictor, trees and linear layer, "
    "that has not seen it; the model is their mean.",
    "PB-04": PAPER + "Trees and linear layer were fitted on the same rows and labels: bounds on "
    "the rows of the fit are no guarantees; those on test rows can be.",
}
# Other ways to say the same.
SAME = {
    "delta_T": "δ_T",
    "out-of-fold": "out of fold",
    "cross-conformal": "CV+",
    "radius": "certified radius",
    "root mean squared error": "RMSE",
    "R2": "R²",
    "the paper's radius": "Lipschitz",
    "intervals": "interval",
    "sets": "set",
}


def meanings() -> dict[str, str]:
    """All words with a box in the page: those of the appendix, and the regimes' numbers."""
    return {**GLOSSARY, **REGIMES}


def place_of(word: str) -> str:
    """The id of a word's box.

    Examples
    --------
    >>> from kpp.reports.glossary import place_of
    >>> place_of("CV+"), place_of("certified radius"), place_of("δ_T")
    ('word-cv-', 'word-certified-radius', 'word--t')
    """
    return "word-" + re.sub(r"[^a-z0-9]+", "-", word.lower())


def find_word(text: str) -> str | None:
    """The word of the glossary that a text is, in any case and by any of its names; or None."""
    wanted = text.strip().casefold()
    for known, word in [*((word, word) for word in meanings()), *SAME.items()]:
        if known.casefold() == wanted:
            return word
    return None


def term(word: str, text: str | None = None) -> Any:
    """A word that explains itself where it stands, as markup; the text may be another.

    Raises
    ------
    KeyError
        For a word that the glossary does not have.

    Examples
    --------
    >>> from kpp.reports.glossary import term
    >>> str(term("regime", "Regime"))
    '<button type="button" class="term" popovertarget="word-regime">Regime</button>'
    """
    found = find_word(word)
    if found is None:
        raise KeyError(f"The glossary has no word {word!r}.")
    shown = escape(word if text is None else text)
    return markup(
        f'<button type="button" class="term" popovertarget="{place_of(found)}">{shown}</button>'
    )


def explained(text: str) -> Any:
    """A text that explains itself if the glossary has it, and stays as it is otherwise."""
    return text if find_word(text) is None else term(text)
