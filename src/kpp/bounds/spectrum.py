r"""Functions of the Gram's eigenvalues: exact for few rows, stochastic with a stated error above.

For many rows a trace :math:`\mathrm{Tr} f(G)` is the mean of :math:`z^\top f(G) z` over random
signs z (Hutchinson), and each of these is a quadrature of f over the Ritz values that k Lanczos
steps started at z give. The step is repeated for all z at once; no Gram is formed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kpp._shown import Shown
from kpp._typing import FloatArray
from kpp.geometry.maps import MapBlock
from kpp.solvers import KrylovSpace

# Up to here all eigenvalues are computed; above, random vectors give a figure with its error.
EXACT_ROWS = 2000
N_PROBES = 2
N_STEPS = 30


@dataclass(frozen=True)
class Estimate(Shown):
    """A figure and its error.

    Parameters
    ----------
    value : float
        The figure.
    error : float
        0 where it is exact; otherwise one standard error of the random vectors, plus what the
        quadrature leaves open. Up to a third of such figures is further off, and since the error
        is itself estimated from two vectors, one in a hundred may be three times as far.
    method : str
        How it was found.
    """

    value: float
    error: float
    method: str

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, eq=False)
class Spectrum(Shown):
    r"""The spectrum of a Gram, whole or as quadratures from random vectors.

    Parameters
    ----------
    n_rows : int
        n.
    trace : float
        Trace of the Gram, exact.
    eigenvalues : array of shape (n,), optional
        All of them, falling; None above `EXACT_ROWS` rows.
    nodes, weights : arrays of shape (n_probes, n_steps), optional
        Ritz values and weights of each quadrature; the weights of a probe sum to n.
    coefficients : tuple of two arrays of shape (n_probes, n_steps), optional
        Diagonals and off-diagonals of the tridiagonal matrices.
    """

    n_rows: int
    trace: float
    eigenvalues: FloatArray | None = None
    nodes: FloatArray | None = None
    weights: FloatArray | None = None
    coefficients: tuple[FloatArray, FloatArray] | None = None

    @property
    def is_exact(self) -> bool:
        """Whether all eigenvalues are known."""
        return self.eigenvalues is not None

    def effective_dimension(self, alpha: float) -> Estimate:
        r"""Ridge effective dimension :math:`\sum_j \mu_j / (\mu_j + \alpha)`.

        With quadratures: Gauss's rule bounds :math:`z^\top (G + \alpha)^{-1} z` from below and
        Gauss and Radau's, with a node at 0, from above; the middle is taken, and half of the gap
        is added to the standard error. The trace of G is known exactly, so only what the function
        differs from its chord through 0 and the largest eigenvalue is left to the random signs.
        """
        if alpha <= 0:
            raise ValueError(f"alpha must be positive; got {alpha!r}.")
        if self.eigenvalues is not None:
            value = float((self.eigenvalues / (self.eigenvalues + alpha)).sum())
            return Estimate(value, 0.0, "eigenvalues")
        assert self.nodes is not None
        assert self.weights is not None
        upper, error = self._drawn(self.nodes / (self.nodes + alpha))
        # z'G(G + alpha)^-1 z = n - alpha z'(G + alpha)^-1 z: what bounds the inverse from below
        # (Gauss) bounds the dimension from above, and the other way round (Radau).
        gauss = (self.weights * self.nodes / (self.nodes + alpha)).sum(axis=1)
        radau = self.n_rows - alpha * self._radau_inverse(alpha)
        half = float(np.mean(gauss - radau)) / 2
        return Estimate(upper - half, error + half, self._method())

    def trace_of_square(self, alpha: float) -> Estimate:
        r"""Trace of the squared smoother, :math:`\sum_j (\mu_j / (\mu_j + \alpha))^2`."""
        if self.eigenvalues is not None:
            ratio = self.eigenvalues / (self.eigenvalues + alpha)
            return Estimate(float(np.square(ratio).sum()), 0.0, "eigenvalues")
        assert self.nodes is not None
        return Estimate(*self._drawn(np.square(self.nodes / (self.nodes + alpha))), self._method())

    def _drawn(self, values: FloatArray) -> tuple[float, float]:
        """Trace of a function of G that is 0 at 0, from its values at the nodes."""
        assert self.nodes is not None
        assert self.weights is not None
        top = np.unravel_index(np.argmax(self.nodes), self.nodes.shape)
        largest = float(self.nodes[top])
        # Tr f(G) = c Tr G + Tr (f(G) - c G): the first term is known exactly.
        chord = float(values[top]) / largest if largest > 0 else 0.0
        rest = values - chord * self.nodes
        each = (self.weights * rest).sum(axis=1)
        # For random signs the variance of z'Az is at most 2 Tr(A^2).
        square = float((self.weights * np.square(rest)).sum(axis=1).mean())
        error = float(np.sqrt(2 * square / len(each)))
        return chord * self.trace + float(each.mean()), error

    @property
    def largest(self) -> Estimate:
        """Largest eigenvalue; Lanczos approaches it from below."""
        if self.eigenvalues is not None:
            return Estimate(float(self.eigenvalues[0]), 0.0, "eigenvalues")
        assert self.nodes is not None
        found = self.nodes.max(axis=1)
        return Estimate(float(found.max()), float(np.ptp(found)), "largest Ritz value")

    @property
    def smallest(self) -> Estimate:
        """Smallest eigenvalue; with quadratures an upper bound of it, and the truth is above 0."""
        if self.eigenvalues is not None:
            return Estimate(float(max(self.eigenvalues[-1], 0.0)), 0.0, "eigenvalues")
        assert self.nodes is not None
        found = float(max(self.nodes.min(), 0.0))
        return Estimate(found, found, "smallest Ritz value, an upper bound")

    def _method(self) -> str:
        assert self.nodes is not None
        n_probes, n_steps = self.nodes.shape
        return f"Lanczos quadrature, {n_probes} probes of {n_steps} steps"

    def _radau_inverse(self, alpha: float) -> FloatArray:
        """Upper bounds of z'(G + alpha)^-1 z: the quadratures with one node at 0."""
        assert self.coefficients is not None
        diagonal, beside = self.coefficients
        k = diagonal.shape[1]
        out = np.empty(len(diagonal))
        for p, (theta, beta) in enumerate(zip(diagonal, beside, strict=True)):
            # The last diagonal entry is replaced so that T + alpha has the eigenvalue alpha.
            full = np.diag(theta + 0.0) + np.diag(beta[: k - 1], 1) + np.diag(beta[: k - 1], -1)
            if beta[k - 1] > 0:
                full = np.pad(full, ((0, 1), (0, 1)))
                full[k, k - 1] = full[k - 1, k] = beta[k - 1]
                # Golub and Meurant: with (T_k - 0) d = beta^2 e_k the new entry is d_k. T_k may be
                # singular, hence the small multiple of the identity.
                inner = full[:k, :k] + 1e-13 * abs(theta).max() * np.eye(k)
                right = np.zeros(k)
                right[-1] = beta[k - 1] ** 2
                full[k, k] = np.linalg.solve(inner, right)[-1]
            unit = np.zeros(len(full))
            unit[0] = 1.0
            shifted = full + alpha * np.eye(len(full))
            out[p] = self.n_rows * np.linalg.solve(shifted, unit)[0]
        return out


