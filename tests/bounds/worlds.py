"""Distributions whose risks are known, and how often a bound falls below the risk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom


@dataclass
class World:
    """Points of a square grid with equal mass; a label, or a number, drawn at each."""

    rate: np.ndarray  # P(Y = 1) at each point
    side: int

    @classmethod
    def classes(cls, side=6, noise=0.1):
        """The upper right of the grid is class 1, with a share of wrong labels."""
        points = cls.points_of(side)
        inside = points.sum(axis=1) >= side - 1
        return cls(np.where(inside, 1 - noise, noise), side)

    @classmethod
    def coins(cls, side=6):
        """Labels that nothing explains."""
        return cls(np.full(side**2, 0.5), side)

    @staticmethod
    def points_of(side):
        return np.stack(np.meshgrid(*[np.arange(side, dtype=float)] * 2), -1).reshape(-1, 2)

    @property
    def points(self):
        return self.points_of(self.side)

    def draw(self, rng, n_rows):
        place = rng.integers(0, len(self.rate), n_rows)
        jitter = rng.uniform(-0.3, 0.3, (n_rows, 2))  # rows differ, their cells do not
        return self.points[place] + jitter, (rng.random(n_rows) < self.rate[place]).astype(int)

    def draw_numbers(self, rng, n_rows):
        """Numbers in [0, 1]: the label itself."""
        X, y = self.draw(rng, n_rows)
        return X, y.astype(float)

    def _fine(self, n=7):
        """Points that fill the jittered squares, to integrate over them."""
        step = np.linspace(-0.3, 0.3, 2 * n + 1)[1::2]
        offsets = np.stack(np.meshgrid(step, step), -1).reshape(-1, 2)
        X = (self.points[:, None, :] + offsets[None]).reshape(-1, 2)
        return X, np.repeat(self.rate, len(offsets))

    def error(self, predict):
        """P(Y != prediction), the prediction integrated over every square."""
        X, rate = self._fine()
        label = predict(X)
        return float(np.mean(np.where(label == 1, 1 - rate, rate)))

    def squared(self, predict):
        """E (Y - prediction)^2 for Y the label as a number."""
        X, rate = self._fine()
        g = predict(X)
        return float(np.mean(rate * (1 - g) ** 2 + (1 - rate) * g**2))


def most_failures(n_draws, delta, level=1e-3):
    """So many failures are exceeded with probability `level` if each has probability delta."""
    return int(binom.isf(level, n_draws, delta))
