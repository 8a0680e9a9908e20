"""A two-dimensional picture of the embedding, from the leading components of the operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from kpp._checks import RefusedError
from kpp._parallel import one_blas_thread
from kpp._typing import FloatArray
from kpp.geometry.maps import MapBlock
from kpp.reports.subject import Subject

MOST_POINTS = 700
MOST_COLOURS = 10
N_COMPONENTS = 2
OTHERS = "(others)"


def make(subject: Subject) -> dict[str, Any]:
    """Place the test rows by the two leading components of their centred embedding."""
    index = subject.draw(MOST_POINTS)
    if len(index) < N_COMPONENTS + 1:
        raise RefusedError(f"Two components need at least 3 rows; there are {len(index)}.")
    places, shares = components(subject.rows(index).map)
    found: dict[str, Any] = {
        "n_rows": len(index),
        "called": subject.called,
        "rows": index,
        "x": places[:, 0],
        "y": places[:, 1],
        "share": shares,
    }
    if subject.is_classifier:
        codes, names = subject.target[index], subject.class_names
        if len(names) > MOST_COLOURS:
            order = np.argsort(-np.bincount(codes, minlength=len(names)), kind="stable")
            kept = np.sort(order[: MOST_COLOURS - 1])
            group = np.full(len(names), MOST_COLOURS - 1)
            group[kept] = np.arange(len(kept))
            codes, names = group[codes], [*(names[k] for k in kept), OTHERS]
        wrong = subject.target[index] != subject.prediction[index]
        return {**found, "colour": "class", "groups": names, "group": codes, "wrong": wrong}
    target = subject.target[index, 0]
    return {**found, "colour": "number", "value": target, "target": subject.output_names[0]}


@one_blas_thread()
def components(block: MapBlock) -> tuple[FloatArray, FloatArray]:
    r"""Coordinates of rows along the leading eigenvectors of their centred Gram.

    :math:`G_c = (\Phi - 1 \bar\Phi^\top)(\Phi - 1 \bar\Phi^\top)^\top` is used by products alone;
    with :math:`G_c u = \lambda u` the coordinates are :math:`\sqrt\lambda\, u`, as in principal
    components of the embedding. Signs are fixed: the largest entry is positive.

    Parameters
    ----------
    block : MapBlock
        The embedding at the rows.

    Returns
    -------
    places : array of shape (n_rows, 2)
    shares : array of shape (2,)
        Part of the trace of the Gram that each has.
    """
    centred = block.centered()
    n_rows = block.shape[0]
    trace = float(centred.row_norms(squared=True).sum())
    if trace <= 0:
        return np.zeros((n_rows, N_COMPONENTS)), np.zeros(N_COMPONENTS)
    if n_rows <= 50:
        values, vectors = np.linalg.eigh(centred.gram())
        values, vectors = values[-N_COMPONENTS:], vectors[:, -N_COMPONENTS:]
    else:
        gram = LinearOperator((n_rows, n_rows), matvec=centred.gram_matvec, dtype=np.float64)
        # A fixed start: the same rows give the same picture.
        start = np.cos(np.arange(n_rows))
        values, vectors = eigsh(gram, k=N_COMPONENTS, v0=start)
    order = np.argsort(-values)
    values, vectors = np.maximum(values[order], 0.0), vectors[:, order]
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(N_COMPONENTS)]
    vectors = vectors * np.where(largest < 0, -1.0, 1.0)
    return np.sqrt(values) * vectors, values / trace