def gram_spectrum(
    block: MapBlock,
    *,
    centered: bool = False,
    exact_rows: int = EXACT_ROWS,
    n_probes: int = N_PROBES,
    n_steps: int = N_STEPS,
    random_state: int = 0,
) -> Spectrum:
    r"""Find the spectrum of the Gram at the rows of a map.

    Parameters
    ----------
    block : MapBlock
        The embedding at n rows.
    centered : bool
        Whether rows are centred by their mean first; the paper's figures are not.
    exact_rows : int
        Up to so many rows all eigenvalues are computed.
    n_probes, n_steps : int
        Above: number of random vectors, and of Lanczos steps. The products are
        ``n_probes * n_steps``.
    random_state : int
        Seed of the random signs.

    Returns
    -------
    spectrum : Spectrum

    References
    ----------
    Equation effective-dimension; Golub and Meurant 2010 for the quadratures.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import KPPEmbedding
    >>> from kpp.bounds import gram_spectrum
    >>> X, y = load_diabetes(return_X_y=True)
    >>> phi = KPPEmbedding(n_estimators=20, random_state=0).fit(X, y).map_.on(X)
    >>> exact = gram_spectrum(phi).effective_dimension(0.1)
    >>> drawn = gram_spectrum(phi, exact_rows=0).effective_dimension(0.1)
    >>> bool(abs(drawn.value - exact.value) < 4 * drawn.error)
    True
    """
    n = block.shape[0]
    if n == 0:
        raise ValueError("X has no rows: there is no Gram.")
    moved = block.centered() if centered else block
    trace = float(moved.row_norms(squared=True).sum())
    if n <= max(exact_rows, 1):
        eigenvalues = np.maximum(np.linalg.eigvalsh(moved.gram())[::-1], 0.0)
        return Spectrum(n, trace, eigenvalues=eigenvalues)
    product = moved.gram_operator() if not centered else moved.gram_matvec
    random = np.random.default_rng(random_state)
    # Signs, not normal numbers: z'z is n exactly, and the diagonal of the matrix adds no variance.
    signs = random.choice([-1.0, 1.0], size=(n_probes, n))
    diagonal, beside = _tridiagonals(product, signs, min(n_steps, n))
    nodes, weights = np.empty_like(diagonal), np.empty_like(diagonal)
    for p in range(n_probes):
        k = diagonal.shape[1]
        tridiagonal = np.diag(diagonal[p]) + np.diag(beside[p, : k - 1], 1)
        tridiagonal += np.diag(beside[p, : k - 1], -1)
        values, vectors = np.linalg.eigh(tridiagonal)
        # Gauss's rule: nodes are the eigenvalues of T, weights the squared first entries of its
        # eigenvectors, times |z|^2 = n.
        nodes[p], weights[p] = np.maximum(values, 0.0), n * np.square(vectors[0])
    return Spectrum(n, trace, nodes=nodes, weights=weights, coefficients=(diagonal, beside))


def _tridiagonals(
    product: Callable[[FloatArray], FloatArray], starts: FloatArray, n_steps: int
) -> tuple[FloatArray, FloatArray]:
    """Tridiagonal matrices of several starts; 0 from where on a space is exhausted."""
    diagonal, beside = np.zeros((len(starts), n_steps)), np.zeros((len(starts), n_steps))
    for p, start in enumerate(starts):
        found = KrylovSpace(product, start).tridiagonal(n_steps)
        diagonal[p, : len(found[0])], beside[p, : len(found[1])] = found
    return diagonal, beside
